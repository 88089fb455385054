"""Targets by row: what an index keeps of its subscriptions, decoded once, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from index.model import Instant
from index.row_store import ByteColumn as GrowingBytes
from store.records import Mode
from streaming.byte_columns import ByteColumn
from streaming.target import SEPARATOR, Target, decode_target

REMEMBERED_MAX = 500_000
"""More decoded targets are forgotten, all at once."""
NEVER = np.iinfo(np.int64).max
MODES = tuple(Mode)
THIN, FULL, COMPACT = map(MODES.index, (Mode.THIN, Mode.FULL, Mode.COMPACT))

_TARGET = np.dtype(
    [("mode", np.uint8), ("seconds", np.int64), ("nanoseconds", np.int32), ("group", np.int32)]
)
_NO_GROUP = -1
_SEPARATOR = SEPARATOR.encode()
_ROWS_AT_FIRST = 1_024


class TargetTable:
    """The targets of the rows that have matched so far.

    A target's place, and the number of a group, hold until the next call of `places_of`. Compact
    targets that may share a record, for they have tenant and key in common, are a group.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all: rows have other subscriptions from now on."""
        self._place = np.zeros(0, np.int32)
        """By row: its place plus one, 0 for a row that is not decoded."""
        self._count = 0
        self._target = np.empty(_ROWS_AT_FIRST, _TARGET)
        self._name, self._key, self._fragment = GrowingBytes(), GrowingBytes(), GrowingBytes()
        self._item = GrowingBytes()
        self._group_of: dict[tuple[bytes, bytes], int] = {}
        self._group_name, self._group_key = GrowingBytes(), GrowingBytes()
        self._group_head = GrowingBytes()

    def places_of(
        self, rows: NDArray[np.int32], read: Callable[[list[int]], Sequence[bytes]]
    ) -> NDArray[np.int32]:
        """The places of rows; `read` gives the encoded targets of those that are not known yet."""
        if self._count > REMEMBERED_MAX:
            self.clear()
        if (beyond := int(rows.max(initial=-1)) + 1) > self._place.size:
            self._place = np.append(self._place, np.zeros(beyond - self._place.size, np.int32))
        missing = np.unique(rows[self._place[rows] == 0])
        if missing.size:
            self._add(missing, read(missing.tolist()))
        return self._place[rows] - 1

    def alive(self, places: NDArray[np.int32], now: Instant) -> NDArray[np.bool_]:
        """Which subscriptions are not over at the pinned time of a batch."""
        seconds = self._target["seconds"][places]
        in_second = self._target["nanoseconds"][places] > now.nanoseconds
        alive: NDArray[np.bool_] = seconds > now.seconds
        alive |= (seconds == now.seconds) & in_second
        return alive

    def modes(self, places: NDArray[np.int32]) -> NDArray[np.uint8]:
        """THIN, FULL or COMPACT."""
        return self._target["mode"][places]

    @property
    def names(self) -> ByteColumn:
        """By place: tenant and id as the index has them."""
        return ByteColumn(*self._name.columns())

    @property
    def keys(self) -> ByteColumn:
        """By place: the Kafka keys of their notifications."""
        return ByteColumn(*self._key.columns())

    @property
    def fragments(self) -> ByteColumn:
        """By place: the beginnings of their thin notifications."""
        return ByteColumn(*self._fragment.columns())

    @property
    def items(self) -> ByteColumn:
        """By place: how lists of compact notifications name them; b"" of other targets."""
        return ByteColumn(*self._item.columns())

    def groups_of(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """The groups of compact targets."""
        return self._target["group"][places]

    @property
    def group_names(self) -> ByteColumn:
        """By group: the beginning of what its records are called."""
        return ByteColumn(*self._group_name.columns())

    @property
    def group_keys(self) -> ByteColumn:
        """By group: the Kafka key of its records."""
        return ByteColumn(*self._group_key.columns())

    @property
    def group_heads(self) -> ByteColumn:
        """By group: the beginnings of its records."""
        return ByteColumn(*self._group_head.columns())

    def _add(self, rows: NDArray[np.int32], encoded: Sequence[bytes]) -> None:
        targets = list(map(decode_target, encoded))
        stop = self._count + rows.size
        if stop > self._target.size:
            larger = np.empty(max(stop, 2 * self._target.size), _TARGET)
            larger[: self._count] = self._target[: self._count]
            self._target = larger
        self._target[self._count : stop] = [
            (MODES.index(Mode(one.mode)), *(one.expires or (NEVER, 0)), self._group(one))
            for one in targets
        ]
        self._name.extend([target.name for target in targets])
        self._key.extend([target.key for target in targets])
        self._fragment.extend([target.fragment for target in targets])
        self._item.extend(list(map(_item_of, targets)))
        self._place[rows] = np.arange(self._count, stop) + 1
        self._count = stop

    def _group(self, target: Target) -> int:
        """The number of a compact target's group, given on first sight; _NO_GROUP of others."""
        if target.mode != Mode.COMPACT.value:
            return _NO_GROUP
        tenant = target.name.partition(_SEPARATOR)[0]
        group = self._group_of.get((tenant, target.key), _NO_GROUP)
        if group == _NO_GROUP:
            group = self._group_of[tenant, target.key] = len(self._group_of)
            self._group_name.extend([b"%b\0\0%b\0" % (tenant, target.key)])
            self._group_key.extend([target.key])
            self._group_head.extend([b'{"tenant":' + orjson.dumps(tenant.decode())])
        return group


def _item_of(target: Target) -> bytes:
    """Id and revision as a list of compact notifications has them."""
    if target.mode != Mode.COMPACT.value:
        return b""
    names = orjson.loads(target.fragment + b"}")
    return orjson.dumps([names["subscription"], names["revision"]])
