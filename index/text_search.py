"""What holds of the strings of a batch: needles by one pass, regular expressions by sets."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.text_runs import (
    FILLED,
    TextColumns,
    TextMemory,
    count_most,
    mark_strings,
    scan_strings,
)
from index.predicates import PredicateColumns
from index.regexes import RegexSets

FOUND_PER_STRING = 8
"""Room for what holds of a string, at first."""
SPARE_MAX = 4
"""Marks of earlier calls are kept for so many threads."""


class TextSearch:
    """Searches strings for the text predicates of a segment; any number of threads may."""

    def __init__(self, texts: TextColumns) -> None:
        self._texts = texts
        self._regexes: RegexSets | None = None
        self._spare: list[tuple[NDArray[np.int64], int]] = []

    def found_in(self, predicates: PredicateColumns, batch: EventBatch) -> TextMemory:
        """What holds of each string of a batch that some text predicate is asked of."""
        texts, string_count = self._texts, batch.string_code.size
        run, asker = np.full((string_count, 2), -1, np.int64), np.empty(string_count, np.int32)
        counts, no_marks = np.zeros(3, np.int64), np.empty(0, np.int64)
        memory = TextMemory(run, asker, np.empty(0, np.int32), no_marks, counts)
        if not texts.attribute.size:
            return memory
        mark, first_mark = self._marks()
        told = self._regexes_found(predicates, batch)
        room = FOUND_PER_STRING * string_count + told[1].size + texts.attribute.size
        memory = memory._replace(found=np.empty(room, np.int32), mark=mark)
        mark_strings(texts, batch, memory)
        while not scan_strings(texts, predicates, batch, told, first_mark, memory):
            found = np.empty(2 * memory.found.size, np.int32)
            found[: memory.counts[FILLED]] = memory.found[: memory.counts[FILLED]]
            memory = memory._replace(found=found)
        count_most(texts, batch, memory)
        if len(self._spare) < SPARE_MAX:
            self._spare.append((mark, first_mark + string_count))
        return memory

    def _marks(self) -> tuple[NDArray[np.int64], int]:
        """Marks that no other thread has, and a number above all of them."""
        with suppress(IndexError):
            return self._spare.pop()
        texts = self._texts
        nodes = texts.exact.label.size + texts.folded.label.size
        return np.full(nodes + texts.attribute.size, -1, np.int64), 0

    def _regexes_found(
        self, predicates: PredicateColumns, batch: EventBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        if self._regexes is None:
            self._regexes = RegexSets(self._texts, predicates)
        return self._regexes.holding(batch)
