"""Targets: what the index keeps of a subscription so that a match becomes a notification.

The index stores one filter and opaque bytes per subscription. The bytes hold all that a
notification needs, with its JSON half written already, so that no store is asked for a match.
"""

from __future__ import annotations

import msgspec
import orjson

from index.filter_json import parse_json
from index.instants import parse_instant
from index.model import Instant, Or, Subscription
from store.records import Mode, SubscriptionRecord

FORMAT_VERSION = 1
"""Of the bytes of a `Target`, which lie in snapshots; their header tells it."""
SEPARATOR = "\0"
"""Between tenant and id in the index; neither can hold it (store.records.check_name)."""


class Target(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One subscription as the notifier sees it.

    name      tenant and id as the index has them, in UTF-8.
    key       the Kafka key of its notifications.
    fragment  the beginning of a thin notification: {"subscription":…,"tenant":…,"revision":…
    mode      thin, full or compact.
    expires   seconds and nanoseconds since 1970, from which on it matches nothing; None: never.
    """

    name: bytes
    key: bytes
    fragment: bytes
    mode: str
    expires: tuple[int, int] | None

    def has_expired(self, now: Instant) -> bool:
        """Whether the subscription is over at the pinned time of a batch."""
        return self.expires is not None and self.expires <= (now.seconds, now.nanoseconds)


_encode = msgspec.msgpack.Encoder().encode
decode_target = msgspec.msgpack.Decoder(Target).decode


def index_id(tenant: str, subscription_id: str) -> str:
    """The id a subscription has in the index, where tenants share one."""
    return f"{tenant}{SEPARATOR}{subscription_id}"


def subscription_of(record: SubscriptionRecord) -> Subscription | None:
    """A record as the index takes it; None when it is disabled and so matches nothing."""
    if not record.enabled:
        return None
    filters = tuple(parse_json(tree) for tree in record.filters)
    name = index_id(record.tenant, record.id)
    return Subscription(
        name, filters[0] if len(filters) == 1 else Or(filters), _encode(target_of(record))
    )


def target_of(record: SubscriptionRecord) -> Target:
    """What a notification needs of a record."""
    names = {"subscription": record.id, "tenant": record.tenant, "revision": record.revision}
    key = record.id if record.consumer_key is None else record.consumer_key
    if record.mode is Mode.COMPACT:
        # One record for many subscriptions cannot have the key of each: it has the tenant's.
        key = record.tenant if record.consumer_key is None else record.consumer_key
    expires = None
    if record.expires_at is not None:
        instant = parse_instant(record.expires_at)
        expires = (instant.seconds, instant.nanoseconds)
    return Target(
        index_id(record.tenant, record.id).encode(),
        key.encode(),
        orjson.dumps(names)[:-1],
        record.mode.value,
        expires,
    )
