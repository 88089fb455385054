"""Tests of leaves: on which lane, with what operand, and what they tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.filing import point_count, point_facet, point_of
from index.kernels.lanes import (
    ALWAYS_LANE,
    EXACT,
    HASHED,
    INVERTED,
    NECESSARY,
    NO_TEST,
    NOTHING,
    OTHER,
    PRESENT_ONLY,
    TEXT_LANES,
    UNTESTED,
    WIDE,
    LaneColumns,
    Lookup,
    hash_bit,
    is_whole,
    point_code,
    points_of_set,
    set_of_codes,
)
from index.predicates import (
    ALL,
    PredicateColumns,
    PredicateKind,
)
from index.program import GATE_WORDS, POLARITY_BITS, Programs
from index.spaces import FACET_BITS, Facet
from index.threshold import Polarity

_ONE, _ZERO, _ALL_BITS = np.uint64(1), np.uint64(0), ~np.uint64(0)
_NOTHING_BIT = _ONE << np.uint64(NOTHING)
_HALF = np.uint64(32)

_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE, _IS_FALSE = int(Polarity.IS_TRUE), int(Polarity.IS_FALSE)
_NOT_TRUE = int(Polarity.NOT_TRUE)
_EXISTS_FACET, _PRESENT = int(Facet.EXISTS), int(Facet.PRESENT)
_POINT = int(Facet.POINT)
_EXISTS, _MISSING = int(PredicateKind.EXISTS), int(PredicateKind.MISSING)
_IS_NULL, _EQUAL = int(PredicateKind.IS_NULL), int(PredicateKind.EQUAL)
_IN, _RANGE = int(PredicateKind.IN), int(PredicateKind.RANGE)
_TEXT_RANGE = int(PredicateKind.TEXT_RANGE)
_OPAQUE_ENTRY = int(PredicateKind.OPAQUE_ENTRY)


@leaf
def mark_negated(programs: Programs, rows: NDArray[np.int32], negated: NDArray[np.bool_]) -> None:
    """Note the predicates that some leaf of the rows asks to be anything but TRUE."""
    for row in rows:
        at, stop = programs.start[row], programs.start[row + 1]
        while at < stop:
            if programs.code[at] < 0:
                at += GATE_WORDS
                continue
            code = programs.code[at]
            at += 1
            if code & _POLARITY_MASK != _IS_TRUE:
                negated[code >> POLARITY_BITS] = True


@inlined
def wide_operand(first: int, last: int, polarity: int) -> np.uint64:
    """The test for a run of codes; the polarity is IS_TRUE, IS_FALSE or NOT_TRUE."""
    return _turned(np.uint64(first + 1) | np.uint64(last - first) << _HALF, polarity)


@inlined
def _turned(operand: np.uint64, polarity: int) -> np.uint64:
    """The test of a wide lane that holds where the leaf does."""
    if polarity != _IS_TRUE:
        operand |= INVERTED
    if polarity == _IS_FALSE:
        operand |= PRESENT_ONLY
    return operand


@inlined
def _narrow_operand(lanes: LaneColumns, lane: int, true: np.uint64, polarity: int) -> np.uint64:
    """The mask for a leaf whose predicate is TRUE of the codes `true`, FALSE of all others."""
    if polarity == _IS_TRUE:
        return true
    if polarity == _NOT_TRUE:
        return ~true
    codes = np.uint64(lanes.part_start[lane + 1] - lanes.part_start[lane])
    false = ((_ONE << codes) - _ONE) & ~true
    return false if polarity == _IS_FALSE else ~false


@leaf
def leaf_test(
    predicates: PredicateColumns, lookup: Lookup, leaf: int
) -> tuple[int, np.uint64, int]:
    """Lane and operand of the test of a leaf, and what the test tells."""
    number, polarity = leaf >> POLARITY_BITS, leaf & _POLARITY_MASK
    record = predicates.record[number]
    kind = record["kind"]
    base = int(record["attribute"]) << FACET_BITS
    if kind == _EXISTS or kind == _MISSING:
        is_true = polarity == _IS_TRUE or polarity > _NOT_TRUE
        mask = _ONE if is_true == (kind == _EXISTS) else _NOTHING_BIT
        return _tested(lookup.lanes, base | _EXISTS_FACET, mask, EXACT)
    text = lookup.text[lookup.position[number]]
    if text >= 0 and lookup.texts.lane[text] != 0:
        lane = int(lookup.texts.lane[text])
        return lane, _text_operand(lookup, text, polarity), EXACT
    if record["flags"] & ALL == 0:
        if kind == _EQUAL or kind == _IN or kind == _IS_NULL:
            lane, operand, told = _points_test(predicates, lookup.lanes, number, polarity)
            if told != NO_TEST:
                return lane, operand, told
        elif kind == _RANGE or kind == _TEXT_RANGE:
            lane, operand, told = _cells_test(lookup, base, number, polarity)
            if told != NO_TEST:
                return lane, operand, told
    if kind != _OPAQUE_ENTRY and (polarity == _IS_TRUE or polarity == _IS_FALSE):
        return _tested(lookup.lanes, base | _PRESENT, _ONE, NECESSARY)
    return ALWAYS_LANE, _ALL_BITS, NO_TEST


@inlined
def _text_operand(lookup: Lookup, text: int, polarity: int) -> np.uint64:
    """The mask for a leaf of a text predicate."""
    texts = lookup.texts
    default = texts.default[texts.lane[text] - lookup.lanes.first[TEXT_LANES]]
    false = texts.flip[text] & default
    true = texts.flip[text] ^ false
    if polarity == _IS_TRUE:
        return np.uint64(true)
    if polarity == _IS_FALSE:
        return np.uint64(false)
    return _NOTHING_BIT | np.uint64(false if polarity == _NOT_TRUE else true)


@inlined
def _tested(
    lanes: LaneColumns, dimension: int, operand: np.uint64, told: int
) -> tuple[int, np.uint64, int]:
    """A test on the lane of a dimension, if it has one that tests can be made on."""
    lane = int(lanes.lane_of[dimension])
    if lane == 0 or lane >= lanes.first[UNTESTED]:
        return ALWAYS_LANE, _ALL_BITS, NO_TEST
    return lane, operand, told


@inlined
def _points_test(
    predicates: PredicateColumns, lanes: LaneColumns, number: int, polarity: int
) -> tuple[int, np.uint64, int]:
    """The test of =, IN or IS NULL; none if its points are in two dimensions."""
    record = predicates.record[number]
    base = int(record["attribute"]) << FACET_BITS
    size = point_count(predicates, number)
    true, hashed = _ZERO, _ZERO
    facet, lane, code, most, some = -1, 0, OTHER, 1, _ZERO
    for at in range(size):
        key, mark = point_of(predicates, number, at)
        mine = point_facet(record["flags"], mark)
        if facet >= 0 and mine != facet:
            return ALWAYS_LANE, _ALL_BITS, NO_TEST
        facet = mine
        lane = int(lanes.lane_of[base | facet])
        if lane == 0 or lane >= lanes.first[UNTESTED]:
            return ALWAYS_LANE, _ALL_BITS, NO_TEST
        code = point_code(lanes.point, lane, key, mark)
        true |= _ONE << np.uint64(code & 63)
        hashed |= hash_bit(code)
        most = points_of_set(lanes, lane)
        if size <= most:
            some = set_of_codes(some, code, at, most)
    if lane < lanes.first[WIDE]:
        return lane, _narrow_operand(lanes, lane, true, polarity), EXACT
    if size == 1 and polarity <= _NOT_TRUE:
        return lane, wide_operand(code, code, polarity), EXACT
    if size <= most and polarity <= _NOT_TRUE:
        return lane, _turned(some, polarity), EXACT
    if polarity == _IS_TRUE:
        beside = HASHED if facet == _POINT else HASHED + 1
        return _tested(lanes, base | beside, hashed, NECESSARY)
    return ALWAYS_LANE, _ALL_BITS, NO_TEST


@inlined
def _cells_test(
    lookup: Lookup, base: int, number: int, polarity: int
) -> tuple[int, np.uint64, int]:
    """The test of a range."""
    lanes, covers = lookup.lanes, lookup.covers
    position = lookup.position[number]
    start, stop = covers.run_start[position], covers.run_start[position + 1]
    if start == stop:
        return ALWAYS_LANE, _ALL_BITS, NO_TEST
    lane = int(lanes.lane_of[base | int(covers.facet[start])])
    if lane == 0 or lane >= lanes.first[UNTESTED]:
        return ALWAYS_LANE, _ALL_BITS, NO_TEST
    if lane >= lanes.first[WIDE]:
        first, last = covers.first[start], covers.last[start]
        if stop - start > 1 or polarity > _NOT_TRUE or last < first:
            return ALWAYS_LANE, _ALL_BITS, NO_TEST
        return lane, wide_operand(first, last, polarity), EXACT
    if covers.last[start] < covers.first[start] and is_whole(lanes, base >> FACET_BITS):
        return ALWAYS_LANE, _ALL_BITS, NO_TEST  # it lies between two integers
    true = _ZERO
    for run in range(start, stop):
        for cell in range(covers.first[run], covers.last[run] + 1):
            true |= _ONE << np.uint64(cell)
    return lane, _narrow_operand(lanes, lane, true, polarity), EXACT
