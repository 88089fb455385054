"""A flow: events published at full speed through a running query, timed until the last commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Message

from deploy.traffic import Follower, Listener, Publisher

LEAD_EVENTS = 60_000
"""How far the publisher may run ahead of the commits: a full pipe, yet no endless queue."""
CHUNK_EVENTS = 500
POLL_S = 0.1
STALL_S = 120.0


class Flow:
    """Publisher, progress of the query and listener of one run; a context manager.

    environment     the stack's, which names broker, topics and query
    receive         gets the notifications, in a thread of the listener
    """

    def __init__(
        self, environment: Mapping[str, str], receive: Callable[[Sequence[Message]], None]
    ) -> None:
        bootstrap = environment["HERALD_KAFKA_BOOTSTRAP"]
        topic = environment["HERALD_EVENTS_TOPIC"]
        self.publisher = Publisher(bootstrap, topic)
        self._follower = Follower(
            bootstrap, environment["HERALD_QUERY_NAME"], topic, self.publisher.start
        )
        self._listener = Listener(bootstrap, environment["HERALD_NOTIFICATIONS_TOPIC"], receive)
        self._chunk_times: list[float] = []

    def __enter__(self) -> Self:
        self._listener.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.__exit__(kind, error, trace)
        self._follower.close()

    def published_at(self, row: int) -> float:
        """When the row-th event was handed to the client, in seconds since 1970."""
        return self._chunk_times[row // CHUNK_EVENTS]

    def run(self, payloads: Sequence[bytes], watch: Callable[[int], None]) -> float:
        """Publish all and wait until all are committed and heard; seconds until the last commit.

        `watch` is told several times a second how many events are done. RuntimeError if the query
        makes no progress for two minutes.
        """
        started = time.monotonic()
        for start in range(0, len(payloads), CHUNK_EVENTS):
            if start % (CHUNK_EVENTS * 4) == 0:
                self._wait(start - LEAD_EVENTS, watch)
            self._chunk_times.append(time.time())
            for payload in payloads[start : start + CHUNK_EVENTS]:
                self.publisher.publish(payload)
        self.publisher.flush()
        self._wait(len(payloads), watch)
        seconds = time.monotonic() - started
        self._listener.wait_end()
        return seconds

    def _wait(self, least: int, watch: Callable[[int], None]) -> None:
        """Wait until at least so many events are done."""
        done, moved = self._follower.done(), time.monotonic()
        watch(done)
        while done < least:
            time.sleep(POLL_S)
            before, done = done, self._follower.done()
            watch(done)
            if done > before:
                moved = time.monotonic()
            elif time.monotonic() - moved > STALL_S:
                raise RuntimeError(
                    f"the query stands still at event {done:,} since {STALL_S:g} s; "
                    "the driver's log says why"
                )
