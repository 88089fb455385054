"""The predicate table: numbers distinct predicates and builds their columns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.growing import GrowingArray
from index.kernels.predicate_interning import PredicateWords, file_predicates, intern_last
from index.lowering import Lowered, lower
from index.model import Element, Predicate
from index.predicates import NOCASE, RECORD, SIZE_MAX, PredicateColumns, PredicateKind
from index.vocabulary import Vocabulary

_WORDS = RECORD.itemsize // 8
_SLOTS_MIN = 256


class PredicateTable:
    """Numbers predicates densely from 0; equal ones share a number, and a number never changes.

    One writer at a time; columns taken earlier stay valid while the table grows. Numbers, codes and
    attributes all belong to one vocabulary.
    """

    def __init__(
        self, vocabulary: Vocabulary, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self._seed = np.uint64(secrets.randbits(64))
        known = arrays or {}
        words = known.get("predicate_word")
        records = None if words is None else words.view(RECORD).reshape(-1)
        self._records = GrowingArray(RECORD, records)
        self._member_number = GrowingArray(np.float64, known.get("member_number"))
        self._member_mark = GrowingArray(np.int16, known.get("member_mark"))
        self._needle_start = GrowingArray(np.int64, known.get("needle_start"))
        self._needle = GrowingArray(np.uint8, known.get("needle"))
        if not len(self._needle_start):
            self._needle_start.append(0)
        self._slots: NDArray[np.uint64] = np.zeros(0, np.uint64)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], vocabulary: Vocabulary
    ) -> PredicateTable:
        """The table that `to_arrays` wrote, over the vocabulary it was built with.

        The arrays may be mapped and read-only: the first new predicate copies them.
        """
        return cls(vocabulary, arrays)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers that a snapshot can hold."""
        return {
            "predicate_word": self._words().word,
            "member_number": self._member_number.view(),
            "member_mark": self._member_mark.view(),
            "needle_start": self._needle_start.view(),
            "needle": self._needle.view(),
        }

    def __len__(self) -> int:
        return len(self._records)

    def columns(self) -> PredicateColumns:
        """What kernels test, for all predicates numbered so far; costs no copy."""
        return PredicateColumns(
            self._records.view(),
            self._member_number.view(),
            self._member_mark.view(),
            self._needle_start.view(),
            self._needle.view(),
        )

    def kind(self, number: int) -> PredicateKind:
        """How a predicate is tested."""
        return PredicateKind(self._records.view()["kind"][number])

    def number(self, predicate: Predicate | Element) -> int:
        """The number of a positive predicate, as leaves of threshold trees hold; given on first
        sight.
        """
        lowered = lower(predicate, self.vocabulary.string)
        attribute = self.vocabulary.attribute(predicate.path)
        if lowered.flags & NOCASE:
            self.vocabulary.need_folding()
        lengths = self._lengths()
        self._append(lowered, attribute)
        if 2 * len(self._records) > self._slots.size:
            self._rehash()
        number = int(intern_last(self._words(), self._slots, self._seed))
        if number < len(self._records) - 1:
            for array, length in zip(self._arrays(), lengths, strict=True):
                array.truncate(length)
        return number

    def _append(self, lowered: Lowered, attribute: int) -> None:
        """Append a record without asking whether there is an equal one."""
        size = len(lowered.members) + len(lowered.needles)
        if size > SIZE_MAX:
            raise ValueError(
                f"{size} values in one list; kernels hold at most {SIZE_MAX}: lower the limit "
                "filter_list_values, or split the list with OR"
            )
        start = 0
        if lowered.members:
            start = len(self._member_number)
            numbers, marks = zip(*lowered.members, strict=True)
            self._member_number.extend(numbers)
            self._member_mark.extend(marks)
        elif lowered.needles:
            start = len(self._needle_start) - 1
            for needle in lowered.needles:
                self._needle.extend(np.frombuffer(needle, np.uint8))
                self._needle_start.append(len(self._needle))
        (low, low_residual), (high, high_residual) = lowered.low, lowered.high
        kind, flags = lowered.kind, lowered.flags
        self._records.append(
            (kind, flags, low_residual, high_residual, size, attribute, start, low, high)
        )

    def _rehash(self) -> None:
        """File all but the last record, which is not known to be distinct, in twice the slots."""
        count = len(self._records) - 1
        self._slots = np.zeros(max(_SLOTS_MIN, 1 << (4 * count).bit_length()), np.uint64)
        words = self._words()
        file_predicates(words._replace(word=words.word[:count]), self._slots, self._seed)

    def _words(self) -> PredicateWords:
        return PredicateWords(
            self._records.view().view(np.uint64).reshape(-1, _WORDS),
            self._member_number.view().view(np.uint64),
            self._member_mark.view(),
            self._needle_start.view(),
            self._needle.view(),
        )

    def _arrays(self) -> tuple[GrowingArray, ...]:
        return (
            self._records,
            self._member_number,
            self._member_mark,
            self._needle_start,
            self._needle,
        )

    def _lengths(self) -> list[int]:
        return [len(array) for array in self._arrays()]
