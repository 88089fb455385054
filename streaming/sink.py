"""Sink: a pass of a batch into Kafka, all or none, with the positions that its events reach.

exactly_once   notifications, dead letters and positions are one transaction. The transactional id
               is the query's name, so a new driver fences an older one, and after a restart the
               committed positions tell which events, and which parts of them, have been told of.
at_least_once  an idempotent producer, flushed; then the positions are committed. A replay goes on
               from them, and repeats what was written after them, with the same ids.

After any error of a transaction the producer is thrown away and the pass is written again with a
new one, which first finds out what became of the old transaction.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streaming.failpoints import hit
from streaming.notification import HEADERS
from streaming.packing import Headers, Output
from streaming.patience import patiently, within
from streaming.pins import Offsets
from streaming.positions import Mark, Marks, Positions
from streaming.settings import StreamingSettings
from streaming.topics import client_options, partitions_of, record_bytes_max, topic_partitions

TIMEOUT_S = 30.0
OFFSETS_TIMEOUT_S = 10.0
"""For sending positions, which takes milliseconds; where the group's coordinator has left the
cluster the client waits for all the time it is given, and only a new producer gets on."""
GRACE_S = 5.0
"""Beyond it a call that has a timeout of its own is taken to hang."""
POLL_RECORDS = 10_000
"""Records between two polls, which free what has been delivered."""
QUEUE_RECORDS = 500_000
DEAD_CODE = "_FATAL"
FENCED_CODES = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")

_log = logging.getLogger(__name__)


class Fenced(Exception):
    """Another driver with this query name has taken over; this one must end."""


class SinkFailed(Exception):
    """A batch could not be written in the allowed attempts."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a sink uses of Kafka and of time; a simulation gives its own.

    clock   seconds, from any beginning.
    """

    producer: Callable[[dict[str, object]], Any] = Producer
    consumer: Callable[[dict[str, object]], Any] = Consumer
    record_bytes_max: Callable[[StreamingSettings, str], int] = record_bytes_max
    partitions_of: Callable[[StreamingSettings], dict[str, int]] = partitions_of
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


REAL = Surroundings()


class Sink(ABC):
    """Writes passes; `positions` are what has been told of, and needs no telling again.

    bytes_max   what a pass should hold.
    """

    def __init__(self, settings: StreamingSettings, around: Surroundings = REAL) -> None:
        self._settings = settings
        self._around = around
        self._consumer = around.consumer(
            client_options(settings)
            | {"group.id": settings.query_name, "enable.auto.commit": False}
        )
        topics = (settings.notifications_topic, settings.dead_letters_topic)
        self._record_bytes_max = max(around.record_bytes_max(settings, topic) for topic in topics)
        self.bytes_max = settings.transaction_bytes_max
        self.positions = Positions({})
        self._producer: Any = None
        self._failed: list[str] = []

    def open(self) -> None:
        """Make a producer and find out where its predecessors ended."""
        self._producer = self._new_producer()
        self.positions = self._read_committed()

    def write(self, outputs: Sequence[Output], reached: Positions) -> None:
        """Write a pass, retrying with a new producer; SinkFailed or Fenced when that is no use."""
        for attempt in range(1, self._settings.produce_attempts_max + 1):
            began = self._around.clock()
            try:
                if self._producer is None:
                    self.open()
                    if not self.positions.lacking(reached):
                        return  # the transaction whose fate was unknown had been committed
                later = self.positions.with_later(reached)
                self._attempt(outputs, later)
                self.positions = later
                return
            except KafkaException as error:
                self._discard(error, began)
                _log.warning(
                    "writing the batch failed (attempt %d of %d): %s",
                    attempt,
                    self._settings.produce_attempts_max,
                    error,
                )
                self._around.sleep(min(0.1 * 2**attempt, 5.0))
        raise SinkFailed(
            f"the batch could not be written to {self._settings.kafka_bootstrap} in "
            f"{self._settings.produce_attempts_max} attempts; nothing of it is visible, it is "
            "replayed after a restart."
        )

    @property
    def committed(self) -> Offsets:
        """The offsets of the next events."""
        return self.positions.offsets

    def close(self) -> None:
        """Leave the group; a producer needs no farewell."""
        self._producer = None
        self._consumer.close()

    @abstractmethod
    def _new_producer(self) -> Any: ...

    @abstractmethod
    def _attempt(self, outputs: Sequence[Output], reached: Positions) -> None: ...

    def _discard(self, error: KafkaException, began: float) -> None:
        cause, self._producer = self._cause(error), None
        # A driver that slept over its own timeout is told the same as one that was replaced.
        slept = self._around.clock() - began > self._settings.transaction_timeout_ms / 1000
        if cause in FENCED_CODES and not slept:
            raise Fenced(
                f"another driver with HERALD_QUERY_NAME={self._settings.query_name} has taken "
                "over; stop one of them, or give it another name and checkpoint."
            ) from error

    def _cause(self, error: KafkaException) -> str:
        """The name of an error. A dead producer tells in `produce` that it is dead, but not why."""
        name = str(error.args[0].name())
        if name == DEAD_CODE and self._producer is not None:
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException as told:
                return str(told.args[0].name())
        return name

    def _producer_options(self) -> dict[str, object]:
        return client_options(self._settings) | {
            # Else, while all brokers are away, the client forgets them, also the coordinator of the
            # group, for which a transaction then waits without end (librdkafka issue 5511). Should
            # they come back at other addresses, a new producer asks those of the settings.
            "metadata.recovery.strategy": "none",
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 50_000,
            "compression.type": "lz4",
            "message.max.bytes": self._record_bytes_max,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 256 * 1024,
        }

    def _read_committed(self) -> Positions:
        counts = self._around.partitions_of(self._settings)
        wanted = topic_partitions(
            {topic: dict.fromkeys(range(count), 0) for topic, count in counts.items()}
        )

        def ask() -> list[Any]:
            answers = list(self._consumer.committed(wanted, timeout=TIMEOUT_S))
            for found in answers:
                if found.error is not None:
                    raise KafkaException(found.error)
            return answers

        offsets: Offsets = {}
        marks: Marks = {}
        for found in patiently(ask, TIMEOUT_S):
            if found.offset >= 0:
                offsets.setdefault(found.topic, {})[found.partition] = found.offset
                if (mark := Mark.decode(found.metadata)) is not None:
                    marks.setdefault(found.topic, {})[found.partition] = mark
        return Positions(offsets, marks)

    def _produce(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            self._produce_notifications(output)
            for letter in output.dead_letters:
                self._enqueue(
                    self._settings.dead_letters_topic, letter.value, letter.key, letter.headers
                )

    def _produce_notifications(self, output: Output) -> None:
        topic, enqueue = self._settings.notifications_topic, self._enqueue
        # The client copies headers when it takes a record: one dictionary a kind saves making any.
        headers_of = {kind: dict(HEADERS[kind]) for kind in set(output.kinds)}
        columns = (output.keys, output.values, output.ids, output.kinds)
        for row, (key, value, name, kind) in enumerate(zip(*columns, strict=True)):
            headers = headers_of[kind]
            headers["ce_id"] = name
            enqueue(topic, value, key, headers)
            if row % POLL_RECORDS == 0:
                self._producer.poll(0)

    def _enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | dict[str, bytes],
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers)
                return
            except BufferError:  # the queue is full: wait until some of it is delivered
                self._producer.poll(0.1)

    def _note_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))


class TransactionalSink(Sink):
    """exactly_once."""

    def _new_producer(self) -> Any:
        options = self._producer_options() | {
            "transactional.id": self._settings.query_name,
            "transaction.timeout.ms": self._settings.transaction_timeout_ms,
        }
        producer = self._around.producer(options)
        producer.init_transactions(TIMEOUT_S)
        return producer

    def _attempt(self, outputs: Sequence[Output], reached: Positions) -> None:
        self._producer.begin_transaction()
        self._produce(outputs)
        hit("sink.produced")
        places, group = _places_of(reached), self._consumer.consumer_group_metadata()
        send = self._producer.send_offsets_to_transaction
        within(OFFSETS_TIMEOUT_S + GRACE_S, lambda: send(places, group, OFFSETS_TIMEOUT_S))
        hit("sink.uncommitted")
        self._producer.commit_transaction(TIMEOUT_S)
        hit("sink.committed")


class IdempotentSink(Sink):
    """at_least_once."""

    def _new_producer(self) -> Any:
        options = self._producer_options() | {"on_delivery": self._note_delivery}
        return self._around.producer(options)

    def _attempt(self, outputs: Sequence[Output], reached: Positions) -> None:
        self._failed.clear()
        self._produce(outputs)
        hit("sink.produced")
        waiting = self._producer.flush(TIMEOUT_S)
        if waiting or self._failed:
            reason = self._failed[0] if self._failed else f"{waiting} records were not delivered"
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, reason))
        hit("sink.uncommitted")
        self._consumer.commit(offsets=_places_of(reached), asynchronous=True)
        hit("sink.committed")


def open_sink(settings: StreamingSettings) -> Sink:
    """The sink of the chosen delivery, ready to write."""
    sink = TransactionalSink(settings) if settings.exactly_once else IdempotentSink(settings)
    sink.open()
    return sink


def _places_of(positions: Positions) -> list[TopicPartition]:
    """Positions as the Kafka client commits them."""
    return [
        TopicPartition(topic, partition, offset, mark.encode() if mark else "")
        for topic, partition, offset, mark in positions.each()
    ]
