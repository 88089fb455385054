"""One event that very many subscriptions match, told of in many small transactions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.settings import StackSettings
from deploy.stack import Stack
from store import StoreSettings, SubscriptionStore, open_store
from store.base import OPERATIONS_MAX, Put
from store.records import Mode
from streaming.positions import Mark
from tests.connected.test_streaming import wait_live
from tests.connected.topics import Message, Publisher, reading
from tests.streaming.records import equals, subscription

pytestmark = [pytest.mark.connected, pytest.mark.slow, pytest.mark.patient]

SUBSCRIPTIONS = 200_000
COMPACT = 20_000
TRANSACTION_BYTES = 8_000_000
SOON_S = 240.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A driver that dies once, after its second transaction of a batch."""
    settings = StackSettings().on_free_ports()
    environment = {
        "HERALD_TRANSACTION_BYTES_MAX": str(TRANSACTION_BYTES),
        "HERALD_FAILPOINTS": "pass.committed=kill@2!",
    }
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, settings, {"kafka", "valkey", "driver"}, environment) as running:
        yield running


def subscribe(store: SubscriptionStore) -> int:
    epoch = 0
    for first in range(0, SUBSCRIPTIONS, OPERATIONS_MAX):
        records = [
            subscription(
                f"s{number:06d}",
                equals("a", 1),
                mode=Mode.COMPACT if number < COMPACT else Mode.THIN,
            )
            for number in range(first, first + OPERATIONS_MAX)
        ]
        epoch = store.write([Put(record) for record in records]).epoch
    return epoch


def committed(stack: Stack) -> list[TopicPartition]:
    consumer = Consumer(
        {"bootstrap.servers": stack.env["HERALD_KAFKA_BOOTSTRAP"], "group.id": "herald"}
    )
    try:
        events = stack.env["HERALD_EVENTS_TOPIC"]
        asked = [TopicPartition(events, number) for number in (0, 1)]
        return list(consumer.committed(asked, timeout=30))
    finally:
        consumer.close()


def test_every_subscription_is_told_once_though_the_driver_dies_within_the_event(
    stack: Stack,
) -> None:
    bootstrap = stack.env["HERALD_KAFKA_BOOTSTRAP"]
    with open_store(StoreSettings(url=stack.env["HERALD_STORE_URL"])) as store:
        wait_live(store, subscribe(store), timeout_s=SOON_S)
    publisher = Publisher(bootstrap, stack.env["HERALD_EVENTS_TOPIC"])
    told: Counter[str] = Counter()
    with reading(bootstrap, "notifications") as out:
        publisher.publish(b'{"a":1}', key=b"crowd")
        publisher.publish(b'{"a":2}', key=b"crowd")
        publisher.flush()
        deadline = time.monotonic() + SOON_S
        while stack.exit_code("driver") is None:
            assert time.monotonic() < deadline, "the driver did not come to its second pass"
            time.sleep(0.1)
        ((_, first),) = sorted(publisher.places)[:1]
        (halfway,) = (one for one in committed(stack) if one.metadata)
        mark = Mark.decode(halfway.metadata)
        assert mark is not None
        assert halfway.offset == first, "consumer lag counts the event that is told of in part"
        assert 0 < mark.part < mark.parts
        stack.restart("driver")
        ids: Counter[str] = Counter()
        while sum(told.values()) < SUBSCRIPTIONS:
            assert out.read_until(len, SOON_S), f"only {sum(told.values())} were told"
            note(out.messages, told, ids)
        out.read_for(2)
        note(out.messages, told, ids)
    assert set(told) == {f"s{number:06d}" for number in range(SUBSCRIPTIONS)}
    assert max(told.values()) == 1
    assert max(ids.values()) == 1
    assert not any(one.metadata for one in committed(stack))
    assert stack.dead_services() == []


def note(messages: list[Message], told: Counter[str], ids: Counter[str]) -> None:
    """Take messages in, and forget them."""
    for message in messages:
        value = orjson.loads(message.value)
        named = value.get("subscriptions") or [[value["subscription"], value["revision"]]]
        told.update(name for name, _ in named)
        ids[message.id] += 1
    messages.clear()
