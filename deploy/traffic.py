"""What demo and benchmarks do with a running stack: register, publish, follow, hear of matches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self

import httpx
import orjson
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from streaming.patience import patiently

ADMIN_TIMEOUT_S = 20.0
CONSUME_MESSAGES = 5_000
CONSUME_TIMEOUT_S = 0.1
END_TIMEOUT_S = 60.0
QUEUE_MESSAGES = 200_000
LINES_PER_REQUEST = 5_000
REQUEST_TIMEOUT_S = 120.0
BARRIER_TIMEOUT_S = 60.0
"""How long one request waits for an epoch."""


class Publisher:
    """Writes payloads to a topic, spread evenly over its partitions.

    Row r of what is published goes to partition r mod p, at the offset `start[partition] + r // p`:
    the only writer of a topic knows each event's address without waiting for reports.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": QUEUE_MESSAGES,
            }
        )
        self.start = end_offsets(bootstrap, topic)
        self.published = 0

    def publish(self, payload: bytes) -> None:
        """Hand one event to the client; waits while its queue is full."""
        partition = self.published % len(self.start)
        while True:
            try:
                self._producer.produce(
                    self._topic, payload, partition=partition, on_delivery=self._delivered
                )
                break
            except BufferError:
                self._producer.poll(0.05)
        self.published += 1
        if self.published % 1_000 == 0:
            self.send()

    def send(self) -> None:
        """Let the client tell of what was delivered; call it now and then."""
        self._producer.poll(0)

    def row(self, partition: int, offset: int) -> int:
        """Which of the events published here lies at this address."""
        return (offset - self.start[partition]) * len(self.start) + partition

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything; RuntimeError if it refused any."""
        left = self._producer.flush(60)
        if left or self._failed:
            reason = self._failed[0] if self._failed else "no answer from the broker in 60 s"
            raise RuntimeError(f"{left or len(self._failed):,} events were not published: {reason}")

    def close(self) -> None:
        """Leave the broker; it must still be there, or the client complains on the terminal."""
        self._producer.close()

    def _delivered(self, error: object, _: Message) -> None:
        if error is not None:
            self._failed.append(str(error))


class Follower:
    """Tells how far a streaming query has come, by the offsets it committed to its group."""

    def __init__(self, bootstrap: str, group: str, topic: str, start: Sequence[int]) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        self._topic = topic
        self._start = start

    def done(self) -> int:
        """Events since `start` whose matches are committed."""
        asked = [TopicPartition(self._topic, number) for number in range(len(self._start))]
        try:
            answers = patiently(
                lambda: self._consumer.committed(asked, timeout=ADMIN_TIMEOUT_S), ADMIN_TIMEOUT_S
            )
        except KafkaException as error:
            raise RuntimeError(f"the committed offsets cannot be read: {error}") from None
        return sum(
            max(0, answer.offset - start)
            for answer, start in zip(answers, self._start, strict=True)
            if answer.offset != OFFSET_INVALID
        )

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


class Listener:
    """Reads committed records of a topic, from its present end on, in a thread of its own."""

    def __init__(
        self, bootstrap: str, topic: str, receive: Callable[[Sequence[Message]], None]
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"herald-listener-{time.time_ns()}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "fetch.min.bytes": 1,
            }
        )
        self._bootstrap, self._topic = bootstrap, topic
        self._receive = receive
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._ends: dict[int, int] = {}
        self._consumer.assign(
            [
                TopicPartition(topic, partition, offset)
                for partition, offset in enumerate(end_offsets(bootstrap, topic))
            ]
        )
        self._thread = threading.Thread(target=self._run, name=f"listener-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def wait_end(self) -> None:
        """Wait until all that is in the topic now was heard; raises what stopped the listener.

        A record may be there and not be readable yet: a transaction is committed in the partitions
        of its offsets and of its records one after the other.
        """
        wanted = end_offsets(self._bootstrap, self._topic)
        deadline = time.monotonic() + END_TIMEOUT_S
        while any(self._ends.get(part, -1) < end for part, end in enumerate(wanted) if end):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self._topic} ends at {wanted}, but was read to {self._ends} only: "
                    "is a transaction still open?"
                )
            time.sleep(0.02)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                messages = self._consumer.consume(CONSUME_MESSAGES, CONSUME_TIMEOUT_S)
                good = [message for message in messages if message.error() is None]
                if good:
                    self._receive(good)
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        self._ends[message.partition() or 0] = message.offset() or 0
        except BaseException as failure:  # told to whoever waits
            self._failure = failure


class Registrar:
    """Registers subscriptions over REST, many lines a request."""

    def __init__(self, base_url: str) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=REQUEST_TIMEOUT_S, trust_env=False)

    def register(self, forms: Iterable[dict[str, Any]]) -> Iterator[int]:
        """Register forms {"id", "expr" or "filter", ...}; yields how many are accepted so far.

        RuntimeError on the first line that is refused.
        """
        lines = iter(forms)
        accepted = 0
        while chunk := list(islice(lines, LINES_PER_REQUEST)):
            told = post_batch(self._client, chunk)
            refused = [line for line in told if line.get("status") not in (200, 201)]
            if refused or len(told) != len(chunk):
                raise RuntimeError(f"a subscription was refused: {refused[:1] or told[-1:]}")
            accepted += len(chunk)
            yield accepted

    def wait_live(self, timeout_s: float = 120.0) -> int:
        """Wait until the newest epoch is live in every query; returns it."""
        newest = self._get("/v1/store/epoch", {})["epoch"]
        deadline = time.monotonic() + timeout_s
        while True:
            left = min(BARRIER_TIMEOUT_S, max(0.0, deadline - time.monotonic()))
            try:
                return int(self._get("/v1/store/epoch", {"min": newest, "timeout": left})["epoch"])
            except httpx.HTTPStatusError as error:
                is_late = error.response.status_code == httpx.codes.GATEWAY_TIMEOUT
                if not is_late or time.monotonic() >= deadline:
                    raise

    def _get(self, path: str, parameters: dict[str, float]) -> dict[str, Any]:
        answer = self._client.get(path, params=parameters, timeout=REQUEST_TIMEOUT_S * 2)
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def post_batch(client: httpx.Client, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the API answers to each line of one request; httpx.HTTPStatusError if it took none."""
    answer = client.post(
        "/v1/subscriptions:batch",
        content=b"\n".join(map(orjson.dumps, lines)),
        headers={"content-type": "application/x-ndjson"},
    )
    answer.raise_for_status()
    return [orjson.loads(line) for line in answer.content.splitlines()]


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    """The offset after the last record of each partition, be it committed or not."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "herald-offsets",
            "isolation.level": "read_uncommitted",
        }
    )

    def ask() -> list[int]:
        partitions = consumer.list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic].partitions
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), ADMIN_TIMEOUT_S)[1]
            for number in sorted(partitions)
        ]

    try:
        return patiently(ask, ADMIN_TIMEOUT_S)
    finally:
        consumer.close()
