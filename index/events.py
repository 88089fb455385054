"""Events: a decoded batch, from payload bytes or from dicts, and the way back to a single event.

`decode_buffers` is the way of the stream. A refused event keeps its row, without entries, so that
row e of every result is payload e; why it was refused stands beside the batch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.decoder import Decoder
from index.errors import EventError
from index.flatten import columns_of, entries_of
from index.limits import LIMITS, Limits
from index.model import Path
from index.payloads import Context, Payloads
from index.vocabulary import Vocabulary


class Events:
    """A batch of events as columns, decoded with one vocabulary.

    columns     what kernels see, one row for each event given
    source      what was decoded: the payloads, or the events themselves
    decode_s    seconds that decoding took
    """

    def __init__(
        self,
        columns: EventBatch,
        source: Payloads | Sequence[Mapping[str, object]],
        vocabulary: Vocabulary,
        started: float,
    ) -> None:
        self.columns = columns
        self.source = source
        self.decode_s = time.perf_counter() - started
        self._vocabulary_size = vocabulary.size
        self._parsed: dict[int, dict[str, object]] = {}

    def __len__(self) -> int:
        return self.columns.entry_start.size - 1

    def event(self, row: int) -> dict[str, object]:
        """The event of a row as nested Python values; EventError where it was refused."""
        event = self._parsed.get(row)
        if event is None:
            source = self.source
            event = source.event(row) if isinstance(source, Payloads) else dict(source[row])
            self._parsed[row] = event
        return event

    def renewed(self, vocabulary: Vocabulary) -> Events:
        """These events, decoded again if the vocabulary has grown since; else themselves.

        Columns know nothing of attributes and strings that were interned after decoding.
        """
        if vocabulary.size == self._vocabulary_size:
            return self
        if isinstance(self.source, Payloads):
            return decode(self.source, vocabulary).events
        return encode(self.source, vocabulary)


class DecodedBatch(NamedTuple):
    """The events of a batch, and the rows that are dead letters with the reasons."""

    events: Events
    rejected: list[tuple[int, EventError]]


def encode(events: Sequence[Mapping[str, object]], vocabulary: Vocabulary) -> Events:
    """Events that are Python values already, as `index.decode.parse_event` gives them."""
    started = time.perf_counter()
    columns = columns_of([entries_of(event, vocabulary) for event in events], vocabulary)
    return Events(columns, events, vocabulary, started)


def decode_payloads(
    payloads: Sequence[bytes],
    vocabulary: Vocabulary,
    limits: Limits = LIMITS,
    context: Context | None = None,
    prefix: Path = (),
) -> DecodedBatch:
    """`decode_buffers` for payloads that are bytes objects."""
    return decode(Payloads.of(payloads, limits, context, prefix), vocabulary)


def decode_buffers(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    vocabulary: Vocabulary,
    limits: Limits = LIMITS,
    context: Context | None = None,
    prefix: Path = (),
) -> DecodedBatch:
    """Decode a batch of payloads in Arrow's binary layout.

    An event with `context` consists of these string attributes and, below `prefix`, of its payload
    if that is not empty. An event without context is its payload.
    """
    return decode(Payloads(data, offsets, limits, context, prefix), vocabulary)


def decode(payloads: Payloads, vocabulary: Vocabulary) -> DecodedBatch:
    """Decode payloads that are packed together with their limits and context."""
    started = time.perf_counter()
    decoder = Decoder(payloads, vocabulary)
    columns = decoder.run()
    return DecodedBatch(Events(columns, payloads, vocabulary, started), decoder.rejected)
