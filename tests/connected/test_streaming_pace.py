"""A running query that is started again under load: for its limit, and for a short queue's sake."""

from __future__ import annotations

import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.settings import StackSettings
from deploy.stack import Stack
from store import StoreSettings, open_store
from store.base import Put
from streaming.limit import load_limit, save_limit
from tests.connected.test_streaming import SOON_S, wait_live
from tests.connected.topics import Message, Publisher, reading
from tests.streaming.records import equals, subscription

pytestmark = [pytest.mark.connected, pytest.mark.slow]

FIRST = 500
HOT, COLD = 20_000, 60
DELIVERIES = ("exactly_once", "at_least_once")


@pytest.fixture(params=DELIVERIES)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    """One that takes its events for more costly than they are, and whose driver waits for them."""
    environment = {"HERALD_DELIVERY": request.param}
    settings = StackSettings().on_free_ports()
    with Stack(tmp_path, settings, {"kafka", "valkey", "driver"}, environment) as running:
        running.stop_service("driver")
        save_limit(checkpoint(running), FIRST)
        yield running


def checkpoint(stack: Stack) -> Path:
    return Path(stack.env["HERALD_CHECKPOINT_DIR"])


def metrics(stack: Stack) -> dict[str, dict[str, float]]:
    """name -> labels' values -> value"""
    url = f"http://127.0.0.1:{stack.settings.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found: dict[str, dict[str, float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, {})["/".join(sample.labels.values())] = sample.value
    return found


def in_order(messages: list[Message]) -> bool:
    """Whether each subscription's notifications follow the offsets of a partition."""
    seen: dict[tuple[bytes | None, int], int] = {}
    for message in messages:
        partition, offset = message.place
        if seen.get((message.key, partition), -1) >= offset:
            return False
        seen[message.key, partition] = offset
    return True


def test_nothing_is_lost_or_told_twice_while_the_query_starts_again(stack: Stack) -> None:
    bootstrap = stack.env["HERALD_KAFKA_BOOTSTRAP"]
    with open_store(StoreSettings(url=stack.env["HERALD_STORE_URL"])) as store:
        written = store.write([Put(subscription("all", equals("k", 1)))])
        publisher = Publisher(bootstrap, stack.env["HERALD_EVENTS_TOPIC"])
        for _ in range(HOT):
            publisher.publish(b'{"k":1}', partition=0)
        publisher.flush()
        with reading(bootstrap, "notifications") as out:
            stack.restart("driver")
            wait_live(store, written.epoch)
            for _ in range(COLD):
                publisher.publish(b'{"k":1}', partition=1)
            publisher.flush()
            assert out.read_until(lambda seen: len(seen) >= HOT + COLD, 2 * SOON_S)
            out.read_for(2)
    assert Counter(message.place for message in out.messages) == Counter(publisher.places)
    assert in_order(out.messages)
    found = metrics(stack)
    assert sum(found["herald_replans_total"].values()) >= 1
    assert found["herald_restart_seconds_count"][""] >= 1
    assert found["herald_batch_limit"][""] == load_limit(checkpoint(stack)) > FIRST
    assert stack.dead_services() == []
    await_no_lag(stack)


def await_no_lag(stack: Stack) -> None:
    """The gauge comes down to what waits, in every partition."""
    deadline = time.monotonic() + 10
    while metrics(stack)["herald_consumer_lag"] != {"0/events": 0.0, "1/events": 0.0}:
        assert time.monotonic() < deadline
        time.sleep(0.2)
