"""Snapshots: the process that builds one, beside the driver so that no batch waits for it.

    python -m streaming.snapshots --epoch E --lineage L --keep-epoch K    from snapshot + changes
    python -m streaming.snapshots --from-store --keep-epoch K             from a scan and the log

One process of a host builds at a time. It writes the epoch and lineage it reached as the last line
of its output, and ends with 0; 3 says that another process builds already.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import orjson

from index.registry import get
from index.updatable import Updatable
from store import StoreSettings, SubscriptionStore, open_store
from store.errors import LogGapError
from streaming.drift import read_statistics
from streaming.failpoints import arm, hit
from streaming.refresh import IndexOptions, LiveIndex, read_record
from streaming.settings import StreamingSettings, load_settings
from streaming.snapshot_files import SnapshotFile, remove_old, updatable

READ_ENTRIES = 1_000
ATTEMPTS = 3
CODE_BUSY = 3
NICENESS = 10
"""Batches go first: a snapshot that is late costs nothing but a longer list of changes."""

_log = logging.getLogger(__name__)


def build_from_files(options: IndexOptions, epoch: int, lineage: str) -> SnapshotFile:
    """A snapshot of an epoch that the folder leads to."""
    live = LiveIndex(options)
    live.reach(epoch, lineage)
    return live.save(read_statistics(Path(options.folder)))


def build_from_store(
    options: IndexOptions, store: SubscriptionStore, reader: str
) -> tuple[SnapshotFile, str]:
    """A snapshot of the store's newest epoch, with its lineage.

    The log must stay while the scan runs; a reader that needs it says so. If it was trimmed all the
    same, the scan begins again.
    """
    for attempt in range(ATTEMPTS):
        try:
            store.report_reader(reader, store.newest_epoch(), store.newest_epoch())
            live = scan(options, store)
            break
        except LogGapError:
            if attempt == ATTEMPTS - 1:
                raise
        finally:
            store.forget_reader(reader)
    return live.save(read_statistics(Path(options.folder))), live.lineage


def scan(options: IndexOptions, store: SubscriptionStore) -> LiveIndex:
    """An index of everything in the store, at an epoch that was the newest one during the call."""
    kind: type[Updatable] = updatable(get(options.algorithm))
    epoch, records = store.scan_all()
    subscriptions = filter(None, map(read_record, records))
    live = LiveIndex(options)
    live.adopt(kind.build(subscriptions, version=epoch), epoch, "")
    while True:
        while entries := store.read_since(live.epoch, READ_ENTRIES):
            live.apply(entries)
        newest, lineage = store.lineage()
        if newest == live.epoch:
            live.lineage = lineage
            return live


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    """Which snapshot is to be built."""
    parser = argparse.ArgumentParser(prog="python -m streaming.snapshots")
    parser.add_argument("--epoch", type=int)
    parser.add_argument("--lineage", default="")
    parser.add_argument("--from-store", action="store_true")
    parser.add_argument("--keep-epoch", type=int, required=True)
    return parser.parse_args(words)


def main() -> int:
    """Build one snapshot as the arguments say."""
    arguments = arguments_of(sys.argv[1:])
    settings = load_settings()
    logging.basicConfig(level=settings.log_level, stream=sys.stderr)
    arm(settings.failpoints, settings.checkpoint_dir.absolute())
    folder = settings.snapshot_dir.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.nice(NICENESS)
    with (folder / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return CODE_BUSY
        connect = partial(open_store, StoreSettings(url=settings.store_url))
        built, lineage = build(settings, arguments, connect)
    print(orjson.dumps({"epoch": built.epoch, "lineage": lineage}).decode(), flush=True)
    return 0


def build(
    settings: StreamingSettings,
    arguments: argparse.Namespace,
    connect: Callable[[], SubscriptionStore],
) -> tuple[SnapshotFile, str]:
    """The snapshot that the arguments ask for, with its lineage; older ones make room for it."""
    folder = settings.snapshot_dir.absolute()
    options = IndexOptions(settings.algorithm, str(folder))
    if arguments.from_store:
        reader = f"snapshot:{os.uname().nodename}:{os.getpid()}"
        with connect() as store:
            built, lineage = build_from_store(options, store, reader)
    else:
        built = build_from_files(options, arguments.epoch, arguments.lineage)
        lineage = arguments.lineage
    hit("snapshot.published")
    remove_old(folder, arguments.keep_epoch)
    return built, lineage


if __name__ == "__main__":
    sys.exit(main())
