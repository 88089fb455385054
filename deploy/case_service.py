"""Cases told to the running service: REST for writes, Kafka for events and what becomes of them.

    write     POST, PUT or DELETE, then the barrier: the newest epoch is live in every query
    publish   the events, then one sentinel event to each partition. When the sentinels have been
              notified, everything before them has been, too: read on to the ends of the topics.

Which event a notification or a dead letter is about is told by its origin, so it does no harm that
the events of one case may match subscriptions of another, or of somebody else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, cast
from uuid import uuid4

import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from deploy.cases import ACCEPTED, DEAD_LETTER, REFUSED, Outcome, Publication, Write
from deploy.environment import UserError, state_dir
from deploy.state import read_state

SENTINEL = "herald_cases_sentinel"
BARRIER_S = 5
ANSWER_S = 120
"""How long the events of one step may take to come back."""

Headers = Sequence[tuple[str, str | bytes | None]]
_REFUSED_STATUS = {400, 413, 422}


class Origin(NamedTuple):
    """Where an event lies in Kafka."""

    topic: str
    partition: int
    offset: int


class Addresses(NamedTuple):
    """Where the service is."""

    api: str
    api_key: str
    kafka: str
    events: str
    notifications: str
    dead_letters: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Addresses:
        """The addresses that the settings name; what is not set has the services' defaults."""
        get = environment.get
        return cls(
            f"http://{get('HERALD_API_HOST', '127.0.0.1')}:{get('HERALD_API_PORT', '8080')}",
            get("HERALD_API_KEY", ""),
            get("HERALD_KAFKA_BOOTSTRAP", "127.0.0.1:9092"),
            get("HERALD_EVENTS_TOPIC", "events"),
            get("HERALD_NOTIFICATIONS_TOPIC", "notifications"),
            get("HERALD_DEAD_LETTERS_TOPIC", "dead-letters"),
        )


def service_environment() -> dict[str, str]:
    """What this process's environment says of the service, and else the stack that runs here."""
    state = read_state(state_dir())
    return {**(state.environment if state else {}), **os.environ}


@contextmanager
def service_target(environment: Mapping[str, str]) -> Iterator[ServiceTarget]:
    """The service that the environment names; its subscriptions are as before, afterwards."""
    addresses = Addresses.of(environment)
    headers = {"Authorization": f"Bearer {addresses.api_key}"} if addresses.api_key else {}
    with httpx.Client(base_url=addresses.api, headers=headers, timeout=30) as http:
        target = ServiceTarget(addresses, http)
        try:
            target.open()
            yield target
        except httpx.TransportError as error:
            hint = "./herald up starts one"
            raise UserError(f"no service at {addresses.api} ({error}); {hint}") from None
        except KafkaException as error:
            raise UserError(f"Kafka at {addresses.kafka} does not answer: {error}") from None
        finally:
            target.close()


class ServiceTarget:
    """The running service, as a subscriber and a publisher see it."""

    name = "service"

    def __init__(self, addresses: Addresses, http: httpx.Client) -> None:
        self._addresses = addresses
        self._http = http
        self._registered: set[str] = set()
        self._sentinel_id = f"cases-{uuid4().hex[:12]}"
        self._producer = Producer({"bootstrap.servers": addresses.kafka, "acks": "all"})
        self._outputs = OutputReader(addresses)

    def open(self) -> None:
        """Begin to listen, and subscribe to the sentinels."""
        self._outputs.open()
        self._put(self._sentinel_id, {"expr": f"EXISTS {SENTINEL}"})
        self._wait_live()

    def close(self) -> None:
        """Take back every subscription, and stop listening."""
        with suppress(httpx.TransportError):
            for subscription_id in sorted(self._registered):
                self._send_http("DELETE", f"/v1/subscriptions/{subscription_id}")
        self._outputs.close()

    def write(self, writes: Sequence[Write]) -> list[str]:
        """Apply the writes in order, then wait until they are live in the streaming query."""
        outcomes = [
            self._delete(write.id) if write.form is None else self._put(write.id, write.form)
            for write in writes
        ]
        self._wait_live()
        return outcomes

    def publish(self, publications: Sequence[Publication]) -> list[Outcome]:
        """Publish events and sentinels, and collect what is said of the events."""
        topic = self._addresses.events
        partitions = sorted(self._producer.list_topics(topic, timeout=10).topics[topic].partitions)
        payloads = [publication.payload for publication in publications]
        origins = self._send(
            [(payload, partitions[row % len(partitions)]) for row, payload in enumerate(payloads)]
        )
        mark = f'{{"{SENTINEL}": true}}'.encode()
        sentinels = self._send([(mark, partition) for partition in partitions])
        self._outputs.read_past({(self._sentinel_id, sentinel) for sentinel in sentinels})
        return [self._outputs.outcome(origin) for origin in origins]

    def _send(self, events: list[tuple[bytes, int]]) -> list[Origin]:
        origins: dict[int, Origin] = {}
        for row, (payload, partition) in enumerate(events):

            def delivered(error: KafkaError | None, message: Message, row: int = row) -> None:
                if error is not None:
                    raise KafkaException(error)
                origins[row] = origin_of(message)

            self._producer.produce(
                self._addresses.events, payload, partition=partition, on_delivery=delivered
            )
        if self._producer.flush(30):
            raise UserError(f"Kafka at {self._addresses.kafka} did not take the events in 30 s")
        return [origins[row] for row in range(len(events))]

    def _put(self, subscription_id: str, form: dict[str, Any]) -> str:
        body = {"id": subscription_id} | {
            key: form[key] for key in ("expr", "filter") if key in form
        }
        if subscription_id in self._registered:
            response = self._send_http("PUT", f"/v1/subscriptions/{subscription_id}", body)
        else:
            response = self._send_http("POST", "/v1/subscriptions", body)
        if response.status_code in _REFUSED_STATUS:
            return REFUSED
        if not response.is_success:
            raise UserError(f"{response.request.method} {subscription_id}: {_told(response)}")
        self._registered.add(subscription_id)
        return ACCEPTED

    def _delete(self, subscription_id: str) -> str:
        response = self._send_http("DELETE", f"/v1/subscriptions/{subscription_id}")
        self._registered.discard(subscription_id)
        return ACCEPTED if response.is_success else f"HTTP {response.status_code}"

    def _send_http(self, method: str, path: str, body: object = None) -> httpx.Response:
        """One request, sent again for as long as the tenant's rate limit asks for patience."""
        while True:
            response = self._http.request(method, path, json=body)
            patience = response.headers.get("Retry-After")
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS or patience is None:
                return response
            time.sleep(float(patience))

    def _wait_live(self) -> None:
        """The barrier: every live query has taken in the newest epoch."""
        deadline = time.monotonic() + ANSWER_S
        newest = self._http.get("/v1/store/epoch").json()["epoch"]
        while True:
            response = self._http.get(
                "/v1/store/epoch", params={"min": newest, "timeout": BARRIER_S}
            )
            if response.is_success:
                return
            if time.monotonic() > deadline:
                raise UserError(f"epoch {newest} did not become live: {_told(response)}")


class OutputReader:
    """What the service says from the time of `open`: who was told of an event, and dead letters."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        settings = {
            "bootstrap.servers": addresses.kafka,
            "group.id": f"herald-cases-{uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        self._consumer = Consumer({**settings, "isolation.level": "read_committed"})
        self._ends = Consumer({**settings, "isolation.level": "read_uncommitted"})
        self._partitions: list[TopicPartition] = []
        self._read_to: dict[tuple[str, int], int] = {}
        self._told: set[tuple[str, Origin]] = set()
        self._dead: set[Origin] = set()

    def open(self) -> None:
        """Start at the present ends of both topics."""
        for topic in (self._addresses.notifications, self._addresses.dead_letters):
            for partition in self._ends.list_topics(topic, timeout=10).topics[topic].partitions:
                self._partitions.append(TopicPartition(topic, partition))
        ends = self._present_ends()
        self._consumer.assign([TopicPartition(*place, end) for place, end in ends.items()])

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()
        self._ends.close()

    def outcome(self, origin: Origin) -> Outcome:
        """What has been said of one event."""
        if origin in self._dead:
            return DEAD_LETTER
        return frozenset(told for told, where in self._told if where == origin)

    def read_past(self, sentinels: set[tuple[str, Origin]]) -> None:
        """Read until the sentinels have been notified, then to where the topics end by then."""
        deadline = time.monotonic() + ANSWER_S
        while not sentinels <= self._told:
            self._poll(deadline)
        ends = self._present_ends()
        while any(self._read_to.get(place, 0) < end for place, end in ends.items()):
            self._poll(deadline)

    def _present_ends(self) -> dict[tuple[str, int], int]:
        return {
            (one.topic, one.partition): self._ends.get_watermark_offsets(one, timeout=10)[1]
            for one in self._partitions
        }

    def _poll(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise UserError(f"events did not come back within {ANSWER_S} s: is the query running?")
        message = self._consumer.poll(1)
        if message is None:
            return
        error = message.error()
        topic, partition, offset = origin_of(message)
        if error is None:
            self._read_to[topic, partition] = offset + 1
            self._note(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # Control records are never delivered; only the end of a partition tells of them.
            self._read_to[topic, partition] = max(self._read_to.get((topic, partition), 0), offset)
        else:
            raise KafkaException(error)

    def _note(self, message: Message) -> None:
        if message.topic() == self._addresses.dead_letters:
            self._dead.add(origin_of_dead_letter(message))
        else:
            told = json.loads(message.value() or b"")
            event = told["event"]
            origin = Origin(event["topic"], event["partition"], event["offset"])
            self._told.add((told["subscription"], origin))


def origin_of(message: Message) -> Origin:
    """Where a message itself lies."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    return Origin(topic, partition, offset)


def origin_of_dead_letter(message: Message) -> Origin:
    """Where the event lies that became a dead letter."""
    headers = {name: _text(value) for name, value in cast(Headers, message.headers() or ())}
    return Origin(
        headers["herald_topic"], int(headers["herald_partition"]), int(headers["herald_offset"])
    )


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _told(response: httpx.Response) -> str:
    return f"HTTP {response.status_code} {response.text[:300]}"
