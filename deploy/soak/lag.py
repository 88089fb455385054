"""Lag: how long after its acknowledgement a write is in effect.

That is when the first batch is pinned at its epoch or a newer one: every event of that batch and of
all later ones meets it. A batch pinned before the acknowledgement arrived counts as no lag.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class Lag(NamedTuple):
    """Of some writes that were acknowledged together, at one epoch.

    at_s    when they were acknowledged, in seconds since 1970.
    """

    at_s: float
    lag_s: float
    writes: int


class LagMeter:
    """Is told of acknowledgements by one thread, and of pins by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, float, int]] = deque()
        self._pinned = 0
        self._lags: list[Lag] = []

    def acknowledge(self, epoch: int, at_s: float, writes: int) -> None:
        """So many writes were acknowledged with an epoch, not below that of the last call."""
        with self._lock:
            if epoch <= self._pinned:
                self._lags.append(Lag(at_s, 0.0, writes))
            else:
                self._waiting.append((epoch, at_s, writes))

    def pin(self, epoch: int, at_s: float) -> None:
        """A batch was pinned at an epoch."""
        with self._lock:
            self._pinned = max(self._pinned, epoch)
            while self._waiting and self._waiting[0][0] <= self._pinned:
                _, since_s, writes = self._waiting.popleft()
                self._lags.append(Lag(since_s, max(0.0, at_s - since_s), writes))

    def lags(self, now_s: float) -> list[Lag]:
        """All so far; of writes that are in no batch yet, for how long they have not been."""
        with self._lock:
            unseen = [Lag(at_s, now_s - at_s, writes) for _, at_s, writes in self._waiting]
            return [*self._lags, *unseen]


def quantile(lags: Sequence[Lag], share: float) -> float:
    """The lag that this share of the writes does not exceed; NaN without any."""
    wanted = share * sum(lag.writes for lag in lags)
    for lag in sorted(lags, key=lambda one: one.lag_s):
        wanted -= lag.writes
        if wanted <= 0:
            return lag.lag_s
    return float("nan")
