"""Predicate phase: which of the distinct predicates of a segment does an event satisfy?

Paper    Fabret et al., SIGMOD 2001, section 3.1: algorithms of two phases test each distinct
         predicate once, and then look at subscriptions through the bits of their predicates.
Idea     a leaf (a predicate, or the FALSE of one) is filed under its predicate spaces, as PSTHash
         files rows. The spaces of an event's values lead to the leaves it may satisfy, and each of
         these is tested once; leaves of other values of an attribute are never looked at.
Layout   leaf      int32[l]   codes of distinct leaves, ascending; a leaf's place is its number here
         keys      space -> places of leaves, see index.kernels.event_parts
Worked   a = 1, a < 3, b = 2 of the event a = 1: the space a = 1 leads to the first, the cell below
         3 to the second; both are tested and hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Access, Shares, leaf_costs
from index.columns import EventBatch
from index.kernels import inlined
from index.kernels.cover import UNFILED, Elements, filing_of_leaf
from index.kernels.event_parts import COUNTS, KeyColumns, Memory, event_parts
from index.kernels.keys import find_bucket, has_bit
from index.kernels.probe import Compiled
from index.kernels.verify import YES, leaf_holds, new_scratch
from index.key_filing import file_elements, keys_from_arrays, keys_to_arrays, unsigned
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS, divide

_FACET_MASK = (1 << FACET_BITS) - 1
_FIRST_OPAQUE = int(PredicateKind.OPAQUE_TEXT)


class PhaseColumns(NamedTuple):
    """The distinct leaves of a segment and the way to them."""

    leaf: NDArray[np.int32]  # [l] codes, ascending
    keys: KeyColumns


@njit(cache=True, nogil=True)
def plain_conjunctions(
    programs: Programs, predicates: PredicateColumns, rows: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Which rows are conjunctions of leaves that a kernel can test, none of which may hold of an
    absent attribute: what the papers' algorithms mean by a subscription.
    """
    plain = np.ones(rows.size, np.bool_)
    for place in range(rows.size):
        start, stop = programs.start[rows[place]], programs.start[rows[place] + 1]
        plain[place] = start < stop
        for at in range(start, stop):
            leaf = programs.code[at]
            if (
                leaf < 0
                or predicates.record[leaf >> POLARITY_BITS]["kind"] >= _FIRST_OPAQUE
                or filing_of_leaf(predicates, leaf) == UNFILED
            ):
                plain[place] = False
                break
    return plain


@njit(cache=True, nogil=True)
def leaves_of_rows(
    programs: Programs, rows: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(place, code) of every leaf of `rows`, plain conjunctions: rows[place] asks for it."""
    count = 0
    for row in rows:
        count += programs.start[row + 1] - programs.start[row]
    place, code = np.empty(count, np.int32), np.empty(count, np.int32)
    at = 0
    for number in range(rows.size):
        for word in range(programs.start[rows[number]], programs.start[rows[number] + 1]):
            place[at], code[at] = number, programs.code[word]
            at += 1
    return place, code


def build_phase(
    compiled: Compiled, leaves: NDArray[np.int32], attribute_count: int
) -> PhaseColumns:
    """The way to `leaves`, codes that ascend; of rows that are `plain_conjunctions`."""
    used = np.unique(leaves >> POLARITY_BITS).astype(np.int64)
    spaces, covers = divide(compiled.predicates, used, attribute_count)
    costs = leaf_costs(compiled.predicates, used, spaces, covers, attribute_count, Shares.unknown())
    elements = Elements(
        np.arange(leaves.size, dtype=np.int32),
        leaves,
        np.full(leaves.size, -1, np.int32),
        np.zeros(leaves.size, np.bool_),
    )
    access = Access(spaces, covers, costs, elements, np.zeros(0, np.int32))
    keys = file_elements(compiled, access, attribute_count, unsigned(attribute_count))
    return PhaseColumns(leaves, keys)


def phase_to_arrays(phase: PhaseColumns) -> dict[str, NDArray[Any]]:
    """All columns under the prefix `phase_`, for a snapshot."""
    return {"phase_leaf": phase.leaf, **keys_to_arrays(phase.keys, "phase_")}


def phase_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> PhaseColumns:
    """The columns that `phase_to_arrays` wrote."""
    return PhaseColumns(arrays["phase_leaf"], keys_from_arrays(arrays, "phase_"))


def phase_memory(phase: PhaseColumns, batch: EventBatch, attribute_count: int) -> Memory:
    """Working memory for `satisfied`; `Memory.candidate` receives its answer."""
    value_at = batch.value_start[batch.entry_start]
    part_count = int((2 * np.diff(batch.entry_start) + 3 * np.diff(value_at)).max(initial=0))
    return Memory(
        new_scratch(attribute_count),
        np.empty(part_count, np.int64),
        np.empty(part_count, np.uint64),
        np.zeros(phase.leaf.size, np.int32),
        np.empty(phase.leaf.size, np.int32),
        np.zeros(1, np.uint64),
        np.zeros(1, np.int32),
        np.zeros(COUNTS, np.int64),
    )


@inlined
def satisfied(
    phase: PhaseColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    event: int,
    memory: Memory,
) -> int:
    """Fill memory.candidate with the places of the leaves that hold; returns their number.

    On entry the event has been entered into memory.scratch.
    """
    keys = phase.keys
    count = 0
    for at in range(event_parts(keys, batch, event, memory)):
        dimension, part = memory.dimension[at], memory.part[at]
        if not keys.dimensions.single[dimension >> FACET_BITS] >> (dimension & _FACET_MASK) & 1:
            continue
        if not has_bit(keys.key_filter, part):
            continue
        start, stop = find_bucket(keys.table, part)
        for slot in range(start, stop):
            place = keys.bucket_row[slot]
            if memory.stamp[place] != event + 1:
                memory.stamp[place] = event + 1
                if leaf_holds(predicates, phase.leaf[place], batch, memory.scratch) == YES:
                    memory.candidate[count] = place
                    count += 1
    return count
