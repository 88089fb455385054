"""Joining row stores: rows of several parts, with what they share kept once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.growing import read_only
from index.kernels.rows import copy_programs
from index.predicate_table import distinct_numbers, some_predicates
from index.predicates import RECORD, PredicateColumns, put_behind
from index.program import Programs
from index.row_store import Arrays, RowStore
from index.vocabulary import Vocabulary


def joined(vocabulary: Vocabulary, parts: Sequence[tuple[RowStore, NDArray[np.int32]]]) -> RowStore:
    """A store of the given rows of other stores, in that order."""
    arrays: Arrays = {}
    for store, rows in parts:
        if not arrays:
            arrays = store.copy_of(rows)
            continue
        copy = store.copy_of(rows, arrays["record"].size)
        behind = arrays["member_number"].size, arrays["needle_start"].size - 1
        copy["record"] = put_behind(copy["record"], *behind)
        arrays = {name: _appended(name, arrays[name], copy[name]) for name in arrays}
    if len(parts) > 1:
        _share_predicates(arrays)
    record = arrays.pop("record")
    arrays["predicate_word"] = record.view(np.uint64).reshape(-1, RECORD.itemsize // 8)
    store = RowStore(vocabulary, arrays)
    store.file_ids()
    return store


def _share_predicates(arrays: Arrays) -> None:
    """Keep one of the predicates that several parts had, as one store keeps them."""
    columns = PredicateColumns(*(arrays[name] for name in PredicateColumns._fields))
    kept, numbers = distinct_numbers(columns)
    if kept.size == numbers.size:
        return
    arrays |= some_predicates(columns, kept)._asdict()
    start, code = read_only(arrays["program_start"]), read_only(arrays["program_code"])
    shared = Programs(np.empty_like(start), np.empty_like(code))
    copy_programs(Programs(start, code), np.arange(start.size - 1, dtype=np.int32), numbers, shared)
    arrays["program_start"], arrays["program_code"] = shared


def _appended(name: str, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    if name.endswith("_start"):
        return np.concatenate((first, second[1:] + first[-1]))
    return np.concatenate((first, second))
