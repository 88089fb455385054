"""Arrays that begin with a cache line: what is written to take one line takes two where it lies
across a border, and large arrays of numpy begin sixteen bytes behind one.

Arrays of a snapshot begin with one as they are, see `index.snapshot`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64


def zeros_in_lines(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """[count] zeros; what is never written of them takes no memory."""
    size = count * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + size].view(dtype)


def copied_to_lines(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of a one-dimensional array."""
    copy = zeros_in_lines(array.size, array.dtype)
    copy[:] = array
    return copy


def begins_line(array: NDArray[Any]) -> bool:
    """Whether its first element begins a line, if it has one."""
    return not array.size or array.ctypes.data % LINE_BYTES == 0
