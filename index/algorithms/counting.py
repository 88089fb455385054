"""Counting: test each distinct predicate once, and count for each subscription how many hold.

Paper    Fabret et al., SIGMOD 2001, section 2.1 (after Yan and Garcia-Molina's SIFT); OpIndex,
         PVLDB 7(8) 2014, section 2, has the same as its simplest rival.
Idea     subscriptions share predicates, so the predicate phase tests each distinct one once. Every
         satisfied predicate then raises the counter of each subscription that asks for it; a
         counter that reaches the number of its subscription's predicates is a match.
Layout   phase     the distinct leaves and the way to them, see index.predicate_phase
         start     int64[l+1]   leaf place -> its run of `member`     association table
         member    int32[m]     places of the rows that ask for the leaf, ascending
         row       int32[n]     place -> row            needed  int32[n]    leaves of the row
         raised    int32[n]     leaves that held of the event whose number + 1 is in `stamp`
Worked   s0: a = 1 AND b = 2    s1: a = 1 AND c < 5    leaves a=1 -> s0 s1, b=2 -> s0, c<5 -> s1
         event a = 1, c = 3: a=1 raises s0 and s1 to 1, c<5 raises s1 to 2 = needed, so s1 matches
Cost     s satisfied predicates, r rows that ask for one: match O(predicate phase + r). Build
         O(predicates). Best where predicates are rare; poor where a few predicates hold of most
         events, for each of their subscriptions is counted whether it can match or not.
Differs  Counters carry the number of their event instead of being reset. A predicate that a
         subscription names twice counts once. Filters that are no plain conjunctions go to PSTHash.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.kernels import leaf
from index.kernels.event_parts import CANDIDATES, HITS, Memory
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, enter_event, leave_event
from index.predicate_phase import (
    PhaseColumns,
    build_phase,
    leaves_of_rows,
    phase_memory,
    satisfied,
)
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class CountingColumns(NamedTuple):
    """The association table of n rows, their m leaves and the l distinct ones of these."""

    phase: PhaseColumns
    start: NDArray[np.int64]  # [l+1]
    member: NDArray[np.int32]  # [m] places of rows
    row: NDArray[np.int32]  # [n]
    needed: NDArray[np.int32]  # [n]


class Counters(NamedTuple):
    """One a row; valid only if stamped by the event at hand."""

    stamp: NDArray[np.int32]  # [n] 1 + the last event that raised it
    raised: NDArray[np.int32]  # [n]


class Association(ConjunctionSegment[CountingColumns]):
    """The association table of one segment."""

    columns_type = CountingColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Sort the leaves of all rows; which of them are rare does not matter to counting."""
        place, code = leaves_of_rows(compiled.programs, rows)
        leaves, leaf_place = np.unique(code, return_inverse=True)
        # Ascending by leaf, then by row, and each pair once.
        pairs = np.unique(leaf_place.astype(np.int64) * rows.size + place)
        leaf_place, place = np.divmod(pairs, max(rows.size, 1))
        columns = CountingColumns(
            build_phase(compiled, leaves, attribute_count),
            np.searchsorted(leaf_place, np.arange(leaves.size + 1)),
            place.astype(np.int32),
            rows.astype(np.int32),
            np.bincount(place, minlength=rows.size).astype(np.int32),
        )
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Count event after event."""
        columns = self._columns
        memory = phase_memory(columns.phase, batch, attribute_count)
        row_count, event_count = columns.row.size, batch.entry_start.size - 1
        counters = Counters(np.zeros(row_count, np.int32), np.zeros(row_count, np.int32))
        memories = memory, counters
        hits = collect_hits(
            lambda room, event: count_events(columns, compiled, batch, memories, room, event),
            event_count,
            row_count,
        )
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of which any predicate held."""
        columns = self._columns
        return {
            "distinct_predicate_count": columns.phase.leaf.size,
            "association_count": columns.member.size,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is associated as often as it needs, in order."""
        columns = self._columns
        assert np.array_equal(columns.row, rows), "other rows than it was built for"
        assert columns.start[0] == 0 and columns.start[-1] == columns.member.size
        counted = np.bincount(columns.member, minlength=rows.size)
        assert np.array_equal(counted, columns.needed), "a row can never or too early be counted up"
        for start, stop in zip(columns.start[:-1], columns.start[1:], strict=True):
            assert start < stop, "a leaf of no row"
            assert np.all(np.diff(columns.member[start:stop]) > 0), "a leaf raises a row twice"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The predicates that raise the row's counter."""
        columns = self._columns
        place = int(np.searchsorted(columns.row, row))
        asked = np.searchsorted(columns.start, np.flatnonzero(columns.member == place), "right") - 1
        words = words_of_leaves(compiled, vocabulary, columns.phase.leaf[asked])
        return f"counted up to {columns.needed[place]} by {words}"


class Counting(Updatable):
    """Counts satisfied predicates; conjunctions of any predicates a kernel can test."""

    name = "counting"
    paper = "Fabret et al.: Filtering Algorithms for Very Fast Publish/Subscribe. SIGMOD 2001"
    summary = "tests each distinct predicate once and counts for each subscription how many hold"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Association, PSTHash.segment_type)


@leaf
def count_events(
    columns: CountingColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, Counters],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    memory, counters = memories
    row_count = columns.row.size
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        before = hit_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for at in range(leaf_count):
            held = memory.candidate[at]
            for slot in range(columns.start[held], columns.start[held + 1]):
                place = columns.member[slot]
                if counters.stamp[place] != event + 1:
                    counters.stamp[place] = event + 1
                    counters.raised[place] = 0
                    memory.counts[CANDIDATES] += 1
                counters.raised[place] += 1
                if counters.raised[place] == columns.needed[place]:
                    hits.hit[hit_count] = np.int64(columns.row[place]) << VERDICT_BITS | YES
                    hit_count += 1
        memory.counts[HITS] += hit_count - before
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
