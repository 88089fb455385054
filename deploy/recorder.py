"""The recorder: follows a stack that runs, and writes its history for the checker.

    log of writes    followed by a thread, as a reader for whom the store keeps all entries
    pins             looked for several times a second, since only the newest ones are kept
    writes           told by whoever writes, as they are acknowledged
    topics           read afterwards, as a consumer of committed records sees them

A run is judged window by window. A window begins and ends where the query has done everything, so
what belongs to it are the records and pins that came meanwhile, and all entries up to then.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from deploy.history import Acknowledged, History, Record
from deploy.pin_watch import PinWatch
from deploy.traffic import end_offsets
from store import StoreSettings, SubscriptionStore, open_store
from store.base import LogEntry
from store.errors import EpochWentBackError, StoreError
from streaming.pins import Pin, instant_now

POLL_S = 0.2
BLOCK_MS = 200
RETRY_S = 0.2
READ_TIMEOUT_S = 60.0
CONSUME_MESSAGES = 5_000
READER = "recorder"


@dataclass(frozen=True)
class Addresses:
    """Where a stack is to be recorded: the servers themselves, not a proxy before them."""

    bootstrap: str
    store_url: str
    events: str
    notifications: str
    dead_letters: str

    @property
    def topics(self) -> dict[str, str]:
        """The topics by the kind of their records in a history."""
        return {
            "event": self.events,
            "notification": self.notifications,
            "dead_letter": self.dead_letters,
        }


@dataclass
class Window:
    """Where a window begins: in each topic, among the pins and among the writes."""

    offsets: dict[str, list[int]]
    pin: int
    write: int


class Recorder:
    """Follows one stack's log and pins; a context manager."""

    def __init__(self, addresses: Addresses, checkpoints: Iterable[Path]) -> None:
        self._addresses = addresses
        self._watch = PinWatch(checkpoints)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guard, args=[step], name=f"recorder-{name}", daemon=True)
            for name, step in {"log": self._follow_log, "pins": self._follow_pins}.items()
        ]
        self.entries: list[LogEntry] = []
        self.pins: list[Pin] = []
        self.writes: list[Acknowledged] = []

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
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def epoch(self) -> int:
        """The newest epoch recorded."""
        return self.entries[-1].epoch if self.entries else 0

    def follow(self, checkpoint: Path) -> None:
        """Record the pins of another driver, too."""
        with self._lock:
            self._watch.follow(checkpoint)

    def acknowledge(self, epoch: int) -> None:
        """A write was acknowledged just now."""
        self.writes.append(Acknowledged(epoch, instant_now(time.time_ns())))

    def await_epoch(self, epoch: int, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Wait until all entries up to an epoch are recorded; RuntimeError if they do not come."""
        deadline = time.monotonic() + timeout_s
        while self.epoch < epoch:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the log was recorded to epoch {self.epoch}, not to {epoch}")
            time.sleep(POLL_S / 4)

    def begin(self) -> Window:
        """Begin a window here."""
        self._poll_pins()
        offsets = {
            topic: end_offsets(self._addresses.bootstrap, topic)
            for topic in self._addresses.topics.values()
        }
        return Window(offsets, len(self.pins), len(self.writes))

    def end(self, window: Window, delivery: str) -> History:
        """The history of a window that ends here."""
        self._poll_pins()
        self._raise_failure()
        history = History(delivery)
        kept = {
            "event": history.events,
            "notification": history.notifications,
            "dead_letter": history.dead_letters,
        }
        for kind, topic in self._addresses.topics.items():
            kept[kind].extend(self.read(topic, window.offsets[topic]))
        history.entries = list(self.entries)
        history.pins = self.pins[window.pin :]
        history.writes = self.writes[window.write :]
        return history

    def read(self, topic: str, start: list[int]) -> list[Record]:
        """The committed records of a topic from some offsets to its present end."""
        return read_records(self._addresses.bootstrap, topic, start)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"the recorder ended: {self._failure!r}") from self._failure

    def _guard(self, step: Any) -> None:
        try:
            while not self._stopping.is_set():
                step()
        except BaseException as failure:  # told to whoever asks for the history
            self._failure = failure

    def _follow_log(self) -> None:
        try:
            with open_store(StoreSettings(url=self._addresses.store_url)) as store:
                while not self._stopping.is_set():
                    store.report_reader(READER, self.epoch, 0)
                    self._read_log(store)
        except StoreError:
            self._stopping.wait(RETRY_S)

    def _read_log(self, store: SubscriptionStore) -> None:
        newest = self.entries[-1] if self.entries else None
        lineage = newest.lineage if newest else None
        try:
            self.entries += store.read_since(self.epoch, block_ms=BLOCK_MS, lineage=lineage)
        except EpochWentBackError:
            self.entries += self._from_common_entry(store)

    def _from_common_entry(self, store: SubscriptionStore) -> list[LogEntry]:
        """The entries after the last one that the store still has."""
        for entry in reversed(self.entries):
            try:
                return store.read_since(entry.epoch, lineage=entry.lineage)
            except EpochWentBackError:
                continue
        return store.read_since(0)

    def _follow_pins(self) -> None:
        self._poll_pins()
        self._stopping.wait(POLL_S)

    def _poll_pins(self) -> None:
        """Record pins that are new or have been replaced, in the order they were written."""
        with self._lock:
            for pin in self._watch.poll():
                if pin not in self.pins[-2_000:]:  # a checkpoint that was restored brings old ones
                    self.pins.append(pin)


def read_records(bootstrap: str, topic: str, start: list[int]) -> list[Record]:
    """The committed records from some offsets to the present end, partition by partition.

    Partitions beyond those of `start` are read from their beginning.
    """
    ends = end_offsets(bootstrap, topic)
    begin = [*start, *[0] * (len(ends) - len(start))]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"herald-recorder-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    records: list[Record] = []
    reached: dict[int, int] = dict(enumerate(begin))
    try:
        consumer.assign([TopicPartition(topic, part, at) for part, at in enumerate(begin)])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while any(reached[part] < end for part, end in enumerate(ends)):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{topic} ends at {ends}, but was read to {reached} only: "
                    "is a transaction still open?"
                )
            for message in consumer.consume(CONSUME_MESSAGES, POLL_S):
                _take(message, records, reached)
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _take(message: Any, records: list[Record], reached: dict[int, int]) -> None:
    error, partition = message.error(), message.partition()
    if error is None:
        records.append(record_of(message))
        reached[partition] = message.offset() + 1
    elif error.code() == KafkaError._PARTITION_EOF:
        reached[partition] = max(reached[partition], message.offset())
    elif not error.retriable():
        raise KafkaException(error)


def record_of(message: Any) -> Record:
    """A message as a history has it."""
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        headers,
        message.value(),
    )


def addresses_of(environment: Mapping[str, str], bootstrap: str, store_url: str) -> Addresses:
    """The addresses of a stack with this environment, at servers that are asked directly."""
    return Addresses(
        bootstrap,
        store_url,
        environment["HERALD_EVENTS_TOPIC"],
        environment["HERALD_NOTIFICATIONS_TOPIC"],
        environment["HERALD_DEAD_LETTERS_TOPIC"],
    )
