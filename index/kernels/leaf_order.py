"""The order of a conjunction's leaves: what is cheap to test comes first."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def sort_by_kind(
    start: NDArray[np.int64],
    is_sorted: NDArray[np.bool_],
    kind: NDArray[np.uint8],
    code: NDArray[np.int32],
) -> None:
    """Sort codes by kind within each row, in place; equal ones stay in order.

    Row r is [start[r], start[r+1]); rows that `is_sorted` names are left as they are.
    """
    for row in range(is_sorted.size):
        if is_sorted[row]:
            continue
        for at in range(start[row] + 1, start[row + 1]):
            own_kind, own_code = kind[at], code[at]
            place = at
            while place > start[row] and kind[place - 1] > own_kind:
                kind[place], code[place] = kind[place - 1], code[place - 1]
                place -= 1
            kind[place], code[place] = own_kind, own_code
