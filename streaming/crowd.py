"""Crowd: the targets of one event that has very many, told of in parts.

Which part tells a subscription is fixed by its name alone: neither the layout of the index, nor the
mode of the subscription, nor the epoch changes it. So an event that is told of by half can be gone
on with anywhere, and the rest be told of at another epoch, with nobody told twice or left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from index.model import Instant
from store.records import Mode
from streaming.target import decode_target
from streaming.targets import TargetTable

PART_BYTES = 1024 * 1024
"""About what a part of an event takes; the smallest amount that a transaction is filled by."""
PARTS_MAX = 1 << 31
THIN_BYTES = 300
COMPACT_BYTES = 48
"""About what a thin notification takes, and a subscription's entry in a compact one."""
_BLOCK_ROWS = 16_384

Read = Callable[[list[int]], Sequence[bytes]]


def part_of(name: bytes, parts: int) -> int:
    """Which of so many parts of an event tells the subscription of this name (tenant, NUL, id)."""
    return crc32(name) * parts >> 32


class Crowd:
    """The rows of an event's targets by part; its targets are decoded again when a part is told."""

    def __init__(self, rows: NDArray[np.int32], hashes: NDArray[np.uint32], parts: int) -> None:
        part = (hashes.astype(np.uint64) * np.uint64(parts)) >> np.uint64(32)
        order = np.argsort(part, kind="stable")
        self.parts = parts
        self._rows, self._part = rows[order], part[order]

    def parts_from(self, first: int) -> list[int]:
        """The parts that tell somebody, from one on."""
        return [int(part) for part in np.unique(self._part) if part >= first]

    def part(self, number: int, read: Read) -> tuple[NDArray[np.int32], TargetTable]:
        """Places of the targets of one part, in a table of their own."""
        first, stop = np.searchsorted(self._part, np.array([number, number + 1], np.uint64))
        table = TargetTable()
        return table.places_of(self._rows[first:stop], read), table


def survey(
    rows: NDArray[np.int32], read: Read, now: Instant, event_bytes: int, part_bytes: int, parts: int
) -> Crowd:
    """The crowd of an event; with so many parts, or with 0 as many as its notifications need.

    event_bytes   what a full notification takes beyond a thin one.
    """
    cost = {Mode.THIN: THIN_BYTES, Mode.FULL: THIN_BYTES + event_bytes, Mode.COMPACT: COMPACT_BYTES}
    kept, hashes, total = [], [], 0
    for block in _blocks(rows):
        alive, crcs = [], []
        for row, target in zip(block, map(decode_target, read(block)), strict=True):
            if not target.has_expired(now):
                alive.append(row)
                crcs.append(crc32(target.name))
                total += cost[Mode(target.mode)]
        kept.append(np.array(alive, np.int32))
        hashes.append(np.array(crcs, np.uint32))
    wanted = min(max(1, -(-total // part_bytes)), PARTS_MAX)
    empty = np.zeros(0, np.int32)
    return Crowd(
        np.concatenate([empty, *kept]),
        np.concatenate([empty.astype(np.uint32), *hashes]),
        parts or wanted,
    )


def _blocks(rows: NDArray[np.int32]) -> Iterator[list[int]]:
    for first in range(0, rows.size, _BLOCK_ROWS):
        yield rows[first : first + _BLOCK_ROWS].tolist()
