"""Notify: matches -> notifications, in columns; see `notification` for what one is made of.

Building one is a concatenation of bytes: half of it lies in the index, half is made once an event.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from streaming.decode import Decoded, Records
from streaming.envelope import hops_of
from streaming.notification import HOPS_KINDS, Place, id_of
from streaming.packing import parts_of
from streaming.targets import COMPACT, FULL, TargetTable

THIN_BYTES = 300
"""About what a thin notification takes."""


class Pairs(NamedTuple):
    """Which events have which targets, in the order of telling: events ascend.

    event   int32[pairs] rows of the batch.
    place   int32[pairs] places in a `TargetTable`.
    """

    event: NDArray[np.int32]
    place: NDArray[np.int32]


Columns = tuple[list[bytes], list[bytes], list[bytes], list[int]]
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

    event: list[int]
    columns: Columns

    def append(self, event: int, key: bytes, value: bytes, identifier: bytes, kind: int) -> None:
        """Add one of an event that may lie before the last."""
        keys, values, ids, kinds = self.columns
        keys.append(key)
        values.append(value)
        ids.append(identifier)
        kinds.append(kind)
        self.event.append(event)

    def in_order(self) -> Columns:
        """The columns in the order of events, and of writing for each of them."""
        order = np.argsort(self.event, kind="stable").tolist()
        keys, values, ids, kinds = ([column[at] for at in order] for column in self.columns)
        return keys, values, ids, kinds


class Notifier:
    """Writes the notifications of one batch at one epoch.

    bytes_max   no value is longer, except for a key or id that is.
    """

    def __init__(
        self, epoch: int, bytes_max: int, records: Records, decoded: Decoded, targets: TargetTable
    ) -> None:
        self._epoch = epoch
        self._bytes_max = bytes_max
        self._records = records
        self._decoded = decoded
        self._targets = targets
        self._places: dict[tuple[str, int], Place] = {}

    def write(self, pairs: Pairs) -> Iterator[Columns]:
        """Everything about these pairs, in parts of bounded size.

        Notifications are in the order of their events, so that those of equal keys are, too; of one
        event, compact ones are last.
        """
        modes = self._targets.modes(pairs.place)
        compact = np.unique(pairs.event[modes == COMPACT])
        told = 0
        for first, stop in self._parts(pairs, modes):
            written = self._write_plain(pairs, modes, first, stop)
            # An event is told of in compact form when it has no more pairs.
            is_last = stop == pairs.event.size
            ended = compact.size if is_last else int(np.searchsorted(compact, pairs.event[stop]))
            if told < ended:
                self._write_compact(pairs, modes, compact[told:ended], written)
                told = ended
                yield written.in_order()
            else:
                yield written.columns

    def _parts(self, pairs: Pairs, modes: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
        """Runs of pairs whose notifications take about as much as an output should hold."""
        sizes = np.full(pairs.event.size, THIN_BYTES, np.int64)
        if full := np.flatnonzero(modes == FULL).tolist():
            sizes[full] += self._records.value_bytes()[pairs.event[full]]
        return parts_of(sizes)

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

    def _write_plain(
        self, pairs: Pairs, modes: NDArray[np.uint8], first: int, stop: int
    ) -> _Written:
        """The notifications of all targets but compact ones."""
        at = first + np.flatnonzero(modes[first:stop] != COMPACT)
        event, place = pairs.event[at], pairs.place[at]
        first_of_event = np.flatnonzero(np.diff(event, prepend=-1))
        number = np.repeat(
            np.arange(first_of_event.size), np.diff(first_of_event, append=event.size)
        )
        events = self._events_of(event[first_of_event])
        fragments = self._targets.fragments(place)
        tails = np.array([self._tail(thin) for thin in events.thin], object)[number].tolist()
        if full := np.flatnonzero(modes[at] == FULL).tolist():
            self._lengthen(tails, fragments, events, number, full)
        origins = np.array(events.origin, object)[number].tolist()
        columns = (
            self._targets.keys(place),
            list(map(operator.add, fragments, tails)),
            list(map(id_of, origins, self._targets.names(place))),
            events.kind[number].tolist(),
        )
        return _Written(event.tolist(), columns)

    def _tail(self, description: bytes) -> bytes:
        return b',"epoch":%d,"event":%b}}' % (self._epoch, description)

    def _lengthen(
        self,
        tails: list[bytes],
        fragments: list[bytes],
        events: _Events,
        number: NDArray[np.intp],
        full: list[int],
    ) -> None:
        """Put the events themselves into the tails of those pairs, where there is room."""
        known: dict[int, bytes] = {}
        for at, event in zip(full, number[full].tolist(), strict=True):
            if event not in known:
                known[event] = self._full_tail(int(events.row[event]), events.thin[event])
            if len(fragments[at]) + len(known[event]) <= self._bytes_max:
                tails[at] = known[event]

    def _full_tail(self, row: int, thin: bytes) -> bytes:
        context, data = self._decoded.context_of(row), self._decoded.payload_of(row)
        if context is not None:
            thin += b',"context":' + orjson.dumps(context)
        if data:
            thin += b',"data":' + data
        return self._tail(thin)

    def _write_compact(
        self,
        pairs: Pairs,
        modes: NDArray[np.uint8],
        compact: NDArray[np.int32],
        written: _Written,
    ) -> None:
        """The notifications of the compact targets of some events.

        Which subscriptions share one is fixed by their ids, for the order of matches depends on how
        the index is laid out, which a replay may find changed.
        """
        events = self._events_of(compact)
        bounds = np.searchsorted(pairs.event, [compact, compact + 1]).T.tolist()
        for (begin, end), row, origin, thin, kind in zip(bounds, *events, strict=True):
            place = pairs.place[begin:end][modes[begin:end] == COMPACT]
            columns = self._targets.names(place), self._targets.keys(place)
            groups: dict[tuple[bytes, bytes], list[tuple[bytes, bytes]]] = {}
            for name, key, fragment in zip(*columns, self._targets.fragments(place), strict=True):
                tenant = name.partition(b"\0")[0]
                groups.setdefault((tenant, key), []).append((name, fragment))
            for (tenant, key), group in groups.items():
                head = b'{"tenant":' + orjson.dumps(tenant.decode()) + self._tail(thin)[:-1]
                for number, value in self._chunks(head + b',"subscriptions":[', group):
                    name = b"%b\0\0%b\0%d" % (tenant, key, number)
                    written.append(
                        int(row), key, value, id_of(origin, name), HOPS_KINDS + int(kind)
                    )

    def _chunks(self, head: bytes, group: list[tuple[bytes, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Number and value of each record about a group, given as names and fragments."""
        room = self._bytes_max - len(head) - 2
        chunk: list[bytes] = []
        size = number = 0
        for _, fragment in sorted(group):
            names = orjson.loads(fragment + b"}")
            item = orjson.dumps([names["subscription"], names["revision"]])
            if chunk and size + len(item) + 1 > room:
                yield number, head + b",".join(chunk) + b"]}"
                chunk, size, number = [], 0, number + 1
            chunk.append(item)
            size += len(item) + 1
        yield number, head + b",".join(chunk) + b"]}"
