"""Bulk: tells a bulk load of subscriptions from the steady coming and going of single ones.

Steady changes reach the workers one by one and take effect within a second. A bulk load would keep
every worker busy for as long as it lasts, and events would wait: so its epochs take effect in
steps, each when a snapshot holds it that workers need only map.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 5.0


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
