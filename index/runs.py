"""Runs of equal keys in arrays that are ordered by them."""

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
