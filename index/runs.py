"""Runs in arrays: of equal keys that are in order, and those that a start and a size give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def begins_run(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the keys, a column for each of their parts, are not those of the place before."""
    begins = np.ones(columns[0].size, np.bool_)
    begins[1:] = False
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def places_of_runs(start: NDArray[Any], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of all runs, in turn: start[j] up to start[j] + size[j] - 1 of each."""
    first = np.cumsum(size) - size
    places: NDArray[np.int64] = np.repeat(start - first, size) + np.arange(int(size.sum()))
    return places
