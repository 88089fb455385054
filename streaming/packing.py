"""Packing: what a worker hands to the driver, as few rows that each hold whole tables.

A notification as a Spark row of its own costs the JVM more than matching costs the worker. So each
batch of events becomes one row, or a few when its output is large:

    notifications   Arrow stream of key | value | id | kind      (kind: see `notification.HEADERS`)
    dead_letters    Arrow stream of key | value | headers
    counters        JSON object of numbers

Rows arrive in source order per partition, and so do the records in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

PACKED_TYPE = pa.schema(
    [("notifications", pa.binary()), ("dead_letters", pa.binary()), ("counters", pa.binary())]
)
PACKED_DDL = "notifications binary, dead_letters binary, counters binary"
"""The same columns in Spark's words."""

NOTIFICATIONS_TYPE = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("id", pa.binary()), ("kind", pa.uint8())]
)
DEAD_LETTERS_TYPE = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)

ROW_BYTES_MAX = 8 * 1024 * 1024
"""Output is cut into rows of about this size, so that no side ever holds a huge value."""
COMPRESS_BYTES_MIN = 256 * 1024
"""Above it a stream is compressed: notifications of one batch repeat each other."""

Headers = list[tuple[str, bytes | None]]


class DeadLetter(NamedTuple):
    """An input that cannot be decoded, with the headers that tell why."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class Output:
    """Records on their way from a worker to the driver, as columns.

    byte_count   of keys and values, to know when to cut.
    """

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes] = []
        self.ids: list[bytes] = []
        self.kinds: list[int] = []
        self.dead_letters: list[DeadLetter] = []
        self.byte_count = 0

    def notify(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        ids: Sequence[bytes],
        kinds: Sequence[int],
    ) -> None:
        """Add notifications, column by column."""
        self.keys += keys
        self.values += values
        self.ids += ids
        self.kinds += kinds
        self.byte_count += sum(map(len, values))

    def bury(self, letter: DeadLetter) -> None:
        """Add one dead letter."""
        self.dead_letters.append(letter)
        self.byte_count += len(letter.value or b"")

    def is_full(self) -> bool:
        """Whether it is time to pack this output and begin another."""
        return self.byte_count >= ROW_BYTES_MAX


def parts_of(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of records, given by their bytes, that take about as much as a row should hold."""
    if sizes.size:
        number = np.cumsum(sizes) // ROW_BYTES_MAX
        bounds = np.flatnonzero(np.diff(number)) + 1
        yield from pairwise([0, *bounds.tolist(), sizes.size])


def pack(output: Output, counters: dict[str, Any]) -> pa.RecordBatch:
    """One row for Spark."""
    size = output.byte_count
    notifications = b""
    if output.values:
        columns = [output.keys, output.values, output.ids, output.kinds]
        notifications = _to_stream(columns, NOTIFICATIONS_TYPE, size)
    dead_letters = b""
    if output.dead_letters:
        keys, values, headers = zip(*output.dead_letters, strict=True)
        named = [[{"name": n, "value": v} for n, v in letter] for letter in headers]
        dead_letters = _to_stream([keys, values, named], DEAD_LETTERS_TYPE, size)
    row = [[notifications], [dead_letters], [orjson.dumps(counters)]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.binary()) for column in row], schema=PACKED_TYPE
    )


def unpack(notifications: bytes, dead_letters: bytes) -> Output:
    """The records of one row."""
    output = Output()
    if notifications:
        table = _from_stream(notifications)
        output.keys, output.values, output.ids, output.kinds = (
            column.to_pylist() for column in table.columns
        )
    if dead_letters:
        for letter in _from_stream(dead_letters).to_pylist():
            headers = [(header["name"], header["value"]) for header in letter["headers"]]
            output.bury(DeadLetter(letter["key"], letter["value"], headers))
    return output


def _to_stream(columns: list[Any], schema: pa.Schema, size: int) -> bytes:
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    options = pa.ipc.IpcWriteOptions(compression="lz4" if size >= COMPRESS_BYTES_MIN else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return bytes(sink.getvalue())


def _from_stream(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
