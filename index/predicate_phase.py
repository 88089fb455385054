"""Predicate phase: which of the distinct predicates of a segment does an event satisfy?

Paper    Fabret et al., SIGMOD 2001, section 3.1: algorithms of two phases test each distinct
         predicate once, and then look at subscriptions through the bits of their predicates.
Idea     a leaf (a predicate, or the FALSE of one) is filed under its predicate spaces, as PSTHash
         files rows. The spaces of an event's values lead to the leaves it may satisfy; leaves of
         other values of an attribute are never looked at. Most need no test: a cell lies within a
         range or does not, and `!=` and NOT IN hold but at their own points.
Layout   leaf      int32[l]   codes of distinct leaves, ascending; a leaf's place is its number here
         keys      space -> slots, place and mark: see index.kernels.phase_filing and event_parts
Worked   a = 1, a < 3, a != 4, b = 2 of the event a = 1: the space a = 1 leads to the first leaf,
         which is tested; the cell below 3 to the second, which holds; the presence of a to the
         third, which holds because the point 4 was not met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, leaf_costs
from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.cover import SINGLE_KEYS_MAX, UNFILED, filing_of_leaf
from index.kernels.event_parts import KeyColumns, Memory, event_parts, new_memory
from index.kernels.filing import Dimensions, new_parts
from index.kernels.keys import find_bucket, has_bit
from index.kernels.phase_filing import EXCEPT, MARK_BITS, TEST, list_slots
from index.kernels.prefetch import prefetch
from index.kernels.probe import Compiled
from index.kernels.verify import YES, leaf_holds
from index.key_filing import (
    file_keys,
    keys_from_arrays,
    keys_to_arrays,
    new_filter,
    unsigned,
)
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS, Facet, divide

_AHEAD = 8
"""Slots from one asked for to the one looked at."""

_FACET_MASK = (1 << FACET_BITS) - 1
_MARK_MASK = (1 << MARK_BITS) - 1
_EXISTS = int(Facet.EXISTS)
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
            code = programs.code[at]
            if (
                code < 0
                or predicates.record[code >> POLARITY_BITS]["kind"] >= _FIRST_OPAQUE
                or filing_of_leaf(predicates, code) == UNFILED
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
    predicates = compiled.predicates
    used = np.unique(leaves >> POLARITY_BITS).astype(np.int64)
    spaces, covers = divide(predicates, used, attribute_count)
    costs = leaf_costs(predicates, used, spaces, covers, attribute_count, Shares.unknown())
    slot_count = int(np.minimum(costs.key_count, SINGLE_KEYS_MAX).sum())
    dimensions = Dimensions(
        np.zeros(attribute_count, np.uint8),
        np.zeros(attribute_count, np.uint8),
        np.zeros(attribute_count, np.uint8),
        new_filter(0),
        new_filter(slot_count + attribute_count),
    )
    filed = predicates, (spaces, costs, covers), leaves, new_parts(SINGLE_KEYS_MAX + 1), dimensions
    count = list_slots(*filed, (np.empty(0, np.uint64), np.empty(0, np.int32)))
    listed = np.empty(count, np.uint64), np.empty(count, np.int32)
    if count:
        list_slots(*filed, listed)
    nothing = np.zeros(0, np.int32)
    keys = file_keys(listed, spaces, dimensions, nothing, unsigned(attribute_count))
    return PhaseColumns(leaves, keys)


def phase_to_arrays(phase: PhaseColumns) -> dict[str, NDArray[Any]]:
    """All columns under the prefix `phase_`, for a snapshot."""
    return {"phase_leaf": phase.leaf, **keys_to_arrays(phase.keys, "phase_")}


def phase_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> PhaseColumns:
    """The columns that `phase_to_arrays` wrote."""
    return PhaseColumns(arrays["phase_leaf"], keys_from_arrays(arrays, "phase_"))


def phase_memory(phase: PhaseColumns, batch: EventBatch, attribute_count: int) -> Memory:
    """Working memory for `satisfied`; `Memory.candidate` receives its answer."""
    return new_memory(batch, attribute_count, phase.leaf.size, np.zeros(1, np.uint64))


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
    count = 0
    part_count = event_parts(phase.keys, batch, event, memory)
    # What holds unless a point is met has to come after all points.
    for whole in range(2):
        for at in range(part_count):
            if (memory.dimension[at] & _FACET_MASK <= _EXISTS) == whole:
                count = _collect(phase, predicates, batch, memory, (at, event + 1), count)
    return count


@leaf
def _collect(
    phase: PhaseColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    memory: Memory,
    place: tuple[int, int],
    count: int,
) -> int:
    """Append the leaves of the event's part place[0] that hold, each once; returns their number."""
    keys, (at, stamp) = phase.keys, place
    dimension, part = memory.dimension[at], memory.part[at]
    if not keys.dimensions.single[dimension >> FACET_BITS] >> (dimension & _FACET_MASK) & 1:
        return count
    if not has_bit(keys.key_filter, part):
        return count
    start, stop = find_bucket(keys.table, part)
    for slot in range(start, stop):
        if slot + _AHEAD < stop:
            prefetch(memory.stamp, keys.bucket_row[slot + _AHEAD] >> MARK_BITS)
        found, mark = keys.bucket_row[slot] >> MARK_BITS, keys.bucket_row[slot] & _MARK_MASK
        if memory.stamp[found] == stamp:
            continue
        if mark == TEST or mark == EXCEPT:
            holds = leaf_holds(predicates, phase.leaf[found], batch, memory.scratch) == YES
            if mark == EXCEPT:
                # Another value with the hash of the point: not the point itself.
                memory.stamp[found] = 0 if holds else stamp
                continue
            memory.stamp[found] = stamp
            if not holds:
                continue
        memory.stamp[found] = stamp
        memory.candidate[count] = found
        count += 1
    return count
