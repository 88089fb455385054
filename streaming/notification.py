"""Notification: headers, ids and words of a record that tells a subscription of an event.

    key       the subscription's id, or the consumer key it chose: so its order holds
    ce_id     blake2b-128 of (topic, partition, offset, tenant, id): equal on every replay
    value     {"subscription":…,"tenant":…,"revision":…,"epoch":…,
               "event":{"topic":…,"partition":…,"offset":…,"key":…,"id":…}}

In `full` mode "event" also has the event itself: "context" for a CloudEvent, and "data". In
`compact` mode one record tells of one event and many subscriptions of one tenant:

    {"tenant":…,"epoch":…,"event":{…},"subscriptions":[[id, revision], …]}

The type names the format, as CloudEvents has it: under one type, fields may come but none goes or
means something else; what breaks a consumer gets another type (docs/formats.md).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import orjson

from streaming.byte_columns import DIGEST_BYTES
from streaming.envelope import HOPS_ATTRIBUTE
from streaming.target import SEPARATOR

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
    origin = Place.of(topic, partition).origin_of(offset)
    return blake2b(origin + name, digest_size=DIGEST_BYTES).hexdigest()


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

    def origin_of(self, offset: int) -> bytes:
        """What the notification ids of one event are made of, and the subscription's name."""
        return b"%b%d\0" % (self.origin, offset)

    def thin(self, offset: int, key: bytes | None, context: dict[str, str] | None) -> bytes:
        """Where an event is, as a JSON object without its end."""
        thin = b"%b%d" % (self.json, offset)
        if key is not None:
            try:
                thin += b',"key":' + orjson.dumps(key.decode())
            except UnicodeDecodeError:
                thin += b',"key_hex":"%b"' % key.hex().encode()
        if context is not None and "id" in context:
            thin += b',"id":' + orjson.dumps(context["id"])
        return thin
