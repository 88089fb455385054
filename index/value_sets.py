"""Value sets: which values satisfy a predicate, so that two predicates can be asked if they meet.

An event of expressions says of each attribute a set of values instead of one value. A subscription
meets it if each of its predicates shares some value with the event's set of that attribute.

    a BETWEEN 2 AND 5    numbers [2, 5]
    a != 3               numbers up to the one before 3, from the one after 3; all other values
    a > 'b'              strings from the one after 'b' on

A number is an int64 or a double, so each has a next one, and a range is closed by the numbers at
its ends: two ranges meet if and only if some number lies in both. A range of strings ends before
its second bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from index.kernels.betree_keys import RESIDUAL_FREE
from index.numbers import INT64_MAX, INT64_MIN, Number, split
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NOCASE,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS
from index.spaces import text_bounds
from index.threshold import Polarity
from index.vocabulary import Vocabulary

_Bound = TypeVar("_Bound", int | float, bytes)
NumberRange = tuple[Number, Number]
TextRange = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values of all types but objects."""

    numbers: tuple[NumberRange, ...] = ()  # both ends included, ascending
    strings: tuple[TextRange, ...] = ()  # the second end excluded, ascending
    booleans: frozenset[bool] = frozenset()
    null: bool = False

    def __and__(self, other: ValueSet) -> ValueSet:
        """The values of both."""
        numbers = _common(self.numbers, other.numbers)
        strings = _common(self.strings, other.strings)
        return ValueSet(
            tuple((low, high) for low, high in numbers if low <= high),
            tuple((low, high) for low, high in strings if low < high),
            self.booleans & other.booleans,
            self.null and other.null,
        )

    def __bool__(self) -> bool:
        """Is there any value?"""
        return bool(self.numbers or self.strings or self.booleans or self.null)

    def complement(self) -> ValueSet:
        """All other values."""
        return ValueSet(
            tuple(_gaps_of_numbers(self.numbers)),
            tuple(_gaps_of_strings(self.strings)),
            EVERYTHING.booleans - self.booleans,
            not self.null,
        )


EVERYTHING = ValueSet(((-math.inf, math.inf),), ((b"", TEXT_END),), frozenset((False, True)), True)


def value_set(predicates: PredicateColumns, vocabulary: Vocabulary, leaf: int) -> ValueSet | None:
    """The values that satisfy a leaf, or None where that is no matter of single values, or of
    operators that two sides cannot be compared by: ALL, NOCASE, and patterns of text.
    """
    record = predicates.record[leaf >> POLARITY_BITS]
    polarity = leaf & ((1 << POLARITY_BITS) - 1)
    if polarity not in (Polarity.IS_TRUE, Polarity.IS_FALSE) or record["flags"] & (ALL | NOCASE):
        return None
    number = leaf >> POLARITY_BITS
    is_false = polarity == Polarity.IS_FALSE
    match int(record["kind"]):
        case PredicateKind.EXISTS:
            return EVERYTHING
        case PredicateKind.IS_NULL:
            found = ValueSet(null=True)
        case PredicateKind.EQUAL:
            found = _points(vocabulary, [(float(record["low"]), int(record["low_residual"]))])
        case PredicateKind.IN:
            members = slice(int(record["start"]), int(record["start"]) + int(record["size"]))
            numbers = predicates.member_number[members].tolist()
            marks = predicates.member_mark[members].tolist()
            found = _points(vocabulary, zip(numbers, marks, strict=True))
        case PredicateKind.RANGE:
            low = _least(float(record["low"]), int(record["low_residual"]))
            high = _greatest(float(record["high"]), int(record["high_residual"]))
            found = ValueSet(((low, high),)) if _is_range(low, high) else ValueSet()
            # A range is FALSE of other numbers, and UNKNOWN of all else.
            return ValueSet(found.complement().numbers) if is_false else found
        case PredicateKind.TEXT_RANGE:
            bounds = [one for one in text_bounds(predicates, number) if one[0] < one[1]]
            found = ValueSet(strings=tuple(bounds))
            return ValueSet(strings=found.complement().strings) if is_false else found
        case _:
            return None
    return found.complement() if is_false else found


def _points(vocabulary: Vocabulary, keys: Iterable[tuple[float, int]]) -> ValueSet:
    """The set of some keys of equality."""
    numbers: list[Number] = []
    texts: list[bytes] = []
    booleans: list[bool] = []
    for number, mark in keys:
        if mark == STRING_MARK:
            texts.append(vocabulary.text(int(number)))
        elif mark == BOOLEAN_MARK:
            booleans.append(bool(number))
        else:
            numbers.append(_least(number, mark))
    return ValueSet(
        tuple((one, one) for one in sorted(numbers)),
        tuple((text, text + b"\0") for text in sorted(texts)),
        frozenset(booleans),
    )


def _least(double: float, residual: int) -> Number:
    """The least number that is not below the pair."""
    if residual == 0 or math.isinf(double):
        return double
    if abs(double) < RESIDUAL_FREE:
        return math.nextafter(double, math.inf) if residual > 0 else double
    whole = int(double) + residual
    if INT64_MIN <= whole <= INT64_MAX:
        return whole
    return math.nextafter(double, math.inf) if residual > 0 else double


def _greatest(double: float, residual: int) -> Number:
    """The greatest number that is not above the pair."""
    if residual == 0 or math.isinf(double):
        return double
    if abs(double) < RESIDUAL_FREE:
        return math.nextafter(double, -math.inf) if residual < 0 else double
    whole = int(double) + residual
    if INT64_MIN <= whole <= INT64_MAX:
        return whole
    return math.nextafter(double, -math.inf) if residual < 0 else double


def _is_range(low: Number, high: Number) -> bool:
    """Does any number lie in low..high? Infinities only stand for bounds that are not there."""
    return low <= high and low != math.inf and high != -math.inf


def _gaps_of_numbers(ranges: Sequence[NumberRange]) -> Iterable[NumberRange]:
    """The ranges between, before and after some that ascend."""
    low: Number = -math.inf
    for first, last in ranges:
        double, residual = split(first)
        high = _greatest(double, residual - 1)
        if _is_range(low, high):
            yield low, high
        double, residual = split(last)
        low = _least(double, residual + 1)
    if _is_range(low, math.inf):
        yield low, math.inf


def _gaps_of_strings(ranges: Sequence[TextRange]) -> Iterable[TextRange]:
    """The ranges between, before and after some that ascend."""
    low = b""
    for first, last in ranges:
        if low < first:
            yield low, first
        low = last
    if low < TEXT_END:
        yield low, TEXT_END


def _common(
    one: Sequence[tuple[_Bound, _Bound]], other: Sequence[tuple[_Bound, _Bound]]
) -> list[tuple[_Bound, _Bound]]:
    """The overlaps of ranges that ascend, empty ones included."""
    overlaps: list[tuple[_Bound, _Bound]] = []
    mine, theirs = 0, 0
    while mine < len(one) and theirs < len(other):
        (low, high), (first, last) = one[mine], other[theirs]
        overlaps.append((max(low, first), min(high, last)))
        if high < last:
            mine += 1
        else:
            theirs += 1
    return overlaps
