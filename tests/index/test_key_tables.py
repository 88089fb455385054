"""Tables of keys: of any size, searched from a slot that ascends with the key, and cyclic."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.keys import find_bucket, first_slot, insert_bucket
from index.key_filing import check_buckets, file_rows, new_table


@leaf
def bounds_of(table: NDArray[np.uint64], key: np.uint64) -> tuple[int, int]:
    start, stop = find_bucket(table, key)
    return int(start), int(stop)


@leaf
def slot_of(table: NDArray[np.uint64], key: np.uint64) -> int:
    return int(np.int64(first_slot(table, key)))


@leaf
def insert(table: NDArray[np.uint64], key: np.uint64, start: int, stop: int) -> None:
    insert_bucket(table, key, start, stop)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 4_097])
def test_every_key_is_found_and_no_other(count: int) -> None:
    rng = np.random.default_rng(count)
    keys = np.unique(rng.integers(1, 1 << 64, 2 * count, np.uint64))
    filed, others = keys[::2], keys[1::2]
    key_filter, table, rows = file_rows(
        np.repeat(filed, 2), np.arange(2 * filed.size, dtype=np.int32)
    )
    check_buckets(table, key_filter, rows)
    found = [rows[slice(*bounds_of(table, key))].tolist() for key in filed]
    assert found == [[2 * at, 2 * at + 1] for at in range(filed.size)]
    assert all(bounds_of(table, key) == (0, 0) for key in others)


def test_searches_go_on_at_the_first_slot() -> None:
    table = new_table(3)
    last = len(table) - 1
    keys = [np.uint64((1 << 64) - one) for one in (1, 2, 3)]
    assert [slot_of(table, key) for key in keys] == [last] * 3
    for at, key in enumerate(keys):
        insert(table, key, at, at + 1)
    assert table[[last, 0, 1], 0].tolist() == [int(key) for key in keys]
    assert [bounds_of(table, key)[0] for key in keys] == [0, 1, 2]
    assert bounds_of(table, np.uint64((1 << 64) - 9)) == (0, 0)
