"""Faults of the broker and of the way to it: 6 and 7."""

from __future__ import annotations

import resource
import signal
from random import Random

from deploy.chaos.faults import ONCE, fault
from deploy.chaos.injection import await_true
from deploy.chaos.world import World
from deploy.proxy import ANSWERS
from streaming.sink import TIMEOUT_S

AWAY_S = 3.0
PAUSED_S = 30.0
ROOM_BYTES = 8 * 1024


@fault(
    6,
    "broker killed",
    "kill -9 of Kafka, started again after 3 s",
    "no acknowledged event is lost",
    killed="broker",
    seconds=20,
)
def kill_broker(world: World, random: Random) -> None:
    """Whatever was under way is asked for again."""
    world.kill("kafka")
    world.wait(AWAY_S)
    world.stack.restart("kafka")
    world.healed()
    world.await_recovery()


@fault(
    6,
    "broker paused",
    f"SIGSTOP to Kafka for {PAUSED_S:g} s, then SIGCONT",
    "as above",
    seconds=50,
)
def pause_broker(world: World, random: Random) -> None:
    """Connections stay, nobody answers."""
    world.stack.kill("kafka", signal.SIGSTOP)
    try:
        world.wait(PAUSED_S)
    finally:
        world.stack.kill("kafka", signal.SIGCONT)
    world.healed()
    world.await_recovery()


@fault(
    6,
    "broker's disk full",
    "Kafka may not make its files longer, as on a full disk; once it has ended, it is started",
    "as above",
    seconds=60,
)
def fill_disk(world: World, random: Random) -> None:
    """The broker ends by itself when it cannot append."""
    logs = (world.folder / "kafka" / "data").glob(f"{world.events_topic}-*/*.log")
    limit = min(path.stat().st_size for path in logs) + ROOM_BYTES
    resource.prlimit(world.stack.pid("kafka"), resource.RLIMIT_FSIZE, (limit, limit))
    await_true(lambda: "kafka" in world.stack.dead_services(), "Kafka has not noticed")
    world.stack.restart("kafka")
    world.healed()
    world.await_recovery()


def commit_without_answer(world: World, act: str) -> None:
    """Let the network fail just before a commit, for longer than the driver waits for it."""
    world.arm("sink.uncommitted=sleep:1.5@3!")
    world.await_mark("sink.uncommitted")
    if act == "drop":
        world.kafka_proxy.drop(ANSWERS)
    else:
        world.kafka_proxy.hold()
    try:
        world.wait(TIMEOUT_S + 8)
    finally:
        world.kafka_proxy.heal()
    world.healed()
    world.await_recovery()


@fault(
    7,
    "answer to a commit lost",
    "from before a commit on, answers of Kafka are lost, until the driver has given up",
    "the fate of the transaction is looked up",
    ONCE,
    seconds=35,
)
def lose_answer(world: World, random: Random) -> None:
    """The broker commits, and the driver does not learn of it."""
    commit_without_answer(world, "drop")


@fault(
    7,
    "commit late",
    "from before a commit on, nothing passes to or from Kafka, and all arrives after the driver "
    "has given up",
    "as above",
    ONCE,
    seconds=35,
)
def delay_commit(world: World, random: Random) -> None:
    """The request to commit arrives when its sender has thrown the producer away."""
    commit_without_answer(world, "hold")
