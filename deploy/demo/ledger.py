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
    """Keeps notifications as they come, and counts them by subscription once all have come.

    Counting while events flow would take the processor from what is measured.

    sampled     flights whose subscriptions are kept one by one, for the oracle
    doubled     notifications whose id came before
    """

    def __init__(self, sampled: Iterable[int]) -> None:
        self._flow: Flow | None = None
        self._messages: list[Message] = []
        self.by_subscription: Counter[str] = Counter()
        self.by_sampled_row: dict[int, list[str]] = {row: [] for row in sampled}
        self.doubled = 0
        self.heard = 0
        self.latencies_s: list[float] = []
        self.recent: list[tuple[str, int]] = []

    def attach(self, flow: Flow) -> None:
        """Tell which flow the notifications belong to: it knows the flight at each offset."""
        self._flow = flow

    def receive(self, messages: Sequence[Message]) -> None:
        """Take in some notifications, in the order of their partition."""
        self._messages.extend(messages)
        self.heard += len(messages)
        # The last one stands for all that came with it: they were read at the same moment.
        last = self._read(messages[-1])
        self.recent = [*self.recent, last][-RECENT:]
        assert self._flow is not None, "_read has seen it"
        self.latencies_s.append(time.time() - self._flow.published_at(last[1]))

    def settle(self) -> None:
        """Count everything that was heard."""
        known = set[bytes]()
        for message in self._messages:
            notification_id = _header(message, "ce_id")
            if notification_id in known:
                self.doubled += 1
                continue
            known.add(notification_id)
            subscription, row = self._read(message)
            self.by_subscription[subscription] += 1
            if row in self.by_sampled_row:
                self.by_sampled_row[row].append(subscription)
        self._messages.clear()

    def _read(self, message: Message) -> tuple[str, int]:
        """Whom a notification is for, and the flight that it is about."""
        assert self._flow is not None, "the ledger has not been attached to a flow"
        told = orjson.loads(message.value() or b"")
        event = told["event"]
        row = self._flow.publisher.row(event["partition"], event["offset"])
        return told["subscription"], row


def _header(message: Message, name: str) -> bytes:
    headers = cast(list[tuple[str, bytes]], message.headers() or [])
    for key, value in headers:
        if key == name:
            return value
    raise ValueError(f"a notification without the header {name}")
