"""Settling: the rows a kernel left undecided, decided by testing strings and not whole filters.

Kernels cannot run a regular expression, read an address or read an instant. What is undecided
because of that hangs on a few (predicate, string) pairs, far fewer than rows and events: many rows
share a predicate, many events share a string. Each pair is tested once in Python, remembered for
later batches if NOW() has no part in it, and the kernel then looks again.

Rows stay undecided only where an opaque leaf is about more than one string: `p[...]`, and IN with
instants among other operands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.evaluate import Truth, value_truth
from index.kernels.leaf_test import FALSE, TRUE, UNKNOWN
from index.kernels.scratch import new_scratch, settled_table
from index.kernels.settle import Pairs, verify_pairs, wanted_truths
from index.model import Instant, Now, Predicate
from index.predicate_table import PredicateTable
from index.program import Programs

REMEMBERED_MAX = 1 << 16
"""Truths remembered from batch to batch; all are forgotten when there are more."""
REMEMBERED_BYTES_MAX = 1 << 10
"""Longer strings seldom come twice, and would make the memory of truths large."""

_STRING_BITS = np.uint64(32)
_STRING_MASK = np.uint64(0xFFFFFFFF)


class Settler:
    """Settles undecided rows of programs over one predicate table; any number of threads may."""

    def __init__(self, predicates: PredicateTable) -> None:
        self.predicates = predicates
        self._remembered: dict[tuple[int, bytes], int] = {}
        self._predicate_of: dict[int, Predicate] = {}

    def verdicts(
        self, programs: Programs, batch: EventBatch, pairs: Pairs, now: Instant
    ) -> NDArray[np.uint8]:
        """NO or YES of each pair, or UNDECIDED where only the whole filter can tell."""
        predicates = self.predicates.columns()
        attribute_count = self.predicates.vocabulary.attribute_count
        scratch = new_scratch(attribute_count)
        keys = np.unique(wanted_truths(programs, predicates, batch, scratch, pairs))
        settled = settled_table(keys, self._truths(keys, batch, now))
        scratch = new_scratch(attribute_count, settled)
        return verify_pairs(programs, predicates, batch, scratch, pairs)

    def _truths(
        self, keys: NDArray[np.uint64], batch: EventBatch, now: Instant
    ) -> NDArray[np.uint8]:
        numbers = (keys >> _STRING_BITS).tolist()
        strings = (keys & _STRING_MASK).astype(np.int64)
        starts = batch.string_start[strings].tolist()
        stops = batch.string_start[strings + 1].tolist()
        truths = [
            self._truth(number, batch.text[start:stop].tobytes(), now)
            for number, start, stop in zip(numbers, starts, stops, strict=True)
        ]
        return np.array(truths, np.uint8)

    def _truth(self, number: int, text: bytes, now: Instant) -> int:
        known = self._remembered.get((number, text))
        if known is not None:
            return known
        predicate = self._predicate_of.get(number)
        if predicate is None:
            predicate = self._predicate_of[number] = self.predicates.opaque(number)
        truth = _code_of(value_truth(predicate.operator, predicate, text.decode(), now))
        if len(text) <= REMEMBERED_BYTES_MAX and not _asks_now(predicate):
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[number, text] = truth
        return truth


def _code_of(truth: Truth) -> int:
    if truth is None:
        return UNKNOWN
    return TRUE if truth else FALSE


def _asks_now(predicate: Predicate) -> bool:
    operand = predicate.operand
    return isinstance(operand, Now) or (
        isinstance(operand, tuple) and any(isinstance(one, Now) for one in operand)
    )
