"""Clients: the producer and consumer of confluent_kafka, as far as a sink uses them.

Records wait in the producer until they are delivered: some of them at any time, all of them with a
flush or a commit. A call may fail although it had its effect, and may have it after it failed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.simulation.broker import Broker, Committed, Headers, Sent, Transaction, error
from tests.simulation.course import Course

CALL_FAILS = 0.03
ANSWER_IS_LATE_S = 30.0


class Link:
    """How one driver reaches the broker.

    pause    is called where the driver may be stopped or killed, with words that say where.
    wait     lets seconds pass.
    """

    def __init__(
        self,
        broker: Broker,
        course: Course,
        pause: Callable[[str], None],
        wait: Callable[[float], None],
    ) -> None:
        self.broker = broker
        self.course = course
        self.pause = pause
        self.wait = wait
        self.late: list[Callable[[], None]] = []
        """Requests that are still under way although their caller has given up."""

    def fails(self, what: str, share: float = CALL_FAILS) -> bool:
        """Whether a call to the broker gets no answer."""
        if not self.course.goes_wrong(share):
            return False
        self.course.note(f"no answer: {what}")
        return True

    def deliver_late(self) -> None:
        """What was under way arrives, or never does."""
        late, self.late = self.late, []
        for request in late:
            if self.course.chance(0.5):
                request()


class Producer:
    """One producer; transactional if its options say so."""

    def __init__(self, link: Link, options: dict[str, Any]) -> None:
        self._link = link
        self._broker = link.broker
        self._id = options.get("transactional.id")
        self._timeout_s = options.get("transaction.timeout.ms", 0) / 1000
        self._on_delivery = options.get("on_delivery")
        self._epoch = 0
        self._queue: list[Sent] = []
        self._group = ""
        self._fatal: int | None = None

    def init_transactions(self, timeout: float) -> None:
        self._link.pause("before it fences others")
        self._link.deliver_late()
        if self._link.fails("init_transactions, refused"):
            raise error(KafkaError._TIMED_OUT)
        self._epoch = self._broker.init_producer(str(self._id))
        if self._link.fails("init_transactions, done"):
            raise error(KafkaError._TIMED_OUT)

    def begin_transaction(self) -> None:
        self._queue = []

    def produce(self, topic: str, value: bytes | None, key: bytes | None, headers: Any) -> None:
        if self._fatal is not None:
            raise error(KafkaError._FATAL)
        if self._link.course.goes_wrong(0.002):
            raise BufferError("queue full")
        self._queue.append(Sent(topic, key, _bytes_of(headers), value))

    def poll(self, timeout: float) -> None:
        """Some of what waits is delivered."""
        if self._queue and self._link.course.chance(0.2):
            self._link.pause("between two records")
            try:
                self._deliver(1 + self._link.course.below(len(self._queue)))
            except KafkaException as told:  # as in the client, the next call tells
                self._fatal = told.args[0].code()

    def flush(self, timeout: float) -> int:
        self._link.pause("before its records are delivered")
        if self._link.fails("flush"):
            self._link.wait(ANSWER_IS_LATE_S)
            self._deliver(self._link.course.below(len(self._queue) + 1))
            waiting, self._queue = self._queue, []
            self._link.late.append(partial(self._send, waiting))
            if waiting and self._on_delivery is not None and self._link.course.chance(0.5):
                self._on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT, "simulated"), None)
                return 0
            return len(waiting)
        self._deliver(len(self._queue))
        self._link.pause("after its records are delivered")
        return 0

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], metadata: str, timeout: float
    ) -> None:
        self._check()
        self._link.pause("before it sends offsets")
        if self._link.fails("send_offsets_to_transaction"):
            raise error(KafkaError._TIMED_OUT)
        self._begun().offsets = _committed_of(offsets)
        self._group = metadata

    def commit_transaction(self, timeout: float) -> None:
        self._check()
        self._link.pause("before it commits")
        self._deliver(len(self._queue))
        self._link.pause("after it has delivered, before it commits")
        end = partial(self._broker.end, str(self._id), self._epoch, self._group, "committed")
        if self._link.fails("commit_transaction, not carried out"):
            self._link.wait(ANSWER_IS_LATE_S)
            self._link.late.append(partial(_unless_fenced, end))
            raise error(KafkaError._TIMED_OUT)
        end()
        if self._link.fails("commit_transaction, carried out"):
            self._link.wait(ANSWER_IS_LATE_S)
            raise error(KafkaError._TIMED_OUT)
        self._link.pause("after it has committed")

    def abort_transaction(self, timeout: float) -> None:
        if self._fatal is not None:
            raise error(self._fatal)
        self._broker.end(str(self._id), self._epoch, self._group, "aborted")

    def _check(self) -> None:
        if self._fatal is not None:
            raise error(self._fatal)

    def _begun(self) -> Transaction:
        return self._broker.begin(str(self._id), self._epoch, self._timeout_s)

    def _deliver(self, count: int) -> None:
        now, self._queue = self._queue[:count], self._queue[count:]
        self._send(now)

    def _send(self, records: list[Sent]) -> None:
        transaction = None if self._id is None else self._begun()
        for record in records:
            self._broker.append(record, transaction)


class Consumer:
    """The consumer of a sink, which only keeps offsets."""

    def __init__(self, link: Link, options: dict[str, Any]) -> None:
        self._link = link
        self._group = str(options["group.id"])

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self._link.fails("committed"):
            raise error(KafkaError._TIMED_OUT)
        known = self._link.broker.committed(self._group)
        return [
            TopicPartition(
                one.topic, one.partition, *known.get((one.topic, one.partition), (-1, ""))
            )
            for one in wanted
        ]

    def consumer_group_metadata(self) -> str:
        return self._group

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if not self._link.fails("commit of offsets"):
            self._link.broker.commit(self._group, _committed_of(offsets))

    def close(self) -> None:
        pass


def _unless_fenced(request: Callable[[], None]) -> None:
    """Carry out a request that nobody waits for any more."""
    with suppress(KafkaException):
        request()


def _bytes_of(headers: list[Any] | dict[str, Any]) -> Headers:
    named = headers.items() if isinstance(headers, dict) else headers
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in named
    )


def _committed_of(places: list[TopicPartition]) -> Committed:
    return {
        (place.topic, place.partition): (place.offset, place.metadata or "") for place in places
    }
