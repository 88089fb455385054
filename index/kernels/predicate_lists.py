"""Predicate lists: the second level of OpIndex, where the predicates under a pivot are searched.

    pivot -> operator -> list -> list_segments, by attribute -> entries, by (attribute, operand)

An entry leads to an ask: one predicate that one clause or disjunction asks for. `satisfied` finds
entries of those that hold on an event, and the algorithms count them, each in its way. They do so
by entry, because the entries of a value follow each other, and so does what is known of them.

Up to AT_LEAST what a lookup finds holds, for entries are exact. Of a range of two ends only the
lower is sorted; the upper is beside it, and is all that is left to test if the attribute has a
single value. An array may satisfy the two ends by different values, so there, and in the last two
lists, the predicate is tested.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.lookups import (
    AT_LEAST,
    AT_MOST,
    BETWEEN,
    FIRST_MARK,
    LAST_MARK,
    Lookups,
    bit_of,
    look_up,
)
from index.kernels.prefetch import prefetch
from index.kernels.tries import Tries
from index.kernels.verify import NO, YES, Scratch, enter_event, leaf_holds, leave_event
from index.predicates import PredicateColumns
from index.program import POLARITY_BITS

COUNTS = 4
SEARCHED, SKIPPED, CANDIDATES, HITS = range(COUNTS)
"""Places in `Search.counts`."""

_AHEAD = 8
"""The predicate of the entry after so many is on its way while one is tested."""

_ONE, _NONE = np.uint64(1), np.uint64(0)


class ListColumns(NamedTuple):
    """l lists of b list_segments of p entries, for a asks; d attributes."""

    lists: NDArray[np.int32]  # [d+1] attribute -> its lists as a pivot, at most one an operator
    operator: NDArray[np.uint8]  # [l] see index.kernels.lookups
    directory: NDArray[np.int64]  # [l+1] list -> its list_segments, a power of two of them
    signature: NDArray[np.uint64]  # [b]
    first: NDArray[np.int64]  # [b+1] first entry of a list_segment
    attribute: NDArray[np.int32]  # [p] entries of a list_segment ascend by these three
    number: NDArray[np.float64]  # [p] operand, lower end, or node of a trie
    mark: NDArray[np.int16]  # [p] as in `index.predicates`, or the residual of an end
    ask: NDArray[np.int32]  # [p]
    leaf: NDArray[np.int32]  # [p] code
    upper: NDArray[np.int64]  # [l] of BETWEEN: entry p ends at high[upper + p]
    high: NDArray[np.float64]
    high_mark: NDArray[np.int16]
    tries: Tries


class Search(NamedTuple):
    """Working memory of one call; stamps are 1 + the number of an event."""

    scratch: Scratch
    lookups: Lookups
    stamp: NDArray[np.int32]  # [a] the ask was found: several values may lead to it
    found: NDArray[np.int32]  # entries whose asks hold, or ~entry where only Python can tell
    counts: NDArray[np.int64]  # list_segments searched and skipped, candidates, hits


@leaf
def sign(lists: ListColumns, signature: NDArray[np.uint64]) -> None:
    """Set the bits of all entries in `signature`, all zero on entry."""
    for number in range(lists.operator.size):
        operator = int(lists.operator[number])
        for at in range(lists.directory[number], lists.directory[number + 1]):
            for entry in range(lists.first[at], lists.first[at + 1]):
                key, mark = lists.number[entry], int(lists.mark[entry])
                bit = bit_of(operator, int(lists.attribute[entry]), key, mark)
                signature[at] |= _ONE << bit


@leaf
def satisfied(
    lists: ListColumns, predicates: PredicateColumns, batch: EventBatch, search: Search, event: int
) -> int:
    """Fill search.found with an entry of each ask that holds on an event, or may; returns how many.

    An ask that lies under several pivots may be found under each.
    """
    enter_event(batch, event, search.scratch.entry_of)
    look_up(lists.tries, predicates.needle, batch, event, search.lookups)
    count = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        pivot = batch.entry_attribute[entry]
        if pivot >= lists.lists.size - 1:
            continue
        for number in range(lists.lists[pivot], lists.lists[pivot + 1]):
            count = _search_list(lists, predicates, batch, search, (event, number), count)
    leave_event(batch, event, search.scratch.entry_of)
    return count


@inlined
def _search_list(
    lists: ListColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    search: Search,
    at: tuple[int, int],
    count: int,
) -> int:
    """Append what holds on event at[0] in list at[1]; returns the number found so far."""
    event, number = at
    lookups, counts = search.lookups, search.counts
    operator = int(lists.operator[number])
    first = lists.directory[number]
    mask = lists.directory[number + 1] - first - 1
    for place in range(lookups.size[operator]):
        attribute = int(lookups.attribute[operator, place])
        list_segment = first + (attribute & mask)
        if lists.signature[list_segment] >> lookups.bit[operator, place] & _ONE == _NONE:
            counts[SKIPPED] += 1
            continue
        counts[SEARCHED] += 1
        single = lookups.single[operator, place]
        key, mark = lookups.number[operator, place], int(lookups.mark[operator, place])
        low, high = (-np.inf, FIRST_MARK), (np.inf, LAST_MARK)
        if operator <= AT_MOST:
            low = key, mark
        if operator <= BETWEEN and operator != AT_MOST:
            high = key, mark + 1
        start, stop = lists.first[list_segment], lists.first[list_segment + 1]
        start = _first_entry(lists, start, stop, attribute, low)
        stop = _first_entry(lists, start, stop, attribute, high)
        if operator <= AT_LEAST:
            count = _append(lists, search, (start, stop), event + 1, single, count)
            continue
        upper = lists.upper[number]
        for entry in range(start, stop):
            if operator == BETWEEN and single:
                end = lists.high[upper + entry]
                if end < key or (end == key and lists.high_mark[upper + entry] < mark):
                    continue
                verdict = YES
            else:
                if entry + _AHEAD < stop:
                    prefetch(predicates.record, lists.leaf[entry + _AHEAD] >> POLARITY_BITS)
                verdict = leaf_holds(predicates, lists.leaf[entry], batch, search.scratch)
            if verdict != NO:
                search.found[count] = entry if verdict == YES else ~entry
                count += 1
    return count


@inlined
def _append(
    lists: ListColumns,
    search: Search,
    bounds: tuple[int, int],
    stamp: int,
    single: bool,
    count: int,
) -> int:
    """Append entries; unless their lookup is the only one, only those of asks not found yet."""
    for entry in range(bounds[0], bounds[1]):
        if not single:
            ask = lists.ask[entry]
            if search.stamp[ask] == stamp:
                continue
            search.stamp[ask] = stamp
        search.found[count] = entry
        count += 1
    return count


@inlined
def _first_entry(
    lists: ListColumns, start: int, stop: int, attribute: int, low: tuple[float, int]
) -> int:
    """The first entry of start..stop from (attribute, *low) on."""
    while start < stop:
        middle = (start + stop) >> 1
        before = lists.attribute[middle] < attribute
        if lists.attribute[middle] == attribute:
            number = lists.number[middle]
            before = number < low[0] or (number == low[0] and lists.mark[middle] < low[1])
        if before:
            start = middle + 1
        else:
            stop = middle
    return start


@inlined
def entry_found(search: Search, at: int) -> int:
    """The entry of search.found[at], certain or not."""
    found = search.found[at]
    return int(found if found >= 0 else ~found)
