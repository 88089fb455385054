"""Operands and attribute paths of the JSON form."""

from __future__ import annotations

import json
from functools import lru_cache

from index.errors import FilterError
from index.instants import parse_duration, parse_instant
from index.json_refusals import described, wrong_type
from index.model import Instant, Now, Path, Scalar
from index.numbers import admit

_CACHED_PATH_CHARACTERS = 200
"""Longer paths are read anew each time, so that the cache stays small."""


def scalar(value: object, part: str) -> Scalar:
    """One operand value; part is its place in the predicate."""
    if isinstance(value, str):
        return valid_text(value, part)
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        try:
            return admit(value)
        except OverflowError:
            raise FilterError(
                "invalid_number",
                "the number is no finite double",
                hint="no event can hold it either",
                part=part,
            ) from None
    if value is None:
        raise FilterError(
            "null_operand", "null is no operand", hint="use the operator isnull", part=part
        )
    if isinstance(value, dict) and len(value) == 1:
        ((key, text),) = value.items()
        if key in ("timestamp", "now") and isinstance(text, str):
            return _instant(key, text, part)
    raise FilterError(
        "invalid_operand",
        f"{described(value)} is no operand",
        hint='operands are strings, numbers, booleans, {"timestamp": "..."} and {"now": "-5m"}',
        part=part,
    )


def _instant(key: str, text: str, part: str) -> Instant | Now:
    try:
        if key == "timestamp":
            return parse_instant(text)
        if text == "":
            return Now()
        offset_ns = parse_duration(text[1:] if text[0] in "+-" else text)
        return Now(-offset_ns if text[0] == "-" else offset_ns)
    except ValueError as error:
        code = "invalid_timestamp" if key == "timestamp" else "invalid_duration"
        raise FilterError(code, str(error), part=f"{part}/{key}") from None


def path_of(attr: object) -> Path:
    """The path of an `attr`: dotted text, or an array of names."""
    if isinstance(attr, str) and len(attr) <= _CACHED_PATH_CHARACTERS:
        return _dotted_path(attr)
    if isinstance(attr, str):
        return _split_path(attr)
    if not isinstance(attr, list) or not all(isinstance(name, str) for name in attr):
        raise wrong_type("attr", attr, "a dotted path or an array of names")
    if not attr:
        raise FilterError("invalid_path", "the path has no names", part="attr")
    for place, name in enumerate(attr):
        valid_text(name, f"attr/{place}")
    return tuple(attr)


def _split_path(attr: str) -> Path:
    names = tuple(valid_text(attr, "attr").split("."))
    if "" in names:
        raise FilterError(
            "invalid_path",
            "the path holds an empty name",
            hint=f"write an array of names if that is meant: {json.dumps(names)}",
            part="attr",
        )
    return names


_dotted_path = lru_cache(maxsize=16_384)(_split_path)
"""The same for the paths that filter after filter names: they then share one tuple."""


def valid_text(text: str, part: str) -> str:
    """The text itself, unless it holds what UTF-8 cannot."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FilterError(
                "invalid_unicode", "the text holds a lone surrogate", part=part
            ) from None
    return text
