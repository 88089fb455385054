"""Clauses: conjunctions under their pivots, what OpIndex makes of conjunctions and of DNF alike.

Each clause lies under the attribute that is rarest among events, for it cannot hold without it
(OpIndex, section 4.1), and its predicates are in the lists of that pivot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.kernels.clause_counters import ClauseColumns
from index.kernels.probe import Compiled
from index.pivots import pivots, visibility
from index.predicate_lists import (
    build_lists,
    check_lists,
    leaves_of_asks,
    words_of_asks,
)
from index.program import POLARITY_BITS
from index.vocabulary import Vocabulary


def file_clauses(
    compiled: Compiled,
    clause: NDArray[np.int32],
    code: NDArray[np.int32],
    attribute_count: int,
    shares: Shares,
) -> tuple[ClauseColumns, NDArray[np.int64]]:
    """Choose pivots for clauses 0.., of which clause[i] asks for code[i].

    Also returns the clauses in the order of their pivots: as such they are numbered in the columns.
    """
    predicates = compiled.predicates
    attribute = predicates.record["attribute"][code >> POLARITY_BITS]
    pivot = pivots(clause, attribute, visibility(clause, attribute, attribute_count, shares))
    order = np.argsort(pivot, kind="stable")
    place_of = np.empty(order.size, np.int64)
    place_of[order] = np.arange(order.size)
    # Each leaf of a clause once, however often the clause has it.
    asks = np.unique(place_of[clause] << 32 | code)
    place, code = asks >> 32, (asks & 0xFFFFFFFF).astype(np.int32)
    pivot = pivot[order]
    under = pivot[place].astype(np.int64), np.arange(place.size)
    lists = build_lists(predicates, code, under, attribute_count)
    first_ask = np.searchsorted(place, np.arange(order.size + 1)).astype(np.int32)
    return ClauseColumns(lists, place[lists.ask].astype(np.int32), first_ask, pivot), order


def check_clauses(clauses: ClauseColumns) -> None:
    """Every ask lies in the lists of its clause's pivot, and is counted."""
    assert np.all(np.diff(clauses.pivot) >= 0), "clauses of a pivot lie apart"
    counts = np.diff(clauses.first_ask)
    ends = clauses.first_ask[0], clauses.first_ask[-1]
    assert ends == (0, clauses.lists.ask.max(initial=-1) + 1), "asks of no clause"
    assert np.all(counts > 0), "a clause that is never complete"
    clause = np.repeat(np.arange(counts.size), counts)
    assert np.array_equal(clause[clauses.lists.ask], clauses.clause), "an entry of another clause"
    check_lists(clauses.lists, (clauses.pivot[clause].astype(np.int64), np.arange(clause.size)))


def words_of_clause(
    clauses: ClauseColumns, compiled: Compiled, vocabulary: Vocabulary, clause: int
) -> str:
    """The pivot of a clause, and the predicates that raise its counter."""
    start, stop = clauses.first_ask[clause : clause + 2].tolist()
    leaves = leaves_of_asks(clauses.lists, int(clauses.first_ask[-1]))[start:stop]
    words = words_of_asks(compiled, vocabulary, leaves)
    pivot = ".".join(vocabulary.path(int(clauses.pivot[clause])))
    return f"with pivot {pivot}, counted up to {stop - start} by {', '.join(words)}"
