"""The predicate table: numbers distinct predicates and builds their columns."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.growing import GrowingArray
from index.kernels.predicate_interning import (
    PredicateWords,
    file_predicates,
    find_predicates,
    first_equals,
)
from index.lowering import Key, Lowered, lower
from index.model import Element, Predicate
from index.opaque import opaque_predicate
from index.predicates import NOCASE, RECORD, SIZE_MAX, PredicateColumns, PredicateKind
from index.vocabulary import Vocabulary

Placed = tuple[Lowered, int]
"""A lowered predicate and the number of its attribute."""

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
        return self.numbers((predicate,))[0]

    def numbers(self, predicates: Iterable[Predicate | Element]) -> list[int]:
        """The numbers of many predicates; much cheaper than one by one."""
        vocabulary = self.vocabulary
        code_of, attribute_of = vocabulary.string, vocabulary.attribute
        placed: list[Placed] = [
            (lower(predicate, code_of), attribute_of(predicate.path)) for predicate in predicates
        ]
        if not placed:
            return []
        distinct = list(dict.fromkeys(placed))
        number_of = dict(zip(distinct, self._numbers_of_distinct(distinct), strict=True))
        return [number_of[one] for one in placed]

    def _numbers_of_distinct(self, placed: list[Placed]) -> list[int]:
        self._file()  # after opening a snapshot nothing is filed yet
        batch = encode(placed)
        found = find_predicates(self._words(), self._slots, words_of(batch), self._seed)
        known: list[int] = found.tolist()
        new = [one for one, number in zip(placed, known, strict=True) if number < 0]
        if not new:
            return known
        if any(lowered.flags & NOCASE for lowered, _ in new):
            self.vocabulary.need_folding()
        first = len(self)
        self._append(batch if len(new) == len(placed) else encode(new))
        fresh = iter(range(first, len(self)))
        return [next(fresh) if number < 0 else number for number in known]

    def _append(self, added: PredicateColumns) -> None:
        """Append distinct predicates that are not in the table."""
        record = added.record.copy()
        is_set = record["kind"] == PredicateKind.IN
        record["start"] += np.where(is_set, len(self._member_number), len(self._needle_start) - 1)
        self._records.extend(record)
        self._member_number.extend(added.member_number)
        self._member_mark.extend(added.member_mark)
        self._needle_start.extend(added.needle_start[1:] + len(self._needle))
        self._needle.extend(added.needle)

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
    """The same memory as words."""
    return PredicateWords(
        columns.record.view(np.uint64).reshape(-1, _WORDS),
        columns.member_number.view(np.uint64),
        columns.member_mark,
        columns.needle_start,
        columns.needle,
    )


def distinct_numbers(columns: PredicateColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which predicates equal none before them, ascending, and each one's place among these."""
    slots = np.zeros(1 << (2 * columns.record.size).bit_length(), np.uint64)
    first = first_equals(words_of(columns), slots, np.uint64(secrets.randbits(64)))
    kept, place = np.unique(first, return_inverse=True)
    return kept, place.astype(np.int32)


def encode(placed: Sequence[Placed]) -> PredicateColumns:
    """Columns of lowered predicates, in their order."""
    records = []
    members: list[Key] = []
    needles: list[bytes] = []
    for lowered, attribute in placed:
        kind, flags, (low, low_residual), (high, high_residual), keys, texts = lowered
        size = len(keys) + len(texts)
        if size > SIZE_MAX:
            raise ValueError(
                f"{size} values in one list; kernels hold at most {SIZE_MAX}: lower the limit "
                "filter_list_values, or split the list with OR"
            )
        start = len(members) if keys else len(needles)
        members += keys
        needles += texts
        records.append(
            (kind, flags, low_residual, high_residual, size, attribute, start, low, high)
        )
    return PredicateColumns(
        _frozen(np.array(records, RECORD)),
        _frozen(np.array([number for number, _ in members], np.float64)),
        _frozen(np.array([mark for _, mark in members], np.int16)),
        _frozen(np.cumsum([0, *map(len, needles)], dtype=np.int64)),
        np.frombuffer(b"".join(needles), np.uint8),
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only like the views of growing arrays, so that kernels are compiled once."""
    array.flags.writeable = False
    return array
