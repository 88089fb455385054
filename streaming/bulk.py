"""Bulk: tells a bulk load of subscriptions from the steady coming and going of single ones.

Steady changes reach the workers one by one and take effect within a second. A bulk load would keep
every worker busy for as long as it lasts, and events would wait: so its epochs take effect in
steps, each when a snapshot holds it that workers need only map. What comes after the last of these
follows at a pace that workers keep up with: to wait for one more snapshot would be to wait for ever
where steady changes are many and a snapshot takes long.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 5.0
RELEASE_RATIO = 2.0
"""What was held back follows so many times as fast as steady changes may come, so that it ends."""
STEP_CHANGES = 200
"""Epochs held back are told apart no finer than this: a load may have millions of them."""


class BulkMeter:
    """Counts changes over the last seconds; `clock` tells seconds.

    limit   changes within the window, above which they are a bulk load.
    """

    def __init__(self, changes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = changes_per_s * WINDOW_S
        self._clock = clock
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, count: int) -> None:
        """So many changes have come."""
        self._counts.append((self._clock(), count))
        self._sum += count

    def is_bulk(self) -> bool:
        """Whether more came in the last five seconds than steady changes would."""
        oldest = self._clock() - WINDOW_S
        while self._counts and self._counts[0][0] < oldest:
            self._sum -= self._counts.popleft()[1]
        return self._sum > self.limit


class HeldBack:
    """Epochs that were read in a bulk load and that no batch may be pinned to yet, in order."""

    def __init__(self, changes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = changes_per_s * RELEASE_RATIO
        self._clock = clock
        self._steps: deque[tuple[int, str, int]] = deque()
        self._at: float | None = None
        self._allowed = 0.0

    def add(self, epoch: int, lineage: str, changes: int) -> None:
        """One more epoch, with so many changes."""
        if self._steps and self._steps[-1][2] + changes <= STEP_CHANGES:
            changes += self._steps.pop()[2]
        self._steps.append((epoch, lineage, changes))

    def drop(self, epoch: int) -> None:
        """Epochs up to this one are in effect."""
        while self._steps and self._steps[0][0] <= epoch:
            self._steps.popleft()

    def clear(self) -> None:
        """All are in effect."""
        self._steps.clear()

    def wait(self) -> None:
        """The load goes on: their time is counted from the next `release` on."""
        self._at, self._allowed = None, 0.0

    def release(self) -> tuple[int, str] | None:
        """The newest epoch, with its lineage, whose turn it is by now; None for none."""
        now = self._clock()
        since = now if self._at is None else self._at
        # Of a larger step a second's worth is enough, or it would never come.
        self._allowed = min(self._allowed + (now - since) * self._per_s, self._per_s)
        self._at = now
        found = None
        while self._steps and self._allowed >= min(self._steps[0][2], self._per_s):
            epoch, lineage, changes = self._steps.popleft()
            self._allowed -= changes
            found = epoch, lineage
        return found

    def __bool__(self) -> bool:
        return bool(self._steps)
