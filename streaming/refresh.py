"""Refresh: the index of one worker process, brought to exactly the epoch a batch is pinned to.

    snapshot file (mapped, shared by all workers of the host) + changes after it = any newer epoch

Every row of the index has the epochs it was born and died at, so one index serves a batch and the
replay of an earlier one alike. A snapshot that is damaged is passed over for an older one and more
changes; when nothing reaches the epoch, the task fails and is tried again: never does a worker
match at another epoch, or against nothing.

A worker that carries many changes moves to a newer snapshot. The index that stands on it catches up
in a thread while the present one goes on serving, for a worker waits most of its time.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import Matches
from index.events import Events
from index.model import Instant, Subscription
from index.registry import get
from index.snapshot import SnapshotError
from index.statistics import EventStatistics
from index.updatable import Updatable
from index.versions import Change
from index.vocabulary import Vocabulary
from store.base import LogEntry, PutChange
from store.records import SubscriptionRecord
from streaming.aside import Aside, in_a_thread
from streaming.changes import ChangesMissing, ChangesReader
from streaming.failpoints import hit
from streaming.slice_size import SliceSize
from streaming.snapshot_files import (
    SnapshotFile,
    find_snapshots,
    newest_epoch,
    open_index,
    save_index,
    updatable,
)
from streaming.target import index_id, subscription_of
from streaming.targets import TargetTable

CHANGES_MAX = 50_000
"""Rather than carry more changes along, a worker moves to a newer snapshot, but not to one from
which it would have to apply half as many as it is rid of: the next one will be nearer."""

_log = logging.getLogger(__name__)


class RefreshError(Exception):
    """The pinned epoch cannot be reached here."""


class Applied(NamedTuple):
    """What an index knows of an epoch that it has been at.

    change_count   changes from its snapshot to there.
    """

    lineage: str
    change_count: int


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Which index a worker keeps, and where it comes from."""

    algorithm: str
    folder: str


class LiveIndex:
    """One process's index.

    aside            how the index that is to follow it is prepared.
    epoch, lineage   what it has applied; a batch may ask for it or for an older epoch it still has.
    base_epoch       of the snapshot it stands on; 0: none.
    targets          those of its subscriptions that have matched.
    slice_size       how many events it is asked to match at once.
    """

    def __init__(self, options: IndexOptions, aside: Aside[LiveIndex] = in_a_thread) -> None:
        self._options = options
        self._aside = aside
        self._successor: Future[LiveIndex] | None = None
        self._succeeded_by = 0
        """The newest snapshot that a successor was begun on."""
        self._folder = Path(options.folder)
        self._index: Updatable | None = None
        self._reader = ChangesReader(self._folder)
        self.targets = TargetTable()
        self.slice_size = SliceSize()
        self._unreadable: set[str] = set()
        self._applied = {0: Applied("", 0)}
        """By epoch, from the snapshot's to the newest."""
        self.epoch, self.base_epoch, self.lineage = 0, 0, ""
        self.reload_count = 0

    @property
    def vocabulary(self) -> Vocabulary:
        """Events must be decoded with it, after `reach`."""
        return self._loaded.vocabulary

    def reach(self, epoch: int, lineage: str) -> None:
        """Be able to match at this epoch of this history; RefreshError if that is impossible."""
        has_taken_over = self._take_over(epoch)
        if self._move_to(epoch, lineage) or has_taken_over:
            quiet_collector()
        self._prepare_successor()

    def match(self, events: Events, now: Instant, epoch: int) -> Matches:
        """Rows of the subscriptions that matched as of an epoch that `reach` made reachable."""
        return self._loaded.match(events, now, epoch)

    def read_targets(self, rows: list[int]) -> Sequence[bytes]:
        """The encoded targets of rows that `match` gave."""
        return self._loaded.attachments_of(rows)

    def places_of(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Where `targets` has those of rows that `match` gave, until the next call."""
        return self.targets.places_of(rows, self.read_targets)

    def facts(self) -> dict[str, int | float | str]:
        """What metrics tell of this index, by process."""
        counted = self._loaded.stats()
        return {
            "executor": f"{os.uname().nodename}-{os.getpid()}",
            "epoch": self.epoch,
            "base_epoch": self.base_epoch,
            "reload_count": self.reload_count,
            "unreadable_count": len(self._unreadable),
            **{name: value for name, value in counted.items() if isinstance(value, int | float)},
        }

    def adopt(self, index: Updatable, epoch: int, lineage: str) -> None:
        """Go on from an index at an epoch."""
        self._index = index
        self.targets.clear()
        self._unreadable.clear()
        self.epoch = self.base_epoch = epoch
        self.lineage = lineage
        self._applied = {epoch: Applied(lineage, 0)}

    def apply(self, entries: Iterable[LogEntry]) -> None:
        """Apply entries in order; after an exception the index is loaded anew."""
        index, self._index = self._loaded, None
        index.change_all(map(self._change_of, entries))
        self._index = index

    def _change_of(self, entry: LogEntry) -> Change:
        """An entry as the index takes it, noted as applied."""
        added, removed = [], []
        for change in entry.changes:
            name = index_id(change.tenant, change.id)
            self._unreadable.discard(name)
            subscription = None
            if isinstance(change, PutChange):
                subscription = read_record(change.record)
                if subscription is None and change.record.enabled:
                    self._unreadable.add(name)
            if subscription is None:
                removed.append(name)
            else:
                added.append(subscription)
        change_count = self._applied[self.epoch].change_count + len(entry.changes)
        self._applied[entry.epoch] = Applied(entry.lineage, change_count)
        self.epoch, self.lineage = entry.epoch, entry.lineage
        return Change(entry.epoch, added, removed)

    def save(self, statistics: EventStatistics | None = None) -> SnapshotFile:
        """Publish the index as a snapshot, its keys chosen by what is known of events."""
        if statistics is not None:
            self._loaded.merge(statistics=statistics)
        hit("snapshot.built")
        return save_index(self._folder, self._loaded, self.epoch, self.lineage)

    @property
    def _loaded(self) -> Updatable:
        if self._index is None:
            raise RefreshError("the index was asked before it was loaded")
        return self._index

    def _advance(self, epoch: int, lineage: str) -> bool:
        """Apply the changes up to an epoch; False when this index cannot get there."""
        if epoch < self.epoch:
            is_kept = epoch >= self._loaded.oldest_version
            return is_kept and self._was_at(epoch, lineage)
        if epoch > self.epoch:
            try:
                self.apply(self._reader.read(self.epoch, epoch, self.lineage))
            except ChangesMissing as error:
                _log.info("the changes do not reach epoch %d: %s", epoch, error)
                return False
        return self.lineage == lineage

    def _was_at(self, epoch: int, lineage: str) -> bool:
        """Whether this epoch of this history lies on the way that the index has come."""
        known = self._applied.get(epoch)
        return known is not None and known.lineage == lineage

    def _move_to(self, epoch: int, lineage: str) -> bool:
        """Reach an epoch, whatever it takes; whether the index had to be loaded for it."""
        if self._index is not None:
            spares = epoch > self.epoch and newest_epoch(self._folder, epoch) > self.epoch
            if not spares and self._advance(epoch, lineage):
                return False
        self._reload(epoch, lineage)
        return True

    def _prepare_successor(self) -> None:
        """Begin an index on a newer snapshot, once this one carries too many changes."""
        carried = self._applied[self.epoch].change_count
        if self._successor is not None or carried < CHANGES_MAX:
            return
        epoch, lineage, newest = self.epoch, self.lineage, newest_epoch(self._folder, self.epoch)
        rid_of = self._applied[newest].change_count if newest in self._applied else 0
        is_near = carried - rid_of <= rid_of / 2
        if is_near and newest > max(self.base_epoch, self._succeeded_by):
            self._succeeded_by = newest
            successor = LiveIndex(self._options)

            def prepare() -> LiveIndex:
                # Without a look for garbage, during which nobody would be served.
                successor._move_to(epoch, lineage)
                return successor

            self._successor = self._aside(prepare)

    def _take_over(self, epoch: int) -> bool:
        """Go on with the successor, if it is ready and this index has not gone another way."""
        if self._successor is None or not self._successor.done():
            return False
        try:
            other = self._successor.result()
        except (RefreshError, SnapshotError, OSError) as error:
            _log.error("the index stays on the snapshot of epoch %d: %s", self.base_epoch, error)
            self._successor = None
            return False
        if epoch < other.epoch:
            return False  # a batch is replayed at an epoch that this index has passed
        self._successor = None
        is_of_use = other.base_epoch > self.base_epoch
        if not is_of_use or not self._was_at(other.epoch, other.lineage):
            return False
        self.adopt(other._loaded, other.base_epoch, other._applied[other.base_epoch].lineage)
        self._reader, self._unreadable = other._reader, other._unreadable
        self._applied = other._applied
        self.epoch, self.lineage = other.epoch, other.lineage
        self.reload_count += 1
        return True

    def _reload(self, epoch: int, lineage: str) -> None:
        """Begin again from the newest snapshot that leads to the epoch; else from an older one."""
        self.reload_count += 1
        algorithm = updatable(get(self._options.algorithm))
        problems = []
        for found in reversed(find_snapshots(self._folder, epoch)):
            try:
                self.adopt(*open_index(found, algorithm))
                if self._advance(epoch, lineage):
                    return
                problems.append(f"{found.path.name} does not lead there")
            except (SnapshotError, OSError) as error:
                _log.error("%s", error)
                problems.append(str(error))
        self.adopt(algorithm.build([]), 0, "")
        if self._advance(epoch, lineage):
            return
        self._index = None
        raise RefreshError(
            f"epoch {epoch} cannot be reached from {self._folder}: "
            f"{'; '.join(problems) or 'it holds no snapshot at or before it'}. The folder must be "
            "the driver's own or shared with it."
        )


def read_record(record: SubscriptionRecord) -> Subscription | None:
    """A record as the index takes it; None when it is disabled, or written for a later version.

    One that cannot be read must not stop the others, and must not match everything either.
    """
    try:
        return subscription_of(record)
    except ValueError as error:  # FilterError, or an instant that is none
        _log.error("%s: subscription %s is left out: %s", record.tenant, record.id, error)
        return None


def quiet_collector() -> None:
    """Exempt what this process holds by now from garbage collection.

    Spark's workers collect after every task, which would walk over the whole index each time.
    """
    gc.collect()
    gc.freeze()


@cache
def live_index(options: IndexOptions) -> LiveIndex:
    """The one index of this process."""
    return LiveIndex(options)
