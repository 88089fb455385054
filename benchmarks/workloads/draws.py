"""Draws that several generators share: Zipf ranks, and distinct attributes by them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.workloads.workload import ABSENT

OVERDRAWN = 8
"""So many times the wanted attributes are drawn, so that enough distinct ones are among them."""
ROWS_AT_ONCE = 65_536
"""Drawn in one array: all of ten million rows would not fit into memory."""


def zipf_shares(count: int, exponent: float) -> NDArray[np.float64]:
    """Cumulative shares of ranks 1..count, each as frequent as rank ** -exponent; 0 is uniform."""
    cumulative = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -exponent)
    shares: NDArray[np.float64] = cumulative / cumulative[-1]
    return shares


def ranks(
    random: Generator, shares: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Ranks from 0, drawn by cumulative shares."""
    drawn = np.searchsorted(shares, random.random(shape), "right")
    clipped: NDArray[np.int64] = np.minimum(drawn, shares.size - 1).astype(np.int64)
    return clipped


def distinct_ranks(
    random: Generator, shares: NDArray[np.float64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[rows, largest size] distinct ranks a row, sizes[row] of them and then ABSENT.

    A row is the first distinct ones of a longer draw; where a steep Zipf leaves too few of them,
    the most frequent ranks that are missing fill it up.
    """
    wanted = int(sizes.max(initial=0))
    result = np.full((sizes.size, wanted), ABSENT, np.int64)
    for first in range(0, sizes.size, ROWS_AT_ONCE):
        some = sizes[first : first + ROWS_AT_ONCE]
        drawn = ranks(random, shares, (some.size, OVERDRAWN * max(wanted, 1)))
        for row, size in enumerate(some.tolist()):
            distinct = _first_distinct(drawn[row].tolist(), size, shares.size)
            result[first + row, : len(distinct)] = distinct
    return result


def _first_distinct(drawn: list[int], size: int, rank_count: int) -> list[int]:
    distinct = list(dict.fromkeys(drawn))[:size]
    if len(distinct) < size:
        known = set(distinct)
        missing = [rank for rank in range(rank_count) if rank not in known]
        distinct += missing[: size - len(distinct)]
    return distinct
