"""Checking a cluster: which of its rows have all their remaining leaves among those that hold.

A cluster is stored by columns (Fabret et al., section 2.2), wherever it lies:

    leaves   column + 0 * stride: the first leaf of each row    row   first: the row of each column
             column + 1 * stride: the second leaf ...

Leaves are places in the predicate phase, and `held` has the stamp of the event that a leaf held of
last. Most rows fail at their first leaf, so the first column is read from end to end, and of the
others little; they are asked for ahead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Hits
from index.kernels.verify import YES

AHEAD_ROWS = 16
"""Rows from one cache line of a column to the next: 64 bytes of int32."""


class Lines(NamedTuple):
    """Where clusters lie: arrays of many of them."""

    leaf: NDArray[np.int32]
    row: NDArray[np.int32]


@inlined
def visit_cluster(
    lines: Lines,
    at: tuple[int, int, int, int, int],
    held: tuple[NDArray[np.int32], int],
    hits: Hits,
    hit_count: int,
    ahead: int,
) -> int:
    """Append the rows all of whose leaves are held; returns the hits so far.

    at      column, stride, first, rows and leaves a row of the cluster
    held    the stamps of leaves, and that of the event
    ahead   rows from one prefetch to the next, 0 for none
    """
    column, stride, first, count, size = at
    stamps, stamp = held
    for place in range(count):
        if ahead and place % ahead == 0:
            for number in range(size):
                prefetch(lines.leaf, column + number * stride + place + ahead)
        holds = True
        for number in range(size):
            if stamps[lines.leaf[column + number * stride + place]] != stamp:
                holds = False
                break
        if holds:
            hits.hit[hit_count] = np.int64(lines.row[first + place]) << VERDICT_BITS | YES
            hit_count += 1
    return hit_count
