"""An upgrade: today's driver goes on with checkpoint, log and snapshots of the first release."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, Producer

from deploy.checker import check
from deploy.history import History, Record
from deploy.recorder import addresses_of, read_records
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.verdicts import said_by
from streaming.pins import Offsets, PinLog
from streaming.topics import topic_partitions
from tests.connected.topics import reading
from tests.formats.kept import (
    copy_deployment,
    covered,
    entries_of,
    kept_history,
    read_dump,
    restore,
    told_by,
    unfinished,
)

pytestmark = [pytest.mark.connected, pytest.mark.slow, pytest.mark.patient]

SOON_S = 60.0


def publish(bootstrap: str, events: Iterable[Record]) -> None:
    """Events at the partitions, and so the offsets, that they have in a history."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for event in events:
        producer.produce(
            event.topic, event.value, event.key, event.partition, headers=list(event.headers)
        )
    assert producer.flush(SOON_S) == 0


def commit(bootstrap: str, group: str, offsets: Offsets) -> None:
    """What the former driver had committed before it died."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=topic_partitions(offsets), asynchronous=False)
    consumer.close()


def test_at_most_one_batch_is_replayed_and_at_its_pinned_epoch(tmp_path: Path) -> None:
    """The former driver died with the batch's output in a transaction that never was committed."""
    settings = StackSettings().on_free_ports()
    with Stack(tmp_path / "servers", settings, {"kafka", "valkey"}) as servers:
        bootstrap, url = servers.env["HERALD_KAFKA_BOOTSTRAP"], servers.env["HERALD_STORE_URL"]
        dump = read_dump()
        with redis.Redis.from_url(url) as client:
            restore(client, dump)
        checkpoint, _ = copy_deployment(tmp_path / "driver")
        pin = unfinished(checkpoint)
        later_event = Record(
            "events", 0, pin.end["events"][0], None, (), b'{"carrier":"UA","delay":70}'
        )
        publish(bootstrap, kept_history().events)
        commit(bootstrap, settings.query_name, pin.start)
        environment = {"HERALD_KAFKA_BOOTSTRAP": bootstrap, "HERALD_STORE_URL": url}
        with (
            reading(bootstrap, settings.notifications_topic, from_start=True) as out,
            Stack(tmp_path / "driver", settings, {"driver"}, environment) as driver,
        ):
            replayed = told_by(pin, kept_history().notifications)
            assert out.read_until(lambda seen: len(seen) >= len(replayed), SOON_S)
            publish(bootstrap, [later_event])
            assert out.read_until(lambda seen: len(seen) > len(replayed), SOON_S)
            addresses = addresses_of(driver.env, bootstrap, url)
        topics = addresses.topics.items()
        found = {kind: read_records(bootstrap, topic, []) for kind, topic in topics}
    later = PinLog(checkpoint, retained=100).find(pin.batch + 1)
    assert unfinished(checkpoint) == later, "one batch was replayed, and one is new"
    assert later is not None
    newest = entries_of(dump)[-1]
    assert (later.epoch, later.lineage, later.start) == (newest.epoch, newest.lineage, pin.end)
    of_the_batch = [one for one in found["notification"] if said_by(one).epoch == pin.epoch]
    assert told_by(pin, of_the_batch) == replayed
    verdict = check(
        History(
            events=[
                event for event in found["event"] if covered(pin, event) or event == later_event
            ],
            entries=entries_of(dump),
            pins=[pin, later],
            notifications=found["notification"],
            dead_letters=found["dead_letter"],
        )
    )
    assert verdict.holds, verdict.to_json()
    assert verdict.matches > len(replayed)
