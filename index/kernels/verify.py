"""Does a program hold on an event? Three answers, because some leaves only Python can test.

    NO         the filter is not TRUE
    YES        the filter is TRUE
    UNDECIDED  it depends on OPAQUE leaves: `index.evaluate.truth` has to settle it

A gate counts. Each child that holds lowers what it needs, each that fails lowers what it can spare;
at zero and below zero it is decided and the rest is skipped. A gate that reaches its end undecided
has too few certain children, but enough with the undecided ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.leaf_test import (
    FALSE,
    OPAQUE,
    TRUE,
    enter_event,
    leaf_truth,
    leave_event,
)
from index.predicates import PredicateColumns
from index.program import GATE_DEPTH_MAX, GATE_WORDS, POLARITY_BITS, Programs
from index.threshold import Polarity

NO = 0
YES = 1
UNDECIDED = 2

_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE, _IS_FALSE = int(Polarity.IS_TRUE), int(Polarity.IS_FALSE)
_NOT_TRUE = int(Polarity.NOT_TRUE)


class Scratch(NamedTuple):
    """Working memory of one thread."""

    entry_of: NDArray[np.int32]  # [attributes] entry of the event entered last, or -1
    gate: NDArray[np.int64]  # [GATE_DEPTH_MAX, 3] open gates: still needed, can be spared, stop


def new_scratch(attribute_count: int) -> Scratch:
    """Scratch for batches and predicates of a vocabulary with that many attributes."""
    return Scratch(np.full(attribute_count, -1, np.int32), np.zeros((GATE_DEPTH_MAX, 3), np.int64))


@njit(cache=True, nogil=True)
def leaf_holds(
    predicates: PredicateColumns, leaf: int, batch: EventBatch, entry_of: NDArray[np.int32]
) -> int:
    """NO, YES or UNDECIDED of a leaf's code, 4 * predicate + polarity."""
    truth = leaf_truth(predicates, leaf >> POLARITY_BITS, batch, entry_of)
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


@njit(cache=True, nogil=True)
def holds(
    programs: Programs, predicates: PredicateColumns, batch: EventBatch, scratch: Scratch, row: int
) -> int:
    """NO, YES or UNDECIDED of a row on the event entered last."""
    start, stop = programs.start[row], programs.start[row + 1]
    if start == stop:
        return YES
    if programs.code[start] < 0:
        return _gates_hold(programs, predicates, batch, scratch, start)
    result = YES
    for at in range(start, stop):
        verdict = leaf_holds(predicates, programs.code[at], batch, scratch.entry_of)
        if verdict == NO:
            return NO
        if verdict == UNDECIDED:
            result = UNDECIDED
    return result


@njit(cache=True, nogil=True)
def _gates_hold(
    programs: Programs, predicates: PredicateColumns, batch: EventBatch, scratch: Scratch, at: int
) -> int:
    """The same for a program that begins with a gate, at code[at]."""
    code, gate = programs.code, scratch.gate
    depth = -1
    while True:
        if code[at] < 0:
            depth += 1
            gate[depth, 0] = -code[at]
            gate[depth, 1] = code[at + 1]
            gate[depth, 2] = at + code[at + 2]
            at += GATE_WORDS
            if gate[depth, 1] >= 0:
                continue
            verdict = NO  # NEVER: it needs more children than it has
            depth -= 1
        else:
            verdict = leaf_holds(predicates, code[at], batch, scratch.entry_of)
            at += 1
        while depth >= 0:
            if verdict == YES:
                gate[depth, 0] -= 1
            elif verdict == NO:
                gate[depth, 1] -= 1
            if gate[depth, 0] == 0:
                verdict = YES
            elif gate[depth, 1] < 0:
                verdict = NO
            elif at == gate[depth, 2]:
                verdict = UNDECIDED
            else:
                break
            at = gate[depth, 2]
            depth -= 1
        if depth < 0:
            return verdict


@njit(cache=True, nogil=True)
def match_all(
    programs: Programs, predicates: PredicateColumns, batch: EventBatch, scratch: Scratch
) -> NDArray[np.uint8]:
    """Every row on every event, [events, rows]: the plain way, for tests and small sets."""
    event_count, row_count = batch.entry_start.size - 1, programs.start.size - 1
    result = np.zeros((event_count, row_count), np.uint8)
    for event in range(event_count):
        enter_event(batch, event, scratch.entry_of)
        for row in range(row_count):
            result[event, row] = holds(programs, predicates, batch, scratch, row)
        leave_event(batch, event, scratch.entry_of)
    return result
