"""Programs over the words of an event: what is left to decide of rows whose records stay open.

    gate    -need | how many children may fail | length, itself included     as in index.program
    test    lane | mode << 16                  | operand                     of one leaf or several
    raw     RAW                                | leaf                        which no word tells

Leaves of an OR that are tested on one lane are one test of all their bits, and so are those of an
AND. A list of a hundred substrings is then two or three tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.lanes import EXACT, HASHED_LANES, TEXT_LANES, Lookup
from index.kernels.probe import Compiled
from index.kernels.record_filing import LeafTests, test_of_leaf
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
from index.predicates import PredicateColumns
from index.program import GATE_WORDS

TEST_WORDS = 2
_SOME, _EVERY, _RAW = 0, 1, 2
"""Modes: some bit of the operand is shown, all of them are, the leaf has no exact test."""
_OF_OR, _OF_AND, _OF_OTHERS = 0, 1, 2
_MODE_SHIFT = 16
_LANE_MASK = (1 << _MODE_SHIFT) - 1
_ZERO, _ONE = np.uint64(0), np.uint64(1)


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
def write_programs(
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    rows: NDArray[np.int32],
    memory: tuple[LeafTests, Writing],
    written: WordPrograms,
) -> int:
    """Write the programs of ascending rows; returns the words, for which there is room enough."""
    count, at = 0, 0
    for place in range(written.start.size):
        written.start[place] = count
        if at < rows.size and rows[at] == written.first_row[0] + place:
            count = _write_row(compiled, lookup, table, rows[at], memory, written.code, count)
            at += 1
    return count


@leaf
def _write_row(
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    row: int,
    memory: tuple[LeafTests, Writing],
    code: NDArray[np.int64],
    count: int,
) -> int:
    """Append the program of a row, which is one gate; returns how many words there are."""
    source = compiled.programs.code
    at, stop = compiled.programs.start[row], compiled.programs.start[row + 1]
    leaf_tests, writing = memory
    depth = 0
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
            count = _write_leaf(lookup, leaf_tests, code, gate, count, asked)
            at += 1
        while depth > 0 and at == writing.stop[depth - 1]:
            depth -= 1
            code[writing.place[depth] + 2] = count - writing.place[depth]
    return count


@inlined
def _write_leaf(
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
    if leaf_tests.told[test] != EXACT or lane >= lookup.lanes.first[HASHED_LANES]:
        code[count], code[count + 1] = _RAW << _MODE_SHIFT, leaf
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
                shown = word[words + (head & _LANE_MASK)] & operand
                holds = shown == operand if head >> _MODE_SHIFT else shown != _ZERO
                verdict = YES if holds else NO
            need -= verdict == YES
            spare -= verdict == NO
        verdict, at, depth, need, spare, stop = close_gates(gate, at, depth, need, spare, stop)
        if verdict != OPEN:
            return verdict
