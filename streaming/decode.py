"""Decode: an Arrow batch of Kafka records -> events as columns, and why some are none.

Plain JSON without headers goes from Arrow's buffers to the decoder without touching a single row in
Python; only batches with CloudEvents headers are looked at record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from index.errors import EventError
from index.events import Events, decode_buffers
from index.limits import LIMITS, Limits
from index.model import Path
from index.payloads import Payloads
from index.vocabulary import Vocabulary
from streaming.envelope import (
    ATTRIBUTE_PREFIX,
    CONTENT_TYPE,
    Envelope,
    hops_of,
    open_envelope,
)

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""What decoding needs of Spark's Kafka source, in this order."""


@dataclass(slots=True)
class Records:
    """A batch of Kafka records, column by column."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.ListArray
    topics: pa.StringArray
    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    timestamps: pa.TimestampArray

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Records:
        """The columns of a batch with `COLUMNS`."""
        keys, values, headers, topics, partitions, offsets, timestamps = batch.columns
        return cls(
            keys,
            values,
            headers,
            topics,
            partitions.to_numpy(zero_copy_only=False),
            offsets.to_numpy(zero_copy_only=False),
            timestamps,
        )

    def __len__(self) -> int:
        return len(self.values)

    def all_headers(self) -> Iterator[list[tuple[str, bytes | None]]]:
        """The headers of each record, in their order."""
        flat = self.headers.flatten()
        pairs = zip(flat.field("key").to_pylist(), flat.field("value").to_pylist(), strict=True)
        for length in pc.list_value_length(self.headers).fill_null(0).to_pylist():
            yield list(islice(pairs, length))

    def value_bytes(self) -> NDArray[np.int64]:
        """int64[n] the length of each value, 0 for one that is null."""
        lengths = pc.fill_null(pc.binary_length(self.values), 0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)

    def headers_of(self, row: int) -> list[tuple[str, bytes | None]]:
        """The headers of one record."""
        return [(header["key"], header["value"]) for header in self.headers[row].as_py() or ()]


@dataclass(slots=True)
class Decoded:
    """A decoded batch.

    events     one row a record; rejected ones are empty and match nothing that counts.
    rejected   (row, why), ascending.
    contexts   CloudEvents attributes per row, or None when the batch has none.
    """

    events: Events
    rejected: list[tuple[int, EventError]]
    contexts: list[dict[str, str] | None] | None = None

    def context_of(self, row: int) -> dict[str, str] | None:
        """The CloudEvents attributes of a row, None for plain JSON."""
        return None if self.contexts is None else self.contexts[row]

    def payload_of(self, row: int) -> bytes:
        """The event's JSON, or its data's when it is a CloudEvent; empty when that is none."""
        source = self.events.source
        assert isinstance(source, Payloads), "decoded from bytes"
        return source.payload(row)


def decode(
    records: Records,
    vocabulary: Vocabulary,
    hops_max: int,
    prefix: Path = ("data",),
    limits: Limits = LIMITS,
) -> Decoded:
    """Decode a batch; nothing in it can raise but a fault of ours."""
    if not has_envelopes(records.headers):
        return _decode_plain(records, vocabulary, limits)
    payloads, contexts, refused = _open_all(records, hops_max, limits)
    data = np.frombuffer(b"".join(payloads), np.uint8)
    offsets = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    batch = decode_buffers(data, offsets, vocabulary, limits, contexts, prefix)
    return Decoded(batch.events, _merged(batch.rejected, refused), contexts)


def has_envelopes(headers: pa.ListArray) -> bool:
    """Whether some record has a header that makes it a CloudEvent."""
    names = headers.flatten().field("key")
    if len(names) == 0:
        return False
    distinct = (name.lower() for name in pc.unique(names).to_pylist())
    return any(name.startswith(ATTRIBUTE_PREFIX) or name == CONTENT_TYPE for name in distinct)


def _decode_plain(records: Records, vocabulary: Vocabulary, limits: Limits) -> Decoded:
    data, offsets = buffers_of(records.values)
    batch = decode_buffers(data, offsets, vocabulary, limits)
    refused: dict[int, EventError] = {}
    if records.values.null_count:
        for row in np.flatnonzero(records.values.is_null().to_numpy(zero_copy_only=False)):
            refused[int(row)] = EventError("null_value", "a record without a value")
    return Decoded(batch.events, _merged(batch.rejected, refused))


def buffers_of(values: pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes and the offsets of a binary column, as they lie in memory."""
    _, raw_offsets, raw_data = values.buffers()
    start, stop = values.offset, values.offset + len(values) + 1
    offsets = np.frombuffer(raw_offsets, np.int32)[start:stop].astype(np.int64)
    data = np.frombuffer(raw_data, np.uint8) if raw_data else np.zeros(0, np.uint8)
    return data, offsets


def _open_all(
    records: Records, hops_max: int, limits: Limits
) -> tuple[list[bytes], list[dict[str, str] | None], dict[int, EventError]]:
    payloads: list[bytes] = []
    contexts: list[dict[str, str] | None] = []
    refused: dict[int, EventError] = {}
    rows = zip(records.values.to_pylist(), records.all_headers(), strict=True)
    for row, (value, headers) in enumerate(rows):
        envelope = Envelope(b"", {})
        try:
            envelope = open_envelope(value, headers, limits)
            if hops_of(envelope.context) > hops_max:
                raise EventError("too_many_hops", f"more than {hops_max} times a notification")
        except EventError as error:
            refused[row] = error
            envelope = Envelope(b"", {})
        payloads.append(envelope.payload)
        contexts.append(envelope.context)
    return payloads, contexts, refused


def _merged(
    rejected: list[tuple[int, EventError]], refused: dict[int, EventError]
) -> list[tuple[int, EventError]]:
    """Both kinds of refusals by row; where a row has two, the envelope's is the cause."""
    return sorted({**dict(rejected), **refused}.items())
