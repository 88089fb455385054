"""Notify: matches -> notifications, in columns; see `notification` for what one is made of.

Building one is a concatenation of bytes: half of it lies in the index, half is made once an event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from index.runs import begins_run
from streaming.byte_columns import (
    Taken,
    column_of,
    digests,
    joined,
    sizes_of,
    to_arrow,
    values_of,
)
from streaming.compact import LIST_START, lists_of
from streaming.decode import Decoded, Records
from streaming.envelope import hops_of
from streaming.notification import HOPS_KINDS, Place
from streaming.targets import COMPACT, FULL, TargetTable


class Pairs(NamedTuple):
    """Which events have which targets, in the order of telling: events ascend.

    event   int32[pairs] rows of the batch.
    place   int32[pairs] places in `targets`.
    mode    uint8[pairs] of the targets.
    """

    event: NDArray[np.int32]
    place: NDArray[np.int32]
    mode: NDArray[np.uint8]
    targets: TargetTable

    def of_events(self, first: int, stop: int) -> Pairs:
        """Those of some rows of the batch."""
        begin, end = np.searchsorted(self.event, [first, stop])
        kept = slice(begin, end)
        return Pairs(self.event[kept], self.place[kept], self.mode[kept], self.targets)


Columns = tuple[pa.Array, pa.Array, pa.Array, pa.Array]
"""Keys, values, ids and kinds of notifications."""


class _Events(NamedTuple):
    """What notifications say of some events.

    kind   uint8[events] hops, one more than the event itself has had.
    """

    row: NDArray[np.int32]
    origin: list[bytes]
    thin: list[bytes]
    kind: NDArray[np.uint8]


class _Written(NamedTuple):
    """Notifications of some pairs, as columns, and the events they tell of."""

    event: NDArray[np.int32]
    columns: Columns

    def with_later(self, other: _Written) -> _Written:
        """These and others, in the order of events; of one event the others are last."""
        event = np.concatenate((self.event, other.event))
        order = np.argsort(event, kind="stable")
        keys, values, ids, kinds = (
            pa.concat_arrays(columns).take(pa.array(order))
            for columns in zip(self.columns, other.columns, strict=True)
        )
        return _Written(event[order], (keys, values, ids, kinds))


class Notifier:
    """Writes the notifications of one batch at one epoch.

    bytes_max   no value is longer, except for a key or id that is.
    """

    def __init__(self, epoch: int, bytes_max: int, records: Records, decoded: Decoded) -> None:
        self._epoch = epoch
        self._bytes_max = bytes_max
        self._records = records
        self._decoded = decoded
        self._places: dict[tuple[str, int], Place] = {}

    def write(self, pairs: Pairs, part: int | None = None) -> Columns:
        """Everything about these pairs, which are all that their events have.

        Notifications are in the order of their events, so that those of equal keys are, too; of one
        event, compact ones are last. With `part`, the pairs are that part of a single event's.
        """
        written = self._write_plain(pairs)
        if (pairs.mode == COMPACT).any():
            written = written.with_later(self._write_compact(pairs, part))
        return written.columns

    def _events_of(self, rows: NDArray[np.int32]) -> _Events:
        """What notifications say of events, which are given by ascending row."""
        records, contexts = self._records, self._decoded.contexts
        columns = (
            records.topics.take(rows).to_pylist(),
            records.partitions[rows].tolist(),
            records.offsets[rows].tolist(),
            records.keys.take(rows).to_pylist(),
        )
        origins, thins, kinds = [], [], np.ones(rows.size, np.uint8)
        for at, (topic, partition, offset, key) in enumerate(zip(*columns, strict=True)):
            place = self._places.get((topic, partition))
            if place is None:
                place = self._places[topic, partition] = Place.of(topic, partition)
            context = None
            if contexts is not None:
                context = contexts[rows[at]]
                kinds[at] = hops_of(context) + 1
            origins.append(place.origin_of(offset))
            thins.append(place.thin(offset, key, context))
        return _Events(rows, origins, thins, kinds)

    def _write_plain(self, pairs: Pairs) -> _Written:
        """The notifications of all targets but compact ones."""
        at = np.flatnonzero(pairs.mode != COMPACT)
        event, place, targets = pairs.event[at], pairs.place[at], pairs.targets
        first_of_event = np.flatnonzero(begins_run(event))
        of_event = np.diff(first_of_event, append=event.size)
        number = np.repeat(np.arange(first_of_event.size, dtype=np.int32), of_event)
        events = self._events_of(event[first_of_event])
        fragments = targets.fragments, place
        tails = self._tails(events, number, fragments, np.flatnonzero(pairs.mode[at] == FULL))
        ids = digests(joined((column_of(events.origin), number), (targets.names, place)))
        columns = (
            values_of((targets.keys, place)),
            to_arrow(joined(fragments, tails)),
            to_arrow(ids),
            pa.array(events.kind[number]),
        )
        return _Written(event, columns)

    def _tails(
        self,
        events: _Events,
        number: NDArray[np.int32],
        fragments: Taken,
        full: NDArray[np.intp],
    ) -> Taken:
        """The ends of values; those `full` have the events themselves, where there is room.

        number   of the event of each value, among `events`
        """
        tails = [self._tail(thin) for thin in events.thin]
        if not full.size:
            return column_of(tails), number
        told, which = np.unique(number[full], return_inverse=True)
        for event in told.tolist():
            tails.append(self._full_tail(int(events.row[event]), events.thin[event]))
        column = column_of(tails)
        longer = (len(events.thin) + which).astype(np.int32)
        fits = sizes_of(fragments)[full] + sizes_of((column, longer)) <= self._bytes_max
        tail_of = number.copy()
        tail_of[full[fits]] = longer[fits]
        return column, tail_of

    def _tail(self, description: bytes) -> bytes:
        return b',"epoch":%d,"event":%b}}' % (self._epoch, description)

    def _full_tail(self, row: int, thin: bytes) -> bytes:
        context, data = self._decoded.context_of(row), self._decoded.payload_of(row)
        if context is not None:
            thin += b',"context":' + orjson.dumps(context)
        if data:
            thin += b',"data":' + data
        return self._tail(thin)

    def _write_compact(self, pairs: Pairs, part: int | None) -> _Written:
        """The notifications of compact targets."""
        at = np.flatnonzero(pairs.mode == COMPACT)
        rows, inverse = np.unique(pairs.event[at], return_inverse=True)
        events, targets = self._events_of(rows), pairs.targets
        tails = column_of([self._tail(thin)[:-1] + LIST_START for thin in events.thin])
        number = inverse.astype(np.int32)
        lists = lists_of(number, pairs.place[at], targets, tails, self._bytes_max)
        prefix = b"" if part is None else b"%d." % part
        columns = (
            values_of((targets.group_keys, lists.group)),
            to_arrow(lists.value),
            to_arrow(lists.ids(column_of(events.origin), targets, prefix)),
            pa.array(HOPS_KINDS + events.kind[lists.event]),
        )
        return _Written(rows[lists.event], columns)
