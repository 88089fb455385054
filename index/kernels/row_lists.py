"""Lists of rows that grow and shrink, in one pool of int32 words.

A list is named by its head, which changes with it:

    0            no entries
    -1 - entry   the only entry
    place > 0    a block pool[place] = size, then the entries, which ascend

A block has a power of two of words, the least that holds size + 1. Blocks that are left, and halves
of blocks that have shrunk, are linked by their first words, one chain for each power, and used
again before the pool's end is. What appends or copies must know that there is room; what removes
takes none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf

CLASSES = 32
BLOCK_FIELDS = 2 + CLASSES
WORDS, WORD_HOLES, FREE = range(3)
"""Places in `blocks`: the pool's end, words of free blocks, the first free block of a power."""


@leaf
def _power(size: int) -> int:
    """The power of two of a block of `size` entries."""
    power = 2
    while size >> power:
        power += 1
    return power


@leaf
def _allocate(pool: NDArray[np.int32], blocks: NDArray[np.int64], power: int) -> int:
    place = blocks[FREE + power]
    if place:
        blocks[FREE + power] = pool[place]
        blocks[WORD_HOLES] -= 1 << power
        return int(place)
    place = blocks[WORDS]
    blocks[WORDS] += 1 << power
    return int(place)


@leaf
def _release(pool: NDArray[np.int32], blocks: NDArray[np.int64], place: int, power: int) -> None:
    pool[place] = blocks[FREE + power]
    blocks[FREE + power] = place
    blocks[WORD_HOLES] += 1 << power


@leaf
def list_size(pool: NDArray[np.int32], head: int) -> int:
    """How many entries a list has."""
    if head > 0:
        return int(pool[head])
    return 1 if head < 0 else 0


@leaf
def block_words(pool: NDArray[np.int32], head: int) -> int:
    """Words that a copy of a list takes."""
    return 1 << _power(int(pool[head])) if head > 0 else 0


@leaf
def words_to_append(pool: NDArray[np.int32], head: int) -> int:
    """Words that one more entry takes."""
    if head == 0:
        return 0
    if head < 0:
        return 4
    power = _power(int(pool[head]) + 1)
    return 1 << power if power > _power(int(pool[head])) else 0


@leaf
def append(pool: NDArray[np.int32], blocks: NDArray[np.int64], head: int, entry: int) -> int:
    """The head of a list with one more entry, greater than all in it."""
    if head == 0:
        return ~entry
    if head < 0:
        place = _allocate(pool, blocks, 2)
        pool[place], pool[place + 1], pool[place + 2] = 2, ~head, entry
        return place
    size = int(pool[head])
    place, power = head, _power(size)
    if _power(size + 1) > power:
        place = _allocate(pool, blocks, power + 1)
        for at in range(1, size + 1):
            pool[place + at] = pool[head + at]
        _release(pool, blocks, head, power)
    pool[place] = size + 1
    pool[place + 1 + size] = entry
    return place


@leaf
def remove(pool: NDArray[np.int32], blocks: NDArray[np.int64], head: int, entry: int) -> int:
    """The head of a list without an entry that it has."""
    if head < 0:
        return 0
    size = int(pool[head])
    low, high = head + 1, head + size
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < entry:
            low = middle + 1
        else:
            high = middle
    for at in range(low, head + size):
        pool[at] = pool[at + 1]
    if size == 2:
        last = int(pool[head + 1])
        _release(pool, blocks, head, 2)
        return ~last
    pool[head] = size - 1
    power = _power(size - 1)
    if power < _power(size):
        # The entries fit into the first half of the block. A removal must never ask for room.
        _release(pool, blocks, head + (1 << power), power)
    return head


@leaf
def copied(pool: NDArray[np.int32], blocks: NDArray[np.int64], head: int) -> int:
    """The head of a list of the same entries."""
    if head <= 0:
        return head
    size = int(pool[head])
    place = _allocate(pool, blocks, _power(size))
    for at in range(size + 1):
        pool[place + at] = pool[head + at]
    return place


@leaf
def drop(pool: NDArray[np.int32], blocks: NDArray[np.int64], head: int) -> None:
    """Let go of a list."""
    if head > 0:
        _release(pool, blocks, head, _power(int(pool[head])))


@leaf
def repacked(
    pool: NDArray[np.int32], heads: NDArray[np.int32], packed: NDArray[np.int32], words: int
) -> int:
    """Copy the lists of `heads` into another pool from `words` on, and let heads name them there.

    Returns the end of the pool.
    """
    for at in range(heads.size):
        head = heads[at]
        if head > 0:
            heads[at] = words
            for place in range(head, head + int(pool[head]) + 1):
                packed[words + place - head] = pool[place]
            words += 1 << _power(int(pool[head]))
    return words
