"""Filing for the predicate phase: under which spaces a leaf is found, and what finding it means.

A slot of a bucket is place << MARK_BITS | mark:

    TEST     the leaf may hold on a value of this space; it has to be tested
    HOLDS    it holds on every value of this space: a cell that lies within a range as a whole
    UNLESS   it holds on every event with the attribute, unless one of its EXCEPT slots is met
    EXCEPT   it does not hold on an event with a value of this space

    a IN [3, 8)      cells of a  3..5, 5..8   HOLDS      (cuts at 3, 5, 8)
    a != 7           presence of a            UNLESS     point 7    EXCEPT
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cover import BY_CELLS, LeafCosts, filing_of_leaf, is_coarse
from index.kernels.filing import Dimensions, Parts, enter_dimension, leaf_parts, point_parts
from index.kernels.keys import part_of, set_bit
from index.predicates import ALL, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.spaces import FACET_BITS, Covers, Facet, SpaceColumns
from index.threshold import Polarity

MARK_BITS = 2
TEST, HOLDS, UNLESS, EXCEPT = range(1 << MARK_BITS)

_PRESENT, _NUMBER_CELL = int(Facet.PRESENT), int(Facet.NUMBER_CELL)
_EQUAL, _IN = int(PredicateKind.EQUAL), int(PredicateKind.IN)
_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_FALSE = int(Polarity.IS_FALSE)


@leaf
def list_slots(
    predicates: PredicateColumns,
    filed: tuple[SpaceColumns, LeafCosts, Covers],
    leaves: NDArray[np.int32],
    parts: Parts,
    dimensions: Dimensions,
    listed: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> int:
    """Fill `listed` with (part, slot) of every space of the leaves, and `dimensions` with what they
    are made of; returns how many there are, and fills nothing if `listed` is empty.
    """
    spaces, costs, covers = filed
    keys, slots = listed
    total = 0
    for place in range(leaves.size):
        code = leaves[place]
        if _is_negated_set(predicates, costs, code):
            count = point_parts(predicates, code >> POLARITY_BITS, parts)
            attribute = int(predicates.record[code >> POLARITY_BITS]["attribute"])
            parts.dimension[count] = attribute << FACET_BITS | _PRESENT
            parts.part[count] = part_of(parts.dimension[count], np.uint64(0))
            count += 1
        else:
            count = leaf_parts(predicates, costs, covers, code, False, parts)
        if keys.size == 0:
            total += count
            continue
        for at in range(count):
            keys[total] = parts.part[at]
            mark = TEST
            if _is_negated_set(predicates, costs, code):
                mark = UNLESS if at == count - 1 else EXCEPT
            elif _lies_within(predicates, spaces, (costs, covers), code, at):
                mark = HOLDS
            slots[total] = place << MARK_BITS | mark
            total += 1
            set_bit(dimensions.part_filter, parts.part[at])
            enter_dimension(dimensions.single, parts.dimension[at])
    return total


@inlined
def _is_negated_set(predicates: PredicateColumns, costs: LeafCosts, code: int) -> bool:
    """Is the leaf FALSE of every value but those of a set small enough to be listed?"""
    record = predicates.record[code >> POLARITY_BITS]
    is_set = record["kind"] == _EQUAL or record["kind"] == _IN
    is_negated = code & _POLARITY_MASK == _IS_FALSE and record["flags"] & ALL == 0
    return bool(is_set and is_negated and not is_coarse(predicates, costs, code))


@inlined
def _lies_within(
    predicates: PredicateColumns,
    spaces: SpaceColumns,
    filed: tuple[LeafCosts, Covers],
    code: int,
    at: int,
) -> bool:
    """Does the at-th space of a leaf lie within it as a whole? Told of cells of numbers only."""
    costs, covers = filed
    if filing_of_leaf(predicates, code) != BY_CELLS or is_coarse(predicates, costs, code):
        return False
    number = code >> POLARITY_BITS
    run = covers.run_start[costs.position[number]]
    if covers.facet[run] != _NUMBER_CELL:
        return False
    record = predicates.record[number]
    first_cut = spaces.number_cut_start[record["attribute"]]
    stop_cut = spaces.number_cut_start[record["attribute"] + 1]
    cell = covers.first[run] + at
    within = True
    if cell == covers.first[run] and record["low"] != -np.inf:
        cut = first_cut + cell - 1
        within = (
            spaces.number_cut_double[cut] == record["low"]
            and spaces.number_cut_residual[cut] == record["low_residual"]
            if cut >= first_cut
            else False
        )
    if within and cell == covers.last[run] and record["high"] != np.inf:
        cut = first_cut + cell
        # A closed range ends before its end's successor.
        within = (
            spaces.number_cut_double[cut] == record["high"]
            and spaces.number_cut_residual[cut] == record["high_residual"] + 1
            if cut < stop_cut
            else False
        )
    return bool(within)
