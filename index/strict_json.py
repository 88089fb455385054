"""Strict decoding of JSON bytes: numbers as the contract has them, and nothing ambiguous.

Refused, each with its place: duplicate keys, NaN and infinities, numbers that no finite double can
hold, lone surrogates, invalid UTF-8, and more bytes than the limit. orjson and msgspec are faster
but drop duplicate keys in silence, so the standard decoder runs with hooks; what it costs is in
docs/language.md.
"""

from __future__ import annotations

import json
import re
from typing import Any

from index.errors import FilterError, cut
from index.limits import LIMITS, Limits
from index.numbers import parse_number

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def loads_json(source: bytes | str, limits: Limits = LIMITS) -> object:
    """The decoded value; FilterError with a pointer or a position if anything is doubtful.

    >>> loads_json(b'{"value": 9007199254740993}')
    {'value': 9007199254740993}
    """
    text = _text_of(source, limits)
    try:
        value = _decode(_DECODER, text)
    except _DoubtfulError:
        raise _first_doubt(text) from None
    if _SURROGATE_ESCAPE.search(text) is not None:
        _refuse_surrogates(value)
    return value


def _decode(decoder: json.JSONDecoder, text: str) -> object:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise FilterError("invalid_json", f"this is not JSON: {error.msg}").locate(
            text, error.pos
        ) from None
    except RecursionError:
        raise FilterError("too_deep", "nested too deeply to decode", hint="flatten it") from None


def _text_of(source: bytes | str, limits: Limits) -> str:
    try:
        size = len(source.encode() if isinstance(source, str) else source)
        text = source if isinstance(source, str) else source.decode()
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        raise FilterError(
            "invalid_unicode", f"byte or character {start} is not valid UTF-8", hint="send UTF-8"
        ) from None
    if size > limits.filter_bytes:
        raise FilterError(
            "too_large",
            f"the JSON has {size} bytes; at most {limits.filter_bytes} are accepted",
            hint="split it over several subscriptions",
        )
    return text


class _DoubtfulError(Exception):
    """Something in the JSON is refused; the second, slower pass tells what and where."""


class _Doubt:
    """Stands in the decoded tree for a value that is refused."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DoubtfulError
    return members


def _number(token: str) -> int | float:
    try:
        return parse_number(token)
    except OverflowError:
        raise _DoubtfulError from None


def _constant(token: str) -> object:
    raise _DoubtfulError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_number, parse_constant=_constant
)


def _doubtful_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        members[key] = (
            _Doubt("duplicate_key", f"the key {cut(key)!r} stands twice in one object", "keep one")
            if key in members
            else value
        )
    return members


def _doubtful_number(token: str) -> object:
    try:
        return parse_number(token)
    except OverflowError as error:
        return _Doubt("invalid_number", str(error), "no event can hold it either")


def _doubtful_constant(token: str) -> _Doubt:
    return _Doubt("invalid_number", f"{token} is no number in JSON", "write a finite number")


_DOUBTING_DECODER = json.JSONDecoder(
    object_pairs_hook=_doubtful_object,
    parse_float=_doubtful_number,
    parse_int=_doubtful_number,
    parse_constant=_doubtful_constant,
)


def _first_doubt(text: str) -> FilterError:
    """The refusal of the first doubtful value in document order."""
    for pointer, value in walk(_decode(_DOUBTING_DECODER, text)):
        if isinstance(value, _Doubt):
            return FilterError(value.code, value.message, hint=value.hint, pointer=pointer)
    raise AssertionError("the first pass found a doubt that the second did not")


def _refuse_surrogates(tree: object) -> None:
    for pointer, value in walk(tree):
        texts = value if isinstance(value, dict) else (value,)
        if any(isinstance(text, str) and _SURROGATE.search(text) for text in texts):
            raise FilterError(
                "invalid_unicode",
                "a string holds a lone surrogate",
                hint="escape characters beyond U+FFFF as a pair",
                pointer=pointer,
            )


def walk(tree: object) -> list[tuple[str, object]]:
    """Every value of a decoded tree with its pointer, in document order."""
    found: list[tuple[str, object]] = []
    stack: list[tuple[str, object]] = [("", tree)]
    while stack:
        pointer, value = stack.pop()
        found.append((pointer, value))
        if isinstance(value, dict):
            stack.extend([(f"{pointer}/{token(k)}", v) for k, v in reversed(value.items())])
        elif isinstance(value, list):
            stack.extend([(f"{pointer}/{i}", v) for i, v in reversed(list(enumerate(value)))])
    return found


def token(key: str) -> str:
    """A key as a reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
