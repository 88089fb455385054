"""From the hits of segments to the matches of events, a pass over the hits for each step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.probe import VERDICT_BITS, Hits
from index.kernels.verify import UNDECIDED

_VERDICT_MASK = (1 << VERDICT_BITS) - 1


@leaf
def ascend(hits: Hits) -> bool:
    """Do the rows of every event ascend?"""
    for event in range(hits.start.size - 1):
        for at in range(hits.start[event] + 1, hits.start[event + 1]):
            if hits.hit[at] < hits.hit[at - 1]:
                return False
    return True


@leaf
def any_undecided(hits: Hits) -> bool:
    """Is any row of any event undecided?"""
    for at in range(hits.start[-1]):
        if hits.hit[at] & _VERDICT_MASK == UNDECIDED:
            return True
    return False


@leaf
def copy_visible(
    hits: Hits, born: NDArray[np.int64], died: NDArray[np.int64], version: int, visible: Hits
) -> None:
    """Fill `visible`, which has room for all, with the hits of rows that a version sees."""
    count = 0
    for event in range(hits.start.size - 1):
        for at in range(hits.start[event], hits.start[event + 1]):
            row = hits.hit[at] >> VERDICT_BITS
            visible.hit[count] = hits.hit[at]
            count += 1 if born[row] <= version < died[row] else 0
        visible.start[event + 1] = count


@leaf
def copy_rows(
    hits: Hits, first_row: int, place: NDArray[np.int64], rows: NDArray[np.int32]
) -> None:
    """Write the rows of each event from place[event] on, and move that behind them."""
    for event in range(hits.start.size - 1):
        to = place[event]
        for at in range(hits.start[event], hits.start[event + 1]):
            rows[to] = first_row + (hits.hit[at] >> VERDICT_BITS)
            to += 1
        place[event] = to
