"""Filters as files and cases hold them: {"id", "expr"} in text, or {"id", "filter"} in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.environment import UserError
from index.errors import FilterError
from index.filter_json import loads_json, parse_json, to_json
from index.language import parse_text, to_text
from index.model import Filter, Subscription


def filter_of(form: dict[str, Any]) -> Filter:
    """The filter of `expr` or `filter`; FilterError if it is refused."""
    match form:
        case {"expr": _, "filter": _}:
            raise FilterError("invalid_node", "both expr and filter are given; give one of them")
        case {"expr": str(text)}:
            return parse_text(text)
        case {"filter": tree}:
            return parse_json(tree)
        case _:
            raise FilterError("missing_key", "neither expr, a string, nor filter is given")


def twin_of(form: dict[str, Any]) -> Filter:
    """The same filter after a journey through the form it was not written in."""
    written = filter_of(form)
    return parse_json(to_json(written)) if "expr" in form else parse_text(to_text(written))


def read_subscriptions(path: Path) -> Iterator[Subscription]:
    """The subscriptions of a file, one JSON object a line; other keys are allowed.

    UserError says which line cannot be read, and why.
    """
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            form = loads_json(line)
            if not isinstance(form, dict) or not isinstance(form.get("id"), str):
                raise UserError(f"{path}, line {number}: not an object with a string 'id'")
            yield Subscription(form["id"], filter_of(form))
        except FilterError as error:
            raise UserError(f"{path}, line {number}: {error}") from None


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file as bytes; a line break at the end begins no further line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return lines[:-1] if not lines[-1] else lines
