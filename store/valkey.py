"""The subscription store in Valkey or Redis.

Cost       write: one round trip and one disk flush, whatever the number of operations.
           get, newest_epoch, count: one command. list_page: two round trips, or few more.
           read_since: one round trip a chunk. scan_stored: one for a few megabytes.
Durability a write returns when it is on the disk of the server (WAITAOF). Where that is not known,
           StoreUnavailable says so, and the write may show up all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from store.base import (
    READER_SECONDS_VALID,
    SNAPSHOTS_KEPT,
    Idempotency,
    LogEntry,
    Operation,
    Page,
    Reader,
    SubscriptionStore,
    Trimmed,
    WriteResult,
)
from store.connection import (
    FUNCTION_PREFIX,
    address_in,
    connect,
    load_library,
    prepare,
    translated,
)
from store.errors import InvalidName
from store.keys import Keys, bucket_of
from store.lineage import GivenOut
from store.log import LogTail, read_epoch
from store.paging import check_page_size, describe_listing, gather_page, read_token
from store.records import StoredRecord, SubscriptionRecord, check_name, decode_stored
from store.settings import StoreSettings
from store.writing import Writer

SCAN_BUCKETS = 512
"""Buckets fetched in one round trip at most."""
FIRST_BUCKETS = 8
"""Buckets fetched at first, since any subscription may have a megabyte."""
FETCH_BYTES = 4 * 1024 * 1024
"""The next round trip fetches twice as many buckets below this, and half as many above."""
FORGET_READER_MS = 86_400_000


class ValkeyStore(SubscriptionStore):
    """The subscription set on a server that other processes share.

    Making one connects, loads the server functions and checks settings: it raises StoreUnavailable
    or StoreIncompatible.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._keys = Keys(settings.namespace)
        # Untyped on purpose: redis-py calls every reply bytes or str, and ours are always bytes.
        self._client: Any = connect(settings)
        self._address = address_in(settings.url)
        self._given_out = GivenOut()
        try:
            self._buckets = prepare(self._client, self._keys, settings)
        except BaseException:
            self._client.connection_pool.disconnect()
            raise
        self._writer = Writer(self._client, self._keys, settings, self._buckets)
        block_s = settings.command_timeout_s / 2
        self._tail = LogTail(self._client, self._keys, self._address, block_s)

    def write(
        self, operations: Sequence[Operation], idempotency: Idempotency | None = None
    ) -> WriteResult:
        """See SubscriptionStore."""
        return self._writer.write(operations, idempotency)

    def get(self, tenant: str, subscription_id: str) -> SubscriptionRecord | None:
        """See SubscriptionStore."""
        try:
            check_name("tenant", tenant)
            check_name("subscription id", subscription_id)
        except InvalidName:
            return None
        key = self._keys.records(tenant, bucket_of(subscription_id, self._buckets))
        with translated(self._address):
            stored = self._client.hget(key, subscription_id)
        return None if stored is None else decode_stored(tenant, subscription_id, stored)

    def list_page(
        self,
        tenant: str,
        page_size: int,
        after: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Page:
        """See SubscriptionStore."""
        check_page_size(page_size)
        listing = describe_listing(tenant, labels, self._buckets)
        place = None if after is None else read_token(after, listing)
        with self._pipeline() as pipeline, translated(self._address):
            pipeline.get(self._keys.used(tenant))
            pipeline.hget(self._keys.counts, tenant)
            used, count = pipeline.execute()
        buckets = [bucket for bucket in _bits(used) if place is None or bucket >= place[0]]
        together = SCAN_BUCKETS
        if not labels:
            per_bucket = int(count or 0) / max(1, len(_bits(used)))
            together = min(SCAN_BUCKETS, int((page_size + 1) / max(1.0, per_bucket)) + 1)
        fetched = (
            (bucket, {name.decode(): stored for name, stored in records.items()})
            for bucket, records in self._fetch(tenant, buckets, together)
        )
        return gather_page(tenant, page_size, place, labels, fetched, listing)

    def count(self, tenant: str) -> int:
        """See SubscriptionStore."""
        with translated(self._address):
            return int(self._client.hget(self._keys.counts, tenant) or 0)

    def counts(self) -> dict[str, int]:
        """See SubscriptionStore."""
        with translated(self._address):
            counts = self._client.hgetall(self._keys.counts)
        return {tenant.decode(): int(count) for tenant, count in counts.items()}

    def newest_epoch(self) -> int:
        """See SubscriptionStore."""
        return self.lineage()[0]

    def lineage(self) -> tuple[int, str]:
        """See SubscriptionStore."""
        with translated(self._address):
            return read_epoch(self._client.get(self._keys.epoch))

    def read_since(
        self, epoch: int, limit: int = 256, block_ms: int = 0, lineage: str | None = None
    ) -> list[LogEntry]:
        """See SubscriptionStore."""
        known = self._given_out.lineage_at(epoch) if lineage is None else lineage
        entries = self._tail.read(epoch, limit, known)
        if not entries and block_ms > 0:
            self._tail.wait(epoch, block_ms)
            # Read in any case: a store that went back has no entry to wake us.
            entries = self._tail.read(epoch, limit, known)
        if entries:
            self._given_out.remember(entries[-1].epoch, entries[-1].lineage)
        return entries

    def scan_stored(self) -> tuple[int, Iterator[StoredRecord]]:
        """See SubscriptionStore."""
        epoch, lineage = self.lineage()
        self._given_out.remember(epoch, lineage)
        return epoch, self._scan()

    def _scan(self) -> Iterator[StoredRecord]:
        for tenant in sorted(self.counts()):
            with translated(self._address):
                used = _bits(self._client.get(self._keys.used(tenant)))
            for _, records in self._fetch(tenant, used, SCAN_BUCKETS):
                for name, stored in records.items():
                    yield StoredRecord(tenant, name.decode(), stored)

    def _fetch(
        self, tenant: str, buckets: Sequence[int], together: int
    ) -> Iterator[tuple[int, dict[bytes, bytes]]]:
        """The content of buckets, in their order, `together` of them a round trip or fewer."""
        start, group_length = 0, min(together, FIRST_BUCKETS)
        while start < len(buckets):
            group = buckets[start : start + group_length]
            with self._pipeline() as pipeline, translated(self._address):
                for bucket in group:
                    pipeline.hgetall(self._keys.records(tenant, bucket))
                contents = pipeline.execute()
            yield from zip(group, contents, strict=True)
            start += len(group)
            size = sum(len(stored) for records in contents for stored in records.values())
            small = size < FETCH_BYTES
            group_length = min(together, group_length * 2) if small else max(1, group_length // 2)

    def report_reader(
        self,
        name: str,
        epoch: int,
        oldest_epoch: int,
        seconds_valid: float = READER_SECONDS_VALID,
    ) -> None:
        """See SubscriptionStore."""
        check_name("reader name", name)
        valid_ms = int(seconds_valid * 1000)
        self._call("report", [self._keys.readers], name, epoch, oldest_epoch, valid_ms)

    def forget_reader(self, name: str) -> None:
        """See SubscriptionStore."""
        with translated(self._address, writing=True):
            self._client.hdel(self._keys.readers, name)

    def readers(self) -> list[Reader]:
        """See SubscriptionStore."""
        with self._pipeline() as pipeline, translated(self._address):
            pipeline.hgetall(self._keys.readers)
            pipeline.time()
            reports, (seconds, microseconds) = pipeline.execute()
        now_ms = seconds * 1000 + microseconds // 1000
        readers = []
        for name, report in sorted(reports.items()):
            epoch, oldest_epoch, seen_ms, valid_ms = map(int, report.split())
            age_ms = max(0, now_ms - seen_ms)  # the server's clock may have been set back
            live = age_ms < valid_ms
            readers.append(Reader(name.decode(), epoch, oldest_epoch, age_ms / 1000, live))
        return readers

    def report_snapshot(self, epoch: int) -> None:
        """See SubscriptionStore."""
        self._call("snapshot", [self._keys.snapshots], epoch, SNAPSHOTS_KEPT)

    def snapshots(self) -> list[int]:
        """See SubscriptionStore."""
        with translated(self._address):
            return [int(epoch) for epoch in self._client.zrange(self._keys.snapshots, 0, -1)]

    def trim(self) -> Trimmed:
        """See SubscriptionStore."""
        names = self._keys
        keys = [names.epoch, names.log, names.readers, names.snapshots]
        epoch, count = self._call("trim", keys, FORGET_READER_MS)
        return Trimmed(int(epoch), count)

    def _call(self, function: str, keys: list[str], *arguments: str | int) -> Any:
        """Call a function that may be repeated without harm."""
        name = FUNCTION_PREFIX + function
        with translated(self._address):
            try:
                return self._client.fcall(name, len(keys), *keys, *arguments)
            except ResponseError as error:
                if "Function not found" not in str(error):
                    raise
                load_library(self._client)
                return self._client.fcall(name, len(keys), *keys, *arguments)

    def ping(self) -> None:
        """See SubscriptionStore."""
        with translated(self._address):
            self._client.ping()

    def close(self) -> None:
        """See SubscriptionStore."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def _pipeline(self) -> Any:
        return self._client.pipeline(transaction=False)


def _bits(bitmap: bytes | None) -> list[int]:
    """The numbers of the bits set, ascending; bit 0 is the highest of the first byte."""
    return [
        8 * at + bit
        for at, byte in enumerate(bitmap or b"")
        if byte
        for bit in range(8)
        if byte & (0x80 >> bit)
    ]
