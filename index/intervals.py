"""Intervals: leaves as intervals of the values of one type of one attribute, their domain.

    a > 3            numbers of a     4 up to inf            exact
    a = 'x'          strings of a     17 up to 17            exact: the code of the operand
    a IN (1, 4)      numbers of a     1 up to 4              not exact
    a IN (1, 'x')    presence of a    -inf up to inf         not exact, nor is what is no interval
    a EXISTS         existence of a   -inf up to inf         exact

Strings are compared by their codes, so only equality makes an interval of them. Where a leaf holds,
the event has a value of its domain that lies in its interval; the converse holds if it is exact.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.points import names_points
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NOCASE,
    STRING_MARK,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS
from index.threshold import Polarity


class DomainType(IntEnum):
    """What the values of a domain have in common; those up to NULLS have no order."""

    EXISTENCE = 0
    PRESENCE = 1
    NULLS = 2
    BOOLEANS = 3
    NUMBERS = 4
    STRINGS = 5
    FOLDED = 6


DOMAIN_TYPE_BITS = 3
"""A domain is known as attribute << DOMAIN_TYPE_BITS | type."""


class Intervals(NamedTuple):
    """One interval for each of some leaves; an end without bound is infinite."""

    domain: NDArray[np.int64]
    low: NDArray[np.float64]
    low_mark: NDArray[np.int16]
    high: NDArray[np.float64]
    high_mark: NDArray[np.int16]
    is_exact: NDArray[np.bool_]


def intervals_of(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> Intervals:
    """The intervals of leaves of `plain_conjunctions`."""
    record = predicates.record[leaves >> POLARITY_BITS]
    kind, flags = record["kind"], record["flags"]
    is_true = leaves & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE
    is_named = names_points(predicates, leaves) & is_true
    is_range = is_true & (kind == PredicateKind.RANGE) & (flags & ALL == 0)
    folds = flags & NOCASE != 0
    domain_type = np.full(leaves.size, DomainType.PRESENCE, np.int64)
    domain_type[kind == PredicateKind.EXISTS] = DomainType.EXISTENCE
    domain_type[is_named & (kind == PredicateKind.IS_NULL)] = DomainType.NULLS
    domain_type[is_range] = DomainType.NUMBERS
    low, high = np.full(leaves.size, -np.inf), np.full(leaves.size, np.inf)
    low_mark, high_mark = np.zeros(leaves.size, np.int16), np.zeros(leaves.size, np.int16)
    low[is_range], low_mark[is_range] = record["low"][is_range], record["low_residual"][is_range]
    high[is_range], high_mark[is_range] = (
        record["high"][is_range],
        record["high_residual"][is_range],
    )
    equal = np.flatnonzero(is_named & (kind == PredicateKind.EQUAL))
    mark = record["low_residual"][equal]
    domain_type[equal] = _types_of_keys(mark, folds[equal])
    low[equal] = high[equal] = record["low"][equal]
    low_mark[equal] = high_mark[equal] = _order_of(mark)
    is_set = np.flatnonzero(is_named & (kind == PredicateKind.IN))
    first = record["start"][is_set].astype(np.int64)
    last = first + record["size"][is_set] - 1
    hull = _is_of_one_type(predicates, first, last)
    is_set, first, last = is_set[hull], first[hull], last[hull]
    domain_type[is_set] = _types_of_keys(predicates.member_mark[first], folds[is_set])
    # Members ascend.
    low[is_set], high[is_set] = predicates.member_number[first], predicates.member_number[last]
    low_mark[is_set] = _order_of(predicates.member_mark[first])
    high_mark[is_set] = _order_of(predicates.member_mark[last])
    is_exact = is_range | (is_named & (kind != PredicateKind.IN)) | (kind == PredicateKind.EXISTS)
    domain = record["attribute"].astype(np.int64) << DOMAIN_TYPE_BITS | domain_type
    return Intervals(domain, low, low_mark, high, high_mark, is_exact)


def _types_of_keys(mark: NDArray[np.int16], folds: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The types of keys, see `index.predicates`."""
    types = np.where(mark == BOOLEAN_MARK, DomainType.BOOLEANS, DomainType.NUMBERS)
    strings = np.where(folds, DomainType.FOLDED, DomainType.STRINGS)
    of_keys: NDArray[np.int64] = np.where(mark == STRING_MARK, strings, types)
    return of_keys


def _order_of(mark: NDArray[np.int16]) -> NDArray[np.int16]:
    """The second half of a key within its domain: the residual of a number, else nothing."""
    ordered: NDArray[np.int16] = np.where(mark >= BOOLEAN_MARK, 0, mark).astype(np.int16)
    return ordered


def _is_of_one_type(
    predicates: PredicateColumns, first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of the sets member first..last have members of one type."""
    changes = np.zeros(predicates.member_mark.size + 1, np.int64)
    types = _types_of_keys(predicates.member_mark, np.zeros(predicates.member_mark.size, np.bool_))
    np.cumsum(types[1:] != types[:-1], out=changes[1 : types.size])
    of_one: NDArray[np.bool_] = changes[first] == changes[last]
    return of_one
