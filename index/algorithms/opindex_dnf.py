"""OpIndex for DNF: each clause is filed by itself, and a row matches with the first that holds.

Paper    Zhang, Chan, Tan, PVLDB 7(8) 2014, section 6.1 on DNF, 7.6 their measurements; sections 4
         to 5 for clauses, see index.algorithms.opindex.
Idea     a row that is an OR of conjunctions holds where any of them does. So each clause lies under
         a pivot of its own, the rarest of its attributes, and has a counter of its own. What is
         left is to name a row once, whichever of its clauses hold.
Layout   clauses    pivots, asks and lists of c clauses: index.kernels.clause_counters
         owner      int32[c]   clause -> place of its row
         row        int32[n]   place -> row
         reported   int64[n, 2]   working memory: 1 + the event a row was named for, and where
Worked   S1: (A = 2 AND B = 3) OR D >= 12    S2: (C = 6 AND B <= 4) OR (A = 2 AND E <= 9)
         named by one clause of four, C, D and E are the rarest, A and B by two
         A: [=] A 2 -> S1.1   B 3 -> S1.1     C: [=] C 6 -> S2.1   [<=] B 4 -> S2.1
         D: [>=] D 12 -> S1.2                 E: [=] A 2 -> S2.2   [<=] E 9 -> S2.2
         event A = 2, B = 3, E = 9: under A both hold, S1.1 is complete; under E both, S2.2 is.
         B is nobody's pivot, and S1.2 and S2.1 are not met: their pivots are absent.
Cost     as OpIndex of as many subscriptions as there are clauses. Best where every clause names a
         rare attribute; poor where a row has many clauses under common ones.
Differs  An OR of predicates is a DNF whose clauses have one predicate each. Nothing is multiplied
         out: an AND of ORs goes to PSTHash. A clause that hangs on a regular expression names its
         row as undecided, unless another clause holds for certain.
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
from index.kernels.verify import NO, YES
from index.normal_forms import OR, in_normal_form, parts_of_rows
from index.predicate_lists import LISTED_OPERATORS, ListSegment, new_search
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class DNFColumns(NamedTuple):
    """c clauses of n rows."""

    clauses: ClauseColumns
    owner: NDArray[np.int32]  # [c]
    row: NDArray[np.int32]  # [n] ascending


class Disjunctions(ListSegment[DNFColumns]):
    """Rows that are conjunctions or ORs of these, by the pivots of their clauses."""

    columns_type = DNFColumns

    @property
    def _lists(self) -> ListColumns:
        return self._columns.clauses.lists

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Conjunctions and ORs of conjunctions, of leaves that can be looked up."""
        return in_normal_form(*compiled, rows, OR)

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose pivots, and sort the predicates of all clauses into lists."""
        place, clause, code = parts_of_rows(compiled.programs, rows, OR)
        clauses, order = file_clauses(compiled, clause, code, attribute_count, shares)
        owner = np.empty(order.size, np.int32)
        owner[clause] = place
        return cls(DNFColumns(clauses, owner[order], rows.astype(np.int32)))

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit pivots event after event."""
        columns = self._columns
        clauses = columns.clauses
        search = new_search(clauses.lists, int(clauses.first_ask[-1]), batch, attribute_count)
        reported = np.zeros((columns.row.size, 2), np.int64)
        working = search, new_counters(clauses), reported
        hits = collect_hits(
            lambda room, event: complete_clauses(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._count(search)
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a clause of which any predicate held."""
        return {"clause_count": self._columns.owner.size, **super().stats()}

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row has clauses, and those are sound."""
        columns = self._columns
        assert np.array_equal(columns.row, rows), "other rows than it was built for"
        owners = np.unique(columns.owner)
        assert np.array_equal(owners, np.arange(rows.size)), "a row has no clause"
        check_clauses(columns.clauses)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """Each clause's pivot, and the predicates that raise its counter."""
        place = int(np.searchsorted(self._columns.row, row))
        return ", or ".join(
            words_of_clause(self._columns.clauses, compiled, vocabulary, clause)
            for clause in np.flatnonzero(self._columns.owner == place).tolist()
        )


class OpIndexDNF(Updatable):
    """Pivots and predicate lists; conjunctions, and ORs of them."""

    name = "opindex-dnf"
    paper = (
        "Zhang et al.: An Efficient Publish/Subscribe Index for E-Commerce Databases. PVLDB 2014"
    )
    summary = "counts as opindex does, for each conjunction of an OR by itself"
    operators = LISTED_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Disjunctions, PSTHash.segment_type)


@leaf
def complete_clauses(
    columns: DNFColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: tuple[Search, NDArray[np.int32], NDArray[np.int64]],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    clauses, (search, counter, reported) = columns.clauses, working
    row_count, hit_count = columns.row.size, hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        for at in range(satisfied(clauses.lists, compiled.predicates, batch, search, event)):
            verdict = raise_counter(clauses, counter, search, at, event)
            if verdict == NO:
                continue
            place = columns.owner[clause_found(clauses, search, at)]
            if reported[place, 0] != event + 1:
                reported[place, 0], reported[place, 1] = event + 1, hit_count
                hit_count += 1
            elif verdict != YES:
                continue
            hits.hit[reported[place, 1]] = np.int64(columns.row[place]) << VERDICT_BITS | verdict
        search.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
