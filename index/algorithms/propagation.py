"""Propagation: file each subscription under one equality, and check the rest column by column.

Paper    Fabret et al., SIGMOD 2001, section 2.2 the propagation algorithm (after Pereira et al.,
         COOPIS 2000), 2.3 clusters by columns, 2.4 prefetching.
Idea     a conjunction cannot match where one chosen equality of it, its access predicate, does not
         hold. Subscriptions of one access predicate and one size are a cluster; only clusters whose
         access predicate holds are visited, and there the other predicates are bits that the
         predicate phase has set.
Layout   phase     the distinct leaves, see index.predicate_phase
         clusters  of l+1 lists, see index.clusters: list p has the access predicate of place p in
                   the phase, list l has none
Worked   s0: a = 1 AND b = 2    s1: a = 1 AND c < 5    s2: a = 1 AND b = 2 AND c < 5
         access a=1: a cluster of size 1 with s0, s1 and one of size 2 with s2
             size 1   leaf [b=2, c<5]           size 2   leaf [b=2] [c<5]
         event a = 1, c = 3: the bits of a=1 and c<5 are set; s0 fails at b=2, s1 holds, s2 fails
Cost     match O(predicate phase + leaves looked at in visited clusters). Build a sort. Best where
         an equality is rare; poor where subscriptions have none: these are one more cluster of each
         size, visited on every event.
Differs  The access predicate is the equality that fewest events are expected to satisfy, as known
         from statistics; the paper's is the one whose cluster is smallest. Instead of loops that a
         compiler's macros unroll for each size, the first column is read without branches and the
         others for the rows that are left; so prefetching asks for lines of the first only.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.clusters import (
    ClusterColumns,
    are_equalities,
    build_clusters,
    check_clusters,
    list_and_size_of,
    ranked_leaves,
    visit_list,
)
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.kernels import leaf
from index.kernels.clusters import AHEAD_ROWS
from index.kernels.event_parts import CANDIDATES, HITS, Memory
from index.kernels.probe import Compiled, Hits
from index.kernels.verify import enter_event, leave_event
from index.predicate_phase import (
    PhaseColumns,
    build_phase,
    phase_memory,
    satisfied,
)
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class PropagationColumns(NamedTuple):
    """Clusters over l distinct leaves."""

    phase: PhaseColumns
    clusters: ClusterColumns


class Clusters(ConjunctionSegment[PropagationColumns]):
    """The clusters of one segment."""

    ahead: ClassVar[int] = 0

    columns_type = PropagationColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose access predicates, and sort the rows by them and by size."""
        leaves, _, asked = ranked_leaves(compiled, rows, attribute_count, shares)
        usable = np.flatnonzero(are_equalities(compiled.predicates, leaves)[asked.leaf])
        owners, rarest = np.unique(asked.owner[usable], return_index=True)
        access = np.full(rows.size, leaves.size, np.int64)
        access[owners] = asked.leaf[usable[rarest]]
        taken = asked.leaf == access[asked.owner]
        return cls(
            PropagationColumns(
                build_phase(compiled, leaves, attribute_count),
                build_clusters(asked, taken, access, leaves.size + 1, rows),
            )
        )

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit clusters event after event."""
        columns, ahead = self._columns, self.ahead
        memory = phase_memory(columns.phase, batch, attribute_count)
        held = np.zeros(columns.phase.leaf.size, np.uint8)
        memories = memory, held
        hits = collect_hits(
            lambda room, event: visit_events(
                columns, compiled, batch, memories, room, (event, ahead)
            ),
            batch.entry_start.size - 1,
            columns.clusters.row.size,
        )
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of a visited cluster."""
        columns = self._columns
        clusters = columns.clusters
        without_access = clusters.first[clusters.start[-2]]
        return {
            "distinct_predicate_count": columns.phase.leaf.size,
            "cluster_count": clusters.size.size,
            "no_access_count": clusters.row.size - int(without_access),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is in one cluster, and its columns name leaves."""
        columns = self._columns
        check_clusters(columns.clusters, rows, columns.phase.leaf.size)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The access predicate, and how many others are checked."""
        columns = self._columns
        access, size = list_and_size_of(columns.clusters, row)
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


@leaf
def visit_events(
    columns: PropagationColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, NDArray[np.uint8]],
    hits: Hits,
    place: tuple[int, int],
) -> tuple[int, int]:
    """Match from event place[0] on, place[1] rows ahead. Returns (event count, 0), or the event
    whose hits may not fit any more, and how many must.
    """
    memory, held = memories
    first_event, ahead = place
    clusters, no_leaf = columns.clusters, columns.phase.leaf.size
    row_count = clusters.row.size
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for at in range(leaf_count):
            held[memory.candidate[at]] = 1
        for at in range(leaf_count + 1):
            access = memory.candidate[at] if at < leaf_count else no_leaf
            so_far = hit_count, ahead
            hit_count = visit_list(clusters, access, held, hits, so_far, memory.counts)
        for at in range(leaf_count):
            held[memory.candidate[at]] = 0
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
