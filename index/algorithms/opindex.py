"""OpIndex: file each subscription under its rarest attribute, and count its satisfied predicates.

Paper    Zhang, Chan, Tan, PVLDB 7(8) 2014, sections 4.1 pivots, 4.2 lists and signatures, 4.3
         algorithm 1, 5 algorithm 2, 5.1 costs, 6.2 further operators, 7 their 32 list_segments and
         64 bits.
Idea     a conjunction cannot match where one of its attributes is absent, so it lies under one of
         them, its pivot, and an event visits the pivots among its own attributes. There, predicates
         of one operator form a list in which the satisfied ones follow each other; each raises the
         counter of its subscription. A list is cut into list_segments by attribute, and the
         signature of one tells that it has nothing for a value without a look at its entries.
Layout   clauses    a clause is a row; pivots, asks and the lists: index.kernels.clause_counters
           lists    pivot -> operator -> list_segments -> entries: index.kernels.predicate_lists
             tries  of prefixes and suffixes, whose nodes are operands: index.kernels.tries
         row        int32[n]   clause -> row
Worked   S2: A <= 8 AND C >= 2    S3: C = 6 AND B <= 4 AND E BETWEEN 3 AND 12    S5: D >= 12 AND ...
         pivots A for S2, C for S3, D for S5
         C:  [=] C 6 -> S3    [<=] B 4 -> S3    [both ends] E 3..12 -> S3
         event B = 6, C = 3, E = 9: only C is a pivot. [=]: the signature has no bit of C 3.
         [<=]: no B from 6 on. [both ends]: E up to 9 has E 3..12, 1 of 3, so S3 does not match.
Cost     m attributes, l lists visited, s entries found: match O(m l + s), and a binary search for
         each that signatures let through; a string of k bytes walks tries in O(k). Build a sort.
         Best where attributes are many and events have few of them; poor where all have the same,
         for then all pivots are visited.
Differs  Counters carry the number of their event instead of being reset. A range of two ends is one
         entry under its lower end, because of an array each end could be satisfied by another
         value. Tries belong to all pivots together, so that a value walks once; a node is then an
         operand like any other, with a bit in signatures. Regular expressions have a list without
         an index: they count as satisfied, and what then is complete is left to index.settling.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.clauses import check_clauses, file_clauses, words_of_clause
from index.columns import EventBatch
from index.companion import accompanied
from index.kernels import leaf
from index.kernels.clause_counters import ClauseColumns, clause_found, new_counters, raise_counter
from index.kernels.predicate_lists import HITS, ListColumns, Search, satisfied
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import NO
from index.normal_forms import AND, in_normal_form
from index.predicate_lists import LISTED_OPERATORS, ListSegment, new_search
from index.predicate_phase import leaves_of_rows
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class OpIndexColumns(NamedTuple):
    """n rows, each a clause."""

    clauses: ClauseColumns
    row: NDArray[np.int32]  # [n]


class Conjunctions(ListSegment[OpIndexColumns]):
    """Rows that are conjunctions, by pivot."""

    columns_type = OpIndexColumns

    @property
    def _lists(self) -> ListColumns:
        return self._columns.clauses.lists

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Conjunctions without gates, of leaves that can be looked up."""
        taken = in_normal_form(*compiled, rows, AND)
        taken[taken] = compiled.programs.code[compiled.programs.start[rows[taken]]] >= 0
        return taken

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose pivots, and sort the predicates of all rows into lists."""
        place, code = leaves_of_rows(compiled.programs, rows)
        clauses, order = file_clauses(compiled, place, code, attribute_count, shares)
        return cls(OpIndexColumns(clauses, rows[order].astype(np.int32)))

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit pivots event after event."""
        columns = self._columns
        clauses = columns.clauses
        search = new_search(clauses.lists, int(clauses.first_ask[-1]), batch, attribute_count)
        working = search, new_counters(clauses)
        hits = collect_hits(
            lambda room, event: count_predicates(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._count(search)
        return hits

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every leaf lies in the lists of its row's pivot, sorted, and signatures know it."""
        assert np.array_equal(np.sort(self._columns.row), rows), "other rows than it was built for"
        check_clauses(self._columns.clauses)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The pivot, and the predicates that raise the row's counter."""
        place = int(np.flatnonzero(self._columns.row == row)[0])
        return words_of_clause(self._columns.clauses, compiled, vocabulary, place)


class OpIndex(Updatable):
    """Pivots and predicate lists; conjunctions of any predicates that need their attribute."""

    name = "opindex"
    paper = (
        "Zhang et al.: An Efficient Publish/Subscribe Index for E-Commerce Databases. PVLDB 2014"
    )
    summary = "visits the subscriptions whose rarest attribute an event has, and counts what holds"
    operators = LISTED_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Conjunctions, PSTHash.segment_type)


@leaf
def count_predicates(
    columns: OpIndexColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: tuple[Search, NDArray[np.int32]],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    clauses, (search, counter) = columns.clauses, working
    row_count, hit_count = columns.row.size, hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        for at in range(satisfied(clauses.lists, compiled.predicates, batch, search, event)):
            verdict = raise_counter(clauses, counter, search, at, event)
            if verdict != NO:
                row = columns.row[clause_found(clauses, search, at)]
                hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | verdict
                hit_count += 1
        search.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
