"""The kept files of former formats, as tests read them; README.md says how they were made."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.history import History, Record, read_history
from deploy.verdicts import Told, said_by
from store.base import Delete, LogEntry, Put, PutChange
from store.keys import Keys
from store.log import check_history, read_entries, read_epoch
from store.memory import MemoryStore
from store.records import SubscriptionRecord, decode_stored
from streaming.pins import Pin, PinLog

FOLDER = Path(__file__).parent
V1 = FOLDER / "v1"
FORMER_SNAPSHOTS = FOLDER / "snapshots"
KEYS = Keys("herald")
ALGORITHM = "herald"

Dump = dict[str, Any]
"""Key -> its value as redis-py gives it."""


def read_dump() -> Dump:
    """The kept store."""
    dump: Dump = {}
    for one in json.loads((V1 / "store.json").read_text(encoding="utf-8")):
        dump[one["key"]] = _decode(one["type"], one["value"])
    return dump


def _decode(kind: str, value: Any) -> Any:
    match kind:
        case "string":
            return b64decode(value)
        case "hash":
            return {b64decode(name): b64decode(content) for name, content in value}
        case "zset":
            return {b64decode(member): score for member, score in value}
        case "stream":
            return [
                (entry_id.encode(), {b64decode(name): b64decode(text) for name, text in fields})
                for entry_id, fields in value
            ]
    raise ValueError(f"a key of type {kind}")


def restore(client: Any, dump: Dump) -> None:
    """Put the kept store into a server that is empty."""
    for key, value in dump.items():
        if isinstance(value, bytes):
            client.set(key, value)
        elif isinstance(value, list):
            for entry_id, fields in value:
                client.xadd(key, fields, id=entry_id)
        elif key == KEYS.snapshots:
            client.zadd(key, value)
        else:
            client.hset(key, mapping=value)


def entries_of(dump: Dump) -> list[LogEntry]:
    """The kept log, proved to be whole from its beginning to the kept epoch."""
    chained = read_entries(dump[KEYS.log])
    check_history(0, "", read_epoch(dump[KEYS.epoch]), chained)
    return [entry for entry, _ in chained]


def records_of(dump: Dump) -> dict[tuple[str, str], SubscriptionRecord]:
    """The kept subscriptions as they stand at the newest epoch."""
    found = {}
    for key, records in dump.items():
        if key.startswith("{herald}:records:"):
            tenant = key.split(":", 3)[3]
            for name, stored in records.items():
                record = decode_stored(tenant, name.decode(), stored)
                found[tenant, record.id] = record
    return found


def subscribed(entries: Sequence[LogEntry]) -> dict[tuple[str, str], SubscriptionRecord]:
    """What stands after some entries."""
    found: dict[tuple[str, str], SubscriptionRecord] = {}
    for entry in entries:
        for change in entry.changes:
            found.pop((change.tenant, change.id), None)
            if isinstance(change, PutChange):
                found[change.tenant, change.id] = change.record
    return found


def store_of(entries: Sequence[LogEntry]) -> MemoryStore:
    """A store in memory with the same log: the same writes, epochs and lineages."""
    lineages = iter([entry.lineage for entry in entries])
    store = MemoryStore(new_mark=lambda: next(lineages))
    for entry in entries:
        store.write(
            [
                Put(change.record) if isinstance(change, PutChange) else Delete(*_named(change))
                for change in entry.changes
            ]
        )
    return store


def _named(change: Any) -> tuple[str, str]:
    return change.tenant, change.id


def copy_deployment(folder: Path) -> tuple[Path, Path]:
    """Checkpoint and snapshot folder as the former driver left them, to be worked on."""
    checkpoint, snapshots = folder / "checkpoint", folder / "snapshots"
    shutil.copytree(V1 / "checkpoint", checkpoint)
    shutil.copytree(V1 / "snapshots", snapshots)
    return checkpoint, snapshots


def unfinished(checkpoint: Path) -> Pin:
    """The pin of the batch that the former driver was killed in."""
    pin = PinLog(checkpoint, retained=100).newest()
    assert pin is not None
    return pin


def kept_history() -> History:
    """What the former release went on to do: its events, its log, its notifications."""
    return read_history(V1 / "history.jsonl")


def covered(pin: Pin, record: Record) -> bool:
    """Whether an event belongs to a batch."""
    start = pin.start.get(record.topic, {}).get(record.partition, 0)
    return start <= record.offset < pin.end[record.topic][record.partition]


def told_by(pin: Pin, notifications: Sequence[Record]) -> dict[str, tuple[Told, ...]]:
    """By the ids of notifications of a batch's events: who is told."""
    told = {}
    for notification in notifications:
        said = said_by(notification)
        start = pin.start.get(said.place.topic, {}).get(said.place.partition, 0)
        if start <= said.place.offset < pin.end[said.place.topic][said.place.partition]:
            assert said.epoch == pin.epoch, said
            told[str(notification.header("ce_id"))] = said.told
    return told
