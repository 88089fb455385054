"""The API's own index, for dry runs: it follows the subscription log in a thread.

Subscriptions of all tenants share it; an answer holds the caller's alone. A dry run waits a moment
for what was written before it. A store that is away leaves the index at its last epoch, which every
answer states.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from index.base import MatchIndex
from index.errors import FilterError
from index.events import encode
from index.instants import parse_instant
from index.model import Instant, Subscription
from index.registry import get
from index.updatable import Updatable
from index.versions import Change
from store.base import LogEntry, PutChange, SubscriptionStore
from store.errors import EpochWentBackError, LogGapError, StoreError
from store.records import SubscriptionRecord
from subscriptions_api.errors import Problem
from subscriptions_api.forms import filter_of_record

SEPARATOR = "\0"
"""Between tenant and id in the index; no name can hold it."""
BLOCK_MS = 100
RETRY_S = 1.0
ENTRIES_PER_READ = 4
REST_RATIO = 6.0
"""While batches are written it rests so many times as long as it works: both want the processor,
and nobody waits for it, unless a dry run does."""
MERGE_CHANGES_MIN = 20_000
"""After so many changes, or as many as there are subscriptions, rows that are gone are dropped."""
NEWEST_WAIT_S = 1.0
"""How long a dry run waits for the newest epoch before it asks an older one."""

_log = logging.getLogger(__name__)


class DryRun(NamedTuple):
    """Ids of a tenant's subscriptions that an event matches, at an epoch."""

    epoch: int
    ids: list[str]


class Follower:
    """An index that is nearly as new as the store.

    writing   tells whether this process is busy with a batch.
    """

    def __init__(
        self, store: SubscriptionStore, algorithm: str, writing: Callable[[], bool]
    ) -> None:
        self._store = store
        self._algorithm = get(algorithm)
        self._writing = writing
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._index: MatchIndex | None = None
        self._epoch = 0
        self._wanted = 0
        self._change_count = 0
        self._lineage: str | None = None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    @property
    def loaded(self) -> bool:
        """Whether dry runs can be answered."""
        return self._index is not None

    def start(self) -> None:
        """Load and follow in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no more."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def match(self, tenant: str, event: dict[str, object], now: Instant) -> DryRun:
        """Which of a tenant's subscriptions the event matches; Problem while the index loads."""
        newest = self._newest()
        with self._changed:
            self._wanted = newest
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._epoch >= newest, NEWEST_WAIT_S)
            index = self._index
            if index is None:
                raise Problem("index_loading", "the subscriptions are still being read")
            rows = index.match(encode([event], index.vocabulary), now).row.tolist()
            found = list(zip(index.ids_of(rows), index.attachments_of(rows), strict=True))
            epoch = self._epoch
        prefix = tenant + SEPARATOR
        ids = [
            name[len(prefix) :]
            for name, expires in found
            if name.startswith(prefix) and not has_expired(expires.decode() or None, now)
        ]
        return DryRun(epoch, ids)

    def filing_of(self, tenant: str, subscription_id: str) -> str:
        """Where the index keeps a subscription, in words; '' if it does not have it."""
        name = tenant + SEPARATOR + subscription_id
        with self._changed:
            try:
                words = "" if self._index is None else self._index.filing_of(name)
            except KeyError:
                return ""
        return words.replace(repr(name), repr(subscription_id))

    def _newest(self) -> int:
        try:
            return self._store.newest_epoch()
        except StoreError:
            return 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._index is None:
                    self._load()
                else:
                    self._follow()
            except (LogGapError, EpochWentBackError) as error:
                _log.warning("the index is loaded anew: %s", error)
                self._index = None
            except StoreError as error:
                _log.warning("dry runs stay at epoch %d: %s", self._epoch, error)
                self._stopping.wait(RETRY_S)
            except Exception:  # whatever half applied change it leaves must not be answered from
                _log.exception("the index is loaded anew")
                self._index = None
                self._stopping.wait(RETRY_S)

    def _load(self) -> None:
        epoch, records = self._store.scan_all()
        built = self._build(subscriptions_of(records), epoch)
        built.match(
            encode([{}], built.vocabulary), Instant(0, 0)
        )  # compiles what answers will need
        with self._changed:
            self._index, self._epoch, self._lineage = built, epoch, None
            self._change_count = 0
            self._changed.notify_all()

    def _build(self, subscriptions: Iterable[Subscription], epoch: int) -> MatchIndex:
        kind = self._algorithm
        if issubclass(kind, Updatable):
            return kind.build(subscriptions, version=epoch)
        return kind.build(subscriptions)

    def _follow(self) -> None:
        entries = self._store.read_since(
            self._epoch, ENTRIES_PER_READ, BLOCK_MS, lineage=self._lineage
        )
        started = time.monotonic()
        if entries:
            self._apply(entries)
        if entries and self._writing():
            rest_s = REST_RATIO * (time.monotonic() - started)
            with self._changed:
                self._changed.wait_for(self._is_wanted, rest_s)

    def _is_wanted(self) -> bool:
        return self._wanted > self._epoch or self._stopping.is_set()

    def _apply(self, entries: Sequence[LogEntry]) -> None:
        changes = [_change_of(entry) for entry in entries]
        with self._changed:
            index = self._index
            assert index is not None, "it was loaded before the log was read"
            if isinstance(index, Updatable):
                index.change_all(changes)
                self._merge(index, sum(len(entry.changes) for entry in entries))
            else:
                for change in changes:
                    for name in change.removed:
                        index.remove(name)
                    for subscription in change.added:
                        index.add(subscription)
            self._epoch, self._lineage = entries[-1].epoch, entries[-1].lineage
            self._changed.notify_all()

    def _merge(self, index: Updatable, change_count: int) -> None:
        """Let go of rows that are gone once they may be as many as those that are there.

        Dry runs wait for it, since rows get other numbers.
        """
        self._change_count += change_count
        if self._change_count >= max(MERGE_CHANGES_MIN, len(index)):
            self._change_count = 0
            index.merge()


def _change_of(entry: LogEntry) -> Change:
    """An entry as the index takes it."""
    records = (one.record for one in entry.changes if isinstance(one, PutChange))
    added = list(subscriptions_of(records))
    names = {one.id for one in added}
    every = {one.tenant + SEPARATOR + one.id for one in entry.changes}
    return Change(entry.epoch, added, every - names)


def subscriptions_of(records: Iterable[SubscriptionRecord]) -> Iterable[Subscription]:
    """Records as the index takes them, without those that are disabled or cannot be read."""
    for record in records:
        if not record.enabled:
            continue
        try:
            parsed = filter_of_record(record)
        except FilterError as error:  # a later version's: it must not match, nor stop others
            _log.error("%s: subscription %s is left out: %s", record.tenant, record.id, error)
            continue
        name = record.tenant + SEPARATOR + record.id
        yield Subscription(name, parsed, (record.expires_at or "").encode())


def has_expired(expires_at: str | None, now: Instant) -> bool:
    """Whether a subscription with this expiry matches nothing any more."""
    return expires_at is not None and parse_instant(expires_at) <= now
