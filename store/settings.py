"""Every setting of the store, and what the server itself must be set to."""

from __future__ import annotations

from dataclasses import dataclass

BUCKETS_DEFAULT = 8_192
"""122 subscriptions a bucket at a million in one tenant, so a bucket stays one listpack."""

SERVER_OPTIONS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
    "hash-max-listpack-entries": "512",
    "hash-max-listpack-value": "2048",
}
"""What a launcher should start the server with.

appendonly       without it a restart forgets every subscription; connecting is refused.
appendfsync      `everysec` is as safe, since a write waits for the fsync, but takes up to a second;
                 `always` takes a disk flush, shared by the writes that come together.
maxmemory-policy any `allkeys-…` throws subscriptions away silently; connecting is refused.
hash-max-…       the limits under which a bucket stays a listpack: without them 90 bytes more each.
"""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How to reach the store and how long to wait for it.

    url                   redis://[user:password@]host:port/db, rediss://, unix://, or memory://.
    namespace             the first part of every key; one server can hold several stores.
    buckets               per tenant, fixed when the store is created; None: as the store has it, or
                          BUCKETS_DEFAULT for a new one. About N / 120 for N subscriptions in the
                          largest tenant.
    connect_timeout_s     for the connection itself.
    command_timeout_s     for any answer; must exceed durable_timeout_s.
    durable_timeout_s     for a write to reach the disk.
    durable_replicas      replicas whose disks a write must reach too; 0: the primary's alone.
    require_durable       refuse a server without an append-only file, and wait for it.
    idempotency_bytes_max of the first replies kept within six hours; five times this in all.
    connections_max       per process; threads beyond wait up to command_timeout_s.
    """

    url: str = "redis://127.0.0.1:6379/0"
    namespace: str = "herald"
    buckets: int | None = None
    connect_timeout_s: float = 2.0
    command_timeout_s: float = 5.0
    durable_timeout_s: float = 3.0
    durable_replicas: int = 0
    require_durable: bool = True
    idempotency_bytes_max: int = 256 * 1024 * 1024
    connections_max: int = 64

    def __post_init__(self) -> None:
        if self.durable_timeout_s >= self.command_timeout_s:
            raise ValueError(
                f"durable_timeout_s ({self.durable_timeout_s}) must be below command_timeout_s "
                f"({self.command_timeout_s}), or the answer is never waited for."
            )
        if self.buckets is not None and not 1 <= self.buckets <= 1 << 20:
            raise ValueError(f"buckets is {self.buckets}; 1 to {1 << 20} are allowed.")
