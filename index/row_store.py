"""Row store: all that an index keeps of its subscriptions beside the structure that finds them.

    row  id      attachment  program         born  died        opaque filter
    0    's1'    ...         0,TRUE 5,TRUE   0     never
    1    's2'    ...         7,TRUE          3     8           {"attr":...,"op":"regex",...}
    2    's2'    ...         0,TRUE          8     never       the later 's2'

Rows are only appended, and a row's id, attachment and program never change, so readers need no
lock. A row is visible at version v if born <= v < died. The filter itself is kept only where
kernels cannot decide it, because it holds a leaf that is opaque to them.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.answers import visible_hits
from index.byte_strings import seed_of
from index.filter_json import loads_json, parse_json, to_json
from index.growing import GrowingArray, read_only
from index.kernels.byte_copies import copy_bytes
from index.kernels.cover import count_leaves
from index.kernels.hashing import find_string, hash_bytes, insert_strings
from index.kernels.probe import Compiled, Hits
from index.kernels.rows import copy_programs, opaque_rows
from index.limits import LIMITS
from index.model import Element, Filter, Predicate, Subscription
from index.predicate_table import BULK_MIN, PredicateTable, some_predicates
from index.program import Programs, ProgramTable
from index.settling import Settler
from index.vocabulary import Vocabulary

NEVER = int(np.iinfo(np.int64).max)
"""The version at which a living row dies."""

_UNLIMITED = replace(
    LIMITS,
    filter_bytes=2**31,
    filter_predicates=2**31,
    filter_list_values=2**31,
    filter_nesting=2**10,
)
"""For filters that were accepted before: limits may have been lowered since."""
FILTERS_REMEMBERED_MAX = 65_536
_ROW_ARRAYS = ("id", "attachment", "filter")

Arrays = dict[str, NDArray[Any]]
Spelling = tuple[Predicate | Element, object]
"""A predicate, and what tells it from others that Python holds for equal."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Compiling makes millions of objects and no cycles; collecting them took half of a build."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ByteColumn:
    """Append-only byte strings."""

    def __init__(self, start: NDArray[Any] | None = None, text: NDArray[Any] | None = None) -> None:
        self._start = GrowingArray(np.int64, start)
        self._text = GrowingArray(np.uint8, text)
        if not len(self._start):
            self._start.append(0)

    def extend(self, values: Sequence[bytes]) -> None:
        """Append values."""
        _, *ends = accumulate(map(len, values), initial=len(self._text))
        self._text.extend(np.frombuffer(b"".join(values), np.uint8))
        self._start.extend(ends)

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """(start, text): value j is text[start[j]:start[j+1]]."""
        return self._start.view(), self._text.view()

    def taken(self, rows: NDArray[np.int32]) -> list[bytes]:
        """The values of many rows: looking at the columns once is most of the gain."""
        start, text = self.columns()
        whole = text.data
        bounds = zip(start[rows].tolist(), start[rows + 1].tolist(), strict=True)
        return [bytes(whole[first:stop]) for first, stop in bounds]

    def __getitem__(self, row: int) -> bytes:
        start, text = self.columns()
        return text[start[row] : start[row + 1]].tobytes()


class CachedPredicates(PredicateTable):
    """Remembers numbers of predicates as they were written: subscriptions share most of them.

    Types of operands are part of a spelling, because Python holds 1 and True for equal.
    """

    def __init__(self, vocabulary: Vocabulary, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(vocabulary, arrays)
        self.number_of: dict[Spelling, int] = {}

    def numbers(self, predicates: Sequence[Predicate | Element]) -> NDArray[np.int64]:
        """As `PredicateTable.numbers`; the spellings of few are remembered, and lowered once."""
        if len(predicates) >= BULK_MIN:
            return super().numbers(predicates)
        number_of = self.number_of
        spelled = [(one, _types_of(one)) for one in predicates]
        new = list(dict.fromkeys(spelling for spelling in spelled if spelling not in number_of))
        if new:
            numbers = super().numbers([predicate for predicate, _ in new])
            number_of.update(zip(new, numbers.tolist(), strict=True))
        return np.array([number_of[spelling] for spelling in spelled], np.int64)


def _types_of(predicate: Predicate | Element) -> object:
    """What distinguishes operands that are equal in Python; 1 and 1.0 are equal here, too."""
    if isinstance(predicate, Element):
        return repr(predicate)
    operand = predicate.operand
    return tuple(map(type, operand)) if isinstance(operand, tuple) else type(operand)


class RowStore:
    """The rows of an index's base, or those added since; one writer at a time."""

    def __init__(self, vocabulary: Vocabulary, arrays: Mapping[str, NDArray[Any]] | None = None):
        known = arrays or {}
        self.predicates = CachedPredicates(vocabulary, known)
        self.programs = ProgramTable(self.predicates, known)
        self.settler = Settler(self.predicates)
        self._bytes = {
            name: ByteColumn(known.get(f"{name}_start"), known.get(f"{name}_text"))
            for name in _ROW_ARRAYS
        }
        self._born = GrowingArray(np.int64, known.get("born"))
        self._died: NDArray[np.int64] = known.get("died", np.zeros(0, np.int64))
        self._id_slot: NDArray[np.uint64] = known.get("id_slot", np.zeros(0, np.uint64))
        self._id_seed = np.uint64(known["id_seed"][0]) if "id_seed" in known else np.uint64(0)
        self._row_of: dict[str, int] = {}
        self._filters: dict[int, Filter] = {}
        self.dead_count = int(np.count_nonzero(self.died != NEVER))
        self.newest_born = int(self.born.max(initial=0))

    def __len__(self) -> int:
        return len(self._born)

    @property
    def born(self) -> NDArray[np.int64]:
        """[n] the version from which a row is visible."""
        return self._born.view()

    @property
    def died(self) -> NDArray[np.int64]:
        """[n] the version from which it no longer is."""
        return self._died[: len(self)]

    def compiled(self) -> Compiled:
        """What kernels read of all rows so far."""
        return Compiled(self.programs.columns(), self.predicates.columns())

    def append(self, subscriptions: Sequence[Subscription], version: int) -> None:
        """Add rows; ids that are alive here have to be killed before."""
        first = len(self)
        try:
            with collector_paused():
                self.programs.append_all(one.filter for one in subscriptions)
        except Exception:
            # Nothing else of these rows exists yet, and no version will see them.
            nothing = [b""] * (len(self.programs) - first)
            self._complete(NEVER, nothing, nothing, nothing)
            self.died[first:] = 0
            self.dead_count += len(nothing)
            raise
        opaque = opaque_rows(*self.compiled(), first).tolist()
        filters = [
            json.dumps(to_json(one.filter)).encode() if is_opaque else b""
            for one, is_opaque in zip(subscriptions, opaque, strict=True)
        ]
        ids = [one.id.encode() for one in subscriptions]
        attachments = [one.attachment for one in subscriptions]
        self._complete(version, ids, attachments, filters)
        self._row_of.update((one.id, row) for row, one in enumerate(subscriptions, start=first))
        self.newest_born = max(self.newest_born, version)

    def _complete(
        self, version: int, ids: list[bytes], attachments: list[bytes], filters: list[bytes]
    ) -> None:
        """Append what rows have beside their programs, which are there already."""
        for column, values in zip(self._bytes.values(), (ids, attachments, filters), strict=True):
            column.extend(values)
        first, stop = len(self), len(self) + len(ids)
        if stop > self._died.size:
            died = np.full(2 * stop, NEVER)
            died[:first] = self._died[:first]
            self._died = died
        self._born.extend(np.full(len(ids), version))

    def kill(self, row: int, version: int) -> None:
        """Let a row be invisible from `version` on."""
        self.died[row] = version
        self.dead_count += 1

    def find(self, subscription_id: str) -> int:
        """The living row of an id, or -1."""
        row = self._row_of.get(subscription_id, -1)
        if row < 0 and self._id_slot.size:
            key = np.frombuffer(subscription_id.encode(), np.uint8)
            value = np.uint64(hash_bytes(key, 0, key.size, self._id_seed))
            ids = self._bytes["id"].columns()
            row = int(find_string(self._id_slot, ids, value, key, 0, key.size))
        return row if row >= 0 and self.died[row] == NEVER else -1

    @property
    def alive(self) -> NDArray[np.bool_]:
        """[n] the rows that no version has ended; those of a failed `append` were never begun."""
        alive: NDArray[np.bool_] = (self.died == NEVER) & (self.born != NEVER)
        return alive

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, room for growth apart."""
        arrays = [*self.predicates.to_arrays().values(), *self.programs.to_arrays().values()]
        arrays += [self.born, self.died, self._id_slot]
        for column in self._bytes.values():
            arrays += column.columns()
        return sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Assert that columns have one length, and that living rows are found by their ids."""
        count = len(self)
        assert count == len(self.programs) <= len(self._died)
        assert all(column.columns()[0].size == count + 1 for column in self._bytes.values())
        for row in np.flatnonzero(self.alive).tolist():
            assert self.find(self.id_of(row)) == row, row
        assert self.dead_count == np.count_nonzero(self.died != NEVER)

    def id_of(self, row: int) -> str:
        """The subscription of a row."""
        return self._bytes["id"][row].decode()

    def attachments_of(self, rows: NDArray[np.int32]) -> list[bytes]:
        """What the subscribers of rows attached."""
        return self._bytes["attachment"].taken(rows)

    def filter_of(self, row: int) -> Filter:
        """The filter of a row with an opaque leaf; some are remembered."""
        filter = self._filters.get(row)
        if filter is None:
            if len(self._filters) >= FILTERS_REMEMBERED_MAX:
                self._filters.clear()
            filter = parse_json(loads_json(self._bytes["filter"][row]), _UNLIMITED)
            self._filters[row] = filter
        return filter

    def visible(self, rows: NDArray[np.int64], version: int) -> NDArray[np.bool_] | None:
        """Which of the rows are visible at a version; None if all are."""
        if self._sees_all(version):
            return None
        return (self.born[rows] <= version) & (version < self.died[rows])

    def visible_hits(self, hits: Hits, version: int) -> Hits:
        """The hits of rows that are visible at a version."""
        if self._sees_all(version):
            return hits
        return visible_hits(hits, self.born, self.died, version)

    def _sees_all(self, version: int) -> bool:
        return not self.dead_count and version >= self.newest_born

    def file_ids(self) -> None:
        """Make `find` know rows that did not come by `append`."""
        if self.dead_count:
            living = np.flatnonzero(self.died == NEVER).tolist()
            self._row_of = {self.id_of(row): row for row in living}
            return
        start, text = self._bytes["id"].columns()
        ids = read_only(start), read_only(text)
        self._id_seed = seed_of(b"", *ids)
        self._id_slot = np.zeros(1 << (2 * len(self)).bit_length(), np.uint64)
        insert_strings(self._id_slot, ids, 0, len(self), self._id_seed)

    def to_arrays(self) -> Arrays:
        """Everything, as arrays of numbers that a snapshot can hold; all rows must be alive."""
        assert not self.dead_count
        if not self._id_slot.size:
            self.file_ids()
        arrays = {
            **self.predicates.to_arrays(),
            **self.programs.to_arrays(),
            "born": self.born,
            "died": self.died,
            "id_slot": self._id_slot,
            "id_seed": np.array([self._id_seed]),
        }
        for name, column in self._bytes.items():
            arrays[f"{name}_start"], arrays[f"{name}_text"] = column.columns()
        return arrays

    def copy_of(self, rows: NDArray[np.int32], first_number: int = 0) -> Arrays:
        """Some rows as arrays, with the predicates they use, numbered from `first_number` on."""
        programs, predicates = self.compiled()
        leaf_counts, word_count = count_leaves(programs, rows)
        used = np.flatnonzero(leaf_counts)
        numbers = np.zeros(leaf_counts.size, np.int32)
        numbers[used] = np.arange(first_number, first_number + used.size)
        copy = Programs(np.empty(rows.size + 1, np.int64), np.empty(word_count, np.int32))
        copy_programs(programs, rows, numbers, copy)
        arrays: Arrays = {
            "program_start": copy.start,
            "program_code": copy.code,
            "born": self.born[rows],
            "died": self.died[rows],
            **some_predicates(predicates, used)._asdict(),
        }
        for name, column in self._bytes.items():
            arrays[f"{name}_start"], arrays[f"{name}_text"] = copy_bytes(column.columns(), rows)
        return arrays
