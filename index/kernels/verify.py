"""Does a program hold on an event? Three answers, because some leaves only Python can test.

    NO         the filter is not TRUE
    YES        the filter is TRUE
    UNDECIDED  it depends on OPAQUE leaves: `index.evaluate.truth` has to settle it

A gate counts. Each child that holds lowers what it needs, each that fails lowers what it can spare;
at zero and below zero it is decided and the rest is skipped. A gate that reaches its end undecided
has too few certain children, but enough with the undecided ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.inlining import inlined
from index.kernels.leaf_test import FALSE, TRUE, enter_event, leaf_truth, leave_event
from index.kernels.scratch import OPAQUE, Scratch, new_scratch
from index.predicates import PredicateColumns
from index.program import GATE_WORDS, POLARITY_BITS, Programs
from index.threshold import Polarity

__all__ = [
    "NO",
    "OPEN",
    "UNDECIDED",
    "YES",
    "Scratch",
    "close_gates",
    "enter_event",
    "holds",
    "leaf_holds",
    "leave_event",
    "match_rows",
    "new_scratch",
    "open_gate",
]

NO = 0
YES = 1
UNDECIDED = 2
OPEN = 3
"""No verdict yet: the outermost gate goes on."""

_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE, _IS_FALSE = int(Polarity.IS_TRUE), int(Polarity.IS_FALSE)
_NOT_TRUE = int(Polarity.NOT_TRUE)


@inlined
def leaf_holds(predicates: PredicateColumns, leaf: int, batch: EventBatch, scratch: Scratch) -> int:
    """NO, YES or UNDECIDED of a leaf's code, 4 * predicate + polarity."""
    truth = leaf_truth(predicates, leaf >> POLARITY_BITS, batch, scratch)
    if truth == OPAQUE:
        return UNDECIDED
    polarity = leaf & _POLARITY_MASK
    if polarity == _IS_TRUE:
        return YES if truth == TRUE else NO
    if polarity == _IS_FALSE:
        return YES if truth == FALSE else NO
    if polarity == _NOT_TRUE:
        return YES if truth != TRUE else NO
    return YES if truth != FALSE else NO


@inlined
def holds(
    programs: Programs, predicates: PredicateColumns, batch: EventBatch, scratch: Scratch, row: int
) -> int:
    """NO, YES or UNDECIDED of a row on the event entered last."""
    code, gate = programs.code, scratch.gate
    at, stop = programs.start[row], programs.start[row + 1]
    if at == stop:
        return YES
    # The gate at hand is in local variables, those around it in the scratch. The row itself is the
    # outermost gate: a conjunction of its leaves, or of one gate.
    need, spare, depth = stop - at, 0, 0
    if code[at] < 0:
        need = 1
    while True:
        if code[at] < 0:
            depth, need, spare, stop = open_gate(code, at, gate, depth, need, spare, stop)
            at += GATE_WORDS
        else:
            verdict = leaf_holds(predicates, code[at], batch, scratch)
            at += 1
            need -= verdict == YES
            spare -= verdict == NO
        verdict, at, depth, need, spare, stop = close_gates(gate, at, depth, need, spare, stop)
        if verdict != OPEN:
            return verdict


@inlined
def open_gate(
    code: NDArray[Any],
    at: int,
    gate: NDArray[np.int64],
    depth: int,
    need: int,
    spare: int,
    stop: int,
) -> tuple[int, int, int, int]:
    """Put the gate at hand aside for the one that begins at `at`: depth, need, spare and stop."""
    gate[depth, 0], gate[depth, 1], gate[depth, 2] = need, spare, stop
    return depth + 1, -code[at], code[at + 1], at + code[at + 2]


@inlined
def close_gates(
    gate: NDArray[np.int64], at: int, depth: int, need: int, spare: int, stop: int
) -> tuple[int, int, int, int, int, int]:
    """Leave all gates that are decided or at their end; returns the verdict of the outermost, OPEN
    if it has none, and where to go on: place, depth, need, spare and stop.
    """
    verdict = OPEN
    while True:
        if need == 0:
            verdict = YES
        elif spare < 0:
            verdict = NO
        elif at == stop:
            verdict = UNDECIDED
        else:
            return OPEN, at, depth, need, spare, stop
        if depth == 0:
            return verdict, at, depth, need, spare, stop
        at = stop
        depth -= 1
        need, spare, stop = gate[depth, 0], gate[depth, 1], gate[depth, 2]
        need -= verdict == YES
        spare -= verdict == NO


@njit(cache=True, nogil=True)
def match_rows(
    programs: Programs,
    predicates: PredicateColumns,
    rows: NDArray[np.int32],
    batch: EventBatch,
    scratch: Scratch,
) -> NDArray[np.uint8]:
    """Verdicts of some rows on every event, [events, rows]: the plain way, for a few of them."""
    event_count = batch.entry_start.size - 1
    result = np.zeros((event_count, rows.size), np.uint8)
    for event in range(event_count):
        enter_event(batch, event, scratch.entry_of)
        for place in range(rows.size):
            result[event, place] = holds(programs, predicates, batch, scratch, rows[place])
        leave_event(batch, event, scratch.entry_of)
    return result
