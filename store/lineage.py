"""What a store object remembers of the history it has given out, so that a rewritten one shows."""

from __future__ import annotations

from threading import Lock

REMEMBERED_MAX = 256
"""Epochs; enough for many readers that share one store object, each at its own epoch."""


class GivenOut:
    """The lineage of the epochs that readers of this store object have reached, newest last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lineages: dict[int, str] = {}

    def remember(self, epoch: int, lineage: str) -> None:
        """A reader goes on from this epoch."""
        with self._lock:
            self._lineages.pop(epoch, None)
            self._lineages[epoch] = lineage
            if len(self._lineages) > REMEMBERED_MAX:
                del self._lineages[next(iter(self._lineages))]

    def lineage_at(self, epoch: int) -> str | None:
        """The lineage a reader at this epoch saw, or None if it is not known here."""
        with self._lock:
            return self._lineages.get(epoch)
