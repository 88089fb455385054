"""Every limit of the API with its reason; those of filters and events are in `index.limits`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from subscriptions_api.errors import Problem

BODY_BYTES_MAX = 4 * 1024 * 1024
"""One subscription with the largest filter, escaped; or a batch of events."""
LINE_BYTES_MAX = BODY_BYTES_MAX
"""A line of an NDJSON body holds what a body of its own could."""
DISCARDED_BYTES_MAX = 4 * BODY_BYTES_MAX
"""Of a body over the limit so much is read away: clients that send first then see the refusal."""
IDEMPOTENCY_KEY_BYTES_MAX = 200
"""Below the store's limit by what tells the chunks of a batch apart."""
CHUNK_OPERATIONS = 500
"""Operations of a batch that share an epoch: large enough to be quick, small enough to be fair."""
CHUNK_BYTES = 2 * 1024 * 1024
"""A chunk ends with the line that reaches it, so it is below what the store takes at once."""
SPOOL_MEMORY_BYTES = 1024 * 1024
"""Answers of a batch that wait in memory; more wait in a temporary file."""
FILTERS_MAX = 100
LABELS_MAX = 64
LABEL_BYTES_MAX = 256
"""Of a label's name, and of its value."""
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
        wait_s = self._try(tenant, count)
        if wait_s:
            raise Problem(
                "rate_limited",
                f"{self._what}: {self._per_s:g} a second are allowed, {self._burst:g} at once",
                "wait as Retry-After says, or ask for a higher limit",
            ).after(wait_s)

    async def wait(self, tenant: str, count: int) -> None:
        """Use up `count` as soon as there are so many."""
        while wait_s := self._try(tenant, count):
            await asyncio.sleep(wait_s)

    def _try(self, tenant: str, count: int) -> float:
        """Use up `count` and return 0, or return the seconds until there may be so many.

        More than a burst are let through when the bucket is full; it is in debt afterwards.
        """
        needed = min(count, self._burst)
        with self._lock:
            now = self._clock()
            left, then = self._buckets.get(tenant, (self._burst, now))
            left = min(self._burst, left + (now - then) * self._per_s)
            if left < needed:
                return (needed - left) / self._per_s
            if len(self._buckets) >= TENANTS_REMEMBERED_MAX:
                self._buckets.clear()  # everyone begins anew, which favours nobody
            self._buckets[tenant] = (left - count, now)
            return 0.0
