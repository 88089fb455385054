"""Signatures: four words of a row that can prove, without looking further, that it does not match.

PSTBloom (section 5) hashes the rows of each space into a Bloom filter. Here it is the other way
round: each row says of up to three of its leaves in which spaces of one dimension a value must lie,
folded to 64 codes, and the event says in which its values do lie.

    row     mask 0 | mask 1 | mask 2 | slots of their dimensions, 16 bits each
    event   event_mask[slot]: the codes of its values; none if it lacks the attribute

A leaf without a common code does not hold. Only leaves that all must hold are signed: those of a
conjunction at the root, apart from the access predicates. Slot 0 has all codes, for rows with fewer
leaves to sign. The words of a row lie in one cache line, where its program and its predicates would
be four.
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
    UNFILED,
    Elements,
    LeafCosts,
    conjunction_start,
    filing_of_leaf,
    is_coarse,
)
from index.kernels.filing import Parts, element_leaf, leaf_parts
from index.predicates import PredicateColumns
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS, Covers, Facet, SpaceColumns

SIGNED_LEAVES = 3
SIGNATURE_WORDS = 4
SLOT_BITS = 16
SLOT_MAX = (1 << SLOT_BITS) - 1
CODES = 64

_NUMBER_CELL, _PRESENT = int(Facet.NUMBER_CELL), int(Facet.PRESENT)
_EXISTS = int(Facet.EXISTS)
_FACET_MASK = (1 << FACET_BITS) - 1
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_CODE_SHIFT = np.uint64(58)
_SLOT = np.uint64(SLOT_MAX)


class Signed(NamedTuple):
    """The signatures of rows first_row[0] and following, and the slots of dimensions."""

    signature: NDArray[np.uint64]  # [rows * SIGNATURE_WORDS]
    first_row: NDArray[np.int64]  # [1]
    slot_of: NDArray[np.uint16]  # [a << FACET_BITS] slot of a dimension, 0 for none
    facets: NDArray[np.uint8]  # [a] bits 1 << facet of the dimensions with a slot


@inlined
def point_code(part: np.uint64) -> np.uint64:
    """The code of a space that is a point."""
    return part >> _CODE_SHIFT


@inlined
def cell_code(spaces: SpaceColumns, dimension: int, cell: int) -> np.uint64:
    """The code of a cell: cells that follow each other share one if there are too many."""
    attribute = dimension >> FACET_BITS
    if dimension & _FACET_MASK == _NUMBER_CELL:
        cuts = spaces.number_cut_start[attribute + 1] - spaces.number_cut_start[attribute]
    else:
        cuts = spaces.string_cut_start[attribute + 1] - spaces.string_cut_start[attribute]
    return np.uint64(cell if cuts < CODES else cell * CODES // (cuts + 1))


@inlined
def may_match(signed: Signed, event_mask: NDArray[np.uint64], row: int) -> bool:
    """False only if some signed leaf of the row does not hold."""
    place = (row - signed.first_row[0]) * SIGNATURE_WORDS
    slots = signed.signature[place + SIGNED_LEAVES]
    for _ in range(SIGNED_LEAVES):
        if signed.signature[place] & event_mask[np.int64(slots & _SLOT)] == _ZERO:
            return False
        slots = slots >> np.uint64(SLOT_BITS)
        place += 1
    return True


@leaf
def sign_rows(
    compiled: tuple[Programs, PredicateColumns],
    filed: tuple[SpaceColumns, Covers, LeafCosts, Elements],
    rows: NDArray[np.int32],
    signed: Signed,
    parts: Parts,
    chosen: tuple[NDArray[np.int32], NDArray[np.float64]],
) -> int:
    """Fill `signed`, all zero on entry, for `rows`, which ascend; returns the slots in use.

    `chosen` has SIGNED_LEAVES elements for the leaves of the row at hand and their costs.
    """
    programs, predicates = compiled
    spaces, covers, costs, elements = filed
    leaves = chosen[0]
    slot_count = 1
    element = 0
    for row in rows:
        while element < elements.row.size and elements.row[element] < row:
            element += 1
        count = _choose_leaves(programs, predicates, costs, elements, element, row, chosen)
        place = (row - signed.first_row[0]) * SIGNATURE_WORDS
        slots = _ZERO
        for at in range(SIGNED_LEAVES):
            signed.signature[place + at] = _ALL
            if at >= count:
                continue
            dimension, mask = _mask_of(predicates, spaces, covers, costs, leaves[at], parts)
            if dimension < 0:
                continue
            slot = int(signed.slot_of[dimension])
            if slot == 0:
                if slot_count > SLOT_MAX:
                    continue
                slot = slot_count
                slot_count += 1
                signed.slot_of[dimension] = slot
                attribute, facet = dimension >> FACET_BITS, dimension & _FACET_MASK
                signed.facets[attribute] |= np.uint8(1 << facet)
            signed.signature[place + at] = mask
            slots |= np.uint64(slot) << np.uint64(at * SLOT_BITS)
        signed.signature[place + SIGNED_LEAVES] = slots
    return slot_count


@leaf
def _choose_leaves(
    programs: Programs,
    predicates: PredicateColumns,
    costs: LeafCosts,
    elements: Elements,
    element: int,
    row: int,
    chosen: tuple[NDArray[np.int32], NDArray[np.float64]],
) -> int:
    """The most selective leaves that all must hold, without those the row is filed under."""
    leaves, leaf_costs = chosen
    at, stop = conjunction_start(programs, row), programs.start[row + 1]
    if at < 0:
        return 0
    first = second = third = -1
    if element < elements.row.size and elements.row[element] == row:
        if not elements.coarse[element]:
            first = element_leaf(elements, element, 0)
            second = element_leaf(elements, element, 1)
            third = element_leaf(elements, element, 2)
    count = 0
    while at < stop and programs.code[at] >= 0:
        leaf_code = int(programs.code[at])
        at += 1
        filing = filing_of_leaf(predicates, leaf_code)
        if filing == UNFILED or leaf_code == first or leaf_code == second or leaf_code == third:
            continue
        cost = 1.0
        if filing >= BY_POINTS:
            cost = costs.cost[costs.position[leaf_code >> POLARITY_BITS]]
        place = min(count, SIGNED_LEAVES - 1)
        if count == SIGNED_LEAVES and cost >= leaf_costs[place]:
            continue
        count = min(count + 1, SIGNED_LEAVES)
        while place > 0 and leaf_costs[place - 1] > cost:
            leaves[place], leaf_costs[place] = leaves[place - 1], leaf_costs[place - 1]
            place -= 1
        leaves[place], leaf_costs[place] = leaf_code, cost
    return count


@leaf
def _mask_of(
    predicates: PredicateColumns,
    spaces: SpaceColumns,
    covers: Covers,
    costs: LeafCosts,
    leaf_code: int,
    parts: Parts,
) -> tuple[int, np.uint64]:
    """The dimension of a leaf's spaces and their codes; dimension -1 if they lie in several."""
    number = leaf_code >> POLARITY_BITS
    base = int(predicates.record[number]["attribute"]) << FACET_BITS
    filing = filing_of_leaf(predicates, leaf_code)
    if filing == BY_EXISTENCE:
        return base | _EXISTS, _ONE
    if filing == BY_PRESENCE or is_coarse(predicates, costs, leaf_code):
        return base | _PRESENT, _ONE
    mask = _ZERO
    if filing == BY_CELLS:
        dimension = -1
        position = costs.position[number]
        for run in range(covers.run_start[position], covers.run_start[position + 1]):
            dimension = base | int(covers.facet[run])
            for cell in range(covers.first[run], covers.last[run] + 1):
                mask |= _ONE << cell_code(spaces, dimension, cell)
        return dimension, mask
    count = leaf_parts(predicates, costs, covers, leaf_code, False, parts)
    for at in range(count):
        if parts.dimension[at] != parts.dimension[0]:
            return -1, mask
        mask |= _ONE << point_code(parts.part[at])
    return int(parts.dimension[0]), mask
