"""Sampling: one look at everything that might grow.

memory/<process>    bytes, see deploy.soak.memory
log/entries         of the store's log: each is an epoch
count/<kind>        files of the driver, by kind: snapshots, changes, checkpoint, scratch
bytes/<kind>        of them together
behind/events       published, and not told of yet
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from deploy.roles import SNAPSHOT_PROCESS
from deploy.soak.memory import Processes, SnapshotProcesses
from deploy.stack import Stack
from store import StoreSettings
from store.keys import Keys
from streaming import changes, snapshot_files

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures by name, and when: seconds since the load began."""

    at_s: float
    figures: Figures


class Sampler:
    """Looks at a stack that runs.

    behind   gives how many events were published that the query has not told of.
    """

    def __init__(self, stack: Stack, behind: Callable[[], int]) -> None:
        self._processes = Processes(stack.stack_id, stack.pids)
        self._snapshots = SnapshotProcesses(stack.pid("driver"))
        self._behind = behind
        # redis-py calls every reply bytes or str, or a promise of them.
        self._store: Any = redis.Redis.from_url(stack.env["HERALD_STORE_URL"])
        self._log = Keys(StoreSettings(url=stack.env["HERALD_STORE_URL"]).namespace).log
        self._folders = {
            name: Path(stack.env[f"HERALD_{name.upper()}_DIR"])
            for name in ("checkpoint", "scratch", "snapshot")
        }

    def look(self) -> None:
        """See what lives for moments only; call it several times a second."""
        self._snapshots.look()

    def sample(self, at_s: float) -> Sample:
        """Look at everything."""
        memory: Figures = {f"memory/{name}": n for name, n in self._processes.figures().items()}
        if self._snapshots.peak_bytes:
            memory[f"memory/{SNAPSHOT_PROCESS}"] = self._snapshots.peak_bytes
        log = {"log/entries": int(self._store.xlen(self._log)), "behind/events": self._behind()}
        return Sample(at_s, {**memory, **log, **self._files()})

    def close(self) -> None:
        """Close the connection to the store."""
        self._store.close()

    def _files(self) -> Figures:
        figures: Figures = {}
        for name, folder in self._folders.items():
            for path, size in files_below(folder):
                kind = _kind_of(path) if name == "snapshot" else name
                for figure, step in ((f"count/{kind}", 1), (f"bytes/{kind}", size)):
                    figures[figure] = figures.get(figure, 0) + step
        return figures


def _kind_of(name: str) -> str:
    """What a file of the snapshot folder is."""
    if name.startswith(snapshot_files.PREFIX) and name.endswith(snapshot_files.SUFFIX):
        return "snapshots"
    return "changes" if name.startswith(changes.PREFIX) else "beside snapshots"


def files_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Name and bytes of all files at any depth that stay there long enough to be looked at."""
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield name, os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
