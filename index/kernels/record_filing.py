"""Records: a filed row as one cache line of tests.

    words 0 to 5   operands of tests, the likeliest to fail first
    word 6         lanes of tests 0 to 3, 16 bits each
    word 7         lanes of tests 4 and 5 | row << 35 | wide << 34 | more << 33 | open << 32

With the bit `more` word 5 says instead where the record goes on, in a line behind all records. With
the bit `wide` some lane is not a narrow one.
Without the bit `open` a record tells exactly whether its row matches: all leaves of the row have an
exact test, or are certain because of the key it is filed under. An open one can only rule out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cover import Elements, conjunction_start
from index.kernels.key_listing import parts_are_exact
from index.kernels.lanes import ALWAYS_LANE, EXACT, NO_TEST, WIDE, Lookup
from index.kernels.leaf_tests import leaf_test
from index.kernels.probe import Compiled
from index.kernels.schema_choice import LeafTable
from index.program import POLARITY_BITS
from index.threshold import Polarity

RECORD_WORDS = 8
TESTS = 6
UNASKED = 255
ROW_TESTS_MAX = 64
"""A row of more tests is open."""
OPEN, MORE, WIDE_TESTS = np.uint64(1 << 32), np.uint64(1 << 33), np.uint64(1 << 34)
SPECIAL = MORE | WIDE_TESTS
ROW_SHIFT = np.uint64(35)

_POLARITY_MASK, _IS_TRUE = (1 << POLARITY_BITS) - 1, int(Polarity.IS_TRUE)
_LANE_BITS, _LANE_MASK = np.uint64(16), np.uint64(0xFFFF)
_ALL_BITS, _ZERO = ~np.uint64(0), np.uint64(0)


class LeafTests(NamedTuple):
    """The tests of leaves, found when they are first asked for; `u` predicates of 4 polarities."""

    lane: NDArray[np.int32]  # [4 * u]
    operand: NDArray[np.uint64]
    told: NDArray[np.uint8]  # what the test tells, or UNASKED


class Tests(NamedTuple):
    """Those of the row at hand, by ascending share of what passes. Working memory."""

    lane: NDArray[np.int64]  # [ROW_TESTS_MAX]
    operand: NDArray[np.uint64]
    share: NDArray[np.float64]


def new_leaf_tests(predicate_count: int) -> LeafTests:
    """Memory for the tests of so many predicates in use."""
    size = predicate_count << POLARITY_BITS
    return LeafTests(
        np.empty(size, np.int32), np.empty(size, np.uint64), np.full(size, UNASKED, np.uint8)
    )


def new_tests() -> Tests:
    """Memory for one row."""
    return Tests(
        np.zeros(ROW_TESTS_MAX, np.int64),
        np.zeros(ROW_TESTS_MAX, np.uint64),
        np.zeros(ROW_TESTS_MAX, np.float64),
    )


@leaf
def fill_records(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    table: LeafTable,
    bucket_row: NDArray[np.int32],
    memory: tuple[LeafTests, Tests],
    record: NDArray[np.uint64],
) -> int:
    """Fill `record` with one of each row filed, in the order of `bucket_row`, and lines of more.

    Returns how many lines there are; those that do not fit are only counted.
    """
    lines = bucket_row.size
    leaf_tests, tests = memory
    first_wide = lookup.lanes.first[WIDE]
    for at in range(bucket_row.size):
        row = bucket_row[at]
        count, is_open = _list_tests(compiled, lookup, elements, table, row, leaf_tests, tests)
        word = np.uint64(row) << ROW_SHIFT | (OPEN if is_open else _ZERO)
        for test in range(count):
            word |= WIDE_TESTS if tests.lane[test] >= first_wide else _ZERO
        first, line = 0, at
        while count - first > TESTS:
            if lines * RECORD_WORDS < record.size:
                _write_line(record, line, tests, first, TESTS - 1, word | MORE)
                record[line * RECORD_WORDS + TESTS - 1] = np.uint64(lines)
            first += TESTS - 1
            line = lines
            lines += 1
        if line * RECORD_WORDS < record.size:
            _write_line(record, line, tests, first, count - first, word)
    return lines


@inlined
def _write_line(
    record: NDArray[np.uint64], line: int, tests: Tests, first: int, count: int, word: np.uint64
) -> None:
    """Write `count` tests from `first` on, up to a line full, and the rest of its last word."""
    start = line * RECORD_WORDS
    lanes = _ZERO
    for test in range(TESTS):
        if test == 4:
            record[start + TESTS] = lanes
            lanes = _ZERO
        lane, operand = np.int64(ALWAYS_LANE), _ALL_BITS
        if test < count:
            lane, operand = tests.lane[first + test], tests.operand[first + test]
        record[start + test] = operand
        lanes |= np.uint64(lane) << (_LANE_BITS * np.uint64(test & 3))
    record[start + TESTS + 1] = word | lanes


@inlined
def test_of_leaf(
    compiled: Compiled, lookup: Lookup, table: LeafTable, leaf_tests: LeafTests, code: int
) -> np.int64:
    """Where `leaf_tests` has the test of a leaf."""
    position = table.position[code >> POLARITY_BITS]
    asked = np.int64(position) << POLARITY_BITS | code & _POLARITY_MASK
    if leaf_tests.told[asked] == UNASKED:
        lane, operand, told = leaf_test(compiled.predicates, lookup, code)
        leaf_tests.lane[asked], leaf_tests.operand[asked] = lane, operand
        leaf_tests.told[asked] = told
    return asked


@inlined
def _element_of(elements: Elements, row: int) -> int:
    """The first element of a row."""
    low, high = 0, elements.row.size
    while low < high:
        middle = (low + high) // 2
        if elements.row[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def _list_tests(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    table: LeafTable,
    row: int,
    leaf_tests: LeafTests,
    tests: Tests,
) -> tuple[int, bool]:
    """The tests of a row, and whether they and its key leave anything open."""
    programs = compiled.programs
    at, stop = conjunction_start(programs, row), programs.start[row + 1]
    if at < 0:
        return 0, True
    element = _element_of(elements, row)
    is_open = programs.code[programs.start[row]] < 0
    is_certain = not is_open and not elements.coarse[element]
    count = 0
    while at < stop and programs.code[at] >= 0:
        code = int(programs.code[at])
        at += 1
        if is_certain and _is_key_leaf(compiled, lookup, elements, table, element, code):
            continue
        asked = test_of_leaf(compiled, lookup, table, leaf_tests, code)
        told = leaf_tests.told[asked]
        if told != EXACT:
            is_open = True
        if told == NO_TEST:
            continue
        if count == ROW_TESTS_MAX:
            is_open = True
            continue
        share = table.share[table.position[code >> POLARITY_BITS]]
        place = count
        while place > 0 and tests.share[place - 1] > share:
            tests.lane[place], tests.operand[place] = (
                tests.lane[place - 1],
                tests.operand[place - 1],
            )
            tests.share[place] = tests.share[place - 1]
            place -= 1
        tests.lane[place], tests.operand[place] = leaf_tests.lane[asked], leaf_tests.operand[asked]
        tests.share[place] = share
        count += 1
    return count, is_open


@inlined
def lane_of_test(record: NDArray[np.uint64], line: int, test: int) -> int:
    """The lane of a test of a line."""
    lanes = record[line * RECORD_WORDS + (TESTS if test < 4 else TESTS + 1)]
    return int(np.int64(lanes >> (_LANE_BITS * np.uint64(test & 3)) & _LANE_MASK))


@leaf
def mark_lanes(record: NDArray[np.uint64], used: NDArray[np.bool_]) -> None:
    """Note the lanes that some record tests."""
    for line in range(record.size // RECORD_WORDS):
        for test in range(TESTS):
            used[lane_of_test(record, line, test)] = True


@inlined
def _is_key_leaf(
    compiled: Compiled,
    lookup: Lookup,
    elements: Elements,
    table: LeafTable,
    element: int,
    code: int,
) -> bool:
    """Is a leaf certain to hold where the row's key is met?"""
    for place in range(elements.leaf.shape[1]):
        if elements.leaf[element, place] == code:
            number = code >> POLARITY_BITS
            if code & _POLARITY_MASK != _IS_TRUE or table.lane[table.position[number]] == 0:
                return False
            return bool(parts_are_exact(compiled.predicates, lookup, number))
    return False
