"""Notify: matches -> records for the notifications topic, in CloudEvents' binary mode.

    key       the subscription's id, or the consumer key it chose: so its order holds
    ce_id     blake2b-128 of (topic, partition, offset, tenant, id): equal on every replay
    value     {"subscription":…,"tenant":…,"revision":…,"epoch":…,
               "event":{"topic":…,"partition":…,"offset":…,"key":…,"id":…}}

In `full` mode "event" also has the event itself: "context" for a CloudEvent, and "data". In
`compact` mode one record tells of one event and many subscriptions of one tenant:

    {"tenant":…,"epoch":…,"event":{…},"subscriptions":[[id, revision], …]}

Building one is a concatenation of bytes: half of it lies in the index, half is made once an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import orjson

from streaming.envelope import HOPS_ATTRIBUTE, hops_of
from streaming.packing import Output
from streaming.target import SEPARATOR, Target

ID_BYTES = 16
SOURCE = "/herald"
TYPE = "herald.match"
COMPACT_TYPE = "herald.match.compact"
CONTENT_TYPE = b"application/json"
HOPS_KINDS = 128
"""`hops_max` is at most 100, so a kind is (hops, compact) in one byte."""


def headers_of(kind: int) -> list[tuple[str, bytes]]:
    """The headers of a kind of notification, all but `ce_id`."""
    compact, hops = divmod(kind, HOPS_KINDS)
    return [
        ("ce_specversion", b"1.0"),
        ("ce_source", SOURCE.encode()),
        ("ce_type", (COMPACT_TYPE if compact else TYPE).encode()),
        (f"ce_{HOPS_ATTRIBUTE}", str(hops).encode()),
        ("content-type", CONTENT_TYPE),
    ]


HEADERS = [headers_of(kind) for kind in range(2 * HOPS_KINDS)]
"""By kind, made once: a notification only adds its id."""


def notification_id(
    topic: str, partition: int, offset: int, tenant: str, subscription_id: str
) -> str:
    """The id of the notification that tells a subscription of an event."""
    name = f"{tenant}{SEPARATOR}{subscription_id}".encode()
    event = EventReference(Place.of(topic, partition), offset)
    return _id_of(event.origin, name).decode()


class EventReference:
    """One event that matched, as its notifications describe it.

    context   CloudEvents attributes; None for plain JSON.
    hops      how often the event was a notification already.
    read_data gives the event's JSON (plain) or its data's; empty: none. Only full mode asks.
    """

    __slots__ = ("_place", "context", "hops", "key", "origin", "read_data")

    def __init__(
        self,
        place: Place,
        offset: int,
        key: bytes | None = None,
        context: dict[str, str] | None = None,
        read_data: Callable[[], bytes] = bytes,
    ) -> None:
        self.origin = b"%b%d\0" % (place.origin, offset)
        self._place = b"%b%d" % (place.json, offset)
        self.key = key
        self.context = context
        self.hops = hops_of(context)
        self.read_data = read_data

    def thin(self) -> bytes:
        """Where the event is, as a JSON object without its end."""
        parts = [self._place]
        if self.key is not None:
            try:
                parts.append(b',"key":' + orjson.dumps(self.key.decode()))
            except UnicodeDecodeError:
                parts.append(b',"key_hex":"%b"' % self.key.hex().encode())
        if self.context is not None and "id" in self.context:
            parts.append(b',"id":' + orjson.dumps(self.context["id"]))
        return b"".join(parts)


class Place(NamedTuple):
    """A topic's partition, written once for all its events.

    origin   the beginning of what notification ids are made of.
    json     the beginning of an event's description.
    """

    origin: bytes
    json: bytes

    @classmethod
    def of(cls, topic: str, partition: int) -> Place:
        """The place of a partition's events."""
        description = b'{"topic":%b,"partition":%d,"offset":' % (orjson.dumps(topic), partition)
        return cls(f"{topic}{SEPARATOR}{partition}{SEPARATOR}".encode(), description)


class Notifier:
    """Writes notifications of one batch at one epoch.

    bytes_max   no value is longer, except for a key or id that is.
    """

    def __init__(self, epoch: int, bytes_max: int) -> None:
        self._epoch = epoch
        self._bytes_max = bytes_max

    def notify(self, event: EventReference, targets: Sequence[Target], output: Output) -> int:
        """Add the notifications of one event; returns how many records they are."""
        before = len(output.values)
        thin = event.thin()
        tail = b',"epoch":%d,"event":%b}}' % (self._epoch, thin)
        full: bytes | None = None
        compact: dict[tuple[bytes, bytes], list[Target]] = {}
        kind = event.hops + 1
        for target in targets:
            if target.mode == "compact":
                tenant = target.name.partition(b"\0")[0]
                compact.setdefault((tenant, target.key), []).append(target)
                continue
            value = target.fragment + tail
            if target.mode == "full":
                full = self._full_tail(event, thin) if full is None else full
                if len(target.fragment) + len(full) <= self._bytes_max:
                    value = target.fragment + full
            output.notify(target.key, value, _id_of(event.origin, target.name), kind)
        for (tenant, key), group in compact.items():
            self._notify_compact(event, tenant, key, group, tail, output)
        return len(output.values) - before

    def _full_tail(self, event: EventReference, thin: bytes) -> bytes:
        parts = [thin]
        if event.context is not None:
            parts.append(b',"context":' + orjson.dumps(event.context))
        data = event.read_data()
        if data:
            parts.append(b',"data":' + data)
        return b',"epoch":%d,"event":%b}}' % (self._epoch, b"".join(parts))

    def _notify_compact(
        self,
        event: EventReference,
        tenant: bytes,
        key: bytes,
        group: list[Target],
        tail: bytes,
        output: Output,
    ) -> None:
        """Records of at most bytes_max each; which subscriptions share one is fixed by their ids.

        The order of matches depends on how the index is laid out, which a replay may find changed.
        """
        head = b'{"tenant":' + orjson.dumps(tenant.decode()) + tail[:-1] + b',"subscriptions":['
        room = self._bytes_max - len(head) - 2
        chunk: list[bytes] = []
        size = number = 0
        for target in sorted(group, key=lambda target: target.name):
            names = orjson.loads(target.fragment + b"}")
            item = orjson.dumps([names["subscription"], names["revision"]])
            if chunk and size + len(item) + 1 > room:
                self._flush(event, tenant, key, number, head, chunk, output)
                chunk, size, number = [], 0, number + 1
            chunk.append(item)
            size += len(item) + 1
        self._flush(event, tenant, key, number, head, chunk, output)

    @staticmethod
    def _flush(
        event: EventReference,
        tenant: bytes,
        key: bytes,
        number: int,
        head: bytes,
        chunk: list[bytes],
        output: Output,
    ) -> None:
        chunk_name = b"%b\0\0%b\0%d" % (tenant, key, number)
        value = head + b",".join(chunk) + b"]}"
        output.notify(key, value, _id_of(event.origin, chunk_name), HOPS_KINDS + event.hops + 1)


def _id_of(origin: bytes, name: bytes) -> bytes:
    return blake2b(origin + name, digest_size=ID_BYTES).hexdigest().encode()
