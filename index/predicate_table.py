"""The predicate table: numbers distinct predicates and builds their columns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.bulk_lowering import lower_all
from index.growing import GrowingArray, read_only
from index.kernels.byte_copies import copy_bytes
from index.kernels.predicate_interning import (
    PredicateWords,
    file_predicates,
    find_predicates,
    first_equals,
)
from index.lowering import lower_each
from index.model import Element, Predicate
from index.opaque import opaque_predicate
from index.predicates import (
    NOCASE,
    RECORD,
    PredicateColumns,
    PredicateKind,
    put_behind,
)
from index.runs import places_of_runs
from index.vocabulary import Vocabulary

BULK_MIN = 64
"""From so many predicates on, lowering them together is quicker than one by one."""
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
        self._slots: NDArray[np.uint64] = np.zeros(2, np.uint64)
        self._filed = 0

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

    def opaque(self, number: int) -> Predicate:
        """The predicate of a record that is OPAQUE_TEXT or OPAQUE_EQUAL."""
        return opaque_predicate(self.columns(), number)

    def number(self, predicate: Predicate | Element) -> int:
        """The number of a positive predicate, as leaves of threshold trees hold; given on first
        sight.
        """
        return int(self.numbers((predicate,))[0])

    def numbers(self, predicates: Sequence[Predicate | Element]) -> NDArray[np.int64]:
        """[n] the numbers of many predicates; much cheaper than one by one."""
        lowered = lower_all if len(predicates) >= BULK_MIN else lower_each
        columns = lowered(predicates, self.vocabulary)
        self._file()  # after opening a snapshot nothing is filed yet
        numbers = find_predicates(self._words(), self._slots, words_of(columns), self._seed)
        new = np.flatnonzero(numbers < 0)
        if new.size:
            is_some = new.size < numbers.size
            numbers[new] = self._append(some_predicates(columns, new) if is_some else columns)
        return numbers

    def _append(self, added: PredicateColumns) -> NDArray[np.int64]:
        """Append what is not in the table, and return the number of each."""
        if np.any(added.record["flags"] & NOCASE):
            self.vocabulary.need_folding()
        kept, place = distinct_numbers(added)
        if kept.size < place.size:
            added = some_predicates(added, kept)
        first = len(self)
        behind = len(self._member_number), len(self._needle_start) - 1
        self._records.extend(put_behind(added.record, *behind))
        self._member_number.extend(added.member_number)
        self._member_mark.extend(added.member_mark)
        self._needle_start.extend(added.needle_start[1:] + len(self._needle))
        self._needle.extend(added.needle)
        return first + place.astype(np.int64)

    def _file(self) -> None:
        """Bring into the slots what was appended since; they are at most half full."""
        if self._filed == len(self):
            return
        if 2 * len(self) > self._slots.size:
            self._filed = 0
            self._slots = np.zeros(max(_SLOTS_MIN, 1 << (3 * len(self)).bit_length()), np.uint64)
        file_predicates(self._words(), self._slots, self._seed, self._filed)
        self._filed = len(self)

    def _words(self) -> PredicateWords:
        return words_of(self.columns())


def words_of(columns: PredicateColumns) -> PredicateWords:
    """The same memory as words, read-only wherever it is from: kernels are compiled once."""
    return PredicateWords(
        read_only(columns.record.view(np.uint64).reshape(-1, _WORDS)),
        read_only(columns.member_number.view(np.uint64)),
        read_only(columns.member_mark),
        read_only(columns.needle_start),
        read_only(columns.needle),
    )


def some_predicates(columns: PredicateColumns, rows: NDArray[np.int64]) -> PredicateColumns:
    """Some predicates, in the order of `rows`, with their members and needles and no others."""
    record = columns.record[rows]
    is_set = record["kind"] == PredicateKind.IN
    members, record["start"][is_set] = _spans(record[is_set])
    needles, record["start"][~is_set] = _spans(record[~is_set])
    texts = columns.needle_start, columns.needle
    needle_start, needle = copy_bytes(texts, needles.astype(np.int32))
    return PredicateColumns(
        read_only(record),
        read_only(columns.member_number[members]),
        read_only(columns.member_mark[members]),
        read_only(needle_start),
        read_only(needle),
    )


def _spans(record: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the operands of records lie, all in turn, and where each record's begin among these."""
    size = record["size"].astype(np.int64)
    first: NDArray[np.int64] = np.cumsum(size) - size
    return places_of_runs(record["start"], size), first


def distinct_numbers(columns: PredicateColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which predicates equal none before them, ascending, and each one's place among these."""
    slots = np.zeros(1 << (2 * columns.record.size).bit_length(), np.uint64)
    first = first_equals(words_of(columns), slots, np.uint64(secrets.randbits(64)))
    kept = np.flatnonzero(first == np.arange(first.size))
    return kept, np.searchsorted(kept, first).astype(np.int32)
