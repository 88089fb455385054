"""Profile lists: rows found attribute by attribute are counted, list after list.

A row that asks for k attributes matches when it has been found k times, once for each. Rows that
ask for one attribute are hits when they are found, and need no counter.

    places 0..alone: one attribute            a list    [0 2 7]    hits 0 and 2; raises 7 to 1 of 2
    other places: counter, stamp << 16 | count          [3 7]      raises 3 to 1, 7 to 2 of 2: a hit
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.ordered_domains import CANDIDATES, COUNTS, DOMAIN_KINDS, Asked
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Hits
from index.kernels.verify import YES

RUNS_MAX = 128
"""Lists that one search may meet: one a level of a tree that halves what is left."""
AHEAD = 8
"""Counters that are asked for before they are needed; lists have as many members too many."""

_STAMP_SHIFT = 16
_COUNT_MASK = (1 << _STAMP_SHIFT) - 1


class ListedRows(NamedTuple):
    """n rows by place; those that ask for one attribute come first."""

    alone: NDArray[np.int32]  # [1] how many these are
    needed: NDArray[np.uint16]  # [n] attributes of a row
    row: NDArray[np.int32]  # [n]
    rank: NDArray[np.int32]  # [a] attributes from rare to common
    kinds: NDArray[np.uint8]  # [a] kinds of trees that the attribute has, as bits
    tree: NDArray[np.int32]  # [a * DOMAIN_KINDS] rank, kind -> tree, or -1


class ListMemory(NamedTuple):
    """Working memory of one call."""

    asked: Asked  # what is searched for, of the whole batch
    start: NDArray[np.int64]  # [RUNS_MAX] the lists met by the search at hand
    stop: NDArray[np.int64]
    counter: NDArray[np.int64]  # [n] stamp << 16 | count; stamps are 1 + the place in `asked`
    counts: NDArray[np.int64]  # [COUNTS]


def new_list_memory(asked: Asked, row_count: int) -> ListMemory:
    """Memory for a batch."""
    return ListMemory(
        asked,
        np.empty(RUNS_MAX, np.int64),
        np.empty(RUNS_MAX, np.int64),
        np.zeros(row_count, np.int64),
        np.zeros(COUNTS, np.int64),
    )


@inlined
def tree_of(rows: ListedRows, asked: Asked, at: int, probe: int) -> int:
    """The tree that a probe of asked[at] is searched for in, or -1."""
    return int(rows.tree[asked.rank[at] * DOMAIN_KINDS + asked.probes.kind[probe]])


@inlined
def count_members(
    rows: ListedRows,
    member: NDArray[np.int32],
    memory: ListMemory,
    hits: Hits,
    run_count: int,
    place: tuple[int, int, int],
) -> int:
    """Count the members of the lists that a search of attribute place[1] of the event has met.

    The event's attributes begin at place[0] of memory.asked, and place[2] is the hits so far, as is
    what is returned. A row counts once for each attribute: an array may find it several times.
    """
    first, at, hit_count = place
    counter, counts = memory.counter, memory.counts
    alone = rows.alone[0]
    if memory.asked.probe_start[at + 1] - memory.asked.probe_start[at] > 1:
        alone = 0
    for run in range(run_count):
        for slot in range(memory.start[run], memory.stop[run]):
            found = member[slot]
            if found < alone:
                counts[CANDIDATES] += 1
                hits.hit[hit_count] = np.int64(rows.row[found]) << VERDICT_BITS | YES
                hit_count += 1
                continue
            prefetch(counter, member[slot + AHEAD])
            state = counter[found]
            stamp, count = state >> _STAMP_SHIFT, (state & _COUNT_MASK) + 1
            if stamp == at + 1:
                continue
            if stamp <= first:
                count = 1
                counts[CANDIDATES] += 1
            counter[found] = (at + 1) << _STAMP_SHIFT | count
            if count == rows.needed[found]:
                hits.hit[hit_count] = np.int64(rows.row[found]) << VERDICT_BITS | YES
                hit_count += 1
    return hit_count
