"""Reachable: whether the files of a folder lead to an epoch; no index is brought there."""

from __future__ import annotations

import logging
from pathlib import Path

from index.registry import get
from index.snapshot import SnapshotError
from streaming.changes import ChangesMissing, ChangesReader
from streaming.refresh import IndexOptions
from streaming.snapshot_files import find_snapshots, open_index, updatable

_log = logging.getLogger(__name__)


def is_reachable(options: IndexOptions, epoch: int, lineage: str) -> bool:
    """Whether a worker that has nothing yet finds a way to an epoch; nothing is applied."""
    folder = Path(options.folder)
    algorithm = updatable(get(options.algorithm))
    for found in [*reversed(find_snapshots(folder, epoch)), None]:
        base, known = 0, ""
        try:
            if found is not None:
                _, base, known = open_index(found, algorithm)
            for entry in ChangesReader(folder).read(base, epoch, known):
                known = entry.lineage
        except (ChangesMissing, SnapshotError, OSError) as error:
            _log.info("no way to epoch %d: %s", epoch, error)
            continue
        if known == lineage:
            return True
    return False
