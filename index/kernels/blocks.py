"""Blocks: up to 64 records of a dense bucket, tested all at once, a bit each.

Paper    bit slices, as of O'Neil and Quass: Improved query performance with variant indexes, SIGMOD
         1997: one row of bits for each value of a column, and a conjunction is their AND.
Idea     rows that share a key name much the same attributes. For each lane that some of them tests
         and each code of it, one word says which rows the code passes. An event has one code on a
         lane, so it takes a word of each, and the bits that are left are the rows that pass.
Worked   rows 0: x < 3    1: x < 5 AND y = 1    2: y = 2           row 0 is the bit on the right

         x below 3: 111    3 to 5: 110    above: 100        y = 1: 011    2: 101    other, none: 001

         The event x = 4, y = 2 takes 110 and 101, of which 100 is left: row 2.

Only buckets of records whose tests are narrow, in one line, and of lanes where an event shows one
bit: texts are not. Such records stay, for events whose words show more than one value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.lanes import ALWAYS_LANE, NOTHING, TEXT_LANES, LaneColumns
from index.kernels.record_filing import OPEN, RECORD_WORDS, ROW_SHIFT, SPECIAL, TESTS, lane_of_test
from index.kernels.words import trailing_zeros

BLOCK_ROWS = 64
BLOCK_MIN = 48
"""Fewer records, of a small bucket or at the end of one, are tested one by one."""
ROW_BYTES_MAX = 384
"""Blocks that would take more for a row, because their rows name many attributes, are not made."""
LANE_ROWS_MIN = 4
"""Nor blocks of more lanes than one for so many rows: a lane is a look at memory that nothing asked
for before, and records are read in sequence."""
_ONE, _ZERO = np.uint64(1), np.uint64(0)


class Blocks(NamedTuple):
    """`b` blocks by ascending first record; those of one bucket follow each other."""

    first: NDArray[np.int64]  # [b] first record
    rows: NDArray[np.uint64]  # [b] a bit for each record
    lane_start: NDArray[np.int32]  # [b + 1]
    lane: NDArray[np.int32]  # lanes of the blocks, those of the most tests first
    mask_start: NDArray[np.int64]  # [lanes] where the words of a lane's codes begin
    mask: NDArray[np.uint64]  # those of codes, then that of no value
    row: NDArray[np.uint32]  # [b * BLOCK_ROWS] row << 1 | is open


class Drawing(NamedTuple):
    """The lanes of the block at hand. Working memory."""

    tests: NDArray[np.int32]  # [lanes] how many tests are made on a lane
    lane: NDArray[np.int32]  # [BLOCK_ROWS * TESTS] those with any


def new_drawing(lane_count: int) -> Drawing:
    """Memory for one block."""
    return Drawing(np.zeros(lane_count, np.int32), np.zeros(BLOCK_ROWS * TESTS, np.int32))


@leaf
def suits_blocks(record: NDArray[np.uint64], start: int, stop: int, first_text: int) -> bool:
    """Are all records of a bucket of narrow tests, in one line, and none of texts?"""
    for line in range(start, stop):
        if record[line * RECORD_WORDS + TESTS + 1] & SPECIAL != _ZERO:
            return False
        for test in range(TESTS):
            if lane_of_test(record, line, test) >= first_text:
                return False
    return True


@leaf
def list_lanes(record: NDArray[np.uint64], start: int, stop: int, drawing: Drawing) -> int:
    """Fill in the lanes of a block, those of the most tests first; returns how many there are."""
    count = 0
    for line in range(start, stop):
        for test in range(TESTS):
            lane = lane_of_test(record, line, test)
            if lane == ALWAYS_LANE:
                continue
            if drawing.tests[lane] == 0:
                drawing.lane[count] = lane
                count += 1
            drawing.tests[lane] += 1
    for at in range(1, count):
        lane, place = drawing.lane[at], at
        while place > 0 and drawing.tests[drawing.lane[place - 1]] < drawing.tests[lane]:
            drawing.lane[place] = drawing.lane[place - 1]
            place -= 1
        drawing.lane[place] = lane
    for at in range(count):
        drawing.tests[drawing.lane[at]] = 0
    return count


@inlined
def _code_count(lanes: LaneColumns, lane: int) -> int:
    return int(lanes.part_start[lane + 1] - lanes.part_start[lane])


@leaf
def measure_blocks(
    lanes: LaneColumns,
    record: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    drawing: Drawing,
    is_dense: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Note which buckets, given as [buckets, 2] start and stop, are made blocks of, and let these
    stop where their blocks do.

    Returns how many blocks, lanes of blocks and words of masks there are.
    """
    blocks, lane_total, word_total = 0, 0, 0
    for bucket in range(bounds.shape[0]):
        start, stop = bounds[bucket, 0], bounds[bucket, 1]
        stop -= (stop - start) % BLOCK_ROWS if (stop - start) % BLOCK_ROWS < BLOCK_MIN else 0
        bounds[bucket, 1] = stop
        is_dense[bucket] = False
        if not suits_blocks(record, start, stop, lanes.first[TEXT_LANES]):
            continue
        added, lane_count, words = 0, 0, 0
        for first in range(start, stop, BLOCK_ROWS):
            count = list_lanes(record, first, min(first + BLOCK_ROWS, stop), drawing)
            added, lane_count = added + 1, lane_count + count
            for at in range(count):
                words += _code_count(lanes, drawing.lane[at]) + 1
        if words * 8 > ROW_BYTES_MAX * (stop - start):
            continue
        if lane_count * LANE_ROWS_MIN > stop - start:
            continue
        is_dense[bucket] = True
        blocks, lane_total, word_total = blocks + added, lane_total + lane_count, word_total + words
    return blocks, lane_total, word_total


@leaf
def fill_blocks(
    lanes: LaneColumns,
    record: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    drawing: Drawing,
    blocks: Blocks,
) -> None:
    """Fill the blocks of dense buckets, which ascend."""
    block, lane_at, word = 0, 0, 0
    for bucket in range(bounds.shape[0]):
        for first in range(bounds[bucket, 0], bounds[bucket, 1], BLOCK_ROWS):
            stop = min(first + BLOCK_ROWS, bounds[bucket, 1])
            blocks.first[block], blocks.lane_start[block] = first, lane_at
            rows = _ZERO
            for line in range(first, stop):
                last = record[line * RECORD_WORDS + TESTS + 1]
                is_open = 1 if last & OPEN else 0
                row = np.int64(last >> ROW_SHIFT) << 1 | is_open
                blocks.row[block * BLOCK_ROWS + line - first] = row
                rows |= _ONE << np.uint64(line - first)
            blocks.rows[block] = rows
            count = list_lanes(record, first, stop, drawing)
            for at in range(count):
                lane = drawing.lane[at]
                blocks.lane[lane_at], blocks.mask_start[lane_at] = lane, word
                codes = _code_count(lanes, lane)
                _fill_lane(record, first, stop, lane, codes, blocks.mask, word)
                lane_at, word = lane_at + 1, word + codes + 1
            block += 1
    blocks.lane_start[block] = lane_at


@inlined
def _fill_lane(
    record: NDArray[np.uint64],
    first: int,
    stop: int,
    lane: int,
    codes: int,
    mask: NDArray[np.uint64],
    word: int,
) -> None:
    """Fill the words of one lane of a block."""
    for code in range(codes + 1):
        mask[word + code] = ~_ZERO
    for line in range(first, stop):
        bit = _ONE << np.uint64(line - first)
        for test in range(TESTS):
            if lane_of_test(record, line, test) != lane:
                continue
            operand = record[line * RECORD_WORDS + test]
            for code in range(codes + 1):
                shown = np.uint64(code if code < codes else NOTHING)
                if operand >> shown & _ONE == _ZERO:
                    mask[word + code] &= ~bit


@inlined
def first_block(blocks: Blocks, record: np.uint64) -> int:
    """The first block of the bucket that begins with a record, or -1."""
    low, high = 0, blocks.first.size
    while low < high:
        middle = (low + high) >> 1
        if blocks.first[middle] < np.int64(record):
            low = middle + 1
        else:
            high = middle
    return low if low < blocks.first.size and blocks.first[low] == np.int64(record) else -1


@inlined
def rows_passing(
    blocks: Blocks, lanes: LaneColumns, block: int, word: NDArray[np.uint64], words: int
) -> np.uint64:
    """The records of a block that an event passes, whose words begin at `words`, as bits."""
    passing = blocks.rows[block]
    for at in range(blocks.lane_start[block], blocks.lane_start[block + 1]):
        lane = blocks.lane[at]
        code = trailing_zeros(word[words + lane])
        if code == NOTHING:
            code = _code_count(lanes, lane)
        passing &= blocks.mask[blocks.mask_start[at] + code]
        if passing == _ZERO:
            break
    return np.uint64(passing)
