"""The log's entries as the server returns them, and the proof that none is missing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from store.base import Change, DeleteChange, LogEntry, PutChange
from store.connection import translated
from store.errors import EpochWentBackError, LogGapError, StoreDamaged
from store.keys import Keys
from store.records import decode_stored

CHUNK_ENTRIES = 16
"""Log entries fetched at first; each may have WRITE_BYTES_MAX."""
CHUNK_BYTES = 4 * 1024 * 1024
"""Chunks grow while they stay below this; one above it ends the read."""

Chained = tuple[LogEntry, str]
"""An entry, and the lineage of the entry before it."""


class LogTail:
    """Reads the log from the server.

    block_s    longest single wait; the client gives up its connection when it waits longer itself.
    """

    def __init__(self, client: Any, keys: Keys, address: str, block_s: float) -> None:
        self._client = client
        self._keys = keys
        self._address = address
        self._block_s = block_s

    def read(self, epoch: int, limit: int, known: str | None) -> list[LogEntry]:
        """Entries after an epoch, fetched in chunks that grow while they stay small."""
        entries: list[LogEntry] = []
        length = CHUNK_ENTRIES
        while len(entries) < limit:
            start, wanted = epoch + len(entries), min(length, limit - len(entries))
            with self._client.pipeline(transaction=True) as pipeline, translated(self._address):
                pipeline.get(self._keys.epoch)
                pipeline.xrange(self._keys.log, min=f"({start}-0", count=wanted)
                newest, raw = pipeline.execute()
            chunk = read_entries(raw)
            check_history(start, known, read_epoch(newest), chunk)
            entries += [entry for entry, _ in chunk]
            if len(chunk) < wanted:
                break
            known = entries[-1].lineage
            size = sum(len(value) for _, fields in raw for value in fields.values())
            if size >= CHUNK_BYTES:
                break
            length *= 4
        return entries

    def wait(self, epoch: int, block_ms: int) -> None:
        """Wait until the log has an entry after an epoch, or the time is over."""
        deadline = time.monotonic() + block_ms / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            block = max(1, int(min(left_s, self._block_s) * 1000))
            with translated(self._address):
                if self._client.xread({self._keys.log: f"{epoch}-0"}, count=1, block=block):
                    return


def read_epoch(value: bytes | None) -> tuple[int, str]:
    """The newest epoch with its lineage, from the value of their key."""
    epoch, _, lineage = (value or b"0 ").partition(b" ")
    return int(epoch), lineage.decode()


def read_entries(raw: Sequence[tuple[bytes, Mapping[bytes, bytes]]]) -> list[Chained]:
    """Decode entries; see store/keys.py for their fields."""
    return [_read_entry(entry_id, fields) for entry_id, fields in raw]


def check_history(
    epoch: int, known: str | None, newest: tuple[int, str], chained: Sequence[Chained]
) -> None:
    """Raise unless the entries follow on `epoch` without a gap, in the history the reader knows.

    known    lineage of the entry at `epoch`, or None if the reader does not know it.
    newest   epoch and lineage of the store, read together with the entries.
    """
    newest_epoch, newest_lineage = newest
    if newest_epoch < epoch:
        raise EpochWentBackError(epoch, newest_epoch)
    if not chained:
        if newest_epoch > epoch:
            raise LogGapError(epoch + 1, newest_epoch + 1)
        if known not in (None, newest_lineage):
            raise EpochWentBackError(epoch, newest_epoch)
    for entry, lineage_before in chained:
        if entry.epoch != epoch + 1:
            raise LogGapError(epoch + 1, entry.epoch)
        if known not in (None, lineage_before):
            raise EpochWentBackError(epoch, newest_epoch)
        epoch, known = entry.epoch, entry.lineage


def _read_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> Chained:
    epoch, _, sequence = entry_id.partition(b"-")
    try:
        if sequence != b"0":
            raise ValueError("its sequence is not 0")
        lineage, lineage_before = fields[b"l"].decode(), fields[b"f"].decode()
        changes = tuple(
            _read_change(name.decode(), value) for name, value in fields.items() if len(name) > 1
        )
        return LogEntry(int(epoch), changes, lineage), lineage_before
    except (KeyError, ValueError) as error:
        raise StoreDamaged(
            f"The log entry {entry_id.decode()} was not written by Herald: {error}.",
            "Load a snapshot or scan the store, and read on from the newest epoch.",
        ) from None


def _read_change(name: str, value: bytes) -> Change:
    tenant, _, subscription_id = name[1:].partition("\n")
    if name[0] == "d":
        return DeleteChange(tenant, subscription_id)
    return PutChange(decode_stored(tenant, subscription_id, value))
