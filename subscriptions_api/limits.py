"""Every limit of the API with its reason; those of filters and events are in `index.limits`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from subscriptions_api.errors import Problem

BODY_BYTES_MAX = 4 * 1024 * 1024
"""One subscription with the largest filter, escaped; or a batch of events."""
LINE_BYTES_MAX = BODY_BYTES_MAX
"""A line of an NDJSON body holds what a body of its own could."""
CHUNK_OPERATIONS = 500
"""Operations of a batch that share an epoch: large enough to be quick, small enough to be fair."""
CHUNK_BYTES = 2 * 1024 * 1024
"""A chunk ends with the line that reaches it, so it is below what the store takes at once."""
SPOOL_MEMORY_BYTES = 1024 * 1024
"""Answers of a batch that wait in memory; more wait in a temporary file."""
FILTERS_MAX = 100
LABELS_MAX = 64
LABEL_BYTES_MAX = 256
EVENTS_MAX = 1_000
"""Events of one POST /v1/events."""
PAGE_SIZE_DEFAULT = 100
BURST_S = 10.0
"""A tenant may use this many seconds' worth of its rate at once."""
TENANTS_REMEMBERED_MAX = 10_000


class RateLimit:
    """A token bucket for each tenant: so many a second, and ten seconds' worth at once."""

    def __init__(
        self, what: str, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._per_s = per_s
        self._burst = per_s * BURST_S
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, tenant: str, count: int = 1) -> None:
        """Use up `count`; Problem `rate_limited` with the time to wait if there are not so many."""
        with self._lock:
            now = self._clock()
            left, then = self._buckets.get(tenant, (self._burst, now))
            left = min(self._burst, left + (now - then) * self._per_s)
            if left < min(count, self._burst):
                problem = Problem(
                    "rate_limited",
                    f"{self._what}: {self._per_s:g} a second are allowed, {self._burst:g} at once",
                    "wait as Retry-After says, or ask for a higher limit",
                )
                problem.retry_after = (count - left) / self._per_s
                raise problem
            if len(self._buckets) >= TENANTS_REMEMBERED_MAX:
                self._buckets.clear()  # everyone begins anew, which favours nobody
            self._buckets[tenant] = (left - count, now)
