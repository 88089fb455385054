"""Kafka records as Spark hands them to a worker, and an index to match them with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from store.base import LogEntry, PutChange
from store.records import SubscriptionRecord
from streaming.changes import ChangesWriter
from streaming.match import MatchRequest, match_batches
from streaming.packing import Output, unpack
from streaming.refresh import IndexOptions, LiveIndex
from streaming.warm import RECORD_TYPE

NOW = "2026-01-01T00:00:00Z"
Header = tuple[str, bytes | None]


class Record(NamedTuple):
    value: bytes | None
    headers: Sequence[Header] = ()
    key: bytes | None = None
    topic: str = "events"
    partition: int = 0


def batch_of(*records: Record, first_offset: int = 0) -> pa.RecordBatch:
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            "topic": record.topic,
            "partition": record.partition,
            "offset": first_offset + row,
            "timestamp": 1_700_000_000_000_000,
        }
        for row, record in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_TYPE)


def subscription(subscription_id: str, tree: object, **options: Any) -> SubscriptionRecord:
    fields: dict[str, Any] = {"tenant": "acme", "id": subscription_id, "filters": (tree,)}
    return SubscriptionRecord(**fields | {"revision": 1} | options)


def equals(attr: str, value: object) -> dict[str, object]:
    return {"attr": attr, "op": "eq", "value": value}


def index_of(folder: Path, *records: SubscriptionRecord) -> LiveIndex:
    """A worker's index that holds these subscriptions at epoch 1."""
    entry = LogEntry(1, tuple(PutChange(record) for record in records), "one")
    writer = ChangesWriter(folder, 0, "")
    writer.append([entry])
    live = LiveIndex(IndexOptions("psthash", str(folder)))
    live.reach(1, "one")
    return live


def request_of(**options: Any) -> MatchRequest:
    fields: dict[str, Any] = {"epoch": 1, "lineage": "one", "now": NOW}
    return MatchRequest(IndexOptions("psthash", ""), **fields | options)


class Matched(NamedTuple):
    output: Output
    counters: dict[str, Any]

    @property
    def told(self) -> list[tuple[str, int]]:
        """Which subscription was told of the event at which offset, in the order of writing."""
        values = map(orjson.loads, self.output.values)
        return [(value["subscription"], value["event"]["offset"]) for value in values]


def match(live: LiveIndex, batch: pa.RecordBatch, **options: Any) -> Matched:
    """The whole output of a batch, from as many rows as it took."""
    whole = Output()
    counters: dict[str, Any] = {}
    for packed in match_batches(request_of(**options), [batch], live):
        notifications, dead_letters, counted = (column[0].as_py() for column in packed.columns)
        part = unpack(notifications, dead_letters)
        whole.notify(part.keys, part.values, part.ids, part.kinds)
        for letter in part.dead_letters:
            whole.bury(letter)
        counters |= orjson.loads(counted)
    return Matched(whole, counters)
