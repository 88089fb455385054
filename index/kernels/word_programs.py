"""Programs over the words of an event: what is left to decide of rows whose records stay open.

    gate    -need | how many children may fail | length, itself included     as in index.program
    test    lane | mode << 16                  | operand                     of one leaf or several
    run     lane | RUN << 16                   | operand of a wide lane
    raw     RAW                                | leaf                        which no word tells

Leaves of an OR that are tested on one lane are one test of all their bits, and so are those of an
AND. A list of a hundred substrings is then two or three tests. A set of points on a wide lane is a
gate of runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.cover import conjunction_start
from index.kernels.filing import point_facet, point_of
from index.kernels.lanes import (
    EXACT,
    HASHED_LANES,
    TEXT_LANES,
    UNTESTED,
    WIDE,
    LaneColumns,
    Lookup,
    passes_wide,
    point_code,
)
from index.kernels.leaf_tests import wide_operand
from index.kernels.prefetch import prefetch
from index.kernels.probe import Compiled
from index.kernels.record_filing import ROW_TESTS_MAX, LeafTests, test_of_leaf
from index.kernels.schema_choice import LeafTable
from index.kernels.verify import (
    NO,
    OPEN,
    YES,
    Scratch,
    close_gates,
    leaf_holds,
    open_gate,
)
from index.predicates import ALL, PredicateColumns, PredicateKind
from index.program import GATE_WORDS, POLARITY_BITS
from index.spaces import FACET_BITS
from index.threshold import Polarity

TEST_WORDS = 2
_SOME, _EVERY, _RUN, _RAW = 0, 1, 2, 3
"""Modes: some bit of the operand is shown, all of them are, the code is in the run; no exact test.
"""
SET_POINTS_MAX = 64
"""A larger set is tested as it is."""
_OF_OR, _OF_AND, _OF_OTHERS = 0, 1, 2
_MODE_SHIFT = 16
_LANE_MASK = (1 << _MODE_SHIFT) - 1
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_POLARITY_MASK, _IS_TRUE = (1 << POLARITY_BITS) - 1, int(Polarity.IS_TRUE)
_IN = int(PredicateKind.IN)
_STARTS_AHEAD, _CODE_AHEAD = 16, 8


class WordPrograms(NamedTuple):
    """Programs of the rows from `first_row` on; those of rows without one are empty."""

    first_row: NDArray[np.int64]  # [1]
    start: NDArray[np.int32]  # [rows + 1], or nothing if no row has a program
    code: NDArray[np.int64]


class Writing(NamedTuple):
    """Gates around the place where a program is written. Working memory."""

    place: NDArray[np.int64]  # [GATE_DEPTH_MAX] of a gate in the code written
    stop: NDArray[np.int64]  # [GATE_DEPTH_MAX] of its source
    joins: NDArray[np.int64]  # [GATE_DEPTH_MAX] how its leaves are joined


@leaf
def room_for_programs(compiled: Compiled, rows: NDArray[np.int32]) -> int:
    """Words that the programs of rows have at most."""
    words = 0
    for row in rows:
        words += GATE_WORDS
        at, stop = compiled.programs.start[row], compiled.programs.start[row + 1]
        while at < stop:
            code = compiled.programs.code[at]
            words += GATE_WORDS
            if code >= 0:
                words += TEST_WORDS * min(_size_of(compiled, code), SET_POINTS_MAX)
            at += 1 if code >= 0 else GATE_WORDS
    return words


@inlined
def _size_of(compiled: Compiled, code: int) -> int:
    """How many points a leaf has; 1 if it is not about points."""
    number = code >> POLARITY_BITS
    is_set = compiled.predicates.record[number]["kind"] == _IN
    return int(compiled.predicates.record[number]["size"]) if is_set else 1


@leaf
def write_programs(
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    rows: NDArray[np.int32],
    is_residue: NDArray[np.bool_],
    memory: tuple[LeafTests, Writing],
    written: WordPrograms,
) -> int:
    """Write the programs of ascending rows; returns the words, for which there is room enough.

    Records tell all that they test exactly; rows of the residue have none.
    """
    count, at = 0, 0
    for place in range(written.start.size):
        written.start[place] = count
        if at < rows.size and rows[at] == written.first_row[0] + place:
            row = rows[at], is_residue[at]
            count = _write_row(compiled, lookup, table, row, memory, written.code, count)
            at += 1
    return count


@leaf
def _write_row(
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    asked_row: tuple[int, bool],
    memory: tuple[LeafTests, Writing],
    code: NDArray[np.int64],
    count: int,
) -> int:
    """Append the program of a row, which is one gate; returns how many words there are."""
    row, is_residue = asked_row
    source = compiled.programs.code
    at, stop = compiled.programs.start[row], compiled.programs.start[row + 1]
    leaf_tests, writing = memory
    depth = 0
    first = conjunction_start(compiled.programs, row)
    told_stop = first
    while told_stop >= 0 and told_stop < stop and source[told_stop] >= 0:
        told_stop += 1
    if is_residue or told_stop - first > ROW_TESTS_MAX:
        told_stop = -1
    if at == stop or source[at] >= 0:
        code[count], code[count + 1], code[count + 2] = at - stop, 0, GATE_WORDS
        writing.place[0], writing.stop[0], writing.joins[0] = count, stop, _OF_AND
        count, depth = count + GATE_WORDS, 1
    while at < stop:
        if source[at] < 0:
            code[count], code[count + 1] = source[at], source[at + 1]
            writing.place[depth], writing.stop[depth] = count, at + source[at + 2]
            writing.joins[depth] = _OF_OTHERS
            if source[at] == -1:
                writing.joins[depth] = _OF_OR
            elif source[at + 1] == 0:
                writing.joins[depth] = _OF_AND
            count, depth, at = count + GATE_WORDS, depth + 1, at + GATE_WORDS
        else:
            test = int(test_of_leaf(compiled, lookup, table, leaf_tests, source[at]))
            asked = int(source[at]), test
            gate = int(writing.place[depth - 1]), int(writing.joins[depth - 1])
            if at < told_stop and leaf_tests.told[asked[1]] == EXACT:
                code[gate[0]] += 1
            else:
                count = _write_leaf(compiled, lookup, leaf_tests, code, gate, count, asked)
            at += 1
        while depth > 0 and at == writing.stop[depth - 1]:
            depth -= 1
            code[writing.place[depth] + 2] = count - writing.place[depth]
    return count


@inlined
def _write_leaf(
    compiled: Compiled,
    lookup: Lookup,
    leaf_tests: LeafTests,
    code: NDArray[np.int64],
    gate: tuple[int, int],
    count: int,
    asked: tuple[int, int],
) -> int:
    """Append the test of a leaf, or join it to one of the same gate, which is place and joins.

    asked   the leaf, and where its test is
    """
    leaf, test = asked
    place, joins = gate
    lane, operand = np.int64(leaf_tests.lane[test]), leaf_tests.operand[test]
    if leaf_tests.told[test] != EXACT:
        return _write_set(compiled, lookup, code, count, leaf)
    if lane >= lookup.lanes.first[HASHED_LANES]:
        code[count], code[count + 1] = lane | _RUN << _MODE_SHIFT, np.int64(operand)
        return count + TEST_WORDS
    is_text = lane >= lookup.lanes.first[TEXT_LANES]
    is_single = operand & (operand - _ONE) == _ZERO
    joins_some = joins == _OF_OR
    joins_every = joins == _OF_AND and (is_single or not is_text)
    mode = _EVERY if joins_every and is_text else _SOME
    head = lane | mode << _MODE_SHIFT
    if joins_some or joins_every:
        before = _same_test(code, place, count, int(head))
        if before >= 0:
            joined = np.uint64(code[before + 1])
            keeps_all = joins_some or mode == _EVERY
            code[before + 1] = np.int64(joined | operand if keeps_all else joined & operand)
            # One child less: of an OR one less may fail, of an AND one less is needed.
            code[place] += 0 if joins_some else 1
            code[place + 1] -= 1 if joins_some else 0
            return count
    code[count], code[count + 1] = head, np.int64(operand)
    return count + TEST_WORDS


@inlined
def _write_set(
    compiled: Compiled, lookup: Lookup, code: NDArray[np.int64], count: int, leaf: int
) -> int:
    """Append a gate of the points of a set on a wide lane, or any leaf as it is."""
    predicates, lanes = compiled.predicates, lookup.lanes
    number = leaf >> POLARITY_BITS
    record = predicates.record[number]
    size = _size_of(compiled, leaf)
    lane = 0
    is_set = record["kind"] == _IN and record["flags"] & ALL == 0 and size <= SET_POINTS_MAX
    if is_set and leaf & _POLARITY_MASK == _IS_TRUE:
        lane = _lane_of_set(predicates, lanes, number, size)
    if lane < lanes.first[WIDE] or lane >= lanes.first[UNTESTED]:
        code[count], code[count + 1] = _RAW << _MODE_SHIFT, leaf
        return count + TEST_WORDS
    code[count], code[count + 1], code[count + 2] = -1, size - 1, GATE_WORDS + TEST_WORDS * size
    count += GATE_WORDS
    for at in range(size):
        key, mark = point_of(predicates, number, at)
        point = point_code(lanes.point, lane, key, mark)
        code[count] = lane | _RUN << _MODE_SHIFT
        code[count + 1] = np.int64(wide_operand(point, point, _IS_TRUE))
        count += TEST_WORDS
    return count


@inlined
def _lane_of_set(predicates: PredicateColumns, lanes: LaneColumns, number: int, size: int) -> int:
    """The lane that all points of a set lie on; 0 if there are two."""
    record = predicates.record[number]
    base = int(record["attribute"]) << FACET_BITS
    lane = 0
    for at in range(size):
        mark = point_of(predicates, number, at)[1]
        mine = int(lanes.lane_of[base | point_facet(record["flags"], mark)])
        if at > 0 and mine != lane:
            return 0
        lane = mine
    return lane


@inlined
def _same_test(code: NDArray[np.int64], gate: int, count: int, head: int) -> int:
    """The test right below a gate that begins so, or -1. Leaves stand before gates."""
    place = gate + GATE_WORDS
    while place < count and code[place] >= 0:
        if code[place] == head:
            return int(place)
        place += TEST_WORDS
    return -1


@leaf
def mark_tested(programs: WordPrograms, used: NDArray[np.bool_]) -> None:
    """Note the lanes that some program tests."""
    at = 0
    while at < programs.code.size:
        head = programs.code[at]
        if head >= 0 and head != _RAW << _MODE_SHIFT:
            used[head & _LANE_MASK] = True
        at += TEST_WORDS if head >= 0 else GATE_WORDS


@inlined
def ask_for_program(programs: WordPrograms, row: NDArray[np.int32], at: int, count: int) -> None:
    """Ask for what the programs of later rows read."""
    if at + _STARTS_AHEAD < count:
        prefetch(programs.start, int(row[at + _STARTS_AHEAD] - programs.first_row[0]))
    if at + _CODE_AHEAD < count:
        ahead = row[at + _CODE_AHEAD] - programs.first_row[0]
        prefetch(programs.code, int(programs.start[ahead]))


@inlined
def words_hold(
    programs: WordPrograms,
    row: int,
    word: NDArray[np.uint64],
    words: int,
    predicates: PredicateColumns,
    batch: EventBatch,
    scratch: Scratch,
) -> int:
    """NO, YES or UNDECIDED of a row on the event entered last, whose words begin at `words`."""
    code, gate = programs.code, scratch.gate
    at = int(programs.start[row - programs.first_row[0]])
    need, spare, stop, depth = -code[at], code[at + 1], at + code[at + 2], 0
    at += GATE_WORDS
    while True:
        if at < stop and code[at] < 0:
            depth, need, spare, stop = open_gate(code, at, gate, depth, need, spare, stop)
            at += GATE_WORDS
        elif at < stop:
            head, operand = code[at], np.uint64(code[at + 1])
            at += TEST_WORDS
            if head == _RAW << _MODE_SHIFT:
                verdict = leaf_holds(predicates, int(code[at - 1]), batch, scratch)
            else:
                shown, mode = word[words + (head & _LANE_MASK)], head >> _MODE_SHIFT
                holds = shown & operand != _ZERO
                if mode == _EVERY:
                    holds = shown & operand == operand
                elif mode == _RUN:
                    holds = passes_wide(shown, operand, False)
                verdict = YES if holds else NO
            need -= verdict == YES
            spare -= verdict == NO
        verdict, at, depth, need, spare, stop = close_gates(gate, at, depth, need, spare, stop)
        if verdict != OPEN:
            return verdict
