"""Into Kafka: records acknowledged by the broker, or a problem that says why not."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from subscriptions_api.errors import Problem
from subscriptions_api.limits import BODY_BYTES_MAX

_log = logging.getLogger(__name__)

POLL_S = 0.1
SILENT_S = 60.0
"""After a warning about Kafka: its client has one for every attempt to connect."""
RECONNECT_MS_MAX = 1000
"""Between two tries to reach a broker; with the client's 10 s, one that is back is found late."""
RECORD_BYTES_MAX = 2 * BODY_BYTES_MAX
"""Kafka's own limit shall decide, which the topic sets."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Kafka record."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


class Publisher(ABC):
    """Writes events to the events topic; safe to share between threads."""

    @abstractmethod
    def publish(self, records: Sequence[EventRecord]) -> list[Address]:
        """Where each record lies, once all are acknowledged; Problem `kafka_unavailable` if not."""

    @abstractmethod
    def close(self) -> None:
        """Send what is waiting and let go."""


class MemoryPublisher(Publisher):
    """Keeps records in a list: for tests, and for an API without Kafka."""

    def __init__(self, topic: str = "events") -> None:
        self.topic = topic
        self.records: list[EventRecord] = []

    def publish(self, records: Sequence[EventRecord]) -> list[Address]:
        """Append the records to the only partition."""
        start = len(self.records)
        self.records.extend(records)
        return [Address(self.topic, 0, start + place) for place in range(len(records))]

    def close(self) -> None:
        """There is nothing to let go."""


@dataclass(slots=True)
class _Waiting:
    """Records of one call that are under way."""

    addresses: list[Address | None]
    left: int
    done: threading.Event = field(default_factory=threading.Event)
    failure: KafkaError | None = None


class KafkaPublisher(Publisher):
    """An idempotent producer with a thread that hears the acknowledgements."""

    def __init__(self, bootstrap: str, topic: str, timeout_s: float) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        self._silent_until = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": int(timeout_s * 1000),
                "message.max.bytes": RECORD_BYTES_MAX,
                "log_level": 0,  # it repeats itself; `_on_error` tells
                "error_cb": self._on_error,
            }
        )
        self._poller = threading.Thread(target=self._poll, name="publisher", daemon=True)
        self._poller.start()

    def publish(self, records: Sequence[EventRecord]) -> list[Address]:
        """Produce and wait for the broker."""
        waiting = _Waiting([None] * len(records), len(records))
        for place, record in enumerate(records):

            def delivered(error: KafkaError | None, message: Message, place: int = place) -> None:
                self._delivered(waiting, place, error, message)

            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=delivered,
                )
            except BufferError as error:
                raise _unavailable(str(error)) from None
            except KafkaException as error:
                raise _refused(error.args[0]) from None
        if not waiting.done.wait(self._timeout_s + 1):
            raise _unavailable(f"no acknowledgement within {self._timeout_s:g} s")
        if waiting.failure is not None:
            raise _refused(waiting.failure)
        return [address for address in waiting.addresses if address is not None]

    def close(self) -> None:
        """Send what is waiting and stop."""
        self._stopping.set()
        self._poller.join()
        self._producer.flush(self._timeout_s)

    def _delivered(
        self, waiting: _Waiting, place: int, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            waiting.failure = error
        else:
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None, "a delivered record has a place"
            waiting.addresses[place] = Address(self._topic, partition, offset)
        waiting.left -= 1
        if not waiting.left:
            waiting.done.set()

    def _on_error(self, error: KafkaError) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_S
            _log.warning("Kafka: %s", error.str())

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(POLL_S)


def _refused(error: KafkaError) -> Problem:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return Problem("too_large", "the event is larger than Kafka takes", reason="too_large")
    return _unavailable(error.str())


def _unavailable(reason: str) -> Problem:
    return Problem(
        "kafka_unavailable",
        f"Kafka did not take the event: {reason}",
        "try again; an event may then be there twice",
    )
