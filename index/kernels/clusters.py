"""Checking a cluster: which of its rows have all their remaining leaves among those that hold.

A cluster is stored by columns (Fabret et al., section 2.2), wherever it lies:

    leaf   column + 0 * stride: the first leaf of each row       row   first: the row of each place
           column + 1 * stride: the second leaf ...

Leaves are places in the predicate phase, and `held` has a byte for each, 1 if it holds. Most rows
fail at their first leaf. So the first column is read from end to end, without a branch that could
be mispredicted, and the others only for the places that are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Hits
from index.kernels.verify import YES

LINE_ROWS = 16
"""Rows in a cache line of a column: 64 bytes of int32."""
AHEAD_ROWS = 16 * LINE_ROWS
"""How far ahead lines are asked for: as long as a line takes to arrive, so many rows are read."""


class Lines(NamedTuple):
    """Where clusters lie: arrays of many of them."""

    leaf: NDArray[np.int32]
    row: NDArray[np.int32]


@inlined
def visit_cluster(
    lines: Lines,
    at: tuple[int, int, int, int, int],
    held: NDArray[np.uint8],
    hits: Hits,
    hit_count: int,
    ahead: int,
) -> int:
    """Append the rows all of whose leaves are held; returns the hits so far.

    at      column, stride, first, rows and leaves a row of the cluster
    ahead   how many rows ahead lines are asked for; 0 for not at all
    """
    column, stride, first, count, size = at
    hit, left = hits.hit, hit_count
    if size == 0:
        for place in range(count):
            hit[left] = place
            left += 1
    elif ahead == 0:
        for place in range(count):
            hit[left] = place
            left += held[lines.leaf[column + place]]
    else:
        for line in range(0, count, LINE_ROWS):
            prefetch(lines.leaf, column + line + ahead)
            for place in range(line, min(line + LINE_ROWS, count)):
                hit[left] = place
                left += held[lines.leaf[column + place]]
    for at_left in range(hit_count, left):
        place = hit[at_left]
        holds = True
        for number in range(1, size):
            if held[lines.leaf[column + number * stride + place]] == 0:
                holds = False
                break
        hit[hit_count] = np.int64(lines.row[first + place]) << VERDICT_BITS | YES
        hit_count += holds
    return hit_count
