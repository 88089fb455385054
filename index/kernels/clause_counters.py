"""Clause counters: how many predicates of a conjunction hold, and whether that is all of them.

OpIndex, section 4.3: the clauses of a pivot have their counters in one array, so those that an
event raises lie close together. A counter carries the number of its event instead of being reset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.predicate_lists import CANDIDATES, ListColumns, Search, entry_found
from index.kernels.verify import NO, UNDECIDED, YES

_UNSURE = 1 << 30
"""Added to a counter by an ask that only Python can tell."""


class ClauseColumns(NamedTuple):
    """c clauses of a asks and p entries, in the order of their pivots."""

    lists: ListColumns
    clause: NDArray[np.int32]  # [p] of an entry
    first_ask: NDArray[np.int32]  # [c+1] clause v needs asks first_ask[v]:first_ask[v+1]
    pivot: NDArray[np.int32]  # [c] ascending


def new_counters(clauses: ClauseColumns) -> NDArray[np.int32]:
    """[c, 2]: of each clause 1 + the last event that raised its counter, and how often it did."""
    return np.zeros((clauses.pivot.size, 2), np.int32)


@inlined
def raise_counter(
    clauses: ClauseColumns, counter: NDArray[np.int32], search: Search, at: int, event: int
) -> int:
    """Raise the counter of the clause of search.found[at]; YES or UNDECIDED if it is complete."""
    clause = clauses.clause[entry_found(search, at)]
    if counter[clause, 0] != event + 1:
        counter[clause, 0] = event + 1
        counter[clause, 1] = 0
        search.counts[CANDIDATES] += 1
    raised = counter[clause, 1] + 1
    if search.found[at] < 0:
        raised |= _UNSURE
    counter[clause, 1] = raised
    if raised & (_UNSURE - 1) != clauses.first_ask[clause + 1] - clauses.first_ask[clause]:
        return NO
    return UNDECIDED if raised & _UNSURE else YES


@inlined
def clause_found(clauses: ClauseColumns, search: Search, at: int) -> int:
    """The clause of an entry that was found."""
    return int(clauses.clause[entry_found(search, at)])
