"""Seeded 64-bit hashes of byte strings, and open-addressing tables that number them.

A slot is one word: 0 if empty, else the upper half of the hash, then number + 1.

    slot  [ hash 63..32 | number + 1 ]      place = hash & (slots - 1), then the next ones, cyclic

A table is at most half full, so a search ends soon; it settles by comparing bytes, so collisions
cost time and never an answer. The seed is secret: strings come from publishers, and without it
nobody can prepare strings that collide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.words import high_product, load_word

if TYPE_CHECKING:
    from index.vocabulary import VocabularyColumns

# Fields of a trie node in VocabularyColumns.node: one node lies within one cache line.
PARENT, ATTRIBUTE, NAME_START, NAME_SIZE = range(4)
NODE_FIELDS = 4

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LENGTH_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_PARENT_MULTIPLIER = np.uint64(0xA0761D6478BD642F)
_EIGHT = np.uint64(8)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)


@inlined
def fold_product(left: np.uint64, right: np.uint64) -> np.uint64:
    """Both halves of a 128-bit product, combined: every input bit reaches every output bit."""
    return high_product(left, right) ^ (left * right)


@leaf
def hash_bytes(data: NDArray[np.uint8], start: int, stop: int, seed: np.uint64) -> np.uint64:
    """The hash of data[start:stop]."""
    value = seed ^ (np.uint64(stop - start) * _LENGTH_MULTIPLIER)
    position = start
    while position + 8 <= stop:
        value = fold_product(value ^ load_word(data, position), _MULTIPLIER)
        position += 8
    if position < stop:
        tail = np.uint64(0)
        if stop - 8 >= start:
            tail = load_word(data, stop - 8)
        elif position + 8 <= data.size:
            tail = load_word(data, position) << (np.uint64(8 - (stop - position)) * _EIGHT)
        else:
            for at in range(stop - 1, position - 1, -1):
                tail = (tail << _EIGHT) | np.uint64(data[at])
            tail = tail << (np.uint64(8 - (stop - position)) * _EIGHT)
        value = fold_product(value ^ tail, _MULTIPLIER)
    return fold_product(value ^ seed, _LENGTH_MULTIPLIER)


@leaf
def hash_under(value: np.uint64, parent: int) -> np.uint64:
    """The hash of a name under a parent, from the hash of the name alone."""
    return fold_product(value ^ (np.uint64(parent + 1) * _PARENT_MULTIPLIER), _MULTIPLIER)


@leaf
def same_bytes(
    left: NDArray[np.uint8], left_start: int, right: NDArray[np.uint8], right_start: int, size: int
) -> bool:
    """Whether two runs of `size` bytes are equal."""
    at = 0
    while at + 8 <= size:
        if load_word(left, left_start + at) != load_word(right, right_start + at):
            return False
        at += 8
    while at < size:
        if left[left_start + at] != right[right_start + at]:
            return False
        at += 1
    return True


@leaf
def insert(slots: NDArray[np.uint64], value: np.uint64, number: int) -> None:
    """File a number that is not in the table yet; the table has a free slot."""
    mask = np.int64(slots.size - 1)
    place = np.int64(value & np.uint64(mask))
    while slots[place] != _EMPTY:
        place = (place + 1) & mask
    slots[place] = ((value >> _HALF) << _HALF) | np.uint64(number + 1)


@leaf
def find_string(
    slots: NDArray[np.uint64],
    strings: tuple[NDArray[np.int64], NDArray[np.uint8]],
    value: np.uint64,
    data: NDArray[np.uint8],
    start: int,
    stop: int,
) -> int:
    """The number of the string data[start:stop] whose hash is `value`, or -1."""
    starts, text = strings
    mask = np.int64(slots.size - 1)
    place = np.int64(value & np.uint64(mask))
    while slots[place] != _EMPTY:
        slot = slots[place]
        if slot >> _HALF == value >> _HALF:
            number = np.int64(slot & _LOW) - 1
            begin = starts[number]
            size = starts[number + 1] - begin
            if size == stop - start and same_bytes(text, begin, data, start, size):
                return int(number)
        place = (place + 1) & mask
    return -1


@leaf
def code_of(vocabulary: VocabularyColumns, text: NDArray[np.uint8]) -> int:
    """The code of an operand string, or -1."""
    value = hash_bytes(text, 0, text.size, vocabulary.seed)
    return find_operand(vocabulary, value, text, 0, text.size)


@leaf
def child_named(vocabulary: VocabularyColumns, parent: int, name: NDArray[np.uint8]) -> int:
    """The trie node of a name under a parent, or -1."""
    value = hash_bytes(name, 0, name.size, vocabulary.seed)
    return find_child(vocabulary, parent, value, name, 0, name.size)


@leaf
def find_operand(
    vocabulary: VocabularyColumns, value: np.uint64, data: NDArray[np.uint8], start: int, stop: int
) -> int:
    """The code of the operand string data[start:stop] whose hash is `value`, or -1.

    A string that was interned after the columns were taken has no code in them.
    """
    strings = (vocabulary.string_start, vocabulary.string_text)
    code = find_string(vocabulary.string_slot, strings, value, data, start, stop)
    return code if code < vocabulary.string_count else -1


@inlined
def find_child(
    vocabulary: VocabularyColumns,
    parent: int,
    name_hash: np.uint64,
    data: NDArray[np.uint8],
    start: int,
    stop: int,
) -> int:
    """The trie node of the name data[start:stop] under a parent, or -1."""
    slots, nodes = vocabulary.node_slot, vocabulary.node
    value = hash_under(name_hash, parent)
    mask = np.int64(slots.size - 1)
    place = np.int64(value & np.uint64(mask))
    while slots[place] != _EMPTY:
        slot = slots[place]
        if slot >> _HALF == value >> _HALF:
            node = np.int64(slot & _LOW) - 1
            size = stop - start
            if nodes[node, PARENT] == parent and nodes[node, NAME_SIZE] == size:
                if same_bytes(vocabulary.name_text, nodes[node, NAME_START], data, start, size):
                    return int(node)
        place = (place + 1) & mask
    return -1


@leaf
def insert_strings(
    slots: NDArray[np.uint64],
    strings: tuple[NDArray[np.int64], NDArray[np.uint8]],
    first: int,
    stop: int,
    seed: np.uint64,
) -> None:
    """File strings first..stop-1, none of which is in the table."""
    starts, text = strings
    for number in range(first, stop):
        insert(slots, hash_bytes(text, starts[number], starts[number + 1], seed), number)


@leaf
def insert_nodes(
    slots: NDArray[np.uint64],
    nodes: NDArray[np.int32],
    text: NDArray[np.uint8],
    first: int,
    stop: int,
    seed: np.uint64,
) -> None:
    """File the trie's nodes first..stop-1 by name and parent, none of which is in the table."""
    for node in range(first, stop):
        start = int(nodes[node, NAME_START])
        value = hash_bytes(text, start, start + nodes[node, NAME_SIZE], seed)
        insert(slots, hash_under(value, nodes[node, PARENT]), node)
