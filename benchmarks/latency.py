"""How soon: from publishing an event to its notification, and from a write to its effect.

Both are measured with everything on one machine, clients and broker included, by one clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
from confluent_kafka import Message

from deploy.traffic import Follower, Listener, Publisher

TICK_S = 0.005
"""The pacer publishes what is due this often; finer would only burn a core."""
PROBE_EVERY = 20
"""One event in so many carries the attribute that freshness subscriptions ask for."""
NOTIFICATION_TIMEOUT_S = 20.0
DONE_TIMEOUT_S = 120.0
DONE_POLL_S = 0.1


class Pacer:
    """Publishes payloads at a steady rate in a thread, and notes when each was handed over.

    published_at    seconds since 1970, by row
    """

    def __init__(self, publisher: Publisher, payloads: Sequence[bytes], per_s: float) -> None:
        self.publisher = publisher
        self.published_at: list[float] = []
        self._payloads = payloads
        self._per_s = per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pacer", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """Publish no more; wait until the broker has acknowledged everything."""
        self._stopping.set()
        self._thread.join()
        self.publisher.flush()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._stopping.wait(TICK_S):
            due = int((time.monotonic() - started) * self._per_s)
            for row in range(len(self.published_at), due):
                self.published_at.append(time.time())
                self.publisher.publish(self._payloads[row % len(self._payloads)])
            self.publisher.send()


@dataclass
class Heard:
    """When notifications came, by the event they are about and by their subscription."""

    publisher: Publisher
    seconds: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    first: dict[str, float] = field(default_factory=dict)

    def receive(self, messages: Sequence[Message]) -> None:
        """Note the time of some notifications."""
        now = time.time()
        for message in messages:
            told = orjson.loads(message.value() or b"")
            event = told["event"]
            self.rows.append(self.publisher.row(event["partition"], event["offset"]))
            self.seconds.append(now)
            compact = told.get("subscriptions", ())
            names = [name for name, _ in compact] if compact else [told["subscription"]]
            for name in names:
                self.first.setdefault(name, now)


@dataclass(frozen=True)
class Latencies:
    """What was published and heard in all, and the seconds of those that were timed."""

    published: int
    notifications: int
    seconds: list[float]


def notification_latencies(
    environment: Mapping[str, str],
    payloads: Sequence[bytes],
    per_s: float,
    duration_s: float,
    warm_s: float,
) -> Latencies:
    """Seconds from handing an event to the client to reading its notification, one each.

    Events of the first `warm_s` seconds are published, too, and left out: a JVM that has just
    started compiles its code in competition with what it runs.
    """
    bootstrap = environment["HERALD_KAFKA_BOOTSTRAP"]
    publisher = Publisher(bootstrap, environment["HERALD_EVENTS_TOPIC"])
    heard = Heard(publisher)
    pacer = Pacer(publisher, payloads, per_s)
    with Listener(bootstrap, environment["HERALD_NOTIFICATIONS_TOPIC"], heard.receive) as listener:
        pacer.start()
        time.sleep(warm_s + duration_s)
        pacer.stop()
        _wait_done(environment, publisher)
        listener.wait_end()
    warm = int(warm_s * per_s)
    seconds = [
        second - pacer.published_at[row]
        for second, row in zip(heard.seconds, heard.rows, strict=True)
        if row >= warm
    ]
    return Latencies(publisher.published, len(heard.rows), seconds)


def _wait_done(environment: Mapping[str, str], publisher: Publisher) -> None:
    """Wait until all that was published is matched: what comes late counts, too."""
    follower = Follower(
        environment["HERALD_KAFKA_BOOTSTRAP"],
        environment["HERALD_QUERY_NAME"],
        environment["HERALD_EVENTS_TOPIC"],
        publisher.start,
    )
    deadline = time.monotonic() + DONE_TIMEOUT_S
    try:
        while follower.done() < publisher.published:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{publisher.published:,} events were not matched within {DONE_TIMEOUT_S:g} s "
                    "of the last one; the driver's log says why"
                )
            time.sleep(DONE_POLL_S)
    finally:
        follower.close()


@dataclass(frozen=True)
class Freshness:
    """Seconds from the answer 201 of a write until its epoch was live, and until it notified."""

    barrier_s: list[float]
    notification_s: list[float]


def freshness(
    environment: Mapping[str, str], payloads: Sequence[bytes], per_s: float, writes: int
) -> Freshness:
    """Register subscriptions one by one while events flow; each is deleted once it has notified."""
    bootstrap = environment["HERALD_KAFKA_BOOTSTRAP"]
    publisher = Publisher(bootstrap, environment["HERALD_EVENTS_TOPIC"])
    heard = Heard(publisher)
    pacer = Pacer(publisher, with_probes(payloads), per_s)
    base_url = f"http://{environment['HERALD_API_HOST']}:{environment['HERALD_API_PORT']}"
    found = Freshness([], [])
    with (
        httpx.Client(base_url=base_url, timeout=30, trust_env=False) as client,
        Listener(bootstrap, environment["HERALD_NOTIFICATIONS_TOPIC"], heard.receive),
    ):
        pacer.start()
        try:
            for number in range(writes):
                _write_and_wait(client, f"fresh-{number}", heard, found)
        finally:
            pacer.stop()
    return found


def with_probes(payloads: Sequence[bytes]) -> list[bytes]:
    """The payloads; every PROBE_EVERYth also has the attribute `probe`."""
    return [
        payload if row % PROBE_EVERY else payload[:-1] + b',"probe":true}'
        for row, payload in enumerate(payloads)
    ]


def _write_and_wait(client: httpx.Client, name: str, heard: Heard, found: Freshness) -> None:
    answer = client.post("/v1/subscriptions", json={"id": name, "expr": "probe = TRUE"})
    answer.raise_for_status()
    written = time.time()
    epoch: dict[str, Any] = answer.json()
    barrier = client.get("/v1/store/epoch", params={"min": epoch["epoch"], "timeout": 10})
    barrier.raise_for_status()
    found.barrier_s.append(time.time() - written)
    while name not in heard.first:
        if time.time() - written > NOTIFICATION_TIMEOUT_S:
            raise RuntimeError(f"{name} was not notified within {NOTIFICATION_TIMEOUT_S:g} s")
        time.sleep(0.002)
    found.notification_s.append(heard.first[name] - written)
    client.delete(f"/v1/subscriptions/{name}").raise_for_status()
