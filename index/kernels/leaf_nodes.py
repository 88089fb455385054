"""Leaf nodes of PSTBloom: which rows ask for which spaces beside their access predicate's.

A row asks for a dimension if wherever it holds, some value of the event lies in one of certain
spaces of that dimension: the spaces of a leaf that must hold. Its number is then entered in the
Bloom filters of these spaces (section 5.1). Only leaves that all must hold ask, those of a
conjunction at the root; of two leaves of one dimension the first does. A leaf whose spaces lie in
several dimensions does not ask, nor do leaves beyond ROW_KEYS_MAX spaces of a row; they are only
verified.

    node    part | first run, stop | first word of the filter, words | slot, rows in the filter
    slot    a dimension that any row asks for, numbered from 1; 0 for none
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.bloom import may_contain, row_bits, row_hash, row_word
from index.kernels.cover import (
    BY_POINTS,
    ROW_KEYS_MAX,
    UNFILED,
    Elements,
    LeafCosts,
    filing_of_leaf,
)
from index.kernels.event_parts import EventSpaces
from index.kernels.filing import Parts, enter_dimension, leaf_parts
from index.predicates import PredicateColumns
from index.program import GATE_WORDS, POLARITY_BITS, Programs
from index.spaces import Covers

NODE_FIELDS = 4
PART, RUNS, FILTER, SIGNED = range(NODE_FIELDS)
"""Fields of a node: half a cache line. All but the part are two halves of 32 bits."""

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)


class LeafColumns(NamedTuple):
    """Leaf nodes with their rows and filters."""

    divisions: EventSpaces
    nodes: NDArray[np.uint64]  # [slots, NODE_FIELDS] linear probing, at most four fifths full
    run_start: NDArray[np.int32]  # [r+1] rows of run k are run_row[run_start[k]:run_start[k+1]]
    run_slot: NDArray[np.int32]  # [r] what its rows ask for first, ascending at each node
    run_row: NDArray[np.int32]  # ascending in each run
    words: NDArray[np.uint64]  # of all filters, see index.kernels.bloom
    first_row: NDArray[np.int32]  # [1]
    asked_start: NDArray[np.int32]  # [n+1] by row, from first_row[0] on
    asked_slot: NDArray[np.int32]  # slots that each row asks for
    dimension_of: NDArray[np.int32]  # [slots+1] the dimension of a slot
    residue: NDArray[np.int32]  # rows without access predicate, tried on every event


class Asked(NamedTuple):
    """What each of n rows asks for, with the least expected leaf first."""

    start: NDArray[np.int64]  # [n+1]
    slot: NDArray[np.int32]  # [m]
    leaf: NDArray[np.int32]  # [m] code of the leaf that asks
    cost: NDArray[np.float64]  # [m] share of events in which it holds


class Numbering(NamedTuple):
    """The spaces that rows are filed under or ask for, numbered as they are met."""

    table: NDArray[np.uint64]  # [slots, 2] part | number
    part: NDArray[np.uint64]
    slot: NDArray[np.int32]  # of its dimension, 0 if no row asks for it
    asked_count: NDArray[np.int64]  # rows that ask for the space
    used: NDArray[np.int64]  # [1] how many there are


@leaf
def list_asked(
    compiled: tuple[Programs, PredicateColumns],
    filed: tuple[LeafCosts, Covers, Elements],
    rows: NDArray[np.int32],
    asked: Asked,
    slot_of: NDArray[np.int32],
    parts: Parts,
) -> int:
    """Fill `asked` and `slot_of`, a dimension's slot; returns the number of slots.

    On entry `slot_of` is zero, and `asked` has room for all leaves of `rows`.
    """
    programs, elements = compiled[0], filed[2]
    slots = element = total = 0
    for place in range(rows.size):
        row = rows[place]
        asked.start[place] = total
        while element < elements.row.size and elements.row[element] < row:
            element += 1
        access = -1
        if element < elements.row.size and elements.row[element] == row:
            access = int(elements.leaf[element, 0])
        at, stop = programs.start[row], programs.start[row + 1]
        if at < stop and programs.code[at] < 0:
            at = at + GATE_WORDS if programs.code[at + 1] == 0 else stop
        spaces = 0
        while at < stop:
            code = int(programs.code[at])
            if code < 0:
                at += programs.code[at + 2]
                continue
            at += 1
            if code == access:
                continue
            dimension, count = _dimension_of(compiled[1], filed, code, parts)
            if dimension < 0 or spaces + count > ROW_KEYS_MAX:
                continue
            spaces += count
            if slot_of[dimension] == 0:
                slots += 1
                slot_of[dimension] = slots
            cost = _cost_of(compiled[1], filed[0], code)
            total = _insert(asked, place, total, int(slot_of[dimension]), code, cost)
    asked.start[rows.size] = total
    return slots


@inlined
def _dimension_of(
    predicates: PredicateColumns,
    filed: tuple[LeafCosts, Covers, Elements],
    code: int,
    parts: Parts,
) -> tuple[int, int]:
    """The dimension of a leaf's spaces and their number; dimension -1 if not all lie in one."""
    if filing_of_leaf(predicates, code) == UNFILED:
        return -1, 0
    count = leaf_parts(predicates, filed[0], filed[1], code, False, parts)
    for at in range(count):
        if parts.dimension[at] != parts.dimension[0]:
            return -1, 0
    return (int(parts.dimension[0]), count) if count else (-1, 0)


@inlined
def _cost_of(predicates: PredicateColumns, costs: LeafCosts, code: int) -> float:
    number = code >> POLARITY_BITS
    if filing_of_leaf(predicates, code) >= BY_POINTS:
        return float(costs.cost[costs.position[number]])
    return float(costs.presence[predicates.record[number]["attribute"]])


@inlined
def _insert(asked: Asked, place: int, total: int, slot: int, code: int, cost: float) -> int:
    """Enter what a row asks for among the rest, unless it asks for the dimension already."""
    for at in range(asked.start[place], total):
        if asked.slot[at] == slot:
            return total
    at = total
    while at > asked.start[place] and asked.cost[at - 1] > cost:
        asked.slot[at], asked.leaf[at] = asked.slot[at - 1], asked.leaf[at - 1]
        asked.cost[at] = asked.cost[at - 1]
        at -= 1
    asked.slot[at], asked.leaf[at], asked.cost[at] = slot, code, cost
    return total + 1


@leaf
def list_filings(
    predicates: PredicateColumns,
    filed: tuple[LeafCosts, Covers, Elements],
    numbering: Numbering,
    listed: tuple[NDArray[np.int64], NDArray[np.int32]],
    facets: NDArray[np.uint8],
    parts: Parts,
) -> None:
    """Fill `listed` with (number of the space, row) of all that elements of one leaf file, and
    enter the dimensions of these spaces in `facets`, see `enter_dimension`.
    """
    costs, covers, elements = filed
    total = 0
    for at in range(elements.row.size):
        coarse = elements.coarse[at]
        count = leaf_parts(predicates, costs, covers, elements.leaf[at, 0], coarse, parts)
        for one in range(count):
            listed[0][total] = _number(numbering, parts.part[one])
            listed[1][total] = elements.row[at]
            total += 1
            enter_dimension(facets, parts.dimension[one])


@leaf
def count_asked(
    predicates: PredicateColumns,
    filed: tuple[LeafCosts, Covers, Elements],
    asked: Asked,
    numbering: Numbering,
    parts: Parts,
) -> None:
    """Count how many rows ask for each space."""
    for at in range(asked.start[-1]):
        count = leaf_parts(predicates, filed[0], filed[1], asked.leaf[at], False, parts)
        for one in range(count):
            number = _number(numbering, parts.part[one])
            numbering.slot[number] = asked.slot[at]
            numbering.asked_count[number] += 1


@leaf
def enter_asked(
    predicates: PredicateColumns,
    filed: tuple[LeafCosts, Covers, Elements],
    asked_by: tuple[NDArray[np.int32], Asked],
    numbering: Numbering,
    filters: tuple[NDArray[np.int64], NDArray[np.uint64]],
    parts: Parts,
) -> None:
    """Enter each row in the filters of the spaces it asks for.

    filters   where the filter of each space begins, and the words of all
    """
    rows, asked = asked_by
    start, words = filters
    for place in range(rows.size):
        value = row_hash(rows[place])
        bits = row_bits(value)
        for at in range(asked.start[place], asked.start[place + 1]):
            count = leaf_parts(predicates, filed[0], filed[1], asked.leaf[at], False, parts)
            for one in range(count):
                number = _number(numbering, parts.part[one])
                size = start[number + 1] - start[number]
                words[row_word(start[number], size, value)] |= bits


@inlined
def _number(numbering: Numbering, part: np.uint64) -> int:
    """The number of a space, a new one if it was not met before."""
    table = numbering.table
    mask = np.int64(table.shape[0] - 1)
    place = np.int64(part >> _HALF) & mask
    while table[place, 0] != _ZERO:
        if table[place, 0] == part:
            return int(np.int64(table[place, 1]))
        place = (place + 1) & mask
    number = numbering.used[0]
    numbering.used[0] = number + 1
    table[place, 0], table[place, 1] = part, np.uint64(number)
    numbering.part[number] = part
    return int(number)


@leaf
def fill_nodes(nodes: NDArray[np.uint64], listed: NDArray[np.uint64]) -> None:
    """File nodes by their parts in a table with free slots; on entry it is empty."""
    mask = np.int64(nodes.shape[0] - 1)
    for at in range(listed.shape[0]):
        place = node_place(nodes, listed[at, PART])
        while nodes[place, PART] != _ZERO:
            place = int((place + 1) & mask)
        for field in range(NODE_FIELDS):
            nodes[place, field] = listed[at, field]


@inlined
def node_place(nodes: NDArray[np.uint64], part: np.uint64) -> int:
    """Where the search for a space's node begins."""
    return int(np.int64(part >> _HALF) & np.int64(nodes.shape[0] - 1))


@inlined
def find_node(nodes: NDArray[np.uint64], part: np.uint64) -> int:
    """The place of a space's node, or -1."""
    mask = np.int64(nodes.shape[0] - 1)
    place = node_place(nodes, part)
    while nodes[place, PART] != _ZERO:
        if nodes[place, PART] == part:
            return int(place)
        place = int((place + 1) & mask)
    return -1


@leaf
def first_lost_node(nodes: NDArray[np.uint64]) -> int:
    """The first place whose node is not found by searching, or -1."""
    for place in range(nodes.shape[0]):
        part = nodes[place, PART]
        if part != _ZERO and find_node(nodes, part) != place:
            return place
    return -1


@leaf
def first_unsigned_row(columns: LeafColumns) -> int:
    """The first row that asks for a dimension and is in no filter of it, or -1."""
    for place in range(columns.asked_start.size - 1):
        row = place + columns.first_row[0]
        for at in range(columns.asked_start[place], columns.asked_start[place + 1]):
            if not _is_in_any(columns, columns.asked_slot[at], row_hash(row)):
                return int(row)
    return -1


@inlined
def _is_in_any(columns: LeafColumns, slot: int, value: np.uint64) -> bool:
    for place in range(columns.nodes.shape[0]):
        word = columns.nodes[place, FILTER]
        first, size = int(np.int64(word >> _HALF)), int(np.int64(word & _LOW))
        if np.int64(columns.nodes[place, SIGNED] >> _HALF) == slot and size > 0:
            if may_contain(columns.words, first, size, value):
                return True
    return False
