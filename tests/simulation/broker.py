"""Broker: topics, transactions and consumer groups of a Kafka that lives in memory.

What a record's transaction came to is kept in the transaction, so that the records of an aborted
one keep their offsets and are never seen, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException

from deploy.history import Record

FENCED_CODES = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
Headers = tuple[tuple[str, bytes | None], ...]


Committed = dict[tuple[str, int], tuple[int, str]]
"""Topic and partition -> offset and metadata."""


class Sent(NamedTuple):
    """A record on its way."""

    topic: str
    key: bytes | None
    headers: Headers
    value: bytes | None


@dataclass(slots=True)
class Transaction:
    """What one producer writes together. `fate` is open, committed or aborted."""

    began_s: float
    timeout_s: float
    fate: str = "open"
    offsets: Committed = field(default_factory=dict)


class Kept(NamedTuple):
    """A record in its partition."""

    record: Record
    transaction: Transaction | None


@dataclass(slots=True)
class Coordinated:
    """What the coordinator knows of a transactional id: the epoch of its newest producer."""

    epoch: int = 0
    transaction: Transaction | None = None


def error(code: int, words: str = "simulated") -> KafkaException:
    """An error as the client raises it."""
    return KafkaException(KafkaError(code, words))


class Broker:
    """One cluster; `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float], partitions: Mapping[str, int]) -> None:
        self._clock = clock
        self._topics: dict[str, list[list[Kept]]] = {
            topic: [[] for _ in range(count)] for topic, count in partitions.items()
        }
        self._coordinated: dict[str, Coordinated] = {}
        self._groups: dict[str, Committed] = {}

    def append(self, sent: Sent, transaction: Transaction | None = None) -> Record:
        """Write a record to the partition of its key."""
        partitions = self._topics[sent.topic]
        number = crc32(sent.key or b"") % len(partitions)
        offset = len(partitions[number])
        record = Record(sent.topic, number, offset, sent.key, sent.headers, sent.value)
        partitions[number].append(Kept(record, transaction))
        return record

    def visible(self, topic: str) -> list[Record]:
        """What a read_committed consumer sees, partition by partition."""
        seen = []
        for partition in self._topics[topic]:
            for kept in partition:
                fate = "committed" if kept.transaction is None else kept.transaction.fate
                if fate == "open":
                    break
                if fate == "committed":
                    seen.append(kept.record)
        return seen

    def between(self, topic: str, partition: int, start: int, stop: int) -> list[Record]:
        """Records of a topic that knows no transactions."""
        return [kept.record for kept in self._topics[topic][partition][start:stop]]

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition."""
        return {number: len(kept) for number, kept in enumerate(self._topics[topic])}

    def counts(self, topics: tuple[str, ...]) -> dict[str, int]:
        """How many partitions topics have."""
        return {topic: len(self._topics[topic]) for topic in topics}

    def committed(self, group: str) -> Committed:
        """The offsets of a consumer group."""
        return self._groups.setdefault(group, {})

    def commit(self, group: str, offsets: Committed) -> None:
        """Move the offsets of a consumer group."""
        self.committed(group).update(offsets)

    def init_producer(self, transactional_id: str) -> int:
        """A new epoch for a transactional id, which fences older ones; aborts what they left."""
        known = self._coordinated.setdefault(transactional_id, Coordinated())
        if known.transaction is not None:
            self._end(known, "aborted")
        known.epoch += 1
        return known.epoch

    def begin(self, transactional_id: str, epoch: int, timeout_s: float) -> Transaction:
        """The open transaction of a producer; an error if a newer one has fenced it."""
        known = self._checked(transactional_id, epoch)
        if known.transaction is None:
            known.transaction = Transaction(self._clock(), timeout_s)
        return known.transaction

    def end(self, transactional_id: str, epoch: int, group: str, fate: str) -> None:
        """Commit or abort the open transaction of a producer, with the offsets sent into it."""
        known = self._checked(transactional_id, epoch)
        if known.transaction is not None:
            if fate == "committed":
                self.commit(group, known.transaction.offsets)
            self._end(known, fate)

    def expire(self) -> None:
        """Abort transactions that took too long, and fence their producers."""
        for known in self._coordinated.values():
            open_one = known.transaction
            if open_one is not None and self._clock() - open_one.began_s > open_one.timeout_s:
                self._end(known, "aborted")
                known.epoch += 1

    def _end(self, known: Coordinated, fate: str) -> None:
        assert known.transaction is not None, "one is open"
        known.transaction.fate, known.transaction = fate, None

    def _checked(self, transactional_id: str, epoch: int) -> Coordinated:
        known = self._coordinated[transactional_id]
        if known.epoch != epoch:
            raise error(FENCED_CODES[known.epoch % len(FENCED_CODES)])
        return known
