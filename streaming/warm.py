"""Warm: compile kernels and load the index before the first event comes.

The daemon does the first once, and its workers are forked from it; each worker does the second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from index.registry import get
from store.base import LogEntry, PutChange
from store.records import SubscriptionRecord
from streaming.decode import COLUMNS
from streaming.match import MatchRequest, match_batches
from streaming.packing import Output, pack
from streaming.pins import instant_now
from streaming.refresh import IndexOptions, LiveIndex, live_index
from streaming.snapshot_files import updatable

Sample = tuple[bytes, list[tuple[str, bytes]]]
HOLD_S = 0.5
"""A task keeps its worker so long that no other task gets the same one."""
SAMPLES: tuple[Sample, ...] = (
    (b'{"a":1,"b":["x",2.5],"c":{"d":true}}', []),
    (b'{"a":"x"}', [("ce_id", b"1"), ("ce_specversion", b"1.0")]),
)
FILTERS: tuple[object, ...] = (
    {"attr": "a", "op": "eq", "value": 1},
    {"and": [{"attr": "a", "op": "ge", "value": 1}, {"attr": "b", "op": "in", "value": ["x", 2]}]},
    {"or": [{"attr": "b", "op": "like", "value": "x%"}, {"attr": "c.d", "op": "exists"}]},
    {"attr": "b", "op": "contains", "value": ["X"], "nocase": True},
)
RECENT_EPOCHS = 20
"""More rows than an index tests one by one, so that a segment is built too."""
RECORD_TYPE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""What Spark hands to a worker: `decode.COLUMNS` with their types."""


def sample_records(samples: tuple[Sample, ...]) -> pa.RecordBatch:
    """Records of a topic that is none, with these values and headers."""
    rows = [
        {
            "key": None,
            "value": value,
            "headers": [{"key": name, "value": content} for name, content in headers] or None,
            "topic": "",
            "partition": 0,
            "offset": offset,
            "timestamp": 0,
        }
        for offset, (value, headers) in enumerate(samples)
    ]
    assert RECORD_TYPE.names == list(COLUMNS), "one list of columns"
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_TYPE)


def warm_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Match a few samples, and forget what they matched."""
    for _ in batches:
        started = time.monotonic()
        live = live_index(request.index)
        for samples in (SAMPLES[:1], SAMPLES):
            for _ in match_batches(request, [sample_records(samples)], live):
                pass
        time.sleep(max(0.0, HOLD_S - (time.monotonic() - started)))
    yield pack(Output(), {})


def idle_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Have every worker started, where none needs an index."""
    for _ in batches:
        time.sleep(HOLD_S)
    yield pack(Output(), {})


def warm_kernels(algorithm: str) -> None:
    """Match the samples against a little index of this process alone: base, recent rows and all."""
    options = IndexOptions(algorithm, "")
    live = LiveIndex(options)
    records = [SubscriptionRecord("", str(i), (tree,)) for i, tree in enumerate(FILTERS)]
    live.adopt(updatable(get(algorithm)).build([]), 0, "")
    for epoch in range(1, RECENT_EPOCHS + 1):
        changes = tuple(PutChange(replace(record, id=f"{record.id}-{epoch}")) for record in records)
        live.apply([LogEntry(epoch, changes, "")])
    request = MatchRequest(options, RECENT_EPOCHS, "", instant_now(0))
    for samples in (SAMPLES[:1], SAMPLES):
        for _ in match_batches(request, [sample_records(samples)], live):
            pass
