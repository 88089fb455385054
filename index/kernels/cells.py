"""Search among the cuts that divide the values of an attribute into cells.

A cut lies before a value. The cells of an attribute are numbered from 0, and cell c > 0 begins at
cut c - 1; so a value's cell is the number of cuts that are not above it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.text_match import compare


@inlined
def number_cell(
    cuts: tuple[NDArray[np.float64], NDArray[np.int16]],
    start: int,
    stop: int,
    double: float,
    residual: int,
) -> int:
    """The cell of the number (double, residual) among the cuts start..stop, which ascend."""
    doubles, residuals = cuts
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        cut = doubles[middle]
        if cut < double or (cut == double and residuals[middle] <= residual):
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def string_cell(
    cuts: tuple[NDArray[np.int64], NDArray[np.uint8]],
    start: int,
    stop: int,
    text: NDArray[np.uint8],
    bounds: tuple[int, int],
) -> int:
    """The cell of the string text[bounds[0]:bounds[1]] among the cuts start..stop, which ascend."""
    starts, cut_text = cuts
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        cut_start, cut_stop = starts[middle], starts[middle + 1]
        if compare(text, bounds[0], bounds[1], cut_text, cut_start, cut_stop) >= 0:
            low = middle + 1
        else:
            high = middle
    return low - start
