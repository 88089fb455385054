"""Raising: what a record asks, as a predicate again; the other way than `index.lowering`.

A predicate that was lowered has lost how it was written, and what is raised need only ask the same
of nearly all events: it is for statistics, which estimate, and never for answers.
"""

from __future__ import annotations

import math

from index.model import Operator, Predicate, Quantifier, Scalar
from index.opaque import opaque_predicate
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NOCASE,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
    needles_of,
    pattern_text,
)
from index.vocabulary import Vocabulary

_PLAIN = {
    PredicateKind.EXISTS: Operator.EXISTS,
    PredicateKind.MISSING: Operator.MISSING,
    PredicateKind.IS_NULL: Operator.IS_NULL,
}
_BY_NEEDLES = {
    PredicateKind.PREFIX: Operator.PREFIX,
    PredicateKind.SUFFIX: Operator.SUFFIX,
    PredicateKind.CONTAINS: Operator.CONTAINS,
}


def raised(predicates: PredicateColumns, vocabulary: Vocabulary, number: int) -> Predicate | None:
    """The predicate of a record; None where only the whole filter can tell what it asks."""
    record = predicates.record[number]
    kind = PredicateKind(int(record["kind"]))
    path = vocabulary.path(int(record["attribute"]))
    if kind in (PredicateKind.OPAQUE_TEXT, PredicateKind.OPAQUE_EQUAL):
        return opaque_predicate(predicates, number)
    operand = _operand(predicates, vocabulary, number, kind)
    if operand is None:
        return None
    operator, value = operand
    quantifier = Quantifier.ALL if record["flags"] & ALL else None
    return Predicate(path, operator, value, bool(record["flags"] & NOCASE), quantifier)


def _operand(
    predicates: PredicateColumns, vocabulary: Vocabulary, number: int, kind: PredicateKind
) -> tuple[Operator, Scalar | tuple[Scalar, ...] | None] | None:
    record = predicates.record[number]
    if kind in _PLAIN:
        return _PLAIN[kind], None
    if kind == PredicateKind.EQUAL:
        low, mark = float(record["low"]), int(record["low_residual"])
        return Operator.EQ, _scalar(vocabulary, low, mark)
    if kind == PredicateKind.IN:
        members = slice(int(record["start"]), int(record["start"]) + int(record["size"]))
        keys = zip(
            predicates.member_number[members].tolist(),
            predicates.member_mark[members].tolist(),
            strict=True,
        )
        return Operator.IN, tuple(_scalar(vocabulary, *key) for key in keys)
    if kind == PredicateKind.RANGE:
        return _range(*(_number(record, end) for end in ("low", "high")))
    if kind > PredicateKind.LIKE:
        return None
    needles = needles_of(predicates, number)
    if kind in _BY_NEEDLES:
        return _BY_NEEDLES[kind], tuple(needle.decode() for needle in needles)
    if kind == PredicateKind.TEXT_RANGE:
        return _text_range(*needles)
    return Operator.LIKE, pattern_text(needles[0])


def _scalar(vocabulary: Vocabulary, number: float, mark: int) -> Scalar:
    if mark == STRING_MARK:
        return vocabulary.text(int(number)).decode()
    if mark == BOOLEAN_MARK:
        return bool(number)
    return int(number) + mark if number.is_integer() else number


def _number(record: object, end: str) -> float | int:
    """The end of a range, which is closed, or an infinity."""
    number, residual = float(record[end]), int(record[f"{end}_residual"])  # type: ignore[index]
    return int(number) + residual if number.is_integer() else number


def _range(low: float | int, high: float | int) -> tuple[Operator, Scalar | tuple[Scalar, ...]]:
    if math.isinf(low):
        return Operator.LE, high
    if math.isinf(high):
        return Operator.GE, low
    return Operator.BETWEEN, (low, high)


def _text_range(low: bytes, high: bytes) -> tuple[Operator, Scalar | tuple[Scalar, ...]]:
    if high == TEXT_END:
        return Operator.GE, low.decode()
    if not low:
        return Operator.LT, high.decode()
    return Operator.BETWEEN, (low.decode(), high.decode())
