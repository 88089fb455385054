"""Snapshot files: where they lie, which are there, how one is opened and how long it is kept.

snapshot-<epoch>.herald     one index at one epoch, see index.snapshot
snapshot-<epoch>.checked    the file's size and time when its checksums were last found right
build.lock                  held by the one process of the host that builds
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from index.base import MatchIndex
from index.snapshot import SnapshotError, open_snapshot
from index.updatable import Updatable
from streaming.target import FORMAT_VERSION

PREFIX = "snapshot-"
SUFFIX = ".herald"
CHECKED_SUFFIX = ".checked"
KEPT = 3


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A published snapshot."""

    epoch: int
    path: Path


def snapshot_path(folder: Path, epoch: int) -> Path:
    """Where the snapshot of an epoch is published."""
    return folder / f"{PREFIX}{epoch:020d}{SUFFIX}"


def find_snapshots(folder: Path, upto: float = math.inf) -> list[SnapshotFile]:
    """The snapshots of a folder, oldest first; none of a later epoch than `upto`."""
    found = []
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        epoch = path.name[len(PREFIX) : -len(SUFFIX)]
        if epoch.isdigit() and int(epoch) <= upto:
            found.append(SnapshotFile(int(epoch), path))
    return sorted(found, key=lambda file: file.epoch)


def newest_epoch(folder: Path, upto: int) -> int:
    """The epoch of the newest snapshot that leads to an epoch; 0 if there is none."""
    found = find_snapshots(folder, upto)
    return found[-1].epoch if found else 0


def open_index(found: SnapshotFile, algorithm: type[MatchIndex]) -> tuple[Updatable, int, str]:
    """The index of a snapshot with its epoch and lineage; SnapshotError for a damaged one.

    Checksums read the whole file, so they are computed once for a file and not by each process.
    """
    kind = updatable(algorithm)
    stat = found.path.stat()
    mark = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    checked = found.path.with_suffix(CHECKED_SUFFIX)
    is_checked = checked.exists() and checked.read_text(encoding="utf-8") == mark
    index = kind.open(found.path, verify=not is_checked)
    lineage = lineage_of(found)
    if not is_checked:
        checked.write_text(mark, encoding="utf-8")
    return index, found.epoch, lineage


def lineage_of(found: SnapshotFile) -> str:
    """The lineage of a snapshot's epoch; SnapshotError when its header is damaged, or its targets
    are of another format: the first release did not write which.
    """
    meta = open_snapshot(found.path, verify=False)[0]
    try:
        lineage, version = str(meta["meta"]["lineage"]), int(meta["version"])
        targets = meta["meta"].get("targets", 1)
    except (KeyError, TypeError) as error:
        raise SnapshotError(found.path, "meta", f"{error} lacks") from error
    if version != found.epoch:
        raise SnapshotError(found.path, "meta", f"it is of epoch {version}")
    if targets != FORMAT_VERSION:
        problem = f"targets of format {targets}, but only {FORMAT_VERSION} is known"
        raise SnapshotError(found.path, "meta", problem)
    return lineage


def save_index(folder: Path, index: Updatable, epoch: int, lineage: str) -> SnapshotFile:
    """Publish an index as the snapshot of an epoch, by an atomic rename."""
    folder.mkdir(parents=True, exist_ok=True)
    found = SnapshotFile(epoch, snapshot_path(folder, epoch))
    index.save(found.path, {"lineage": lineage, "targets": FORMAT_VERSION})
    return found


def remove_old(folder: Path, oldest_needed: int) -> None:
    """Keep the newest ones, and the newest that leads to an epoch a replay may need."""
    files = find_snapshots(folder)
    kept = {file.epoch for file in files[-KEPT:]}
    leading = [file.epoch for file in files if file.epoch <= oldest_needed]
    kept.update(leading[-1:])
    remove(file for file in files if file.epoch not in kept)


def remove(files: Iterable[SnapshotFile]) -> None:
    """Delete snapshots; processes that have them mapped keep what they have."""
    for file in files:
        file.path.unlink(missing_ok=True)
        file.path.with_suffix(CHECKED_SUFFIX).unlink(missing_ok=True)


def updatable(algorithm: type[MatchIndex]) -> type[Updatable]:
    """The algorithm, if it can be saved and updated at versions; TypeError names the others."""
    if not issubclass(algorithm, Updatable):
        raise TypeError(
            f"the algorithm {algorithm.name} is for comparison and cannot serve a stream; set "
            "HERALD_ALGORITHM to one that can be saved, such as herald."
        )
    return algorithm
