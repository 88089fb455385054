"""Warm: make every worker load the index and compile its kernels before the first event comes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from streaming.decode import COLUMNS
from streaming.match import MatchRequest, match_batch
from streaming.packing import pack, unpack
from streaming.refresh import live_index

Sample = tuple[bytes, list[tuple[str, bytes]]]
HOLD_S = 0.5
"""A task keeps its worker so long that no other task gets the same one."""
SAMPLES: tuple[Sample, ...] = (
    (b'{"a":1,"b":["x",2.5],"c":{"d":true}}', []),
    (b'{"a":"x"}', [("ce_id", b"1"), ("ce_specversion", b"1.0")]),
)
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
            for _ in match_batch(request, sample_records(samples), live):
                pass
        time.sleep(max(0.0, HOLD_S - (time.monotonic() - started)))
    yield pack(unpack(b"", b""), {})
