"""Arrays that grow at their end while readers go on with what they have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

CAPACITY_MIN = 64


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that kernels compile one version for, whether the array is ours or mapped."""
    view = array.view()
    view.flags.writeable = False
    return view


class GrowingArray:
    """A one-dimensional array with room at its end; appending takes amortised constant time.

    `view()` shares memory and stays valid: elements below its length never change, and growth
    moves to new memory instead of moving the old. An initial array may be read-only (a mapped
    snapshot); the first append copies it. Views are always read-only, because numba compiles a
    kernel anew for each mixture of read-only and writable arrays.
    """

    def __init__(self, dtype: DTypeLike, initial: NDArray[Any] | None = None) -> None:
        self._array: NDArray[Any] = np.empty(0, dtype) if initial is None else initial
        self._length = len(self._array)
        self._viewed: tuple[NDArray[Any], NDArray[Any]] | None = None
        """The last view, and of which array: to make one takes as long as a short kernel."""

    def __len__(self) -> int:
        return self._length

    def append(self, value: object) -> None:
        """Add one element."""
        if self._length == len(self._array):
            self._grow(self._length + 1)
        self._array[self._length] = value
        self._length += 1

    def extend(self, values: ArrayLike) -> None:
        """Add several elements."""
        added = np.asarray(values, self._array.dtype)
        if not len(added):
            return  # nothing may be written to a read-only array, not even nothing
        length = self._length + len(added)
        if length > len(self._array):
            self._grow(length)
        self._array[self._length : length] = added
        self._length = length

    def truncate(self, length: int) -> None:
        """Take back the last appends; no view may have been taken since."""
        assert length <= self._length
        self._length = length

    def view(self) -> NDArray[Any]:
        """The elements so far, without copying."""
        array, length = self._array, self._length
        viewed = self._viewed
        if viewed is not None and viewed[0] is array and len(viewed[1]) == length:
            return viewed[1]
        view = read_only(array[:length])
        self._viewed = array, view
        return view

    def _grow(self, length: int) -> None:
        grown = np.empty(max(CAPACITY_MIN, length, self._length * 3 // 2), self._array.dtype)
        grown[: self._length] = self._array[: self._length]
        self._array = grown
