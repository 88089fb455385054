"""Lowering: what a positive predicate asks, in the terms of a record of `index.predicates`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from index.casefold import fold
from index.growing import read_only
from index.json_writer import to_json
from index.model import Element, Instant, Now, Operator, Predicate, Quantifier, Scalar
from index.numbers import Number, split
from index.predicates import (
    ALL,
    ANY_ONE,
    ANY_RUN,
    BOOLEAN_MARK,
    NOCASE,
    RECORD,
    SIZE_MAX,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
)
from index.vocabulary import Vocabulary

Key = tuple[float, int]
CodeOf = Callable[[bytes, bool], int]
"""The code of an operand string, and whether the string is folded: `Vocabulary.string`."""

_NONE: Key = (0.0, 0)
_LOWEST: Key = (-math.inf, 0)
_HIGHEST: Key = (math.inf, 0)
_NEEDLE_KIND = {
    Operator.PREFIX: PredicateKind.PREFIX,
    Operator.SUFFIX: PredicateKind.SUFFIX,
    Operator.CONTAINS: PredicateKind.CONTAINS,
}
_PRESENCE_KIND = {
    Operator.EXISTS: PredicateKind.EXISTS,
    Operator.MISSING: PredicateKind.MISSING,
    Operator.IS_NULL: PredicateKind.IS_NULL,
}
_LOWER_BOUNDS = Operator.GT, Operator.GE
_OF_TIME = {Instant, Now}


class Lowered(NamedTuple):
    """A record without its attribute, and what it refers to: at most one of members and needles."""

    kind: PredicateKind
    flags: int = 0
    low: Key = _NONE
    high: Key = _NONE
    members: tuple[Key, ...] = ()
    needles: tuple[bytes, ...] = ()


Placed = tuple[Lowered, int]
"""A lowered predicate and the number of its attribute."""


def lower(predicate: Predicate | Element, code_of: CodeOf) -> Lowered:
    """The lowered form of a leaf of a threshold tree; equal questions become equal forms."""
    if isinstance(predicate, Element):
        return Lowered(PredicateKind.OPAQUE_ENTRY, needles=(_digest(predicate),))
    lowered = _LOWERINGS[predicate.operator](predicate, code_of)
    if predicate.quantifier is Quantifier.ALL:
        return lowered._replace(flags=lowered.flags | ALL)
    return lowered


def _equality(predicate: Predicate, code_of: CodeOf) -> Lowered:
    """= and IN."""
    operand = predicate.operand
    operands = operand if isinstance(operand, tuple) else (cast(Scalar, operand),)
    types = set(map(type, operands))
    if not types.isdisjoint(_OF_TIME):
        if types <= _OF_TIME:
            return Lowered(PredicateKind.OPAQUE_EQUAL, needles=(_spelling(predicate),))
        return Lowered(PredicateKind.OPAQUE_VALUE, needles=(_digest(predicate),))
    nocase = predicate.nocase and str in types
    keys = {_key(operand, nocase, code_of) for operand in operands}
    flags = NOCASE if nocase else 0
    if len(keys) == 1:
        return Lowered(PredicateKind.EQUAL, flags, low=keys.pop())
    return Lowered(PredicateKind.IN, flags, members=tuple(sorted(keys)))


def _key(operand: Scalar, nocase: bool, code_of: CodeOf) -> Key:
    if isinstance(operand, str):
        return float(code_of(_utf8(operand, nocase), nocase)), STRING_MARK
    if isinstance(operand, bool):
        return float(operand), BOOLEAN_MARK
    return split(cast(Number, operand))


def _range(predicate: Predicate, _: CodeOf) -> Lowered:
    """The bounds of an ordered comparison, made closed for numbers and half-open for strings."""
    low, high = bounds_of(predicate)
    types = {type(low), type(high)}
    if not types.isdisjoint(_OF_TIME):
        return Lowered(PredicateKind.OPAQUE_TEXT, needles=(_spelling(predicate),))
    if str in types:
        return _text_range(predicate.operator, cast(str | None, low), cast(str | None, high))
    lowest, highest = _LOWEST, _HIGHEST
    if low is not None:
        number, residual = split(cast(Number, low))
        lowest = number, residual + (predicate.operator is Operator.GT)
    if high is not None:
        number, residual = split(cast(Number, high))
        highest = number, residual - (predicate.operator is Operator.LT)
    return Lowered(PredicateKind.RANGE, low=lowest, high=highest)


def bounds_of(predicate: Predicate) -> tuple[Scalar | None, Scalar | None]:
    """From the first up to the second, of an ordered comparison; None where there is no bound."""
    if predicate.operator is Operator.BETWEEN:
        return cast(tuple[Scalar, Scalar], predicate.operand)
    bound = cast(Scalar, predicate.operand)
    return (bound, None) if predicate.operator in _LOWER_BOUNDS else (None, bound)


def _text_range(operator: Operator, low: str | None, high: str | None) -> Lowered:
    """From low up to, not including, high; the next string after s is s and a zero byte."""
    start, stop = b"", TEXT_END
    if low is not None:
        start = low.encode() + (b"\0" if operator is Operator.GT else b"")
    if high is not None:
        stop = high.encode() + (b"" if operator is Operator.LT else b"\0")
    return Lowered(PredicateKind.TEXT_RANGE, needles=(start, stop))


def _needles(predicate: Predicate, _: CodeOf) -> Lowered:
    texts, nocase = cast(tuple[str, ...], predicate.operand), predicate.nocase
    needles = tuple(sorted({_utf8(text, nocase) for text in texts}))
    flags = NOCASE if nocase else 0
    return Lowered(_NEEDLE_KIND[predicate.operator], flags, needles=needles)


def _presence(predicate: Predicate, _: CodeOf) -> Lowered:
    return Lowered(_PRESENCE_KIND[predicate.operator])


def _opaque_text(predicate: Predicate, _: CodeOf) -> Lowered:
    return Lowered(PredicateKind.OPAQUE_TEXT, needles=(_spelling(predicate),))


def _like(predicate: Predicate, _: CodeOf) -> Lowered:
    """LIKE's tokens; a pattern that is one literal between runs is a cheaper test of the same."""
    tokens = like_tokens(cast(str, predicate.operand), predicate.escape, predicate.nocase)
    flags = NOCASE if predicate.nocase else 0
    literal = tokens.strip(bytes([ANY_RUN]))
    if ANY_RUN not in literal and ANY_ONE not in literal and ANY_RUN in tokens:
        starts, ends = tokens[0] != ANY_RUN, tokens[-1] != ANY_RUN
        kind = PredicateKind.CONTAINS
        if starts:
            kind = PredicateKind.PREFIX
        elif ends:
            kind = PredicateKind.SUFFIX
        return Lowered(kind, flags, needles=(literal,))
    return Lowered(PredicateKind.LIKE, flags, needles=(tokens,))


def like_tokens(pattern: str, escape: str | None, nocase: bool) -> bytes:
    """A LIKE pattern as bytes: UTF-8 of its literals, ANY_RUN for any run of `%`, ANY_ONE for `_`.

    The escape is looked for before the wildcards; None stands for a backslash, '' for no escape.
    """
    escape = "\\" if escape is None else escape
    tokens = bytearray()
    letters = iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            tokens += _utf8(next(letters), nocase)
        elif letter == "%":
            if not tokens or tokens[-1] != ANY_RUN:
                tokens.append(ANY_RUN)
        elif letter == "_":
            tokens.append(ANY_ONE)
        else:
            tokens += _utf8(letter, nocase)
    return bytes(tokens)


def _utf8(text: str, nocase: bool) -> bytes:
    return (fold(text) if nocase else text).encode()


def _spelling(predicate: Predicate) -> bytes:
    """The JSON form, from which a table knows the predicate again."""
    return json.dumps(to_json(predicate)).encode()


def _digest(predicate: Predicate | Element) -> bytes:
    """Tells apart records that only whole filters settle; a collision could cause no match."""
    return hashlib.blake2b(repr(predicate).encode(), digest_size=8).digest()


_LOWERINGS: dict[Operator, Callable[[Predicate, CodeOf], Lowered]] = {
    Operator.EQ: _equality,
    Operator.IN: _equality,
    Operator.LIKE: _like,
    Operator.REGEX: _opaque_text,
    Operator.CIDR: _opaque_text,
    **dict.fromkeys((Operator.BETWEEN, Operator.GT, Operator.GE, Operator.LT, Operator.LE), _range),
    **dict.fromkeys(_NEEDLE_KIND, _needles),
    **dict.fromkeys(_PRESENCE_KIND, _presence),
}
"""How each of the positive operators is lowered."""


def lower_each(
    predicates: Sequence[Predicate | Element], vocabulary: Vocabulary
) -> PredicateColumns:
    """Columns of positive predicates, in their order, lowered one by one."""
    code_of, attribute_of = vocabulary.string, vocabulary.attribute
    return encode([(lower(one, code_of), attribute_of(one.path)) for one in predicates])


def encode(placed: Sequence[Placed]) -> PredicateColumns:
    """Columns of lowered predicates, in their order."""
    records = []
    members: list[Key] = []
    needles: list[bytes] = []
    for lowered, attribute in placed:
        kind, flags, (low, low_residual), (high, high_residual), keys, texts = lowered
        size = len(keys) + len(texts)
        if size > SIZE_MAX:
            raise ValueError(
                f"{size} values in one list; kernels hold at most {SIZE_MAX}: lower the limit "
                "filter_list_values, or split the list with OR"
            )
        start = len(members) if keys else len(needles)
        members += keys
        needles += texts
        records.append(
            (kind, flags, low_residual, high_residual, size, attribute, start, low, high)
        )
    return PredicateColumns(
        read_only(np.array(records, RECORD)),
        read_only(np.array([number for number, _ in members], np.float64)),
        read_only(np.array([mark for _, mark in members], np.int16)),
        read_only(np.cumsum([0, *map(len, needles)], dtype=np.int64)),
        np.frombuffer(b"".join(needles), np.uint8),
    )
