"""Tail: the driver's thread that follows the subscription log.

It writes what it reads into the changes files, and only then makes the epoch the head that batches
are pinned to. It reports to the store how far the query is, which the API's barrier waits for and
which keeps the log from being trimmed too early. It starts the snapshot process when enough has
changed.

    a bulk load             the head goes on in steps, from snapshot to snapshot, and at a steady
                            pace once it is over (streaming.bulk)
    store away              the head stays, matching goes on; the alarm is `herald_store_up` = 0
    log trimmed past us     a new snapshot from the store, the head jumps to it
    events have drifted     a new snapshot with the next change, by what events are like now
    the folder was lost     the same
    the store lost epochs   all files are thrown away, a new snapshot; the head goes back with it,
                            and batches wait for that, since nothing leads to the old one
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import orjson

from index.snapshot import SnapshotError
from store.base import LogEntry, SubscriptionStore
from store.errors import EpochWentBackError, LogGapError, StoreError
from streaming.bulk import BulkMeter, HeldBack
from streaming.changes import ChangesMissing, ChangesWriter, files_of
from streaming.failpoints import hit
from streaming.metrics import Metrics
from streaming.reachable import is_reachable
from streaming.refresh import IndexOptions
from streaming.settings import StreamingSettings
from streaming.snapshot_files import find_snapshots, lineage_of, newest_epoch, remove
from streaming.snapshots import CODE_BUSY

READ_ENTRIES = 1_000
BLOCK_MS = 1_000
REPORT_SECONDS = 10.0
RETRY_SECONDS_MAX = 5.0
SNAPSHOT_TIMEOUT_S = 3_600

_log = logging.getLogger(__name__)


class SnapshotFailed(Exception):
    """The snapshot process ended with an error."""


class Head(NamedTuple):
    """The newest epoch that batches may be pinned to."""

    epoch: int
    lineage: str


class Tail:
    """Follows the log from `start` until `stop`; `head` may be read from any thread.

    connect      opens the store; it is called again until it succeeds.
    oldest_pin   gives the epoch of the oldest batch that may still be replayed; None: no batch yet.
    clock        seconds, from any beginning.
    """

    def __init__(
        self,
        connect: Callable[[], SubscriptionStore],
        settings: StreamingSettings,
        metrics: Metrics,
        oldest_pin: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._opened: SubscriptionStore | None = None
        self._settings = settings
        self._metrics = metrics
        self._oldest_pin = oldest_pin
        self._clock = clock
        self._folder = settings.snapshot_dir.absolute()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self._writer: ChangesWriter
        self._builder: subprocess.Popen[bytes] | None = None
        self._change_count = 0
        self._meter = BulkMeter(settings.bulk_changes_per_s, clock)
        self._held = HeldBack(settings.bulk_changes_per_s, clock)
        self._asked_for = threading.Event()
        self._holding = False
        self._kept_epoch: int | None = None
        self._reported = (-1, 0.0)
        self._failures = 0
        self._has_files = threading.Event()
        self.head = Head(0, "")

    def start(self) -> None:
        """Begin, and follow the log in a thread."""
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """Find or make something the head can stand on, and read the log to its end."""
        self._writer = self._resume() or self._begin()
        self._publish()
        self._has_files.set()
        try:
            while self._read(block_ms=0):
                pass
        except (LogGapError, EpochWentBackError) as error:
            self._restart(error)  # before the first batch: it must not be pinned to a lost epoch
        except StoreError as error:
            _log.warning(
                "the store is away, matching begins at epoch %d: %s", self.head.epoch, error
            )
        self._publish()  # no batch waits yet that a bulk load could keep from its workers

    def follow(self, block_ms: int) -> float:
        """One round: read, report, tend the snapshot process; the seconds until the next one."""
        try:
            self._read(block_ms)
            self._release()
            self._metrics.store_up.set(1)
            self._report()
            self._tend_builder()
            self._failures = 0
            return 0.0
        except (LogGapError, EpochWentBackError, FileNotFoundError) as error:
            return self._restart(error)
        except (StoreError, OSError, SnapshotFailed, SnapshotError) as error:
            self._failures += 1
            self._metrics.store_up.set(0)
            if self._failures == 1:
                _log.error("matching goes on at epoch %d: %s", self.head.epoch, error)
            return min(0.1 * 2.0 ** min(self._failures, 10), RETRY_SECONDS_MAX)

    def stop(self) -> None:
        """End the thread; the store forgets a reader by itself when it is silent."""
        self._stopping.set()
        self._has_files.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        if self._builder is not None:
            self._builder.terminate()
        if self._opened is not None:
            self._opened.close()

    def head_with_files(self) -> Head:
        """The head; waits while the files of a lost history are being replaced."""
        self._has_files.wait()
        return self.head

    def ask_for_snapshot(self) -> None:
        """Have a snapshot built though few subscriptions changed: as soon as one has at all."""
        self._asked_for.set()

    @property
    def _store(self) -> SubscriptionStore:
        """The store, connected at its first use: it may be away when we start."""
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _resume(self) -> ChangesWriter | None:
        """The files of a former driver, if they still lead a worker to their end."""
        try:
            resumed = self._resume_files()
        except ChangesMissing as error:
            _log.error("%s; %s is made anew", error, self._folder)
            return None
        if resumed is None:
            return None
        options = IndexOptions(self._settings.algorithm, str(self._folder))
        if is_reachable(options, resumed.epoch, resumed.lineage):
            return resumed
        _log.error("%s leads to epoch %d no more, it is made anew", self._folder, resumed.epoch)
        return None

    def _resume_files(self) -> ChangesWriter | None:
        files, snapshots = files_of(self._folder), find_snapshots(self._folder)
        if not files:
            return None
        resumed = ChangesWriter.resume(self._folder)
        if resumed is None and snapshots and snapshots[-1].epoch == files[-1][0]:
            try:  # nothing has changed since the snapshot
                newest = snapshots[-1]
                return ChangesWriter(self._folder, newest.epoch, lineage_of(newest))
            except (SnapshotError, OSError) as error:
                _log.error("%s", error)
        return resumed

    def _begin(self) -> ChangesWriter:
        """Nothing here yet: the whole log when that is short, else a snapshot."""
        self._discard_files()
        if self._store.newest_epoch() <= self._settings.snapshot_changes_min:
            try:
                self._store.read_since(0, limit=1)
                return ChangesWriter(self._folder, 0, "")
            except LogGapError:
                _log.info("the log no longer begins at its beginning, scanning the store")
        epoch, lineage = self._build_from_store()
        return ChangesWriter(self._folder, epoch, lineage)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self.follow(BLOCK_MS))

    def _read(self, block_ms: int) -> list[LogEntry]:
        writer = self._writer
        entries = self._store.read_since(
            writer.epoch, READ_ENTRIES, block_ms, lineage=writer.lineage or None
        )
        if entries:
            writer.append(entries)
            hit("tail.appended")
            count = sum(len(entry.changes) for entry in entries)
            self._change_count += count
            self._meter.add(count)
            self._holding = self._holding or self._meter.is_bulk()
            if self._holding:
                for entry in entries:
                    self._held.add(entry.epoch, entry.lineage, len(entry.changes))
            else:
                self._publish()
                self._report()
        return entries

    def _release(self) -> None:
        """Let what a bulk load held back take effect, once it is over."""
        if not self._holding:
            return
        if self._meter.is_bulk():
            self._held.wait()
            return
        released = self._held.release()
        if released is not None:
            self._advance(Head(*released))
        if not self._held:
            self._publish()

    def _publish(self) -> None:
        """Let batches be pinned to all that was read."""
        self._holding = False
        self._held.clear()
        self._advance(Head(self._writer.epoch, self._writer.lineage))

    def _advance(self, head: Head) -> None:
        self.head = head
        self._metrics.epoch.set(head.epoch)

    def _report(self) -> None:
        """Tell the store where the query is; at once when that changed, else now and then."""
        epoch, at = self._reported
        now = self._clock()
        if epoch == self.head.epoch and now - at < REPORT_SECONDS:
            return
        self._store.report_reader(
            self._settings.reader_name, self.head.epoch, self._oldest_needed()
        )
        self._reported = (self.head.epoch, now)

    @contextmanager
    def kept_head(self) -> Iterator[Head]:
        """The head now; however many snapshots come, workers can reach it until the block ends."""
        head = self.head
        self._kept_epoch = head.epoch
        try:
            yield head
        finally:
            self._kept_epoch = None

    def _oldest_asked(self) -> int | None:
        """The oldest epoch that a worker may be asked to reach; None: only newer ones than now."""
        asked = (self._oldest_pin(), self._kept_epoch)
        return min((epoch for epoch in asked if epoch is not None), default=None)

    def _oldest_needed(self) -> int:
        """The log entries after this epoch must stay: a worker may have to apply them again."""
        oldest = self._oldest_asked()
        wanted = self.head.epoch if oldest is None else min(oldest, self.head.epoch)
        return newest_epoch(self._folder, wanted)

    def _restart(self, error: StoreError | FileNotFoundError) -> float:
        """The log does not go on from where we are, or the folder was lost under us.

        Gives the seconds until the next try.
        """
        _log.error("%s", error)
        try:
            if isinstance(error, EpochWentBackError):
                self._metrics.epochs_lost.inc()
                self._has_files.clear()
                self._discard_files()
            epoch, lineage = self._build_from_store()
            self._writer = ChangesWriter(self._folder, epoch, lineage)
            self._publish()
            self._has_files.set()
            return 0.0
        except (StoreError, OSError, SnapshotFailed) as problem:
            goes_on = "matching goes on" if self._has_files.is_set() else "nothing is matched"
            _log.error("%s at epoch %d: %s", goes_on, self.head.epoch, problem)
            return RETRY_SECONDS_MAX

    def _discard_files(self) -> None:
        """Forget a history: nothing in the folder can be trusted."""
        for _, path in files_of(self._folder):
            path.unlink(missing_ok=True)
        remove(find_snapshots(self._folder))

    def _tend_builder(self) -> None:
        """Start the snapshot process when it is worth it, and take note when it has ended."""
        if self._builder is None:
            ended = self._holding and not self._meter.is_bulk()
            wanted = self._asked_for.is_set() and self._change_count > 0
            if ended or wanted or self._change_count >= self._settings.snapshot_changes_min:
                self._change_count = 0
                self._asked_for.clear()
                epoch, lineage = str(self._writer.epoch), self._writer.lineage
                self._builder = self._spawn(["--epoch", epoch, "--lineage", lineage])
            return
        code = self._builder.poll()
        if code is None:
            return
        self._builder = None
        if code == 0:
            self._adopt_snapshot()
        elif code != CODE_BUSY:
            self._metrics.snapshot_failures.inc()
            _log.error("building a snapshot ended with code %d; the older one serves on", code)
            self._publish()  # late is better than held for ever

    def _adopt_snapshot(self) -> None:
        """A newer snapshot is there: older changes are of no use any more."""
        found = find_snapshots(self._folder)
        if not found:  # lost since it was built
            self._publish()
            return
        newest = found[-1]
        if self._holding:
            if newest.epoch > self.head.epoch:  # it may have been asked for before the load began
                self._advance(Head(newest.epoch, lineage_of(newest)))
                self._held.drop(newest.epoch)
            if not self._meter.is_bulk() and self._change_count <= self._meter.limit:
                self._publish()
        self._writer.rotate(self._oldest_needed())
        self._metrics.snapshot_epoch.set(newest.epoch)
        self._metrics.snapshot_time.set(newest.path.stat().st_mtime)
        self._store.report_snapshot(newest.epoch)
        self._store.trim()

    def _build_from_store(self) -> tuple[int, str]:
        builder = self._spawn(["--from-store"])
        output, _ = builder.communicate(timeout=SNAPSHOT_TIMEOUT_S)
        if builder.returncode != 0:
            raise SnapshotFailed(f"the snapshot process ended with code {builder.returncode}")
        built = orjson.loads(output.splitlines()[-1])
        self._store.report_snapshot(built["epoch"])
        return built["epoch"], built["lineage"]

    def _spawn(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        keep = str(self._oldest_asked() or 0)
        command = [sys.executable, "-m", "streaming.snapshots", *arguments, "--keep-epoch", keep]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
