"""Reading and writing Kafka topics in tests, with the plain client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

POLL_S = 0.2


class Message(NamedTuple):
    key: bytes | None
    value: Any
    headers: dict[str, bytes]
    partition: int
    offset: int

    @property
    def id(self) -> str:
        return self.headers["ce_id"].decode()

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset of the event that a notification tells of."""
        event = orjson.loads(self.value)["event"]
        return event["partition"], event["offset"]


class Topic:
    """All of one topic from now on, as a read_committed consumer sees it."""

    def __init__(self, bootstrap: str, name: str, from_start: bool = False) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"test-{time.monotonic_ns()}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        partitions = self._consumer.list_topics(name, timeout=30).topics[name].partitions
        assigned = []
        for partition in partitions:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(name, partition))
            assigned.append(TopicPartition(name, partition, low if from_start else high))
        self._consumer.assign(assigned)
        self.messages: list[Message] = []

    def read_until(self, enough: Callable[[list[Message]], object], timeout_s: float) -> bool:
        """Collect messages until there are enough; False if the time is over first."""
        deadline = time.monotonic() + timeout_s
        while not enough(self.messages):
            if time.monotonic() > deadline:
                return False
            self._take(POLL_S)
        return True

    def read_for(self, seconds: float) -> None:
        """Collect what comes within a time: to see that nothing more does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._take(POLL_S)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, seconds: float) -> None:
        message: Any
        for message in self._consumer.consume(1_000, seconds):
            assert message.error() is None, message.error()
            self.messages.append(
                Message(
                    message.key(),
                    message.value(),
                    dict(message.headers() or ()),
                    message.partition(),
                    message.offset(),
                )
            )


@contextmanager
def reading(bootstrap: str, name: str, from_start: bool = False) -> Iterator[Topic]:
    topic = Topic(bootstrap, name, from_start)
    try:
        yield topic
    finally:
        topic.close()


class Publisher:
    """Publishes, and knows where each acknowledged event went."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._topic = topic
        self.places: set[tuple[int, int]] = set()

    def publish(
        self, value: bytes, headers: Any = None, key: bytes | None = None, partition: int = -1
    ) -> None:
        self._producer.produce(
            self._topic, value, key, partition, headers=headers, on_delivery=self._note
        )
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.places.add((message.partition(), message.offset()))
