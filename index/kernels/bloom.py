"""Bloom filters of rows: one for each predicate space, as PSTBloom's leaf nodes have (section 5).

All filters lie in one array of 64-bit words; each is a power of two of words from its start on. A
row has HASHES bits in one word of a filter, so a look-up reads one cache line. An answer of no is
certain; of the rows that were never entered, some 2 in 100 are taken to be (4 at most).

    hash of the row   [ word 63..32 | unused | bit 17..12 | bit 11..6 | bit 5..0 ]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.hashing import fold_product

BITS_PER_ROW = 8
"""At least; 11 on average, for a filter is a power of two of words. The paper names no size: with
twice as many bits 1 in 200 rows is taken to be in a filter, and a filter is twice as far to go."""
HASHES = 3
"""The paper names no number. Two let half as many rows more pass, four hardly fewer."""
WORD_BITS = 64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0xC2B2AE3D27D4EB4F)
_IN_WORD_BITS, _IN_WORD = 6, np.uint64(63)
_HALF = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


def filter_words(row_count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words of filters for so many rows each; none for no rows."""
    words = -(-row_count * BITS_PER_ROW // WORD_BITS)
    powers = np.int64(1) << np.ceil(np.log2(np.maximum(words, 1))).astype(np.int64)
    return np.where(row_count > 0, powers, 0)


@inlined
def row_hash(row: int) -> np.uint64:
    """What places a row in every filter."""
    return fold_product(np.uint64(row) ^ _SEED, _MULTIPLIER)


@inlined
def row_bits(value: np.uint64) -> np.uint64:
    """The bits of a row in its word, from its hash."""
    bits = _ZERO
    for at in range(HASHES):
        bits |= _ONE << ((value >> np.uint64(at * _IN_WORD_BITS)) & _IN_WORD)
    return bits


@inlined
def row_word(start: int, word_count: int, value: np.uint64) -> int:
    """The word of a row in the filter of so many words that begins at `start`."""
    return start + int(np.int64(value >> _HALF) & (word_count - 1))


@inlined
def may_contain(words: NDArray[np.uint64], start: int, word_count: int, value: np.uint64) -> bool:
    """False only if the row with this hash was never entered in the filter."""
    bits = row_bits(value)
    return bool(words[row_word(start, word_count, value)] & bits == bits)
