"""A deployment as a former driver left it, and today's driver on it, without any service."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from store.memory import MemoryStore
from streaming.changes import ChangesWriter
from streaming.metrics import Metrics
from streaming.refresh import IndexOptions
from streaming.settings import StreamingSettings
from streaming.snapshot_files import SnapshotFile, find_snapshots
from streaming.snapshots import build_from_files, build_from_store
from streaming.tail import Tail
from tests.formats.kept import ALGORITHM, copy_deployment, entries_of, read_dump


@pytest.fixture
def deployment(tmp_path: Path) -> tuple[Path, Path]:
    return copy_deployment(tmp_path)


@pytest.fixture
def renewed(deployment: tuple[Path, Path]) -> Path:
    """The former snapshot folder, with a snapshot of today's format in the place of its own."""
    _, snapshots = deployment
    (kept,) = find_snapshots(snapshots)
    log = snapshots.with_name("log")
    entries = entries_of(read_dump())[: kept.epoch]
    ChangesWriter(log, 0, "").append(entries)
    options = IndexOptions(ALGORITHM, str(log))
    today = build_from_files(options, kept.epoch, entries[-1].lineage)
    shutil.copy(today.path, kept.path)
    return snapshots


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, MemoryStore], Tail]]:
    """A driver's tail on a folder, which builds snapshots in this process."""
    tails: list[Tail] = []

    def begin(folder: Path, store: MemoryStore) -> Tail:
        def spawn(tail: Tail, arguments: list[str]) -> Any:
            return _Built(*build_from_store(IndexOptions(ALGORITHM, str(folder)), store, "test"))

        monkeypatch.setattr(Tail, "_spawn", spawn)
        settings = StreamingSettings(snapshot_dir=folder, algorithm=ALGORITHM)
        tails.append(Tail(lambda: store, settings, Metrics(), lambda: None))
        tails[-1].begin()
        return tails[-1]

    yield begin
    for tail in tails:
        tail.stop()


class _Built:
    """A snapshot process that has ended."""

    returncode = 0

    def __init__(self, found: SnapshotFile, lineage: str) -> None:
        self._output = orjson.dumps({"epoch": found.epoch, "lineage": lineage})

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        return self._output, None
