"""Working memory of the thread that verifies, and what it has been told about opaque leaves.

A settled truth is one word of an open-addressing table, all ones if empty:

    [ predicate number 29 bits | string number 31 bits | truth 2 bits ]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels.hashing import fold_product
from index.kernels.inlining import uncounted
from index.program import GATE_DEPTH_MAX

OPAQUE = 3
"""Truth of a leaf that only Python can test: it may be any of TRUE, FALSE and UNKNOWN."""

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_TRUTH_BITS = np.uint64(2)
_TRUTH_MASK = np.uint64(3)
_STRING_BITS = 32


class Scratch(NamedTuple):
    """Working memory of one thread."""

    entry_of: NDArray[np.int32]  # [attributes] entry of the event entered last, or -1
    gate: NDArray[np.int64]  # [GATE_DEPTH_MAX, 3] gates around the one at hand: need, spare, stop
    settled: NDArray[np.uint64]  # truths of opaque predicates on strings of the batch


def new_scratch(attribute_count: int, settled: NDArray[np.uint64] | None = None) -> Scratch:
    """Scratch for batches and predicates of a vocabulary with that many attributes."""
    return Scratch(
        np.full(attribute_count, -1, np.int32),
        np.zeros((GATE_DEPTH_MAX, 3), np.int64),
        np.full(1, _EMPTY, np.uint64) if settled is None else settled,
    )


@uncounted
def settling_key(number: int, string: int) -> np.uint64:
    """What stands for a predicate on a string of the batch."""
    return np.uint64(np.int64(number) << _STRING_BITS | np.int64(string))


@uncounted
def settled_truth(settled: NDArray[np.uint64], number: int, string: int) -> np.int64:
    """The truth of an opaque predicate on a string, or OPAQUE if nobody has settled it."""
    key = settling_key(number, string)
    mask = np.int64(settled.size - 1)
    place = np.int64(fold_product(key, _MULTIPLIER) & np.uint64(mask))
    while settled[place] != _EMPTY:
        if settled[place] >> _TRUTH_BITS == key:
            return np.int64(settled[place] & _TRUTH_MASK)
        place = (place + 1) & mask
    return np.int64(OPAQUE)


@njit(cache=True, nogil=True)
def settled_table(keys: NDArray[np.uint64], truths: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The table of these truths; keys are distinct."""
    size = 2
    while size < 2 * keys.size:
        size *= 2
    settled = np.full(size, _EMPTY, np.uint64)
    mask = np.int64(size - 1)
    for at in range(keys.size):
        place = np.int64(fold_product(keys[at], _MULTIPLIER) & np.uint64(mask))
        while settled[place] != _EMPTY:
            place = (place + 1) & mask
        settled[place] = keys[at] << _TRUTH_BITS | np.uint64(truths[at])
    return settled
