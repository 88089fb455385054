"""Byte columns: many byte strings as one, and kernels that make notifications of them.

    start  0 2 5         row 0: "ab"   row 1: "cde"
    text   a b c d e

A notification is the beginning that its subscription has and the end that its event has; its id is
a hash of what both are called. Kernels make both for all pairs of a batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from index.kernels.byte_copies import copy_bytes

DIGEST_BYTES = 16
_HEX_BYTES = 2 * DIGEST_BYTES
_BLOCK_BYTES = 128
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
LIST_END = np.frombuffer(b"]}", np.uint8)
_COMMA = np.uint8(ord(","))

_START = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
_ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ]
)
"""Of BLAKE2b (RFC 7693, sections 2.6 and 2.7)."""
_PARAMETERS = np.uint64(0x01010000 | DIGEST_BYTES)
_WORD, _BYTE = np.uint64(64), np.uint64(0xFF)


class ByteColumn(NamedTuple):
    """n byte strings."""

    start: NDArray[np.int64]  # [n + 1] string j is text[start[j]:start[j+1]]
    text: NDArray[np.uint8]


Taken = tuple[ByteColumn, NDArray[np.int32]]
"""Rows of a column, in any order and as often as they come."""


def column_of(values: Sequence[bytes]) -> ByteColumn:
    """The values as a column."""
    start = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=start[1:])
    start.flags.writeable = False  # as the text, so that kernels are compiled once
    return ByteColumn(start, np.frombuffer(b"".join(values), np.uint8))


def to_arrow(column: ByteColumn) -> pa.BinaryArray:
    """The same memory for Arrow, whose places are 32 bits wide: for parts of bounded size."""
    start = column.start.astype(np.int32)
    buffers = [None, pa.py_buffer(start), pa.py_buffer(column.text)]
    return pa.Array.from_buffers(pa.binary(), start.size - 1, buffers)


def values_of(taken: Taken) -> pa.BinaryArray:
    """The strings taken, as they are."""
    column, rows = taken
    return to_arrow(ByteColumn(*copy_bytes(column, rows)))


def sizes_of(taken: Taken) -> NDArray[np.int64]:
    """int64[n] the bytes of each string taken."""
    (start, _), rows = taken
    return start[rows + 1] - start[rows]


@njit(cache=True, nogil=True)
def joined(first: Taken, second: Taken) -> ByteColumn:
    """Each string of `first` with that of `second` behind it."""
    (first_start, _), first_row = first
    (second_start, _), second_row = second
    start = np.zeros(first_row.size + 1, np.int64)
    for at in range(first_row.size):
        one, other = first_row[at], second_row[at]
        size = first_start[one + 1] - first_start[one] + second_start[other + 1]
        start[at + 1] = start[at] + size - second_start[other]
    text = np.empty(start[-1], np.uint8)
    for at in range(first_row.size):
        place = _write(text, start[at], first[0], first_row[at])
        _write(text, place, second[0], second_row[at])
    return ByteColumn(start, text)


@njit(cache=True, nogil=True)
def _write(text: NDArray[np.uint8], place: int, column: ByteColumn, row: int) -> int:
    """Write a string of a column at a place of the text; where it ends there."""
    for source in range(column.start[row], column.start[row + 1]):
        text[place] = column.text[source]
        place += 1
    return place


@njit(cache=True, nogil=True)
def cut_runs(
    first: NDArray[np.int64], size: NDArray[np.int64], room: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Cut runs of strings into lists that have room: (run, start, number) of each list.

    first    where each run begins; the first begins at 0.
    size     of each string; in a list it takes one byte more.
    room     of a list of each run; a string that is larger has a list of its own.
    run, number   int32[lists] the run of each list, and its number among the lists of that run.
    start    int64[lists + 1] list j has the strings from start[j] to start[j+1].
    """
    run, number = np.empty(size.size, np.int32), np.empty(size.size, np.int32)
    start = np.empty(size.size + 1, np.int64)
    count = 0
    for which in range(first.size):
        stop = first[which + 1] if which + 1 < first.size else size.size
        taken, lists = 0, 0
        for at in range(first[which], stop):
            if at == first[which] or taken + size[at] + 1 > room[which]:
                run[count], start[count], number[count] = which, at, lists
                count, lists, taken = count + 1, lists + 1, 0
            taken += size[at] + 1
    start[count] = size.size
    return run[:count].copy(), start[: count + 1].copy(), number[:count].copy()


@njit(cache=True, nogil=True)
def listed(heads: Taken, items: Taken, first: NDArray[np.int64]) -> ByteColumn:
    """Each head with a list behind it: items first[j] to first[j+1], commas between, LIST_END."""
    (head_start, _), head_row = heads
    (item_start, _), item_row = items
    start = np.zeros(head_row.size + 1, np.int64)
    for row in range(head_row.size):
        size = head_start[head_row[row] + 1] - head_start[head_row[row]]
        size += first[row + 1] - first[row] - 1 + LIST_END.size
        for at in range(first[row], first[row + 1]):
            size += item_start[item_row[at] + 1] - item_start[item_row[at]]
        start[row + 1] = start[row] + size
    text = np.empty(start[-1], np.uint8)
    for row in range(head_row.size):
        place = _write(text, start[row], heads[0], head_row[row])
        for at in range(first[row], first[row + 1]):
            if at > first[row]:
                text[place] = _COMMA
                place += 1
            place = _write(text, place, items[0], item_row[at])
        text[place : start[row + 1]] = LIST_END
    return ByteColumn(start, text)


@njit(cache=True, nogil=True)
def digests(column: ByteColumn) -> ByteColumn:
    """BLAKE2b of each string, without key, DIGEST_BYTES long, in hexadecimal."""
    count = column.start.size - 1
    text = np.empty(count * _HEX_BYTES, np.uint8)
    state, work = np.empty(8, np.uint64), np.empty(16, np.uint64)
    block = np.empty(16, np.uint64)
    for row in range(count):
        at, stop = column.start[row], column.start[row + 1]
        state[:] = _START
        state[0] ^= _PARAMETERS
        done = np.uint64(0)
        while True:
            size = min(_BLOCK_BYTES, stop - at)
            _read_block(column.text, at, size, block)
            at += size
            done += np.uint64(size)
            _mix_block(state, work, block, done, at == stop)
            if at == stop:
                break
        for place in range(DIGEST_BYTES):
            byte = state[place >> 3] >> (np.uint64(8 * (place & 7))) & _BYTE
            text[row * _HEX_BYTES + 2 * place] = _HEX[byte >> np.uint64(4)]
            text[row * _HEX_BYTES + 2 * place + 1] = _HEX[byte & np.uint64(15)]
    return ByteColumn(np.arange(count + 1) * _HEX_BYTES, text)


@njit(cache=True, nogil=True)
def _read_block(text: NDArray[np.uint8], at: int, size: int, block: NDArray[np.uint64]) -> None:
    """Words of the next bytes, zeros behind them."""
    block[:] = 0
    for place in range(size):
        block[place >> 3] |= np.uint64(text[at + place]) << np.uint64(8 * (place & 7))


@njit(cache=True, nogil=True)
def _mix_block(
    state: NDArray[np.uint64],
    work: NDArray[np.uint64],
    block: NDArray[np.uint64],
    done: np.uint64,
    is_last: bool,
) -> None:
    """The compression of RFC 7693, section 3.2."""
    work[:8], work[8:] = state, _START
    work[12] ^= done
    if is_last:
        work[14] = ~work[14]
    for order in range(_ORDER.shape[0]):
        for step in range(8):
            a, diagonal = step & 3, step >> 2
            b, c = 4 + (a + diagonal) % 4, 8 + (a + 2 * diagonal) % 4
            d = 12 + (a + 3 * diagonal) % 4
            one, other = block[_ORDER[order, 2 * step]], block[_ORDER[order, 2 * step + 1]]
            work[a] += work[b] + one
            work[d] = _turned(work[d] ^ work[a], np.uint64(32))
            work[c] += work[d]
            work[b] = _turned(work[b] ^ work[c], np.uint64(24))
            work[a] += work[b] + other
            work[d] = _turned(work[d] ^ work[a], np.uint64(16))
            work[c] += work[d]
            work[b] = _turned(work[b] ^ work[c], np.uint64(63))
    for place in range(8):
        state[place] ^= work[place] ^ work[place + 8]


@njit(cache=True, nogil=True)
def _turned(word: np.uint64, bits: np.uint64) -> np.uint64:
    """A word turned to the right."""
    return word >> bits | word << (_WORD - bits)
