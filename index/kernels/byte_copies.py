"""Copying byte strings that lie one after the other."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def copy_bytes(
    values: tuple[NDArray[np.int64], NDArray[np.uint8]], rows: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The byte strings of `rows`, one after the other."""
    starts, text = values
    copy_start = np.zeros(rows.size + 1, np.int64)
    for place in range(rows.size):
        size = starts[rows[place] + 1] - starts[rows[place]]
        copy_start[place + 1] = copy_start[place] + size
    copy_text = np.empty(copy_start[-1], np.uint8)
    for place in range(rows.size):
        start = starts[rows[place]]
        for at in range(copy_start[place], copy_start[place + 1]):
            copy_text[at] = text[start + at - copy_start[place]]
    return copy_start, copy_text
