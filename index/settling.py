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
from index.kernels.scratch import OPAQUE, new_scratch, settled_table
from index.kernels.settle import Pairs, verify_pairs, wanted_truths
from index.model import Instant, Now, Predicate
from index.predicate_table import PredicateTable
from index.program import Programs

REMEMBERED_MAX = 1 << 14
"""Strings whose truths are remembered from batch to batch; if there are more, all are forgotten."""
REMEMBERED_BYTES_MAX = 1 << 10
"""Longer strings seldom come twice, and would make the memory of truths large."""

_STRING_BITS = np.uint64(32)
_STRING_MASK = np.uint64(0xFFFFFFFF)


class Settler:
    """Settles undecided rows of programs over one predicate table; any number of threads may."""

    def __init__(self, predicates: PredicateTable) -> None:
        self.predicates = predicates
        self._remembered: dict[bytes, dict[int, int]] = {}
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
        """The truth that each key stands for; string by string, because several share one."""
        strings = (keys & _STRING_MASK).astype(np.int64)
        order = np.argsort(strings, kind="stable")
        numbers = (keys[order] >> _STRING_BITS).tolist()
        distinct, first = np.unique(strings[order], return_index=True)
        bounds = [*first.tolist(), keys.size]
        starts = batch.string_start[distinct].tolist()
        stops = batch.string_start[distinct + 1].tolist()
        truths: list[int] = []
        for at, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            text = batch.text[start:stop].tobytes()
            truths += self._truths_of_text(text, numbers[bounds[at] : bounds[at + 1]], now)
        result = np.empty(keys.size, np.uint8)
        result[order] = truths
        return result

    def _truths_of_text(self, text: bytes, numbers: list[int], now: Instant) -> list[int]:
        known = self._known(text)
        truths = [known.get(number, OPAQUE) for number in numbers]
        for at, number in enumerate(numbers):
            if truths[at] == OPAQUE:
                truths[at], lasting = self._tested(number, text.decode(), now)
                if lasting:
                    known[number] = truths[at]
        return truths

    def _known(self, text: bytes) -> dict[int, int]:
        """Truths of predicates on a text, to be looked up and added to."""
        if len(text) > REMEMBERED_BYTES_MAX:
            return {}
        known = self._remembered.get(text)
        if known is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[text] = {}
        return known

    def _tested(self, number: int, text: str, now: Instant) -> tuple[int, bool]:
        """The truth of a predicate on a text, and whether it stays so whatever the time."""
        predicate = self._predicate_of.get(number)
        if predicate is None:
            predicate = self._predicate_of[number] = self.predicates.opaque(number)
        truth = _code_of(value_truth(predicate.operator, predicate, text, now))
        return truth, not _asks_now(predicate)


def _code_of(truth: Truth) -> int:
    if truth is None:
        return UNKNOWN
    return TRUE if truth else FALSE


def _asks_now(predicate: Predicate) -> bool:
    operand = predicate.operand
    return isinstance(operand, Now) or (
        isinstance(operand, tuple) and any(isinstance(one, Now) for one in operand)
    )
