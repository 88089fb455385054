"""Dynamic clustering: tables of equalities that come and go as subscriptions and events change.

Paper    Fabret et al., SIGMOD 2001, section 4: benefit margins of clusters, benefits of tables, and
         the maintenance algorithm; section 3 for the rest, as in static clustering.
Idea     a row is filed under the access predicate that fewest events satisfy, among the tables that
         there are. A cluster of many rows under a common access predicate is checked often: its
         margin is excessive. If its rows have better places, they move; if not, they are counted
         for the tables that would be better, and a table that enough rows call for is created. One
         that saves too little is deleted, and its rows move to what is left.
Layout   phase     index.growing_phase: the distinct leaves, to which others are added
         columns   index.growing_clusters: tables, access predicates, clusters, blocks and places
         share of a leaf or an access predicate   events that satisfied it / events seen, where a
                   guess counts as much as PRIOR_EVENTS events
Worked   1,000 rows a=.. AND b=.. of 30 values each, events with both. Under a alone, 33 rows a
         cluster, each met by 1/38 of all events (8 values more than are known): 26 checks an event.
         Margin 33/38 > MARGIN_MAX, so all rows are counted for ab: a benefit of 1000 * (1/38 -
         1/38/38) = 26 checks an event > BENEFIT_CREATE. Table ab is created, and all rows move.
Cost     match as static clustering. insert O(leaves of the row + tables), delete O(leaves); a pass
         of maintenance O(rows of excessive clusters) every sixteenth of the rows that change.
Differs  Benefits are checks saved an event, |H| weighted by shares, so that one threshold fits all
         shares; the paper's first approximation is |H| alone. They are counted by passes, over
         a sample of the rows in excessive clusters, instead of being carried along by marks. A
         pass comes with an insertion or deletion, for a match must not move what others read: after
         so many changes, or events. A table takes the rows of excessive clusters only, as in the
         paper. New predicates are tested one by one, then in small phases of their own, until these
         are built into the large one; predicates without rows are counted, and dropped when all is
         numbered again. A row goes through no more than its six rarest equalities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import VALUES_UNSEEN, Shares, known_shares, leaf_shares
from index.algorithms.psthash import PSTHash
from index.clusters import are_equalities
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.frozen import writable
from index.growing_clusters import (
    check_columns,
    cluster_of,
    is_wasteful,
    leaves_max,
    new_columns,
    new_row_memory,
    places_of,
    with_attributes,
    with_leaves,
    with_room,
)
from index.growing_phase import GrowingPhase
from index.growing_segment import GrowingSegment
from index.in_place import InPlace
from index.kernels.access_choice import (
    Asked,
    copy_rows,
    distribute,
    file_rows,
    take_out_rows,
)
from index.kernels.access_tables import new_equals
from index.kernels.clusters import LINE_ROWS
from index.kernels.growing_clusters import (
    CLUSTERS,
    CODE,
    HELD,
    LEAVES,
    LIVE,
    MOVED,
    NO_ACCESS,
    OWNER,
    PLACES,
    PREDICATES,
    PRIOR,
    ROWS,
    SIZE,
    USE,
    GrowingColumns,
)
from index.kernels.growing_visit import Visit, visit_events
from index.kernels.probe import Compiled, Hits
from index.predicate_phase import leaves_of_rows
from index.program import POLARITY_BITS
from index.segment import collect_hits, under_prefix, with_prefix
from index.table_benefits import (
    excessive_places,
    places_in_tables,
    table_benefits,
    wanted_schema,
)
from index.vocabulary import Vocabulary

MARGIN_MAX = 1 / 8
"""BMmax: a cluster may cost an event so many checks before better places are looked for."""
BENEFIT_CREATE = 16.0
"""Bcreate, in checks saved an event. A look at a table of three attributes takes as long as 11
(index.hash_configuration), and creating one moves all its rows."""
BENEFIT_DELETE = 8.0
"""Bdelete. Between the two nothing happens, so that tables are not created and deleted in turn."""
TABLES_MAX = 128
CHANGES_SHARE = 16
"""Maintenance comes when a sixteenth of the rows have been inserted or deleted since the last."""
CHANGES_MIN = 64
EVENTS_BETWEEN = 4_096
"""Or after so many events."""
EVENTS_REMEMBERED = 16_384
"""At so many events all counts are halved, so that what comes weighs more than what was."""
EVENTS_AT_ONCE = 256
"""Events between the predicate phase and the visits of clusters."""


class DynamicClusters(ConjunctionSegment[GrowingColumns], GrowingSegment):
    """The tables and clusters of one segment."""

    columns_type = GrowingColumns
    margin_max: ClassVar[float] = MARGIN_MAX
    benefit_create: ClassVar[float] = BENEFIT_CREATE
    benefit_delete: ClassVar[float] = BENEFIT_DELETE

    def __init__(self, columns: GrowingColumns, phase: GrowingPhase) -> None:
        super().__init__(columns)
        self._phase = phase
        self._changes = 0
        self._events = 0
        self._created_count = 0
        self._deleted_count = 0

    @staticmethod
    def _kept(columns: GrowingColumns) -> GrowingColumns:
        """Clusters change, also those of a mapped snapshot."""
        return writable(columns)

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """An empty segment into which all rows are inserted."""
        segment = cls(new_columns(attribute_count), GrowingPhase.empty())
        segment.insert(compiled, rows, attribute_count, shares)
        return segment

    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        """File each row where fewest events come; then look after the clusters."""
        self._columns = with_attributes(self._columns, attribute_count)
        owner, code = leaves_of_rows(compiled.programs, rows)
        codes, place = np.unique(code, return_inverse=True)
        numbers = self._numbers_of(compiled, codes, shares)
        pairs = np.unique(owner.astype(np.int64) << 32 | numbers[place])
        start = np.searchsorted(pairs >> 32, np.arange(rows.size + 1))
        asked = Asked(rows.astype(np.int32), start, (pairs & 0xFFFFFFFF).astype(np.int32))
        leaf_count = int(np.diff(start).max(initial=0))
        self._columns = with_room(self._columns, rows.size, leaf_count)
        memory = new_row_memory(leaf_count)
        self._step(
            rows.size, leaf_count, lambda first: file_rows(self._columns, asked, memory, first)
        )
        self._changed(compiled, rows.size)

    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        """Take rows out, and what they alone asked for; then look after the clusters."""
        places = places_of(self._columns, rows)
        take_out_rows(self._columns, places, new_row_memory(leaves_max(self._columns)))
        self._changed(compiled, rows.size)

    def maintain(self) -> None:
        """Section 4: delete tables of little benefit, let rows move, create tables of benefit."""
        self._changes = self._events = 0
        self._delete_tables()
        self._distribute(excessive_places(self._columns, self.margin_max))
        places = excessive_places(self._columns, self.margin_max)
        while (schema := self._wanted(places)) is not None:
            moved = int(self._columns.counter[MOVED])
            self._create_table(schema)
            self._distribute(places)
            if self._columns.counter[MOVED] == moved:
                return  # what is true of a sample need not be true of all
            places = excessive_places(self._columns, self.margin_max)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit clusters event after event, and count what events satisfy."""
        columns, event_count = self._columns, batch.entry_start.size - 1
        leaves = int(columns.counter[LEAVES])
        memory = self._phase.memory(batch, attribute_count)
        equals = new_equals(columns.tables, max(attribute_count, columns.value_count.size))
        visit = Visit(np.zeros(leaves, np.uint8), equals, np.zeros(1, np.int64))
        parts = []
        for first in range(0, event_count, EVENTS_AT_ONCE):
            events = range(first, min(first + EVENTS_AT_ONCE, event_count))
            found = self._phase.satisfied(compiled, batch, memory, events)
            parts.append(self._visited(found, visit, events))
        self._found(visit.candidate_count[0], sum(part.hit.size for part in parts))
        self._observed(event_count)
        start = np.cumsum(np.concatenate([[0], *(np.diff(part.start) for part in parts)]))
        return Hits(start, np.concatenate([np.empty(0, np.int64), *(part.hit for part in parts)]))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The columns, and the phase under a prefix."""
        return {**super().to_arrays(), **with_prefix("phase.", self._phase.to_arrays())}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What `to_arrays` wrote."""
        phase = GrowingPhase.from_arrays(under_prefix("phase.", arrays))
        return cls(cls.columns_from_arrays(arrays), phase)

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of a visited cluster."""
        columns, counter = self._columns, self._columns.counter
        predicates = slice(0, int(counter[PREDICATES]))
        rows = columns.predicate[predicates, ROWS]
        in_table = columns.tables.table_of[predicates] >= 0
        return {
            "distinct_predicate_count": int(np.count_nonzero(self._leaves()[:, USE])),
            "phase_part_count": self._phase.part_count,
            "table_count": int(np.count_nonzero(columns.tables.schema[:, 0] >= 0)),
            "table_predicate_count": int(np.count_nonzero(in_table)),
            "table_row_count": int(rows[in_table].sum()),
            "created_table_count": self._created_count,
            "deleted_table_count": self._deleted_count,
            "moved_row_count": int(counter[MOVED]),
            "cluster_count": int(np.count_nonzero(self._clusters()[:, OWNER] >= 0)),
            "cluster_bytes": sum(array.nbytes for array in super().to_arrays().values()),
            "phase_bytes": self._phase.nbytes,
            "no_access_count": int(rows[NO_ACCESS]),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the columns and the phase, and see that they know the same leaves."""
        check_columns(self._columns, rows)
        self._phase.check()
        codes = np.sort(self._leaves()[:, CODE])
        numbers = self._phase.numbers_of(codes)
        assert np.array_equal(self._leaves()[numbers, CODE], codes), "a leaf without phase"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The access predicate, and how many others are checked."""
        columns = self._columns
        cluster = cluster_of(columns, int(places_of(columns, np.array([row]))[0]))
        number, size = columns.cluster[cluster, [OWNER, SIZE]].tolist()
        if number == NO_ACCESS:
            return f"in the clusters without access predicate, {size} predicates to check"
        leaves = columns.tables.access[number]
        words = words_of_leaves(compiled, vocabulary, columns.leaf[leaves[leaves >= 0], CODE])
        return f"in a cluster of access predicate {words}, {size} more to check"

    def _leaves(self) -> NDArray[np.int32]:
        return self._columns.leaf[: self._columns.counter[LEAVES]]

    def _clusters(self) -> NDArray[np.int32]:
        return self._columns.cluster[: self._columns.counter[CLUSTERS]]

    def _step(self, count: int, leaf_count: int, step: Callable[[int], int]) -> None:
        """Take steps until all is done, with more room after each that could not go on."""
        done = step(0)
        while done < count:
            self._columns = with_room(self._columns, 1, leaf_count)
            done = step(done)

    def _numbers_of(
        self, compiled: Compiled, codes: NDArray[np.int32], shares: Shares
    ) -> NDArray[np.int32]:
        """The numbers of leaves, some of which may be new."""
        numbers = self._phase.numbers_of(codes)
        new = np.flatnonzero(numbers < 0)
        if not new.size:
            return numbers
        predicates, attribute_count = compiled.predicates, self._columns.value_count.size
        added = codes[new]
        attribute = predicates.record["attribute"][added >> POLARITY_BITS]
        equal = are_equalities(predicates, added)
        numbers[new] = np.arange(new.size) + self._columns.counter[LEAVES]
        self._columns = with_leaves(self._columns, added, np.where(equal, attribute, -1))
        # A guess of an equality depends on how many values there are, and so may change.
        prior = leaf_shares(predicates, added, attribute_count, shares)
        prior[equal] = known_shares(added[equal], shares)
        guess = 1 / (self._columns.value_count[attribute] + VALUES_UNSEEN)
        held = np.where(np.isnan(prior), guess, prior) * self._columns.event_count[0]
        self._columns.share[numbers[new], PRIOR] = prior
        self._columns.share[numbers[new], HELD] = held
        self._phase.add(compiled, added, numbers[new], attribute_count)
        return numbers

    def _changed(self, compiled: Compiled, count: int) -> None:
        """After rows came or went: number all again, and maintain, if it is time."""
        self._changes += count
        due = max(CHANGES_MIN, self._columns.counter[LIVE] // CHANGES_SHARE)
        if self._changes >= due or self._events >= EVENTS_BETWEEN:
            if is_wasteful(self._columns):
                self._renumber(compiled)
            self.maintain()

    def _observed(self, event_count: int) -> None:
        """Count events; the old ones weigh less."""
        columns = self._columns
        self._events += event_count
        columns.event_count[0] += event_count
        if columns.event_count[0] >= EVENTS_REMEMBERED:
            columns.event_count[0] /= 2
            columns.share[:, HELD] /= 2
            columns.satisfied[:] /= 2

    def _visited(self, found: Hits, visit: Visit, events: range) -> Hits:
        """The hits of some events, given the leaves that hold of each."""
        columns = self._columns
        return collect_hits(
            lambda room, at: visit_events(columns, found, visit, room, at, events.start),
            len(events),
            int(columns.counter[LIVE]) + LINE_ROWS * len(events),
        )

    def _distribute(self, places: NDArray[np.int64]) -> None:
        """Let rows move to where fewest events come."""
        leaf_count = leaves_max(self._columns)
        memory = new_row_memory(leaf_count)
        self._step(
            places.size,
            leaf_count,
            lambda first: distribute(self._columns, places, memory, first),
        )

    def _delete_tables(self) -> None:
        """Delete the tables whose rows would hardly be checked more often without them."""
        schema = self._columns.tables.schema
        useless = (table_benefits(self._columns) < self.benefit_delete) & (schema[:, 0] >= 0)
        if useless.any():
            self._deleted_count += int(np.count_nonzero(useless))
            schema[useless] = -1
            self._distribute(places_in_tables(self._columns, useless))

    def _wanted(self, places: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """The schema of a table that these rows, of excessive clusters, are worth; or None."""
        schema = self._columns.tables.schema
        if not places.size or np.count_nonzero(schema[:, 0] >= 0) >= TABLES_MAX:
            return None
        return wanted_schema(self._columns, places, self.benefit_create)

    def _create_table(self, schema: NDArray[np.int32]) -> None:
        """Add an empty table, in the place of a deleted one if there is any."""
        tables = self._columns.tables
        free = np.flatnonzero(tables.schema[:, 0] < 0)
        if free.size:
            tables.schema[free[0]] = schema
        else:
            schemas = np.vstack((tables.schema, schema[None]))
            self._columns = self._columns._replace(tables=tables._replace(schema=schemas))
        self._created_count += 1

    def _renumber(self, compiled: Compiled) -> None:
        """File all rows anew, without what was given back."""
        old, attribute_count = self._columns, self._columns.value_count.size
        used = np.flatnonzero(self._leaves()[:, USE])
        columns = new_columns(attribute_count)
        attribute = old.tables.leaf_attribute[used]
        columns = with_leaves(columns, old.leaf[used, CODE], attribute)
        columns.share[: used.size] = old.share[used]
        columns.event_count[:] = old.event_count
        columns.counter[MOVED] = old.counter[MOVED]
        schema = old.tables.schema[old.tables.schema[:, 0] >= 0]
        columns = columns._replace(tables=columns.tables._replace(schema=schema))
        numbers = np.full(old.leaf.shape[0], -1, np.int32)
        numbers[used] = np.arange(used.size)
        leaf_count = leaves_max(self._columns)
        memory = new_row_memory(leaf_count)
        self._columns = with_room(columns, int(old.counter[LIVE]), leaf_count)
        self._step(
            int(old.counter[PLACES]),
            leaf_count,
            lambda first: copy_rows(old, self._columns, numbers, memory, first),
        )
        self._phase = GrowingPhase.empty()
        order = np.argsort(old.leaf[used, CODE])
        codes = old.leaf[used[order], CODE]
        self._phase.add(compiled, codes, order.astype(np.int32), attribute_count)


class DynamicClustering(InPlace):
    """Several equalities a subscription; conjunctions of any predicates a kernel can test."""

    name = "dynamic-clustering"
    paper = "Fabret et al.: Filtering Algorithms for Very Fast Publish/Subscribe. SIGMOD 2001"
    summary = "clusters by conjunctions of equalities, in hash tables that come and go as they pay"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(DynamicClusters, PSTHash.segment_type)
