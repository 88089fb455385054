"""The number of a predicate: equal records, with equal members and needles, share one.

A slot is a word as in `index.kernels.hashing`: upper half of the hash, and number + 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels.hashing import fold_product, hash_bytes, insert, same_bytes
from index.predicates import PredicateKind

_IN = int(PredicateKind.IN)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)


class PredicateWords(NamedTuple):
    """`PredicateColumns` as words, so that any field is compared by its bits."""

    word: NDArray[np.uint64]  # [p, 4] kind to size | attribute, start | low | high
    member_word: NDArray[np.uint64]  # [m]
    member_mark: NDArray[np.int16]  # [m]
    needle_start: NDArray[np.int64]  # [k+1]
    needle: NDArray[np.uint8]


@njit(cache=True, nogil=True)
def find_predicates(
    table: PredicateWords, slots: NDArray[np.uint64], wanted: PredicateWords, seed: np.uint64
) -> NDArray[np.int64]:
    """For each predicate wanted, the number of its equal in the table, or -1."""
    numbers = np.empty(wanted.word.shape[0], np.int64)
    for at in range(numbers.size):
        value = hash_predicate(wanted, np.int64(at), seed)
        numbers[at] = _find(table, slots, value, wanted, np.int64(at))
    return numbers


@njit(cache=True, nogil=True)
def first_equals(
    table: PredicateWords, slots: NDArray[np.uint64], seed: np.uint64
) -> NDArray[np.int64]:
    """For each predicate of the table the number of the first one that equals it; `slots` are
    empty, and twice as many as predicates.
    """
    numbers = np.empty(table.word.shape[0], np.int64)
    for at in range(numbers.size):
        value = hash_predicate(table, np.int64(at), seed)
        numbers[at] = _find(table, slots, value, table, np.int64(at))
        if numbers[at] < 0:
            insert(slots, value, at)
            numbers[at] = at
    return numbers


@njit(cache=True, nogil=True)
def _find(
    table: PredicateWords,
    slots: NDArray[np.uint64],
    value: np.uint64,
    wanted: PredicateWords,
    at: np.int64,
) -> np.int64:
    """The number of the equal of wanted `at`, whose hash is `value`, or -1."""
    mask = np.int64(slots.size - 1)
    place = np.int64(value & np.uint64(mask))
    while slots[place] != _EMPTY:
        slot = slots[place]
        if slot >> _HALF == value >> _HALF:
            number = np.int64(slot & _LOW) - 1
            if _same_predicate(table, np.int64(number), wanted, at):
                return number
        place = (place + 1) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def file_predicates(
    table: PredicateWords, slots: NDArray[np.uint64], seed: np.uint64, first: int
) -> None:
    """File predicates from `first` on, which are not yet in the slots; there is room."""
    for number in range(first, table.word.shape[0]):
        insert(slots, hash_predicate(table, np.int64(number), seed), number)


@njit(cache=True, nogil=True)
def hash_predicate(predicates: PredicateWords, number: np.int64, seed: np.uint64) -> np.uint64:
    """A hash of all that a record means; not of `start`, which only says where its operands lie."""
    word = predicates.word[number]
    value = fold_product(seed ^ word[0], _MULTIPLIER)
    value = fold_product(value ^ (word[1] & _LOW), _MULTIPLIER)
    value = fold_product(value ^ word[2], _MULTIPLIER)
    value = fold_product(value ^ word[3], _MULTIPLIER)
    start, stop, is_set = _operands(word)
    if is_set:
        for member in range(start, stop):
            mark = np.uint64(predicates.member_mark[member])
            value = fold_product(value ^ predicates.member_word[member], _MULTIPLIER ^ mark)
    else:
        for needle in range(start, stop):
            begin, end = predicates.needle_start[needle], predicates.needle_start[needle + 1]
            value = hash_bytes(predicates.needle, begin, end, value)
    return value


@njit(cache=True, nogil=True)
def _same_predicate(
    table: PredicateWords, number: np.int64, wanted: PredicateWords, at: np.int64
) -> bool:
    one, other = table.word[number], wanted.word[at]
    if one[0] != other[0] or (one[1] ^ other[1]) & _LOW != _EMPTY:
        return False
    if one[2] != other[2] or one[3] != other[3]:
        return False
    start, stop, is_set = _operands(one)
    shift = np.int64(_operands(other)[0] - start)
    for operand in range(start, stop):
        if is_set:
            if table.member_word[operand] != wanted.member_word[operand + shift]:
                return False
            if table.member_mark[operand] != wanted.member_mark[operand + shift]:
                return False
        elif not _same_needle(table, np.int64(operand), wanted, np.int64(operand + shift)):
            return False
    return True


@njit(cache=True, nogil=True)
def _same_needle(
    table: PredicateWords, number: np.int64, wanted: PredicateWords, at: np.int64
) -> bool:
    start, other_start = table.needle_start[number], wanted.needle_start[at]
    size = table.needle_start[number + 1] - start
    if size != wanted.needle_start[at + 1] - other_start:
        return False
    return same_bytes(table.needle, start, wanted.needle, other_start, size)


@njit(cache=True, nogil=True)
def _operands(word: NDArray[np.uint64]) -> tuple[np.int64, np.int64, bool]:
    """Start and stop of a record's members or needles, and whether they are members."""
    size = np.int64(word[0] >> np.uint64(48))
    start = np.int64(word[1] >> _HALF)
    return start, start + size, bool(np.int64(word[0] & np.uint64(0xFF)) == _IN)
