r"""Every key Herald uses in Valkey or Redis, and how a subscription finds its bucket.

All keys start with `{<namespace>}:`; the braces put them into one cluster slot, which the server
function needs. Nothing else in the project spells a key.

    meta                   hash    format, buckets: fixed when the store is created
    epoch                  string  "<epoch> <lineage>" of the newest write
    log                    stream  entry "<epoch>-0": l -> lineage, f -> lineage before it, then
                                   "p<tenant>\n<id>" -> stored record, "d<tenant>\n<id>" -> ""
    counts                 hash    tenant -> number of its subscriptions; no entry at 0
    records:<bucket>:<tenant>      hash    id -> stored record
    used:<tenant>          bitmap  bit b set: bucket b of the tenant holds something
    replies:<0..4>         hash    "<tenant>\n<idempotency key>" -> first reply; "" -> which six
                                   hours it covers and its bytes
    readers                hash    name -> "<epoch> <oldest epoch> <seen ms> <valid ms>"
    snapshots              zset    epochs of the newest published snapshots
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

REPLY_SLOTS = 5
"""Six hours each: four full ones, so a day, are always kept beside the one being filled."""


def bucket_of(subscription_id: str, bucket_count: int) -> int:
    """The bucket of a subscription: CRC-32 of its id, so the same for ever and everywhere."""
    return zlib.crc32(subscription_id.encode()) % bucket_count


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace."""

    namespace: str

    def __post_init__(self) -> None:
        if not self.namespace or set("{}") & set(self.namespace):
            raise ValueError(
                f"A store's namespace may not be empty or hold braces: {self.namespace!r}"
            )

    def _key(self, name: str) -> str:
        return f"{{{self.namespace}}}:{name}"

    @property
    def meta(self) -> str:
        """Format and number of buckets."""
        return self._key("meta")

    @property
    def epoch(self) -> str:
        """The newest epoch and its lineage."""
        return self._key("epoch")

    @property
    def log(self) -> str:
        """The stream of changes."""
        return self._key("log")

    @property
    def counts(self) -> str:
        """Subscriptions by tenant."""
        return self._key("counts")

    @property
    def readers(self) -> str:
        """Who reads the log."""
        return self._key("readers")

    @property
    def snapshots(self) -> str:
        """Which snapshots are published."""
        return self._key("snapshots")

    @property
    def replies(self) -> list[str]:
        """The idempotency slots, in the order of their numbers."""
        return [self._key(f"replies:{slot}") for slot in range(REPLY_SLOTS)]

    def records(self, tenant: str, bucket: int) -> str:
        """One bucket of a tenant's subscriptions."""
        return self._key(f"records:{bucket}:{tenant}")

    def used(self, tenant: str) -> str:
        """Which buckets of a tenant hold something."""
        return self._key(f"used:{tenant}")
