"""Keys of predicate spaces: 64-bit names, bit filters over them, and the table key -> rows.

    part   hash of (attribute, facet, space)         one predicate space of one attribute
    key    a part, or two parts of different attributes in ascending order (a 2-dim space)

Different keys may in principle share a hash; then a bucket holds rows of both, which costs a
verification and never an answer. Hash 0 marks an empty slot, so no key is 0.

    table  uint64[slots, 2]   key | start << 32 | stop     rows are bucket_row[start:stop]
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.hashing import fold_product, hash_under
from index.kernels.prefetch import prefetch

_PAIR_MULTIPLIER = np.uint64(0xE7037ED1A0B428DB)
_PAIR_SEED = np.uint64(0x8EBC6AF09C88C6E3)
_RESIDUAL_MULTIPLIER = np.uint64(0x589965CC75374CC3)
_INT16 = 0xFFFF
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_SIX = np.uint64(6)
_IN_WORD = np.uint64(63)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@inlined
def part_of(dimension: int, space: np.uint64) -> np.uint64:
    """The name of a space of a dimension (an attribute and a facet)."""
    part = hash_under(space, dimension)
    return part if part != _ZERO else _ONE


@inlined
def number_space(bits: np.uint64, residual: int) -> np.uint64:
    """The point space of a number: the bits of its nearest double, and what it exceeds that by."""
    return bits ^ (np.uint64(residual & _INT16) * _RESIDUAL_MULTIPLIER)


@inlined
def pair_of(first: np.uint64, second: np.uint64) -> np.uint64:
    """The key of two parts; the attribute of `first` is the smaller one."""
    key = fold_product(first ^ _PAIR_SEED, second ^ _PAIR_MULTIPLIER)
    return key if key != _ZERO else _ONE


@inlined
def set_bit(bits: NDArray[np.uint64], value: np.uint64) -> None:
    """Enter a hash in a filter of a power of two of words."""
    place = value & np.uint64(bits.size * 64 - 1)
    bits[place >> _SIX] |= _ONE << (place & _IN_WORD)


@inlined
def has_bit(bits: NDArray[np.uint64], value: np.uint64) -> bool:
    """False only if the hash was never entered."""
    place = value & np.uint64(bits.size * 64 - 1)
    return bool((bits[place >> _SIX] >> (place & _IN_WORD)) & _ONE != _ZERO)


@inlined
def ask_for_bit(bits: NDArray[np.uint64], value: np.uint64) -> None:
    """Begin to load what `has_bit` will read."""
    prefetch(bits, int(np.int64((value & np.uint64(bits.size * 64 - 1)) >> _SIX)))


@njit(cache=True, nogil=True)
def set_bits(bits: NDArray[np.uint64], values: NDArray[np.uint64]) -> None:
    """Enter many hashes."""
    for value in values:
        set_bit(bits, value)


@inlined
def first_slot(table: NDArray[np.uint64], key: np.uint64) -> np.uint64:
    """Where the search for a key begins: keys that ascend begin at slots that ascend."""
    return (key >> _HALF) * np.uint64(table.shape[0]) >> _HALF


@inlined
def find_bucket(table: NDArray[np.uint64], key: np.uint64) -> tuple[np.int64, np.int64]:
    """(start, stop) of a key's rows; (0, 0) if the key is not in the table.

    Places are unsigned, here as in all that looks for many keys: numba lets signed ones count from
    the end, too, which costs as much as the search.
    """
    place = first_slot(table, key)
    while table[place, 0] != key and table[place, 0] != _ZERO:
        place = _next_slot(table, place)
    # The bounds of an empty slot are 0.
    bounds = table[place, 1]
    return np.int64(bounds >> _HALF), np.int64(bounds & _LOW)


@inlined
def _next_slot(table: NDArray[np.uint64], place: np.uint64) -> np.uint64:
    place += _ONE
    return place if place < np.uint64(table.shape[0]) else _ZERO


@inlined
def insert_bucket(table: NDArray[np.uint64], key: np.uint64, start: int, stop: int) -> None:
    """Enter a key that is not in the table yet; the table has a free slot."""
    place = first_slot(table, key)
    while table[place, 0] != _ZERO:
        place = _next_slot(table, place)
    table[place, 0] = key
    table[place, 1] = (np.uint64(start) << _HALF) | np.uint64(stop)


@njit(cache=True, nogil=True)
def fill_table(
    table: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    rows: NDArray[np.int32],
) -> tuple[int, int]:
    """File `rows` by `keys`, which ascend; returns the numbers of rows kept and of buckets.

    On entry the table is empty and has slots for all keys and more. On exit rows[:kept] are the
    buckets one after the other, each ascending and without repetition.
    """
    kept = 0
    buckets = 0
    start = 0
    while start < keys.size:
        stop = start + 1
        while stop < keys.size and keys[stop] == keys[start]:
            stop += 1
        if stop - start > 1:
            rows[start:stop].sort()
        first = kept
        for at in range(start, stop):
            if at == start or rows[at] != rows[at - 1]:
                rows[kept] = rows[at]
                kept += 1
        insert_bucket(table, keys[start], first, kept)
        buckets += 1
        start = stop
    return kept, buckets


@leaf
def first_lost_key(table: NDArray[np.uint64], key_filter: NDArray[np.uint64]) -> int:
    """The first slot whose key is not found by searching or by the filter, or -1."""
    for place in range(table.shape[0]):
        key = table[place, 0]
        if key == _ZERO:
            continue
        start, stop = find_bucket(table, key)
        bounds = (np.uint64(start) << _HALF) | np.uint64(stop)
        if bounds != table[place, 1] or not has_bit(key_filter, key):
            return place
    return -1
