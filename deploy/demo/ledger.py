"""What the demo heard on the notification topic: counted, told apart, and timed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

import orjson
from confluent_kafka import Message

from deploy.flow import Flow

RECENT = 5


class Ledger:
    """Counts notifications by subscription; a repeated id is a double.

    sampled     flights whose subscriptions are kept one by one, for the oracle
    """

    def __init__(self, sampled: Iterable[int]) -> None:
        self._flow: Flow | None = None
        self._ids: set[bytes] = set()
        self.by_subscription: Counter[str] = Counter()
        self.by_sampled_row: dict[int, list[str]] = {row: [] for row in sampled}
        self.doubled = 0
        self.latencies_s: list[float] = []
        self.recent: list[tuple[str, int]] = []

    def attach(self, flow: Flow) -> None:
        """Tell which flow the notifications belong to: it knows the flight at each offset."""
        self._flow = flow

    def receive(self, messages: Sequence[Message]) -> None:
        """Take in some notifications, in the order of their partition."""
        now = time.time()
        last = None
        flow = self._flow
        assert flow is not None, "the ledger has not been attached to a flow"
        for message in messages:
            notification_id = _header(message, "ce_id")
            if notification_id in self._ids:
                self.doubled += 1
                continue
            self._ids.add(notification_id)
            told = orjson.loads(message.value() or b"")
            subscription = told["subscription"]
            row = flow.publisher.row(told["event"]["partition"], told["event"]["offset"])
            self.by_subscription[subscription] += 1
            if row in self.by_sampled_row:
                self.by_sampled_row[row].append(subscription)
            last = (subscription, row)
        # The last one stands for all that came with it: they were read at the same moment.
        if last is not None:
            self.recent = [*self.recent, last][-RECENT:]
            self.latencies_s = [*self.latencies_s, now - flow.published_at(last[1])]

    def total(self) -> int:
        """Different notifications."""
        return len(self._ids)


def _header(message: Message, name: str) -> bytes:
    headers = cast(list[tuple[str, bytes]], message.headers() or [])
    for key, value in headers:
        if key == name:
            return value
    raise ValueError(f"a notification without the header {name}")
