"""The parts of leaves, and the keys of elements, which are made of parts.

An element of several leaves has a key for each combination of their parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cover import (
    BY_EXISTENCE,
    BY_POINTS,
    Elements,
    filing_of_leaf,
)
from index.kernels.filing import point_count, point_facet, point_of
from index.kernels.keys import set_bit
from index.kernels.lanes import LaneColumns, Lookup, is_whole, point_code
from index.kernels.probe import Compiled
from index.kernels.schema_choice import LeafTable
from index.kernels.schemas import key_of_one, key_of_three, key_of_two
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.spaces import FACET_BITS, Covers, Facet
from index.threshold import Polarity

_IS_NULL, _EQUAL = int(PredicateKind.IS_NULL), int(PredicateKind.EQUAL)
_NUMBER_CELL = int(Facet.NUMBER_CELL)
_IN, _RANGE = int(PredicateKind.IN), int(PredicateKind.RANGE)
_POLARITY_MASK, _IS_TRUE = (1 << POLARITY_BITS) - 1, int(Polarity.IS_TRUE)
_EXISTS, _PRESENT = int(Facet.EXISTS), int(Facet.PRESENT)


@leaf
def element_parts(
    compiled: Compiled, lookup: Lookup, leaf: int, coarse: bool, parts: NDArray[np.int64]
) -> tuple[int, int]:
    """Fill `parts` with the parts that a leaf of an element is filed under: lane and number."""
    filing = filing_of_leaf(compiled.predicates, leaf)
    if not coarse and has_parts(compiled.predicates, lookup, leaf):
        lane, count = leaf_lane_parts(compiled.predicates, lookup, leaf, parts)
        if lane:
            return lane, count
    base = int(compiled.predicates.record[leaf >> POLARITY_BITS]["attribute"]) << FACET_BITS
    lane = int(lookup.lanes.lane_of[base | (_EXISTS if filing == BY_EXISTENCE else _PRESENT)])
    parts[0] = lookup.lanes.part_start[lane]
    return lane, 1


@inlined
def has_parts(predicates: PredicateColumns, lookup: Lookup, leaf: int) -> bool:
    """Is a leaf filed under parts of its own, and not by presence, or not at all?"""
    is_text = lookup.text[lookup.position[leaf >> POLARITY_BITS]] >= 0
    if leaf & _POLARITY_MASK == _IS_TRUE and is_text:
        return True
    return bool(filing_of_leaf(predicates, leaf) >= BY_POINTS)


@leaf
def list_predicate_parts(
    compiled: Compiled,
    lookup: Lookup,
    used: NDArray[np.int64],
    parts: NDArray[np.int64],
    lane: NDArray[np.int32],
    part_count: NDArray[np.int32],
) -> None:
    """Fill in lane and number of the parts of predicates, 0 and 1 where presence stands for them.

    A predicate that can never hold has a lane and no part.
    """
    for place in range(used.size):
        code = used[place] << POLARITY_BITS
        lane[place], part_count[place] = 0, 1
        if has_parts(compiled.predicates, lookup, code):
            found, count = leaf_lane_parts(compiled.predicates, lookup, code, parts)
            if found:
                lane[place], part_count[place] = found, count


@inlined
def _parts_of_leaves(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    at: int,
    parts: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> int:
    """The parts of an element's leaves, one row each; returns how many leaves there are.

    bounds   [3, 2] lane and number of each leaf's parts
    """
    width = 0
    for place in range(elements.leaf.shape[1]):
        code = elements.leaf[at, place]
        if code < 0:
            break
        lane, count = element_parts(compiled, lookup, code, elements.coarse[at], parts[width])
        bounds[width, 0], bounds[width, 1] = lane, count
        width += 1
    return width


@leaf
def list_filings(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    table: LeafTable,
    memory: tuple[NDArray[np.int64], NDArray[np.int64]],
    filed: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]],
) -> int:
    """Fill `filed` with key and row of each filing, and the lanes of each element.

    The lanes ascend by dimension, and are 0 behind the last. Filings beyond the room are counted
    only; returns how many there are.
    """
    parts, bounds = memory
    keys, rows, lanes = filed
    total = 0
    for at in range(elements.row.size):
        width = _parts_of_leaves(compiled, lookup, elements, at, parts, bounds)
        order = _order_of(table, bounds, width)
        for place in range(3):
            which = order >> 2 * place & 3
            lanes[3 * at + place] = bounds[which, 0] if place < width else 0
        first, second, third = order & 3, order >> 2 & 3, order >> 4 & 3
        for one in range(bounds[first, 1]):
            for other in range(bounds[second, 1] if width > 1 else 1):
                for last in range(bounds[third, 1] if width > 2 else 1):
                    if total < keys.size:
                        rows[total] = elements.row[at]
                        if width == 1:
                            keys[total] = key_of_one(parts[first, one])
                        elif width == 2:
                            keys[total] = key_of_two(parts[first, one], parts[second, other])
                        else:
                            keys[total] = key_of_three(
                                parts[first, one], parts[second, other], parts[third, last]
                            )
                    total += 1
    return total


@inlined
def _order_of(table: LeafTable, bounds: NDArray[np.int64], width: int) -> int:
    """The leaves of an element by ascending dimension, as two bits each."""
    first, second, third = 0, 1, 2
    if width > 1 and table.dimension[bounds[first, 0]] > table.dimension[bounds[second, 0]]:
        first, second = second, first
    if width > 2 and table.dimension[bounds[second, 0]] > table.dimension[bounds[third, 0]]:
        second, third = third, second
    if width > 2 and table.dimension[bounds[first, 0]] > table.dimension[bounds[second, 0]]:
        first, second = second, first
    return first | second << 2 | third << 4


@leaf
def mark_parts(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    table: LeafTable,
    memory: tuple[NDArray[np.int64], NDArray[np.int64]],
    part_used: NDArray[np.uint64],
    prefix_filter: NDArray[np.uint64],
) -> None:
    """Enter the parts that keys are made of, and the first two parts of keys of three."""
    parts, bounds = memory
    for at in range(elements.row.size):
        width = _parts_of_leaves(compiled, lookup, elements, at, parts, bounds)
        for place in range(width):
            for one in range(bounds[place, 1]):
                part = parts[place, one]
                part_used[part >> 6] |= np.uint64(1) << np.uint64(part & 63)
        if width < 3:
            continue
        order = _order_of(table, bounds, width)
        first, second = order & 3, order >> 2 & 3
        for one in range(bounds[first, 1]):
            for other in range(bounds[second, 1]):
                set_bit(prefix_filter, key_of_two(parts[first, one], parts[second, other]))


@leaf
def leaf_lane_parts(
    predicates: PredicateColumns, lookup: Lookup, leaf: int, parts: NDArray[np.int64]
) -> tuple[int, int]:
    """Fill `parts` with the parts of a leaf that IS_TRUE of points, cells or texts alone can have.

    Returns their lane and number; (0, 0) if they lie in several lanes, or are more than fit.
    """
    lanes, covers = lookup.lanes, lookup.covers
    number = leaf >> POLARITY_BITS
    record = predicates.record[number]
    kind = record["kind"]
    base = int(record["attribute"]) << FACET_BITS
    position = lookup.position[number]
    text = lookup.text[position]
    if text >= 0:
        lane = int(lookup.texts.key_lane[base >> FACET_BITS])
        parts[0] = lanes.part_start[lane] + text - lookup.texts.first[base >> FACET_BITS]
        return lane, 1
    if kind == _EQUAL or kind == _IN or kind == _IS_NULL:
        size = point_count(predicates, number)
        if size > parts.size:
            return 0, 0
        facet, lane = -1, 0
        for at in range(size):
            key, mark = point_of(predicates, number, at)
            mine = point_facet(record["flags"], mark)
            if facet >= 0 and mine != facet:
                return 0, 0
            facet = mine
            lane = int(lanes.lane_of[base | facet])
            parts[at] = lanes.part_start[lane] + point_code(lanes.point, lane, key, mark)
        return lane, size
    start, stop = covers.run_start[position], covers.run_start[position + 1]
    count, lane = 0, 0
    if covers.last[start] < covers.first[start] and is_whole(lanes, base >> FACET_BITS):
        return 0, 0  # it lies between two integers
    for run in range(start, stop):
        lane = int(lanes.lane_of[base | int(covers.facet[run])])
        first, last = coarse_run(lanes, lookup.covers, run, base)
        for cell in range(first, last + 1):
            part = lanes.part_start[lane] + cell
            if count == parts.size:
                return 0, 0
            parts[count] = part
            count += 1
    return lane, count


@inlined
def coarse_run(lanes: LaneColumns, covers: Covers, run: int, base: int) -> tuple[int, int]:
    """The coarser cells, first and last, of a run of cells."""
    if covers.last[run] < covers.first[run]:
        return 0, -1
    attribute = base >> FACET_BITS
    if covers.facet[run] == _NUMBER_CELL:
        start = lanes.spaces.number_cut_start[attribute] + attribute
        coarse = lanes.number_coarse
    else:
        start = lanes.spaces.string_cut_start[attribute] + attribute
        coarse = lanes.string_coarse
    return int(coarse[start + covers.first[run]]), int(coarse[start + covers.last[run]])


@inlined
def parts_are_exact(predicates: PredicateColumns, lookup: Lookup, number: int) -> bool:
    """Does a predicate hold wherever one of its parts is met? Not where these are coarser cells."""
    kind = predicates.record[number]["kind"]
    if kind <= _IN or lookup.text[lookup.position[number]] >= 0:
        return True
    attribute = int(predicates.record[number]["attribute"])
    spaces = lookup.lanes.spaces
    if kind == _RANGE:
        start, stop = spaces.number_cut_start[attribute], spaces.number_cut_start[attribute + 1]
        return bool(lookup.lanes.number_coarse[stop + attribute] == stop - start)
    start, stop = spaces.string_cut_start[attribute], spaces.string_cut_start[attribute + 1]
    return bool(lookup.lanes.string_coarse[stop + attribute] == stop - start)
