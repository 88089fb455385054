"""Load: steady events and churning subscriptions, each acknowledgement noted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
import orjson
from confluent_kafka import Message, Producer

from deploy.verdicts import Place

EVENTS_PER_S = 80.0
WRITES_PER_S = 8.0
SUBSCRIPTIONS = 40
KINDS = 12
"""Different values of the attribute that most filters ask for."""
MODES = ("thin", "full", "compact")
REFUSED_EVERY = 60
"""One event in so many is none, and becomes a dead letter."""
API_TIMEOUT_S = 8.0
PAUSE_AFTER_FAILURE_S = 0.2


class Wrote(NamedTuple):
    """A write that was acknowledged; `is_there` tells whether the subscription exists after it."""

    epoch: int
    id: str
    is_there: bool


class Load:
    """Publishes and writes until it is told to pause; a context manager.

    acknowledge   is told the epoch of each write at the moment of its acknowledgement.
    """

    def __init__(
        self, bootstrap: str, topic: str, api: str, acknowledge: Callable[[int], None], seed: int
    ) -> None:
        self._topic = topic
        self._acknowledge = acknowledge
        self._random = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 1_000,
                "message.max.bytes": 2_000_000,
                "partitioner": "random",
                "log_level": 0,
            }
        )
        self._client = httpx.Client(base_url=api, timeout=API_TIMEOUT_S, trust_env=False)
        self._running = threading.Event()
        self._ended = threading.Event()
        self._idle = {name: threading.Event() for name in ("events", "writes")}
        self._threads = [
            threading.Thread(target=self._loop, args=args, name=f"load-{args[0]}", daemon=True)
            for args in (
                ("events", self._publish, EVENTS_PER_S),
                ("writes", self._write, WRITES_PER_S),
            )
        ]
        self._next = 0
        self.acknowledged_events: list[Place] = []
        self.refused_events: list[str] = []
        self.wrote: list[Wrote] = []
        self.statuses: Counter[int] = Counter()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._running.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(10)
        self._client.close()

    def go(self) -> None:
        """Begin, or go on."""
        for idle in self._idle.values():
            idle.clear()
        self._running.set()

    def pause(self) -> None:
        """Stop, and return when all events are acknowledged and no write is under way."""
        self._running.clear()
        for idle in self._idle.values():
            idle.wait(API_TIMEOUT_S * 2)
        if self._producer.flush(60):
            raise RuntimeError("the broker has not acknowledged all events within a minute")

    def forget(self) -> None:
        """Begin a new window."""
        self.acknowledged_events, self.refused_events, self.wrote = [], [], []
        self.statuses = Counter()

    def publish(
        self,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]] | None = None,
        key: bytes | None = None,
        partition: int = -1,
    ) -> None:
        """Publish one event of one's own beside the load."""
        self._producer.produce(
            self._topic,
            value,
            key,
            partition=partition,
            headers=headers or [],
            on_delivery=self._delivered,
        )
        self._producer.poll(0)

    def put(self, subscription_id: str, form: dict[str, Any]) -> int:
        """Write one subscription and return the status; 0 if there was no answer."""
        return self._send("PUT", subscription_id, form)

    def delete(self, subscription_id: str) -> int:
        """Remove one subscription and return the status; 0 if there was no answer."""
        return self._send("DELETE", subscription_id, None)

    def _loop(self, name: str, step: Callable[[], None], per_second: float) -> None:
        while not self._ended.is_set():
            if not self._running.is_set():
                self._idle[name].set()
                self._running.wait()
                continue
            due = time.monotonic() + 1 / per_second
            step()
            time.sleep(max(0.0, due - time.monotonic()))

    def _publish(self) -> None:
        self._next += 1
        if self._next % REFUSED_EVERY == 0:
            self.publish(b'{"kind": ', key=b"torn")
            return
        event = {
            "n": self._next,
            "kind": self._random.randrange(KINDS),
            "level": self._random.randrange(100),
            "name": self._random.choice(("ant", "bee", "cat", "dog")),
        }
        try:
            self.publish(orjson.dumps(event))
        except BufferError:  # the broker is away for long; these events never were
            self._producer.poll(0.1)

    def _write(self) -> None:
        number = self._random.randrange(SUBSCRIPTIONS)
        name = f"s{number}"
        status = self.delete(name) if self._random.random() < 0.2 else self.put(name, self._form())
        if status == 0 or status >= 500:
            self._ended.wait(PAUSE_AFTER_FAILURE_S)

    def _form(self) -> dict[str, Any]:
        kind, level = self._random.randrange(KINDS), self._random.randrange(100)
        expressions = (
            f"kind = {kind}",
            f"kind = {kind} AND level > {level}",
            f"level BETWEEN {level} AND {level + 5}",
            f"name = 'bee' AND NOT kind IN ({kind}, {(kind + 1) % KINDS}) AND level > 80",
            f"kind = {kind} OR level = {level}",
        )
        return {
            "expr": self._random.choice(expressions),
            "mode": self._random.choice(MODES),
            "enabled": self._random.random() > 0.05,
        }

    def _send(self, method: str, subscription_id: str, form: dict[str, Any] | None) -> int:
        path = f"/v1/subscriptions/{subscription_id}"
        body = None if form is None else {"id": subscription_id} | form
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError:
            self.statuses[0] += 1
            return 0
        self.statuses[answer.status_code] += 1
        if answer.status_code in (200, 201, 204):
            epoch = int(answer.headers["Herald-Epoch"])
            self._acknowledge(epoch)
            self.wrote.append(Wrote(epoch, subscription_id, method == "PUT"))
        return answer.status_code

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            self.refused_events.append(str(error))
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        self.acknowledged_events.append(Place(topic, partition, offset))
