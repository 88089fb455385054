"""Second look at undecided rows: which truths would decide them, and what they then come to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.columns import EventBatch, ValueType
from index.kernels.leaf_test import enter_event, leave_event
from index.kernels.scratch import Scratch, settling_key
from index.kernels.verify import holds
from index.predicates import PredicateColumns, PredicateKind
from index.program import GATE_WORDS, POLARITY_BITS, Programs

_STRING = int(ValueType.STRING)
_OPAQUE_TEXT, _OPAQUE_EQUAL = int(PredicateKind.OPAQUE_TEXT), int(PredicateKind.OPAQUE_EQUAL)


class Pairs(NamedTuple):
    """Rows on events, by ascending event."""

    event: NDArray[np.int64]
    row: NDArray[np.int64]


@njit(cache=True, nogil=True)
def wanted_truths(
    programs: Programs,
    predicates: PredicateColumns,
    batch: EventBatch,
    scratch: Scratch,
    pairs: Pairs,
) -> NDArray[np.uint64]:
    """Keys of all opaque predicates of the pairs' rows on the strings of their events."""
    keys = np.empty(64, np.uint64)
    count = 0
    for at in range(pairs.row.size):
        _turn_to(batch, scratch, pairs, at)
        word = programs.start[pairs.row[at]]
        while word < programs.start[pairs.row[at] + 1]:
            code = programs.code[word]
            if code < 0:
                word += GATE_WORDS
                continue
            word += 1
            number = code >> POLARITY_BITS
            kind = predicates.record[number]["kind"]
            entry = scratch.entry_of[predicates.record[number]["attribute"]]
            if entry < 0 or (kind != _OPAQUE_TEXT and kind != _OPAQUE_EQUAL):
                continue
            for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
                if batch.value_type[value] == _STRING:
                    if count == keys.size:
                        keys = np.append(keys, np.empty(count, np.uint64))
                    keys[count] = settling_key(number, batch.value_string[value])
                    count += 1
    _turn_to(batch, scratch, pairs, pairs.row.size)
    return keys[:count]


@njit(cache=True, nogil=True)
def verify_pairs(
    programs: Programs,
    predicates: PredicateColumns,
    batch: EventBatch,
    scratch: Scratch,
    pairs: Pairs,
) -> NDArray[np.uint8]:
    """The verdict of each pair, given the truths settled in the scratch."""
    verdicts = np.empty(pairs.row.size, np.uint8)
    for at in range(pairs.row.size):
        _turn_to(batch, scratch, pairs, at)
        verdicts[at] = holds(programs, predicates, batch, scratch, pairs.row[at])
    _turn_to(batch, scratch, pairs, pairs.row.size)
    return verdicts


@njit(cache=True, nogil=True)
def _turn_to(batch: EventBatch, scratch: Scratch, pairs: Pairs, at: int) -> None:
    """Leave the event of the pair before and enter that of pair `at`, unless they are the same."""
    if 0 < at < pairs.event.size and pairs.event[at] == pairs.event[at - 1]:
        return
    if at > 0:
        leave_event(batch, pairs.event[at - 1], scratch.entry_of)
    if at < pairs.event.size:
        enter_event(batch, pairs.event[at], scratch.entry_of)
