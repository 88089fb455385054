"""Load: writes and events at steady rates, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from deploy.soak.churn import Churn
from deploy.traffic import Publisher, post_batch

REQUESTS_PER_S = 10
"""Writes go by `POST /v1/subscriptions:batch`, so many requests a second, one after the other."""
EVENT_TICKS_PER_S = 50
BEHIND_S_MAX = 5.0
"""What is more than so much behind is not made up for: it shows in the rate."""
TIMEOUT_S = 60.0
ACCEPTED = (200, 201, 204)


class Steady:
    """Calls `step` in a thread of its own with how many are due; a context manager.

    done    how many it was asked for so far.
    """

    def __init__(
        self, name: str, per_s: float, ticks_per_s: float, step: Callable[[int], None]
    ) -> None:
        self._per_s, self._tick_s = per_s, 1 / ticks_per_s
        self._step = step
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failure: BaseException | None = None
        self.done = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask for no more; returns when the last step is over."""
        self._stopping.set()
        self._thread.join()

    def raise_failure(self) -> None:
        """RuntimeError if a step failed, which ended the thread."""
        if self._failure is not None:
            raise RuntimeError(f"{self._thread.name}: {self._failure}") from self._failure

    def _run(self) -> None:
        due_s, owed = time.monotonic(), 0.0
        try:
            while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
                due_s = max(due_s + self._tick_s, time.monotonic() - BEHIND_S_MAX)
                owed += self._per_s * self._tick_s
                count = int(owed)
                owed -= count
                if count:
                    self._step(count)
                    self.done += count
        except BaseException as failure:  # told to whoever asks
            self._failure = failure


class Writer:
    """Sends batches of writes over REST.

    acknowledge   is told the epoch of writes, when they were acknowledged, and how many they are.
    """

    def __init__(
        self, api: str, churn: Churn, acknowledge: Callable[[int, float, int], None]
    ) -> None:
        self._client = httpx.Client(base_url=api, timeout=TIMEOUT_S, trust_env=False)
        self._churn = churn
        self._acknowledge = acknowledge

    def write(self, count: int) -> None:
        """Send so many writes in one request; RuntimeError if one was refused."""
        told = post_batch(self._client, self._churn.draw(count))
        answered_s = time.time()
        for epoch, number in epochs_of(told, count).items():
            self._acknowledge(epoch, answered_s, number)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def epochs_of(told: Sequence[dict[str, Any]], count: int) -> dict[int, int]:
    """How many of `count` writes have each epoch, ascending; RuntimeError if one was refused."""
    refused = [line for line in told if line.get("status") not in ACCEPTED]
    if refused or len(told) != count:
        raise RuntimeError(f"a write was refused: {refused[:1] or told[-1:]}")
    epochs: dict[int, int] = {}
    for line in told:
        epochs[line["epoch"]] = epochs.get(line["epoch"], 0) + 1
    return dict(sorted(epochs.items()))


class Events:
    """Publishes payloads over and over."""

    def __init__(self, publisher: Publisher, payloads: Sequence[bytes]) -> None:
        self._publisher = publisher
        self._payloads = payloads

    def publish(self, count: int) -> None:
        """Publish so many events."""
        for _ in range(count):
            self._publisher.publish(self._payloads[self._publisher.published % len(self._payloads)])
        self._publisher.send()
