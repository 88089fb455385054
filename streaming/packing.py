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
import pyarrow.compute as pc
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
Column = Sequence[Any]
"""A list, or an array of Arrow."""


class DeadLetter(NamedTuple):
    """An input that cannot be decoded, with the headers that tell why."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class Output:
    """Records on their way from a worker to the driver, as columns.

    notifications  batches of NOTIFICATIONS_TYPE.
    byte_count     of values, to know when to cut.
    """

    def __init__(self) -> None:
        self.notifications: list[pa.RecordBatch] = []
        self.dead_letters: list[DeadLetter] = []
        self.byte_count = 0

    def notify(self, keys: Column, values: Column, ids: Column, kinds: Column) -> None:
        """Add notifications, column by column."""
        columns = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip((keys, values, ids, kinds), NOTIFICATIONS_TYPE, strict=True)
        ]
        self.notifications.append(pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS_TYPE))
        self.byte_count += pc.sum(pc.binary_length(columns[1])).as_py() or 0

    def bury(self, letter: DeadLetter) -> None:
        """Add one dead letter."""
        self.dead_letters.append(letter)
        self.byte_count += len(letter.value or b"")

    def is_full(self) -> bool:
        """Whether it is time to pack this output and begin another."""
        return self.byte_count >= ROW_BYTES_MAX

    @property
    def keys(self) -> list[bytes | None]:
        """The keys of all notifications."""
        return self._list_of("key")

    @property
    def values(self) -> list[bytes]:
        """Their values."""
        return self._list_of("value")

    @property
    def ids(self) -> list[bytes]:
        """Their ids."""
        return self._list_of("id")

    @property
    def kinds(self) -> list[int]:
        """What their headers say, see `streaming.notification`."""
        return self._list_of("kind")

    def _list_of(self, name: str) -> list[Any]:
        return [one for batch in self.notifications for one in batch.column(name).to_pylist()]


def parts_of(sizes: NDArray[np.int64], bytes_max: int) -> Iterator[tuple[int, int]]:
    """Runs of records, given by their bytes, that take about `bytes_max`, or what a row may."""
    if sizes.size:
        number = np.cumsum(sizes) // min(bytes_max, ROW_BYTES_MAX)
        bounds = np.flatnonzero(np.diff(number)) + 1
        yield from pairwise([0, *bounds.tolist(), sizes.size])


def pack(output: Output, counters: dict[str, Any]) -> pa.RecordBatch:
    """One row for Spark."""
    size = output.byte_count
    notifications = b""
    if output.notifications:
        table = pa.Table.from_batches(output.notifications, NOTIFICATIONS_TYPE)
        notifications = _to_stream(table.combine_chunks(), size)
    dead_letters = b""
    if output.dead_letters:
        keys, values, headers = zip(*output.dead_letters, strict=True)
        named = [[{"name": n, "value": v} for n, v in letter] for letter in headers]
        columns = zip((keys, values, named), DEAD_LETTERS_TYPE, strict=True)
        arrays = [pa.array(column, field.type) for column, field in columns]
        dead_letters = _to_stream(pa.Table.from_arrays(arrays, schema=DEAD_LETTERS_TYPE), size)
    row = [[notifications], [dead_letters], [orjson.dumps(counters)]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.binary()) for column in row], schema=PACKED_TYPE
    )


def unpack(notifications: bytes, dead_letters: bytes) -> Output:
    """The records of one row."""
    output = Output()
    if notifications:
        output.notifications = _from_stream(notifications).to_batches()
    if dead_letters:
        for letter in _from_stream(dead_letters).to_pylist():
            headers = [(header["name"], header["value"]) for header in letter["headers"]]
            output.bury(DeadLetter(letter["key"], letter["value"], headers))
    return output


def _to_stream(table: pa.Table, size: int) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression="lz4" if size >= COMPRESS_BYTES_MIN else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_stream(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
