"""A store in this process's memory: for tests, for trying Herald out, and as the plain twin.

It passes the test class of the real one. It is not durable, and no other process sees it; but
it can play the faults of a real one: `fail` and `lose_tail`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition

from store.base import (
    ABSENT,
    ACCEPTED,
    ANY,
    READER_SECONDS_VALID,
    SNAPSHOTS_KEPT,
    Change,
    Delete,
    DeleteChange,
    Idempotency,
    LogEntry,
    Operation,
    Page,
    PutChange,
    Reader,
    Status,
    SubscriptionStore,
    Trimmed,
    WriteResult,
)
from store.errors import EpochWentBackError, IdempotencyMismatch, LogGapError, StoreError
from store.keys import bucket_of
from store.lineage import GivenOut
from store.paging import check_page_size, describe_listing, gather_page, read_token
from store.records import (
    StoredRecord,
    SubscriptionRecord,
    check_name,
    decode_stored,
    encode_stored,
)
from store.requests import LETTERS, address_of, check_write, read_reply

BUCKETS = 64
FORGET_READER_S = 86_400.0


@dataclass(slots=True)
class _Report:
    epoch: int
    oldest_epoch: int
    seen_s: float
    seconds_valid: float


class MemoryStore(SubscriptionStore):
    """The whole interface over dictionaries behind one lock.

    clock      seconds since 1970, in place of the server's.
    new_mark   gives the lineage of an entry: no mark twice, also after a lost tail.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        new_mark: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._failure: StoreError | None = None
        self._clock = clock
        self._new_mark = new_mark
        self._changed = Condition()
        self._epoch = 0
        self._lineages = {0: ""}
        self._subscriptions: dict[str, dict[str, bytes]] = {}
        self._log: list[LogEntry] = []
        self._undo: dict[int, list[tuple[str, str, bytes | None]]] = {}
        self._replies: dict[tuple[str, str], tuple[str, str]] = {}
        self._readers: dict[str, _Report] = {}
        self._snapshots: list[int] = []
        self._given_out = GivenOut()

    def write(
        self, operations: Sequence[Operation], idempotency: Idempotency | None = None
    ) -> WriteResult:
        """See SubscriptionStore. Idempotency keys are kept as long as the store."""
        contents = check_write(operations, idempotency)
        with self._changed:
            self._check()
            if idempotency is not None:
                known = self._replies.get((idempotency.tenant, idempotency.key))
                if known is not None:
                    if known[0] != idempotency.fingerprint:
                        raise IdempotencyMismatch(
                            f"The idempotency key {idempotency.key!r} was used before for another "
                            "request.",
                            "Use a new key for a new request.",
                        )
                    return read_reply(known[1], operations, replayed=True)
            reply, changed = self._apply(operations, contents)
            if changed and idempotency is not None:
                self._replies[idempotency.tenant, idempotency.key] = idempotency.fingerprint, reply
            return read_reply(reply, operations, replayed=False)

    def _apply(
        self, operations: Sequence[Operation], contents: Sequence[bytes]
    ) -> tuple[str, bool]:
        """Judge and carry out operations at the epoch to come; the reply, and if any changed."""
        epoch, now_ms = self._epoch + 1, int(self._clock() * 1000)
        changes: dict[tuple[str, str], Change] = {}
        undo: list[tuple[str, str, bytes | None]] = []
        lines: list[str] = []
        for operation, content in zip(operations, contents, strict=True):
            tenant, subscription_id = address_of(operation)
            old = self._subscriptions.get(tenant, {}).get(subscription_id)
            revision = None if old is None else int(old.split(b" ", 1)[0])
            created_ms = now_ms if old is None else int(old.split(b" ", 2)[1])
            status = _judge(operation, revision)
            if status in ACCEPTED:
                new = None
                if status is not Status.DELETED:
                    new = encode_stored(content, epoch, created_ms, now_ms)
                undo.append((tenant, subscription_id, old))
                changes[tenant, subscription_id] = self._set(tenant, subscription_id, new)
                revision = epoch
            lines.append(
                f"{LETTERS[status]} {revision or 0} {created_ms} {now_ms} {subscription_id}"
            )
        if changes:
            self._epoch = epoch
            self._lineages[epoch] = self._new_mark()
            self._log.append(LogEntry(epoch, tuple(changes.values()), self._lineages[epoch]))
            self._undo[epoch] = undo
            self._changed.notify_all()
        return "\n".join([str(self._epoch), *lines]), bool(changes)

    def _set(self, tenant: str, subscription_id: str, stored: bytes | None) -> Change:
        """Put a stored record in its place, or take it away; the change as the log says it."""
        records = self._subscriptions.setdefault(tenant, {})
        if stored is not None:
            records[subscription_id] = stored
            return PutChange(decode_stored(tenant, subscription_id, stored))
        records.pop(subscription_id, None)
        if not records:
            del self._subscriptions[tenant]
        return DeleteChange(tenant, subscription_id)

    def get(self, tenant: str, subscription_id: str) -> SubscriptionRecord | None:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            stored = self._subscriptions.get(tenant, {}).get(subscription_id)
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
        listing = describe_listing(tenant, labels, BUCKETS)
        place = None if after is None else read_token(after, listing)
        with self._changed:
            self._check()
            buckets: dict[int, dict[str, bytes]] = {}
            for subscription_id, stored in self._subscriptions.get(tenant, {}).items():
                bucket = bucket_of(subscription_id, BUCKETS)
                buckets.setdefault(bucket, {})[subscription_id] = stored
        return gather_page(tenant, page_size, place, labels, sorted(buckets.items()), listing)

    def count(self, tenant: str) -> int:
        """See SubscriptionStore."""
        return self.counts().get(tenant, 0)

    def counts(self) -> dict[str, int]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            return {tenant: len(stored) for tenant, stored in self._subscriptions.items()}

    def newest_epoch(self) -> int:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            return self._epoch

    def lineage(self) -> tuple[int, str]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            return self._epoch, self._lineages[self._epoch]

    def read_since(
        self, epoch: int, limit: int = 256, block_ms: int = 0, lineage: str | None = None
    ) -> list[LogEntry]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            if block_ms > 0:
                self._changed.wait_for(
                    lambda: self._failure is not None or self._epoch != epoch, block_ms / 1000
                )
                self._check()
            known = self._given_out.lineage_at(epoch) if lineage is None else lineage
            if self._epoch < epoch or (known is not None and self._lineages[epoch] != known):
                raise EpochWentBackError(epoch, self._epoch)
            entries = [entry for entry in self._log if entry.epoch > epoch][:limit]
            if self._epoch > epoch and (not entries or entries[0].epoch != epoch + 1):
                found = entries[0].epoch if entries else self._epoch + 1
                raise LogGapError(epoch + 1, found)
            if entries:
                self._given_out.remember(entries[-1].epoch, entries[-1].lineage)
            return entries

    def scan_stored(self) -> tuple[int, Iterator[StoredRecord]]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            self._given_out.remember(self._epoch, self._lineages[self._epoch])
            everything = [
                StoredRecord(tenant, subscription_id, stored)
                for tenant, records in sorted(self._subscriptions.items())
                for subscription_id, stored in records.items()
            ]
            return self._epoch, iter(everything)

    def report_reader(
        self,
        name: str,
        epoch: int,
        oldest_epoch: int,
        seconds_valid: float = READER_SECONDS_VALID,
    ) -> None:
        """See SubscriptionStore."""
        check_name("reader name", name)
        with self._changed:
            self._check()
            self._readers[name] = _Report(epoch, oldest_epoch, self._clock(), seconds_valid)

    def forget_reader(self, name: str) -> None:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            self._readers.pop(name, None)

    def readers(self) -> list[Reader]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            now = self._clock()
            return [
                Reader(
                    name,
                    report.epoch,
                    report.oldest_epoch,
                    now - report.seen_s,
                    now - report.seen_s < report.seconds_valid,
                )
                for name, report in sorted(self._readers.items())
            ]

    def report_snapshot(self, epoch: int) -> None:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            self._snapshots = sorted({*self._snapshots, epoch})[-SNAPSHOTS_KEPT:]

    def snapshots(self) -> list[int]:
        """See SubscriptionStore."""
        with self._changed:
            self._check()
            return list(self._snapshots)

    def trim(self) -> Trimmed:
        """See SubscriptionStore."""
        readers = self.readers()
        with self._changed:
            for reader in readers:
                if not reader.live and reader.age_seconds > FORGET_READER_S:
                    del self._readers[reader.name]
            self._snapshots = [epoch for epoch in self._snapshots if epoch <= self._epoch]
            if not self._snapshots:
                return Trimmed(0, 0)
            needed = [reader.oldest_epoch for reader in readers if reader.live]
            floor = min([self._snapshots[0], *needed])
            kept = [entry for entry in self._log if entry.epoch > floor]
            count, self._log = len(self._log) - len(kept), kept
            self._undo = {entry.epoch: self._undo[entry.epoch] for entry in kept}
            return Trimmed(floor, count)

    def ping(self) -> None:
        """See SubscriptionStore."""
        with self._changed:
            self._check()

    def close(self) -> None:
        """Nothing to give back; the content stays readable."""

    def fail(self, failure: StoreError | None) -> None:
        """Make every call raise `failure` from now on, waiting ones included; None mends it."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def lose_tail(self, epoch: int) -> None:
        """Go back to an epoch that the log still reaches, as a failover with lost writes does."""
        with self._changed:
            while self._epoch > epoch:
                lost = self._log.pop()
                for tenant, subscription_id, stored in reversed(self._undo.pop(lost.epoch)):
                    self._set(tenant, subscription_id, stored)
                del self._lineages[lost.epoch]
                self._epoch -= 1
            self._replies = {
                key: reply
                for key, reply in self._replies.items()
                if int(reply[1].split("\n", 1)[0]) <= epoch
            }
            self._changed.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _judge(operation: Operation, revision: int | None) -> Status:
    """What an operation meets when the subscription has this revision (None: absent)."""
    deleting = isinstance(operation, Delete)
    if revision is None:
        if not deleting and operation.expected in (ANY, ABSENT):
            return Status.CREATED
        return Status.ABSENT
    if operation.expected is ABSENT:
        return Status.EXISTS
    if operation.expected not in (ANY, revision):
        return Status.CONFLICT
    return Status.DELETED if deleting else Status.REPLACED
