"""Marking: bits for the rows of the intervals that a value misses, by the ends of the intervals.

    domain's lows   [1 3 3] [4 6] [7 9]     value 5: marks the rows of 6, 7 and 9
            highs   [2 4 4] [5 8] [9]                and those of 2, 4 and 4; [5 8] is compared

An interval that begins above the value or ends below it misses it. Only the bucket in which the
value lies is compared end by end. Values of one type of one attribute are a domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch, ValueType
from index.intervals import DomainType
from index.kernels import inlined, leaf
from index.kernels.cells import number_cell

WORD_BITS = 64

_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)
_NULLS, _BOOLEANS = int(DomainType.NULLS), int(DomainType.BOOLEANS)
_NUMBERS, _STRINGS = int(DomainType.NUMBERS), int(DomainType.STRINGS)
_FOLDED = int(DomainType.FOLDED)
_ONE = np.uint64(1)


class Ends(NamedTuple):
    """The e lower or upper ends of the intervals of d domains, in b buckets."""

    bucket: NDArray[np.int32]  # [d+1] the buckets of domain i are bucket[i]:bucket[i+1]
    number: NDArray[np.float64]  # [b] the least end in the bucket: number and residual
    mark: NDArray[np.int16]  # [b]
    first: NDArray[np.int64]  # [b+1] bucket -> entries, in the order of places
    end: NDArray[np.float64]  # [e]
    end_mark: NDArray[np.int16]  # [e]
    place: NDArray[np.int32]  # [e]


class Values(NamedTuple):
    """Values of one domain, ascending. Working memory of one thread."""

    number: NDArray[np.float64]
    mark: NDArray[np.int16]


@inlined
def mark_row(marked: NDArray[np.uint64], place: int) -> None:
    """Set the bit of a row."""
    marked[place >> 6] |= _ONE << np.uint64(place & (WORD_BITS - 1))


@leaf
def mark_rows(marked: NDArray[np.uint64], places: NDArray[np.int32], start: int, stop: int) -> None:
    """Set the bits of the rows places[start:stop]."""
    for at in range(start, stop):
        mark_row(marked, places[at])


@inlined
def _bucket_above(ends: Ends, domain: int, number: float, mark: int) -> int:
    """The first bucket of a domain all of whose ends are above a value."""
    start, stop = ends.bucket[domain], ends.bucket[domain + 1]
    return int(start + number_cell((ends.number, ends.mark), start, stop, number, mark))


@leaf
def mark_above(
    lows: Ends, domain: int, number: float, mark: int, marked: NDArray[np.uint64]
) -> None:
    """Mark the rows of the intervals that begin above a value."""
    above, start = _bucket_above(lows, domain, number, mark), lows.bucket[domain]
    if above > start:
        for at in range(lows.first[above - 1], lows.first[above]):
            end = lows.end[at]
            if end > number or (end == number and lows.end_mark[at] > mark):
                mark_row(marked, lows.place[at])
    mark_rows(marked, lows.place, lows.first[above], lows.first[lows.bucket[domain + 1]])


@leaf
def mark_below(
    highs: Ends, domain: int, number: float, mark: int, marked: NDArray[np.uint64]
) -> None:
    """Mark the rows of the intervals that end below a value."""
    above, start = _bucket_above(highs, domain, number, mark), highs.bucket[domain]
    if above > start:
        mark_rows(marked, highs.place, highs.first[start], highs.first[above - 1])
        for at in range(highs.first[above - 1], highs.first[above]):
            end = highs.end[at]
            if end < number or (end == number and highs.end_mark[at] < mark):
                mark_row(marked, highs.place[at])


@leaf
def mark_between(
    lows: Ends,
    upper: tuple[Ends, NDArray[np.int32]],
    domain: int,
    values: Values,
    after: int,
    marked: NDArray[np.uint64],
) -> None:
    """Mark the rows of the intervals that lie between the values `after` and `after` + 1.

    `upper` are the other ends, and where there the interval of each of `lows` ends, or -1.
    """
    highs, upper_of = upper
    least, least_mark = values.number[after], values.mark[after]
    most, most_mark = values.number[after + 1], values.mark[after + 1]
    first = _bucket_above(lows, domain, least, int(least_mark))
    stop = _bucket_above(lows, domain, most, int(most_mark))
    for at in range(lows.first[max(first - 1, lows.bucket[domain])], lows.first[stop]):
        end, high = lows.end[at], upper_of[at]
        if high < 0 or end < least or (end == least and lows.end_mark[at] <= least_mark):
            continue
        end = highs.end[high]
        if end < most or (end == most and highs.end_mark[high] < most_mark):
            mark_row(marked, lows.place[at])


@leaf
def values_in_domain(batch: EventBatch, entry: int, domain_type: int, values: Values) -> int:
    """Fill `values` with those of an entry that are in a domain of its attribute, ascending.

    Returns how many there are. A string that no operand equals is in no domain.
    """
    count = 0
    for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
        value_type, string = batch.value_type[value], batch.value_string[value]
        number, mark = np.float64(batch.value_number[value]), np.int16(0)
        if domain_type == _NUMBERS:
            if value_type != _NUMBER:
                continue
            mark = batch.value_residual[value]
        elif domain_type == _STRINGS or domain_type == _FOLDED:
            if value_type != _STRING:
                continue
            codes = batch.string_code if domain_type == _STRINGS else batch.folded_code
            number = np.float64(codes[string])
            if number < 0:
                continue
        elif value_type != (_BOOLEAN if domain_type == _BOOLEANS else _NULL):
            continue
        values.number[count], values.mark[count] = number, mark
        count += 1
    _sort(values, count)
    return count


@inlined
def _sort(values: Values, count: int) -> None:
    """Sort the first values: Shell's method, which for a few is insertion alone."""
    gap = 1
    while gap < count // 20:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, count):
            number, mark = values.number[at], values.mark[at]
            to = at
            while to >= gap and (
                values.number[to - gap] > number
                or (values.number[to - gap] == number and values.mark[to - gap] > mark)
            ):
                values.number[to], values.mark[to] = values.number[to - gap], values.mark[to - gap]
                to -= gap
            values.number[to], values.mark[to] = number, mark
        gap //= 3
