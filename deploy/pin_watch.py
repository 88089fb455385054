"""Pins seen from outside: those of a query that runs, as they come and are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streaming.pins import FOLDER, Pin, PinError, PinLog


class PinWatch:
    """Looks for new pins of some checkpoints, again and again; for one thread at a time."""

    def __init__(self, checkpoints: Iterable[Path]) -> None:
        self._checkpoints = list(checkpoints)
        self._seen: dict[Path, tuple[int, int]] = {}

    def follow(self, checkpoint: Path) -> None:
        """Look into another driver's checkpoint, too."""
        self._checkpoints.append(checkpoint)

    def poll(self) -> list[Pin]:
        """Pins that are new or have been replaced since the last call, in the order written.

        Only the newest ones of a query are kept: call it several times a second.
        """
        found = []
        for checkpoint in self._checkpoints:
            for path in (checkpoint / FOLDER).glob("[0-9]*.json"):
                try:
                    stat = path.stat()
                    mark = stat.st_mtime_ns, stat.st_ino
                    if self._seen.get(path) != mark:
                        found.append((stat.st_mtime_ns, path, mark, PinLog.read(path)))
                except (FileNotFoundError, PinError):
                    continue  # trimmed, or lost with its folder, between two looks
        found.sort(key=lambda one: (one[0], one[3].batch))
        self._seen.update((path, mark) for _, path, mark, _ in found)
        return [pin for _, _, _, pin in found]
