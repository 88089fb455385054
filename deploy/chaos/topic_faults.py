"""Faults of the topic of events: 15."""

from __future__ import annotations

import shutil
import time
from random import Random

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    NewPartitions,
    NewTopic,
)

from deploy.broker import admin
from deploy.chaos.faults import fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.world import World
from deploy.traffic import end_offsets

ADMIN_TIMEOUT_S = 30.0
GONE_S = 3.0


@fault(
    15,
    "partitions added",
    "the topic of events gets one partition more under load",
    "events of the new partition are matched",
    seconds=20,
)
def add_partition(world: World, random: Random) -> None:
    """Publishers and the query learn of it by themselves."""
    count = len(end_offsets(world.bootstrap, world.events_topic))
    client = admin(world.bootstrap)
    wanted = NewPartitions(world.events_topic, count + 1)
    for future in client.create_partitions([wanted]).values():
        future.result(ADMIN_TIMEOUT_S)
    await_true(
        lambda: (
            len(ends := end_offsets(world.bootstrap, world.events_topic)) > count
            and ends[count] > 0
        ),
        "no event has come to the new partition",
    )
    time.sleep(1)
    world.healed()
    world.await_recovery()


@fault(
    15,
    "unread events deleted",
    "retention takes half of what was published while the driver was down",
    "the query ends and names the topic; without group and checkpoint it begins with what is left",
    seconds=80,
)
def delete_unread(world: World, random: Random) -> None:
    """Nobody can tell any more whom these events concerned, and nobody may pass over that."""
    world.drain()
    world.stack.stop_service("driver")
    world.begin_window()
    before = end_offsets(world.bootstrap, world.events_topic)
    world.run_load(GONE_S)
    world.load.pause()
    ends = end_offsets(world.bootstrap, world.events_topic)
    lows = [(start + end) // 2 for start, end in zip(before, ends, strict=True)]
    places = [TopicPartition(world.events_topic, part, low) for part, low in enumerate(lows)]
    client = admin(world.bootstrap)  # the outcomes never come when it is collected before them
    for future in client.delete_records(places).values():
        future.result(ADMIN_TIMEOUT_S)
    world.load.acknowledged_events = [
        place for place in world.load.acknowledged_events if place.offset >= lows[place.partition]
    ]
    world.load.go()
    refuses(world)
    start_over(world)


@fault(
    15,
    "topic made anew",
    "the topic of events is deleted and created again while the driver is down",
    "the driver refuses to start; without group and checkpoint it begins anew",
    seconds=80,
)
def recreate_topic(world: World, random: Random) -> None:
    """Offsets begin again, and those that the query has committed mean other events."""
    count = len(end_offsets(world.bootstrap, world.events_topic))
    world.drain()
    world.stack.stop_service("driver")
    client = admin(world.bootstrap)
    for future in client.delete_topics([world.events_topic]).values():
        future.result(ADMIN_TIMEOUT_S)
    time.sleep(1)
    for future in client.create_topics([NewTopic(world.events_topic, count, 1)]).values():
        future.result(ADMIN_TIMEOUT_S)
    await_true(
        lambda: end_offsets(world.bootstrap, world.events_topic) == [0] * count,
        "the topic has not begun again",
    )
    world.begin_window()
    refuses(world)
    world.load.go()
    start_over(world)


def refuses(world: World) -> None:
    """The driver ends by itself, and its log says about which topic."""
    log = world.stack.log("driver")
    begin = log.stat().st_size
    world.stack.restart("driver", wait=False)
    code = world.await_death("driver")
    expect(code in (1, 2), f"the driver ended with {code}")
    said = log.read_bytes()[begin:].decode(errors="replace")
    expect(world.events_topic in said, "the driver's log does not name the topic")


def start_over(world: World) -> None:
    """What the refusal has a person do: delete the consumer group and the checkpoint."""
    group = world.stack.settings.query_name
    client = admin(world.bootstrap)
    for future in client.delete_consumer_groups([group]).values():
        future.result(ADMIN_TIMEOUT_S)
    shutil.rmtree(world.checkpoint)
    world.healed()
    world.restart_driver()
    world.await_recovery()
