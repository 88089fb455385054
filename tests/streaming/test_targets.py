from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from index.model import Instant
from store.records import Mode, SubscriptionRecord
from streaming.byte_columns import ByteColumn, values_of
from streaming.target import subscription_of
from streaming.targets import COMPACT, THIN, TargetTable


class Attachments:
    """Encoded targets by row, and which rows have been asked for."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self._records = [
            SubscriptionRecord(
                "acme",
                f"s{row}",
                (True,),
                mode=Mode.COMPACT if row % 2 else Mode.THIN,
                expires_at=f"2026-01-01T00:00:{row % 60:02}.000000001Z" if row % 3 else None,
            )
            for row in range(count)
        ]

    def read(self, rows: list[int]) -> Sequence[bytes]:
        self.asked += rows
        found = (subscription_of(self._records[row]) for row in rows)
        return [subscription.attachment for subscription in found if subscription is not None]


def rows(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def taken(column: ByteColumn, places: np.ndarray[Any, np.dtype[np.int32]]) -> list[bytes]:
    found: list[bytes] = values_of((column, places)).to_pylist()
    return found


def test_a_target_is_decoded_once_and_keeps_its_columns() -> None:
    attachments, table = Attachments(5_000), TargetTable()
    first = table.places_of(rows(7, 3, 7), attachments.read)
    assert taken(table.names, first) == [b"acme\0s7", b"acme\0s3", b"acme\0s7"]
    again = table.places_of(np.arange(5_000, dtype=np.int32), attachments.read)
    assert sorted(attachments.asked) == list(range(5_000))
    assert taken(table.names, again) == [f"acme\0s{row}".encode() for row in range(5_000)]
    assert taken(table.keys, again[:2]) == [b"s0", b"acme"]
    assert table.modes(again[:2]).tolist() == [THIN, COMPACT]
    fragments = taken(table.fragments, again[:1])
    assert fragments == [b'{"subscription":"s0","tenant":"acme","revision":0']


def test_compact_targets_of_one_tenant_and_key_are_a_group() -> None:
    attachments, table = Attachments(4), TargetTable()
    places = table.places_of(rows(0, 1, 2, 3), attachments.read)
    assert table.groups_of(places)[[1, 3]].tolist() == [0, 0]
    assert taken(table.items, places) == [b"", b'["s1",0]', b"", b'["s3",0]']
    group = rows(0)
    assert taken(table.group_keys, group) == [b"acme"]
    assert taken(table.group_heads, group) == [b'{"tenant":"acme"']


def test_a_target_is_over_at_its_nanosecond() -> None:
    attachments, table = Attachments(4), TargetTable()
    places = table.places_of(rows(0, 1, 2), attachments.read)
    second = 1_767_225_601
    assert table.alive(places, Instant(second, 0)).tolist() == [True, True, True]
    assert table.alive(places, Instant(second, 1)).tolist() == [True, False, True]
    assert table.alive(places, Instant(second + 9, 0)).tolist() == [True, False, False]


def test_targets_beyond_the_limit_are_forgotten_and_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streaming.targets.REMEMBERED_MAX", 2)
    attachments, table = Attachments(9), TargetTable()
    table.places_of(rows(0, 1, 2), attachments.read)
    known = table.places_of(rows(1, 8), attachments.read)
    assert taken(table.names, known) == [b"acme\0s1", b"acme\0s8"]
    assert attachments.asked == [0, 1, 2, 1, 8]
