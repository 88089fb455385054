"""Static clustering: file each subscription under the conjunction of equalities that pays best.

Paper    Fabret et al., SIGMOD 2001, section 3: access predicates of several attributes, multi-
         attribute hash tables, the cost model, the greedy choice of tables under a bound of space.
Idea     a conjunction cannot match where a conjunction of some of its equalities does not hold. The
         more equalities that is, the fewer events come to the cluster; but each schema is one more
         table in which every event must be looked up. So schemas are added one after the other,
         always the one that saves most time for its space, as long as any saves time at all.
Layout   phase     the distinct leaves, see index.predicate_phase
         tables    t tables with g access predicates, see index.kernels.access_tables
         clusters  of l+g+1 lists, see index.clusters: list p has the access predicate of place p in
                   the phase alone, list l+j access predicate j of the tables, list l+g none
Worked   subscriptions with equalities on a, b, c, ab, ac, bc and abc, as many of each (example
         3.1).
         Single equalities need no table. Candidates are ab, ac, bc and abc; ab can take the rows of
         ab and abc, and saves most of their checks. With table ab, a table ac or bc gains from its
         own rows only, and abc next to nothing. tests/golden has an example with numbers.
Cost     t tables: match O(predicate phase + t + rows of the clusters found). Build O(groups of
         equalities * tables), where a row has at most 50 groups. Best where many subscriptions have
         equalities on the same attributes; with one equality a row it is propagation.
Differs  A group has at most four attributes, of the six rarest equalities of a row, one an
         attribute. A table that would not fit is passed over; the paper adds one and then stops.
         Candidates that save nothing are dropped for good, for tables added later only lower what
         they save. An array may satisfy several access predicates of one table: all combinations of
         its values are looked up. Shares are guessed where statistics know none.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numba import njit
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
from index.hash_configuration import (
    CHECK_NS,
    LEAF_BYTES,
    PREDICATE_BYTES,
    TABLE_BYTES,
    Candidates,
    Equalities,
    candidate_tables,
    equalities_of,
)
from index.kernels import leaf
from index.kernels.access_tables import (
    ATTRIBUTES_MAX,
    AccessTables,
    Equals,
    fill_slots,
    lost_access,
    new_equals,
    note_equal,
    satisfied_access,
)
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
from index.program import POLARITY_BITS
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

TABLE_BYTES_PER_ROW = 32
"""The bound of space: what tables may take for each subscription, beyond its leaves alone."""


class StaticColumns(NamedTuple):
    """Clusters under l single equalities and under the access predicates of tables."""

    phase: PhaseColumns
    tables: AccessTables
    clusters: ClusterColumns


class Instance(NamedTuple):
    """The best clustering instance of the tables chosen so far."""

    cost: NDArray[np.float64]  # [n] ns an event spends on checking the row
    predicate: NDArray[np.int32]  # [n] its access predicate in a table, -1 if it is one equality
    width: NDArray[np.int32]  # [n] attributes of it
    population: NDArray[np.int32]  # [o] rows of each access predicate
    leaving: NDArray[np.int32]  # [o] rows that would leave it for the table at hand


class StaticClusters(ConjunctionSegment[StaticColumns]):
    """The tables and clusters of one segment."""

    columns_type = StaticColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose tables, then access predicates, and sort the rows by these and by size."""
        leaves, share, asked = ranked_leaves(compiled, rows, attribute_count, shares)
        usable = are_equalities(compiled.predicates, leaves)
        attribute = compiled.predicates.record["attribute"][leaves >> POLARITY_BITS]
        equalities = equalities_of(asked, usable, attribute.astype(np.int64))
        single = _rarest_equality(equalities, share, rows.size)
        base = np.append(share, 0.0)[single] * CHECK_NS
        presence = np.ones(attribute_count)
        presence[: shares.of_attribute.size] = np.nan_to_num(shares.of_attribute, nan=1.0)
        candidates = candidate_tables(equalities, share, base, presence)
        tables, number = _tables(candidates, _chosen(candidates, base), equalities, attribute)
        list_of = np.where(number < 0, single, number + leaves.size)
        list_of[single == leaves.size] += tables.table_of.size
        return cls(
            StaticColumns(
                build_phase(compiled, leaves, attribute_count),
                tables,
                build_clusters(
                    asked,
                    _taken(asked.owner, asked.leaf, tables.access, number, single),
                    list_of,
                    leaves.size + tables.table_of.size + 1,
                    rows,
                ),
            )
        )

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit clusters event after event."""
        columns = self._columns
        memory = phase_memory(columns.phase, batch, attribute_count)
        held = np.zeros(columns.phase.leaf.size, np.uint8)
        memories = memory, held, new_equals(columns.tables, attribute_count)
        hits = collect_hits(
            lambda room, event: visit_events(columns, compiled, batch, memories, room, event),
            batch.entry_start.size - 1,
            columns.clusters.row.size,
        )
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of a visited cluster."""
        tables, clusters = self._columns.tables, self._columns.clusters
        last = int(clusters.first[clusters.start[-2]])
        single = int(clusters.first[clusters.start[self._columns.phase.leaf.size]])
        return {
            "distinct_predicate_count": self._columns.phase.leaf.size,
            "table_count": len(tables.schema),
            "table_predicate_count": tables.table_of.size,
            "table_row_count": last - single,
            "table_bytes": sum(part.nbytes for part in tables),
            "cluster_count": clusters.size.size,
            "cluster_bytes": sum(part.nbytes for part in clusters),
            "no_access_count": clusters.row.size - last,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Tables find their access predicates, and every row is in one cluster."""
        columns = self._columns
        tables, leaf_count = columns.tables, columns.phase.leaf.size
        check_clusters(columns.clusters, rows, leaf_count)
        assert columns.clusters.start.size == leaf_count + tables.table_of.size + 2
        assert 2 * np.count_nonzero(tables.slot) <= tables.slot.size, "slots are too full"
        assert np.count_nonzero(tables.slot) == tables.table_of.size, "lost access predicates"
        assert lost_access(tables, np.empty(ATTRIBUTES_MAX, np.int32)) < 0, "not to be found"
        for number, table in enumerate(tables.table_of):
            leaves = tables.access[number]
            width = int(np.count_nonzero(leaves >= 0))
            assert np.array_equal(
                tables.leaf_attribute[leaves[:width]], tables.schema[table, :width]
            ), "an access predicate of other attributes than its table"
            assert np.all(tables.schema[table, width:] < 0), "an attribute without equality"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The access predicate, and how many others are checked."""
        columns = self._columns
        number, size = list_and_size_of(columns.clusters, row)
        leaf_count = columns.phase.leaf.size
        if number == leaf_count + columns.tables.table_of.size:
            return f"in the clusters without access predicate, {size} predicates to check"
        places = np.array([number])
        if number >= leaf_count:
            places = columns.tables.access[number - leaf_count]
        words = words_of_leaves(compiled, vocabulary, columns.phase.leaf[places[places >= 0]])
        return f"in a cluster of access predicate {words}, {size} more to check"


class StaticClustering(Updatable):
    """Several equalities a subscription; conjunctions of any predicates a kernel can test."""

    name = "static-clustering"
    paper = "Fabret et al.: Filtering Algorithms for Very Fast Publish/Subscribe. SIGMOD 2001"
    summary = "clusters subscriptions by conjunctions of equalities, in hash tables chosen by cost"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(StaticClusters, PSTHash.segment_type)


def _rarest_equality(
    equalities: Equalities, share: NDArray[np.float64], row_count: int
) -> NDArray[np.int64]:
    """The rarest leaf that each row can be filed under; the number of leaves if there is none."""
    order = np.lexsort((share[equalities.leaf], equalities.owner))
    owners, first = np.unique(equalities.owner[order], return_index=True)
    single = np.full(row_count, share.size, np.int64)
    single[owners] = equalities.leaf[order[first]]
    return single


def _chosen(candidates: Candidates, base: NDArray[np.float64]) -> NDArray[np.int32]:
    """The access predicate of each row, among those of the candidates, or -1: the greedy choice."""
    predicate_count = int(candidates.predicate.max(initial=-1)) + 1
    instance = Instance(
        base.copy(),
        np.full(base.size, -1, np.int32),
        np.ones(base.size, np.int32),
        np.zeros(predicate_count, np.int32),
        np.zeros(predicate_count, np.int32),
    )
    choose_tables(candidates, instance, float(TABLE_BYTES_PER_ROW * base.size))
    return instance.predicate


def _tables(
    candidates: Candidates,
    chosen: NDArray[np.int32],
    equalities: Equalities,
    attribute: NDArray[np.int32],
) -> tuple[AccessTables, NDArray[np.int64]]:
    """The tables of the access predicates chosen, and the number there of each row's, or -1."""
    table_of_predicate = np.empty(int(candidates.predicate.max(initial=-1)) + 1, np.int64)
    table_of_predicate[candidates.predicate] = np.repeat(
        np.arange(len(candidates.schema)), np.diff(candidates.first)
    )
    filed = np.flatnonzero(chosen >= 0)
    predicates, some_row, number_of = np.unique(
        chosen[filed], return_index=True, return_inverse=True
    )
    used, table_of = np.unique(table_of_predicate[predicates], return_inverse=True)
    schema = candidates.schema[used]
    # Every row of an access predicate has its leaves: they are taken from one of them.
    radix = int(attribute.max(initial=0)) + 1
    keys = equalities.owner * radix + equalities.attribute
    wanted = filed[some_row][:, None] * radix + schema[table_of]
    at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    access = np.where(schema[table_of] >= 0, equalities.leaf[at], -1).astype(np.int32)
    leaf_attribute = np.full(attribute.size, -1, np.int32)
    asked = np.unique(access[access >= 0])
    leaf_attribute[asked] = attribute[asked]
    slots = np.zeros(1 << (2 * predicates.size).bit_length(), np.uint64)
    tables = AccessTables(schema, leaf_attribute, slots, access, table_of.astype(np.int32))
    fill_slots(tables)
    number = np.full(chosen.size, -1, np.int64)
    number[filed] = number_of
    return tables, number


def _taken(
    owner: NDArray[np.int64],
    leaves: NDArray[np.int64],
    access: NDArray[np.int32],
    number: NDArray[np.int64],
    single: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which leaves of rows their access predicates have checked."""
    in_table = number[owner] >= 0
    taken: NDArray[np.bool_] = ~in_table & (leaves == single[owner])
    at = np.flatnonzero(in_table)
    taken[at] = (access[number[owner[at]]] == leaves[at, None]).any(axis=1)
    return taken


@njit(cache=True, nogil=True)
def choose_tables(candidates: Candidates, instance: Instance, room: float) -> None:
    """Add the candidate of the greatest benefit per unit of space until none has a benefit.

    On entry every row is under its rarest equality; on exit under the best of the tables added,
    which take no more than `room` bytes beyond that.
    """
    open_to_choice = np.ones(candidates.overhead.size, np.bool_)
    while room > 0:
        best, best_rate, best_space = -1, 0.0, 0.0
        for number in range(open_to_choice.size):
            if not open_to_choice[number]:
                continue
            benefit, space = _benefit(candidates, instance, number)
            if benefit <= 0:
                open_to_choice[number] = False
            elif space <= room:
                # A table that saves space is worth any benefit; of several, the greatest.
                rate = benefit / max(space, 1e-6)
                if rate > best_rate:
                    best, best_rate, best_space = number, rate, space
        if best < 0:
            return
        _add_table(candidates, instance, best)
        open_to_choice[best] = False
        room -= best_space


@leaf
def _benefit(candidates: Candidates, instance: Instance, number: int) -> tuple[float, float]:
    """What adding a table saves an event in ns, and the bytes that it takes."""
    width = _width(candidates, number)
    benefit, space = -candidates.overhead[number], float(TABLE_BYTES)
    start, stop = candidates.first[number], candidates.first[number + 1]
    last = -1
    for at in range(start, stop):
        row = candidates.row[at]
        saved = instance.cost[row] - candidates.cost[at]
        if saved <= 0:
            continue
        benefit += saved
        space -= LEAF_BYTES * (width - instance.width[row])
        if candidates.predicate[at] != last:
            last = candidates.predicate[at]
            space += PREDICATE_BYTES
        left = instance.predicate[row]
        if left >= 0:
            instance.leaving[left] += 1
            if instance.leaving[left] == instance.population[left]:
                space -= PREDICATE_BYTES
    for at in range(start, stop):
        left = instance.predicate[candidates.row[at]]
        if left >= 0:
            instance.leaving[left] = 0
    return benefit, space


@leaf
def _add_table(candidates: Candidates, instance: Instance, number: int) -> None:
    """Move the rows that a table suits best."""
    width = _width(candidates, number)
    for at in range(candidates.first[number], candidates.first[number + 1]):
        row = candidates.row[at]
        if candidates.cost[at] < instance.cost[row]:
            left = instance.predicate[row]
            if left >= 0:
                instance.population[left] -= 1
            instance.predicate[row] = candidates.predicate[at]
            instance.population[candidates.predicate[at]] += 1
            instance.cost[row], instance.width[row] = candidates.cost[at], width


@leaf
def _width(candidates: Candidates, number: int) -> int:
    """The attributes of a candidate."""
    width = 0
    while width < ATTRIBUTES_MAX and candidates.schema[number, width] >= 0:
        width += 1
    return width


@leaf
def visit_events(
    columns: StaticColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, NDArray[np.uint8], Equals],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    memory, held, equals = memories
    tables, clusters = columns.tables, columns.clusters
    single_count, row_count = columns.phase.leaf.size, clusters.row.size
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for at in range(leaf_count):
            held[memory.candidate[at]] = 1
            note_equal(tables, equals, memory.candidate[at], event + 1)
        access_count = satisfied_access(tables, equals, held, event + 1)
        for at in range(leaf_count + access_count + 1):
            number = single_count + tables.table_of.size
            if at < leaf_count:
                number = memory.candidate[at]
            elif at < leaf_count + access_count:
                number = single_count + equals.access[at - leaf_count]
            so_far = hit_count, AHEAD_ROWS
            hit_count = visit_list(clusters, number, held, hits, so_far, memory.counts)
        for at in range(leaf_count):
            held[memory.candidate[at]] = 0
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
