"""Filing: the keys of the elements of access covers, and what a matcher must know to look them up.

An element of one leaf has a key for each space of the leaf, one of two leaves a key for each pair
of spaces (PSTHash, section 6.2: the cross product of the two access predicates' spaces). Keys of
three spaces are in `index.kernels.triples`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cover import (
    BY_CELLS,
    BY_EXISTENCE,
    BY_POINTS,
    BY_PRESENCE,
    Elements,
    LeafCosts,
    filing_of_leaf,
    is_coarse,
)
from index.kernels.keys import number_space, pair_of, part_of, set_bit
from index.predicates import NO_MARK, NOCASE, STRING_MARK, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.spaces import FACET_BITS, Covers, Facet

_PRESENT, _EXISTS = int(Facet.PRESENT), int(Facet.EXISTS)
_POINT, _FOLDED = int(Facet.POINT), int(Facet.FOLDED)
_IN, _IS_NULL = int(PredicateKind.IN), int(PredicateKind.IS_NULL)


class Parts(NamedTuple):
    """Spaces of one leaf. Working memory of one thread."""

    dimension: NDArray[np.int64]
    part: NDArray[np.uint64]


class Dimensions(NamedTuple):
    """Which dimensions of `a` attributes have keys, and bit filters of what the keys consist of."""

    single: NDArray[np.uint8]  # [a] bits 1 << facet of keys of one space
    paired: NDArray[np.uint8]  # [a] of keys of two spaces
    asked: NDArray[np.uint8]  # [a] all that an event's values are looked up in
    pair_filter: NDArray[np.uint64]  # pairs of dimensions
    part_filter: NDArray[np.uint64]  # spaces


def new_parts(count: int) -> Parts:
    """Room for that many spaces."""
    return Parts(np.zeros(count, np.int64), np.zeros(count, np.uint64))


@leaf
def leaf_parts(
    predicates: PredicateColumns,
    costs: LeafCosts,
    covers: Covers,
    leaf: int,
    coarse: bool,
    parts: Parts,
) -> int:
    """Fill `parts` with the spaces a leaf is filed under; returns their number."""
    filing = filing_of_leaf(predicates, leaf)
    number = leaf >> POLARITY_BITS
    if filing >= BY_POINTS and (coarse or is_coarse(predicates, costs, leaf)):
        filing = BY_PRESENCE
    if filing == BY_POINTS:
        return point_parts(predicates, number, parts)
    first_dimension = int(predicates.record[number]["attribute"]) << FACET_BITS
    if filing == BY_CELLS:
        count = 0
        position = costs.position[number]
        for run in range(covers.run_start[position], covers.run_start[position + 1]):
            dimension = first_dimension | int(covers.facet[run])
            for cell in range(covers.first[run], covers.last[run] + 1):
                parts.dimension[count] = dimension
                parts.part[count] = part_of(dimension, np.uint64(cell))
                count += 1
        return count
    dimension = first_dimension | (_EXISTS if filing == BY_EXISTENCE else _PRESENT)
    parts.dimension[0] = dimension
    parts.part[0] = part_of(dimension, np.uint64(0))
    return 1


@leaf
def point_parts(predicates: PredicateColumns, number: int, parts: Parts) -> int:
    """Fill `parts` with the points of =, IN or IS NULL; returns their number."""
    record = predicates.record[number]
    first_dimension = int(record["attribute"]) << FACET_BITS
    size = point_count(predicates, number)
    for at in range(size):
        key, mark = point_of(predicates, number, at)
        facet = point_facet(record["flags"], mark)
        _set_point(parts, at, first_dimension | facet, key, mark)
    return size


@inlined
def point_count(predicates: PredicateColumns, number: int) -> int:
    """How many points =, IN or IS NULL has."""
    record = predicates.record[number]
    return int(record["size"]) if record["kind"] == _IN else 1


@inlined
def point_of(predicates: PredicateColumns, number: int, at: int) -> tuple[np.float64, int]:
    """One of them, as a key of equality (see `index.predicates`)."""
    record = predicates.record[number]
    if record["kind"] == _IN:
        member = record["start"] + at
        return predicates.member_number[member], int(predicates.member_mark[member])
    if record["kind"] == _IS_NULL:
        return np.float64(0.0), NO_MARK
    return record["low"], int(record["low_residual"])


@inlined
def point_facet(flags: int, mark: int) -> int:
    """The facet that a point of a predicate with such flags lies in."""
    return _FOLDED if flags & NOCASE and mark == STRING_MARK else _POINT


@inlined
def _set_point(parts: Parts, at: int, dimension: int, number: float, mark: int) -> None:
    parts.dimension[at] = dimension
    parts.part[at] = point_part(dimension, number, mark)


@inlined
def point_part(dimension: int, number: float, mark: int) -> np.uint64:
    """The part of the point space of a key (see `index.predicates`)."""
    bits = np.float64(number).view(np.uint64)
    return part_of(dimension, number_space(bits, mark))


@inlined
def element_leaf(elements: Elements, at: int, part: int) -> int:
    """One of the leaves of an element, or -1."""
    return int(elements.leaf[at, part]) if part < elements.leaf.shape[1] else -1


@leaf
def count_keys(
    predicates: PredicateColumns,
    costs: LeafCosts,
    covers: Covers,
    elements: Elements,
    parts: Parts,
) -> int:
    """How many keys the elements have, of however many leaves."""
    total = 0
    for at in range(elements.row.size):
        count = 1
        for place in range(elements.leaf.shape[1]):
            leaf = elements.leaf[at, place]
            if leaf >= 0:
                count *= leaf_parts(predicates, costs, covers, leaf, elements.coarse[at], parts)
        total += count
    return total


@leaf
def list_keys(
    predicates: PredicateColumns,
    costs: LeafCosts,
    covers: Covers,
    elements: Elements,
    memory: tuple[Parts, Parts],
    dimensions: Dimensions,
    listed: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> None:
    """Fill `listed` with (key, row) of every key, and `dimensions` with what they are made of.

    On entry no element has three leaves.
    """
    keys, rows = listed
    total = 0
    for at in range(elements.row.size):
        coarse = elements.coarse[at]
        first, second = memory
        first_count = leaf_parts(predicates, costs, covers, elements.leaf[at, 0], coarse, first)
        for one in range(first_count):
            set_bit(dimensions.part_filter, first.part[one])
        other_leaf = element_leaf(elements, at, 1)
        if other_leaf < 0:
            for one in range(first_count):
                keys[total] = first.part[one]
                rows[total] = elements.row[at]
                total += 1
                enter_dimension(dimensions.single, first.dimension[one])
            continue
        second_count = leaf_parts(predicates, costs, covers, other_leaf, coarse, second)
        for other in range(second_count):
            set_bit(dimensions.part_filter, second.part[other])
        if first_count and second_count and first.dimension[0] > second.dimension[0]:
            first, second = second, first
            first_count, second_count = second_count, first_count
        for one in range(first_count):
            for other in range(second_count):
                keys[total] = pair_of(first.part[one], second.part[other])
                rows[total] = elements.row[at]
                total += 1
        _enter_pairs(dimensions, first, first_count, second, second_count)


@inlined
def enter_dimension(facets: NDArray[np.uint8], dimension: int) -> None:
    """Note that a dimension has keys."""
    facets[dimension >> FACET_BITS] |= np.uint8(1 << (dimension & ((1 << FACET_BITS) - 1)))


@inlined
def dimension_pair(first: int, second: int) -> np.uint64:
    """The hash of two dimensions, the smaller one first."""
    return pair_of(np.uint64(first), np.uint64(second))


@leaf
def _enter_pairs(
    dimensions: Dimensions, first: Parts, first_count: int, second: Parts, second_count: int
) -> None:
    """Note the pairs of dimensions of two leaves; a leaf's spaces lie in one or two dimensions."""
    for one in range(first_count):
        if one and first.dimension[one] == first.dimension[one - 1]:
            continue
        enter_dimension(dimensions.paired, first.dimension[one])
        for other in range(second_count):
            if other and second.dimension[other] == second.dimension[other - 1]:
                continue
            enter_dimension(dimensions.paired, second.dimension[other])
            pair = dimension_pair(first.dimension[one], second.dimension[other])
            set_bit(dimensions.pair_filter, pair)
