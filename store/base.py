"""The interface of every subscription store, and the values that cross it.

Epoch      version of the whole subscription set: + 1 for every call of `write` in which at least
           one operation was accepted. The log has one entry an epoch, so it is dense.
Revision   the epoch of a subscription's last write: it only grows, also over a deletion and a
           re-creation.
Lineage    a mark in every log entry that no other history shares: two stores at one epoch hold the
           same only if their lineages are equal. A failover that lost its tail shows by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from store.records import StoredRecord, SubscriptionRecord

OPERATIONS_MAX = 1_000
"""Operations in one call of `write`; the caller splits longer lists."""
WRITE_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of all records in one call of `write`."""
PAGE_SIZE_MAX = 1_000
LISTING_SCAN_MAX = 20_000
"""Records one call of `list_page` looks at; a rare label gives short pages, not slow ones."""
SNAPSHOTS_KEPT = 2
"""The log reaches back to the older of the newest snapshots, in case the newest is damaged."""
READER_SECONDS_VALID = 60.0


class Expected(StrEnum):
    """What a write wants to find instead of a certain revision."""

    ANY = "any"
    ABSENT = "absent"


ANY = Expected.ANY
ABSENT = Expected.ABSENT


@dataclass(frozen=True, slots=True)
class Put:
    """Create or replace a subscription, if it is as expected: a revision, ANY or ABSENT."""

    record: SubscriptionRecord
    expected: int | Expected = ANY


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a subscription, if it is as expected: a revision or ANY."""

    tenant: str
    id: str
    expected: int | Expected = ANY


Operation = Put | Delete


class Status(StrEnum):
    """What became of one operation. The first three were accepted; the others changed nothing."""

    CREATED = "created"
    REPLACED = "replaced"
    DELETED = "deleted"
    CONFLICT = "conflict"
    """The revision is another one than expected."""
    EXISTS = "exists"
    """It was expected to be absent."""
    ABSENT = "absent"
    """There is none of this id for this tenant."""


ACCEPTED = frozenset({Status.CREATED, Status.REPLACED, Status.DELETED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one operation.

    id         of the subscription; on a replay, of the subscription written the first time.
    revision   after the operation (deleted: the epoch of the deletion; conflict, exists: the
               revision it has; absent: None).
    record     as it was stored, for created and replaced.
    """

    status: Status
    id: str
    revision: int | None = None
    record: SubscriptionRecord | None = None

    @property
    def accepted(self) -> bool:
        """Whether the operation changed the subscription set."""
        return self.status in ACCEPTED


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcomes in the order of the operations.

    epoch      at which the accepted operations took effect; if none was, the newest epoch.
    replayed   the request had been made before with the same idempotency key: these are the first
               outcomes, and nothing was written this time.
    """

    epoch: int
    outcomes: tuple[Outcome, ...]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key for one request, and a digest of the request that the key stands for.

    The first outcomes are kept for at least 24 hours, if anything was accepted; a request that
    changed nothing may be judged anew.
    """

    tenant: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PutChange:
    """A subscription as it stands since the entry's epoch."""

    record: SubscriptionRecord

    @property
    def tenant(self) -> str:
        """Of the subscription."""
        return self.record.tenant

    @property
    def id(self) -> str:
        """Of the subscription."""
        return self.record.id


@dataclass(frozen=True, slots=True)
class DeleteChange:
    """A subscription that is gone since the entry's epoch."""

    tenant: str
    id: str


Change = PutChange | DeleteChange


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The changes of one epoch: for each subscription changed, how it stands after it."""

    epoch: int
    changes: tuple[Change, ...]
    lineage: str


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing; it may be short or empty although more follows: only no token ends it."""

    records: tuple[SubscriptionRecord, ...]
    next_token: str | None


@dataclass(frozen=True, slots=True)
class Reader:
    """What a reader of the log last said of itself; ages are by the server's clock.

    epoch           the newest epoch it has applied.
    oldest_epoch    it still needs every log entry after this one.
    live            it reported within the time it promised to; others do not hold back the log.
    """

    name: str
    epoch: int
    oldest_epoch: int
    age_seconds: float
    live: bool


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What a trim did: entries at and below `epoch` may be gone, `count` of them went now."""

    epoch: int
    count: int


class SubscriptionStore(ABC):
    """The subscription set, its log, and who reads it. Safe to share between threads.

    Every method may raise StoreUnavailable. A tenant never sees another tenant's subscription: to
    it, the id is absent.
    """

    @abstractmethod
    def write(
        self, operations: Sequence[Operation], idempotency: Idempotency | None = None
    ) -> WriteResult:
        """Judge the operations in order, apply those accepted at one new epoch, make them durable.

        Raises WriteTooLarge, InvalidName, StoreFull, StoreReadOnly and IdempotencyMismatch, all
        before anything is written; and StoreUnavailable, whose `may_have_happened` tells.
        """

    @abstractmethod
    def get(self, tenant: str, subscription_id: str) -> SubscriptionRecord | None:
        """One subscription, or None."""

    @abstractmethod
    def list_page(
        self,
        tenant: str,
        page_size: int,
        after: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Page:
        """The subscriptions that have all `labels`, after a page token, in the store's order.

        Stable under writes: one that exists during the whole listing appears exactly once; one
        created or deleted meanwhile at most once.
        """

    @abstractmethod
    def count(self, tenant: str) -> int:
        """How many subscriptions a tenant has."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The count of every tenant that has a subscription."""

    @abstractmethod
    def newest_epoch(self) -> int:
        """The epoch of the last accepted write; 0 in a new store."""

    @abstractmethod
    def read_since(
        self, epoch: int, limit: int = 256, block_ms: int = 0, lineage: str | None = None
    ) -> list[LogEntry]:
        """The next entries after an epoch, at most `limit`; waits up to `block_ms` for the first.

        Proves that nothing is missing. Raises LogGapError when the next entry is not epoch + 1, and
        EpochWentBackError when the store has lost `epoch`: its newest one is older, or `lineage`
        (of the entry at `epoch`, kept by the caller, e.g. in a snapshot) is not the store's. The
        store object itself remembers the lineage of the epochs it last gave out.
        """

    @abstractmethod
    def lineage(self) -> tuple[int, str]:
        """The newest epoch with its lineage, to be kept with what is built from a scan."""

    @abstractmethod
    def scan_stored(self) -> tuple[int, Iterator[StoredRecord]]:
        """An epoch, and every subscription of every tenant, still encoded.

        The set is that of the epoch, except that later changes may or may not show: apply the log
        from that epoch on, and it is exact. Report a reader that needs the epoch meanwhile, or a
        trim may cut the log under the scan (which read_since then tells by LogGapError).
        """

    def scan_all(self) -> tuple[int, Iterator[SubscriptionRecord]]:
        """As `scan_stored`, decoded."""
        epoch, stored = self.scan_stored()
        return epoch, (entry.record() for entry in stored)

    @abstractmethod
    def report_reader(
        self,
        name: str,
        epoch: int,
        oldest_epoch: int,
        seconds_valid: float = READER_SECONDS_VALID,
    ) -> None:
        """Say how far a reader is and what it still needs; holds for `seconds_valid`."""

    @abstractmethod
    def forget_reader(self, name: str) -> None:
        """Remove a reader that will not come back."""

    @abstractmethod
    def readers(self) -> list[Reader]:
        """All that have reported and are not forgotten, by name."""

    @abstractmethod
    def report_snapshot(self, epoch: int) -> None:
        """Say that a complete snapshot of this epoch is published."""

    @abstractmethod
    def snapshots(self) -> list[int]:
        """The epochs of the newest snapshots published, ascending."""

    @abstractmethod
    def trim(self) -> Trimmed:
        """Drop the log entries that no live reader and no start from a kept snapshot needs.

        Without a snapshot nothing is dropped.
        """

    @abstractmethod
    def ping(self) -> None:
        """Return if the server answers; raise StoreUnavailable if not."""

    @abstractmethod
    def close(self) -> None:
        """Give back connections; the store is not used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
