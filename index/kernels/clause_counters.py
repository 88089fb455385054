"""Clause counters: how many predicates of a conjunction hold, and whether that is all of them.

OpIndex, section 4.3: the clauses of a pivot have their counters in one array, so those that an
event raises lie close together. A counter carries the number of its event instead of being reset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.predicate_lists import CANDIDATES, ListColumns
from index.kernels.verify import NO, UNDECIDED, YES

_UNSURE = 1 << 30
"""Added to a counter by an ask that only Python can tell."""


class ClauseColumns(NamedTuple):
    """c clauses of a asks, in the order of their pivots."""

    lists: ListColumns
    clause: NDArray[np.int32]  # [a] ascending
    pivot: NDArray[np.int32]  # [c] ascending
    needed: NDArray[np.int32]  # [c] asks of the clause


class Counters(NamedTuple):
    """One a clause."""

    counter: NDArray[np.int32]  # [c, 2] 1 + the last event that raised it, and how often it did
    counts: NDArray[np.int64]  # see index.kernels.predicate_lists


def new_counters(clauses: ClauseColumns, counts: NDArray[np.int64]) -> Counters:
    """Counters that no event has raised."""
    return Counters(np.zeros((clauses.needed.size, 2), np.int32), counts)


@inlined
def raise_counter(clauses: ClauseColumns, counters: Counters, found: int, event: int) -> int:
    """Raise the counter of the clause of an ask, or of ~ask; YES or UNDECIDED if it is complete."""
    counter = counters.counter
    clause = clauses.clause[found if found >= 0 else ~found]
    if counter[clause, 0] != event + 1:
        counter[clause, 0] = event + 1
        counter[clause, 1] = 0
        counters.counts[CANDIDATES] += 1
    raised = counter[clause, 1] + 1
    if found < 0:
        raised |= _UNSURE
    counter[clause, 1] = raised
    if raised & (_UNSURE - 1) != clauses.needed[clause]:
        return NO
    return UNDECIDED if raised & _UNSURE else YES
