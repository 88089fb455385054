"""The API's own index, for dry runs: it follows the subscription log in a thread.

Subscriptions of all tenants share it; an answer holds the caller's alone. A store that is away
leaves the index at its last epoch, which every answer states.
"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from index.base import MatchIndex
from index.errors import FilterError
from index.events import encode
from index.model import Instant, Subscription
from index.registry import get
from store.base import PutChange, SubscriptionStore
from store.errors import EpochWentBackError, LogGapError, StoreError
from store.records import SubscriptionRecord
from subscriptions_api.errors import Problem
from subscriptions_api.schemas import filter_of_record

SEPARATOR = "\0"
"""Between tenant and id in the index; no name can hold it."""
BLOCK_MS = 500
RETRY_S = 1.0
ENTRIES_PER_READ = 256

_log = logging.getLogger(__name__)


class DryRun(NamedTuple):
    """Ids of a tenant's subscriptions that an event matches, at an epoch."""

    epoch: int
    ids: list[str]


class Follower:
    """An index that is always nearly as new as the store."""

    def __init__(self, store: SubscriptionStore, algorithm: str) -> None:
        self._store = store
        self._algorithm = get(algorithm)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._index: MatchIndex | None = None
        self._epoch = 0
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
        if self._thread.is_alive():
            self._thread.join()

    def match(self, tenant: str, event: dict[str, object], now: Instant) -> DryRun:
        """Which of a tenant's subscriptions the event matches; Problem while the index loads."""
        with self._lock:
            index = self._index
            if index is None:
                raise Problem("index_loading", "the subscriptions are still being read")
            matches = index.match(encode([event], index.vocabulary), now)
            names = index.ids_of(matches.row.tolist())
            epoch = self._epoch
        prefix = tenant + SEPARATOR
        return DryRun(epoch, [name[len(prefix) :] for name in names if name.startswith(prefix)])

    def filing_of(self, tenant: str, subscription_id: str) -> str:
        """Where the index keeps a subscription, in words; '' if it does not have it."""
        with self._lock:
            if self._index is None:
                return ""
            try:
                return self._index.filing_of(tenant + SEPARATOR + subscription_id)
            except KeyError:
                return ""

    def catch_up(self) -> None:
        """Load if nothing is loaded, then apply what the log has by now."""
        if self._index is None:
            self._load()
        while self._apply(block_ms=0):
            pass

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._index is None:
                    self._load()
                self._apply(BLOCK_MS)
            except (LogGapError, EpochWentBackError) as error:
                _log.warning("the index is loaded anew: %s", error)
                self._index = None
            except StoreError as error:
                _log.warning("dry runs stay at epoch %d: %s", self._epoch, error)
                self._stopping.wait(RETRY_S)

    def _load(self) -> None:
        epoch, records = self._store.scan_all()
        built = self._algorithm.build(
            one for record in records if (one := subscription_of(record)) is not None
        )
        with self._lock:
            self._index, self._epoch, self._lineage = built, epoch, None

    def _apply(self, block_ms: int) -> bool:
        entries = self._store.read_since(
            self._epoch, ENTRIES_PER_READ, block_ms, lineage=self._lineage
        )
        with self._lock:
            index = self._index
            assert index is not None, "it was loaded before the log was read"
            for entry in entries:
                for change in entry.changes:
                    subscription = (
                        subscription_of(change.record) if isinstance(change, PutChange) else None
                    )
                    if subscription is None:
                        index.remove(change.tenant + SEPARATOR + change.id)
                    else:
                        index.add(subscription)
                self._epoch, self._lineage = entry.epoch, entry.lineage
        return bool(entries)


def subscription_of(record: SubscriptionRecord) -> Subscription | None:
    """A record as the index takes it; None if it is disabled or cannot be read."""
    if not record.enabled:
        return None
    try:
        parsed = filter_of_record(record)
    except FilterError as error:  # written by a later version: it must not match, nor stop others
        _log.error("%s: subscription %s is left out: %s", record.tenant, record.id, error)
        return None
    return Subscription(record.tenant + SEPARATOR + record.id, parsed)
