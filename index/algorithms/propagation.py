"""Propagation: file each subscription under one equality, and check the rest column by column.

Paper    Fabret et al., SIGMOD 2001, section 2.2 the propagation algorithm (after Pereira et al.,
         COOPIS 2000), 2.3 clusters by columns, 2.4 prefetching.
Idea     a conjunction cannot match where one chosen equality of it, its access predicate, does not
         hold. Subscriptions of one access predicate and one size are a cluster; only clusters whose
         access predicate holds are visited, and there the other predicates are bits that the
         predicate phase has set.
Layout   phase     the distinct leaves, see index.predicate_phase; place l stands for no leaf
         clusters  int32[l+2]    clusters of access leaf p are clusters[p]..clusters[p+1]
         size      int32[c]      leaves to check, besides the access predicate
         first     int64[c+1]    rows of cluster c are row[first[c]:first[c+1]]
         column    int64[c]      where its columns begin: leaf k of its i-th row stands at
         other     int32[...]    other[column[c] + k * rows of c + i]
         row       int32[n]
Worked   s0: a = 1 AND b = 2    s1: a = 1 AND c < 5    s2: a = 1 AND b = 2 AND c < 5
         access a=1: a cluster of size 1 with s0, s1 and one of size 2 with s2
             size 1   other [b=2, c<5]          size 2   other [b=2] [c<5]
         event a = 1, c = 3: the bits of a=1 and c<5 are set; s0 fails at b=2, s1 holds, s2 fails
Cost     match O(predicate phase + leaves looked at in visited clusters). Build a sort. Best where
         an equality is rare; poor where subscriptions have none: these are one more cluster of each
         size, visited on every event.
Differs  The access predicate is the equality that fewest events are expected to satisfy, as known
         from statistics; the paper's is the one whose cluster is smallest. A cluster's rows are
         checked one after the other instead of the unrolled loops of a compiler's macros, and
         prefetching asks for the cache lines of all columns some rows ahead.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, leaf_shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.kernels import leaf
from index.kernels.event_parts import CANDIDATES, HITS, Memory
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, enter_event, leave_event
from index.predicate_phase import (
    PhaseColumns,
    build_phase,
    leaves_of_rows,
    phase_memory,
    satisfied,
)
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.segment import collect_hits
from index.threshold import Polarity
from index.updatable import Updatable
from index.vocabulary import Vocabulary

AHEAD_ROWS = 16
"""Rows from one cache line of a column to the next: 64 bytes of int32."""


class PropagationColumns(NamedTuple):
    """c clusters of n rows over l distinct leaves."""

    phase: PhaseColumns
    clusters: NDArray[np.int32]  # [l+2]
    size: NDArray[np.int32]  # [c]
    first: NDArray[np.int64]  # [c+1]
    column: NDArray[np.int64]  # [c]
    other: NDArray[np.int32]  # places of leaves
    row: NDArray[np.int32]  # [n]


class Clusters(ConjunctionSegment[PropagationColumns]):
    """The clusters of one segment."""

    ahead: ClassVar[int] = 0

    columns_type = PropagationColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose access predicates, and sort the rows by them and by size."""
        place, code = leaves_of_rows(compiled.programs, rows)
        leaves, leaf_place = np.unique(code, return_inverse=True)
        start = np.searchsorted(place, np.arange(rows.size + 1))
        cost = leaf_shares(compiled.predicates, leaves, attribute_count, shares)
        cost[~_are_equalities(compiled.predicates, leaves)] = np.inf
        access = _access_leaves(start, leaf_place.astype(np.int32), cost)
        size = np.diff(start) - (access < leaves.size)
        order = np.lexsort((size, access))
        is_first = np.ones(rows.size, np.bool_)
        for part in (access[order], size[order]):
            is_first[1:] &= part[1:] == part[:-1]
        is_first[1:] = ~is_first[1:]
        first = np.append(np.flatnonzero(is_first), rows.size)
        sizes = size[order][first[:-1]]
        counts = np.diff(first)
        column = np.cumsum(sizes * counts) - sizes * counts
        columns = PropagationColumns(
            build_phase(compiled, leaves, attribute_count),
            np.searchsorted(access[order][first[:-1]], np.arange(leaves.size + 2)).astype(np.int32),
            sizes.astype(np.int32),
            first.astype(np.int64),
            column.astype(np.int64),
            np.empty(int((sizes * counts).sum()), np.int32),
            rows[order].astype(np.int32),
        )
        _fill_columns(columns, (start, leaf_place.astype(np.int32), access), order)
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit clusters event after event."""
        columns, ahead = self._columns, self.ahead
        memory = phase_memory(columns.phase, batch, attribute_count)
        held = np.zeros(columns.phase.leaf.size, np.int32)
        memories = memory, held
        hits = collect_hits(
            lambda room, event: visit_events(
                columns, compiled, batch, memories, room, (event, ahead)
            ),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._candidate_count += int(memory.counts[CANDIDATES])
        self._hit_count += int(memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of a visited cluster."""
        columns = self._columns
        return {
            "distinct_predicate_count": columns.phase.leaf.size,
            "cluster_count": columns.size.size,
            "no_access_count": int(
                columns.first[columns.clusters[-1]] - columns.first[columns.clusters[-2]]
            ),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is in one cluster, and its columns name leaves."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        assert columns.clusters[0] == 0 and columns.clusters[-1] == columns.size.size
        assert np.all(np.diff(columns.clusters) >= 0), "clusters of leaves overlap"
        counts = np.diff(columns.first)
        assert np.all(counts > 0), "a cluster without rows"
        ends = columns.column + counts * columns.size
        assert np.array_equal(columns.column[1:], ends[:-1]), "columns overlap or leave gaps"
        assert np.all((columns.other >= 0) & (columns.other < columns.phase.leaf.size))

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The access predicate, and how many others are checked."""
        columns = self._columns
        at = int(np.flatnonzero(columns.row == row)[0])
        cluster = int(np.searchsorted(columns.first, at, "right")) - 1
        access = int(np.searchsorted(columns.clusters, cluster, "right")) - 1
        size = int(columns.size[cluster])
        if access >= columns.phase.leaf.size:
            return f"in the clusters without access predicate, {size} predicates to check"
        leaves = columns.phase.leaf[access : access + 1]
        words = words_of_leaves(compiled, vocabulary, leaves)
        return f"in a cluster of access predicate {words}, {size} more to check"


class PrefetchedClusters(Clusters):
    """The same, with the next cache lines of the columns on their way."""

    ahead = AHEAD_ROWS


class Propagation(Updatable):
    """One equality a subscription; conjunctions of any predicates a kernel can test."""

    name = "propagation"
    paper = "Fabret et al.: Filtering Algorithms for Very Fast Publish/Subscribe. SIGMOD 2001"
    summary = "clusters subscriptions by one equality and by size, and checks the rest by columns"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Clusters, PSTHash.segment_type)


class PrefetchedPropagation(Updatable):
    """Propagation with prefetching (section 2.4)."""

    name = "propagation-prefetch"
    paper = Propagation.paper
    summary = "propagation that asks for the next cache lines of a cluster before it needs them"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(PrefetchedClusters, PSTHash.segment_type)


def _are_equalities(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which leaves are `=` that must be TRUE."""
    kind = predicates.record["kind"][leaves >> POLARITY_BITS]
    polarity = leaves & ((1 << POLARITY_BITS) - 1)
    equal: NDArray[np.bool_] = (kind == PredicateKind.EQUAL) & (polarity == Polarity.IS_TRUE)
    return equal


@njit(cache=True, nogil=True)
def _access_leaves(
    start: NDArray[np.int64], leaf_place: NDArray[np.int32], cost: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The cheapest leaf of each row, or the number of leaves if all are of infinite cost."""
    access = np.full(start.size - 1, cost.size, np.int64)
    for row in range(start.size - 1):
        best = np.inf
        for at in range(start[row], start[row + 1]):
            if cost[leaf_place[at]] < best:
                best = cost[leaf_place[at]]
                access[row] = leaf_place[at]
    return access


@njit(cache=True, nogil=True)
def _fill_columns(
    columns: PropagationColumns,
    leaves: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]],
    order: NDArray[np.int64],
) -> None:
    """Fill `other`: the leaves of each row but its access leaf; one named twice is access once."""
    start, leaf_place, access = leaves
    for cluster in range(columns.size.size):
        first, stop = columns.first[cluster], columns.first[cluster + 1]
        for at in range(first, stop):
            place = order[at]
            skipped = False
            column = 0
            for word in range(start[place], start[place + 1]):
                if leaf_place[word] == access[place] and not skipped:
                    skipped = True
                    continue
                target = columns.column[cluster] + column * (stop - first) + at - first
                columns.other[target] = leaf_place[word]
                column += 1


@leaf
def visit_events(
    columns: PropagationColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, NDArray[np.int32]],
    hits: Hits,
    place: tuple[int, int],
) -> tuple[int, int]:
    """Match from event place[0] on, place[1] rows ahead. Returns (event count, 0), or the event
    whose hits may not fit any more, and how many must.
    """
    memory, held = memories
    first_event, ahead = place
    row_count, no_leaf = columns.row.size, columns.phase.leaf.size
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for at in range(leaf_count):
            held[memory.candidate[at]] = event + 1
        for at in range(leaf_count + 1):
            access = memory.candidate[at] if at < leaf_count else no_leaf
            for cluster in range(columns.clusters[access], columns.clusters[access + 1]):
                memory.counts[CANDIDATES] += columns.first[cluster + 1] - columns.first[cluster]
                hit_count = _visit(columns, cluster, (held, event + 1), hits, hit_count, ahead)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@leaf
def _visit(
    columns: PropagationColumns,
    cluster: int,
    bits: tuple[NDArray[np.int32], int],
    hits: Hits,
    hit_count: int,
    ahead: int,
) -> int:
    """Append the rows of a cluster all of whose other leaves are held; returns the hits so far."""
    held, stamp = bits
    first, stop = columns.first[cluster], columns.first[cluster + 1]
    count, size, column = stop - first, columns.size[cluster], columns.column[cluster]
    for at in range(count):
        if ahead and at % ahead == 0:
            for number in range(size):
                prefetch(columns.other, column + number * count + at + ahead)
        holds = True
        for number in range(size):
            if held[columns.other[column + number * count + at]] != stamp:
                holds = False
                break
        if holds:
            hits.hit[hit_count] = np.int64(columns.row[first + at]) << VERDICT_BITS | YES
            hit_count += 1
    return hit_count
