"""Marked text: the part of a document that a command writes anew, between two marks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from deploy.environment import UserError


def replace_between(document: Path, begin: str, end: str, lines: Iterable[str]) -> None:
    """Put lines between two marks in the place of what is there; UserError without the marks."""
    text = document.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise UserError(f"{document} has no place for results: {begin} … {end}.")
    content = "\n".join([begin, "", *lines, "", end])
    document.write_text(before + content + after, encoding="utf-8")
