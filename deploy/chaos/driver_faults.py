"""Faults of the driver: 1, 4, 5, 14 and 21."""

from __future__ import annotations

import shutil
import signal
import time
from functools import partial
from pathlib import Path
from random import Random

from deploy.chaos.faults import FAULTS, ONCE, Fault, fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.world import TRANSACTION_TIMEOUT_MS, World
from deploy.environment import free_port
from deploy.services import DRIVER_FENCED
from deploy.stack import Stack
from streaming.failpoints import NAMES

KILLED_AT = (
    "batch.planned",
    "pins.written",
    "batch.pinned",
    "batch.matched",
    "sink.produced",
    "sink.uncommitted",
    "sink.committed",
    "tail.appended",
)
"""Where fault 1 kills; in the match it is a worker that dies, which is fault 2."""
OVERSLEPT_S = TRANSACTION_TIMEOUT_MS / 1000 + 15
"""A broker looks every ten seconds for transactions that are too old."""


def kill_at(failpoint: str, world: World, random: Random) -> None:
    """The driver dies at one place, comes back, and replays at the pin it had made."""
    before = len(world.recorder.pins)
    world.arm(f"{failpoint}=kill@{random.randint(1, 8)}")
    code = world.await_death("driver")
    expect(code == -signal.SIGKILL, f"the driver ended with {code}, not by the failpoint")
    world.healed()
    world.restart_driver()
    world.await_recovery()
    batches = [pin.batch for pin in world.recorder.pins[before:]]
    expect(len(set(batches)) == len(batches), f"a batch was pinned twice: {batches}")


for _failpoint in KILLED_AT:
    FAULTS.append(
        Fault(
            1,
            f"driver killed at {_failpoint}",
            f"kill -9 where {NAMES[_failpoint].removeprefix('driver: ')}",
            "the replay uses the pinned epoch",
            partial(kill_at, _failpoint),
            killed="driver",
            seconds=45.0,
        )
    )


@fault(
    4,
    "two drivers of one name",
    "a second driver with a checkpoint of its own; then the first again",
    "the older one ends with code 3",
    ONCE,
    seconds=70,
)
def start_second_driver(world: World, random: Random) -> None:
    """The newer driver fences the older one, and is fenced in turn."""
    folder = world.folder / f"second-{random.getrandbits(32):08x}"
    settings = world.stack.settings.model_copy(update={"metrics_port": free_port()})
    names = ("KAFKA_BOOTSTRAP", "STORE_URL", "DELIVERY", "TRANSACTION_TIMEOUT_MS")
    environment = {f"HERALD_{name}": world.stack.env[f"HERALD_{name}"] for name in names}
    with Stack(folder, settings, {"driver"}, environment) as second:
        world.recorder.follow(Path(second.env["HERALD_CHECKPOINT_DIR"]))
        code = world.await_death("driver")
        expect(code == DRIVER_FENCED, f"the older driver ended with {code}")
        time.sleep(2)
        world.restart_driver()
        await_true(
            lambda: second.exit_code("driver") == DRIVER_FENCED,
            "the second driver was not fenced in turn",
        )
        world.healed()
        world.await_recovery()


@fault(
    5,
    "driver asleep in a transaction",
    f"SIGSTOP before the commit for {OVERSLEPT_S:g} s, with a timeout of "
    f"{TRANSACTION_TIMEOUT_MS / 1000:g} s; then SIGCONT",
    "the transaction is aborted and the batch written anew, by the same driver",
    ONCE,
    seconds=45,
)
def oversleep(world: World, random: Random) -> None:
    """The driver sleeps over its transaction, and takes itself for fenced if it errs."""
    world.arm("sink.uncommitted=sleep:2@3!")
    world.await_mark("sink.uncommitted")
    with world.outage():
        world.stack.kill("driver", signal.SIGSTOP)
        time.sleep(OVERSLEPT_S)
        world.stack.kill("driver", signal.SIGCONT)
        world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")


@fault(
    14,
    "checkpoint lost",
    "the driver stops, its checkpoint is deleted",
    "it goes on from the committed offsets",
    ONCE,
    seconds=45,
)
def lose_checkpoint(world: World, random: Random) -> None:
    """Nothing but Kafka knows how far the query was."""
    world.stack.stop_service("driver")
    time.sleep(1)
    shutil.rmtree(world.checkpoint)
    world.healed()
    world.restart_driver()
    world.await_recovery()


@fault(
    14,
    "older checkpoint restored",
    "a copy of some seconds before comes back",
    "what is committed is not told again",
    ONCE,
    seconds=75,
)
def restore_checkpoint(world: World, random: Random) -> None:
    """Spark plans batches anew whose events have been told of."""
    copy = world.folder / "checkpoint-copy"
    world.stack.stop_service("driver")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(world.checkpoint, copy)
    world.restart_driver()
    time.sleep(5)
    world.kill("driver")
    world.stack.stop_service("driver")  # its JVM, which may live on for a moment, writes there
    shutil.rmtree(world.checkpoint)
    shutil.copytree(copy, world.checkpoint)
    world.healed()
    world.restart_driver()
    world.await_recovery()


@fault(
    21,
    "SIGTERM in a batch",
    "SIGTERM while a batch is matched",
    "code 0, nothing is replayed",
    seconds=45,
)
def terminate(world: World, random: Random) -> None:
    """The running batch ends, and Spark has recorded it."""
    world.arm("batch.matched=sleep:1.5@4!")
    world.await_mark("batch.matched")
    world.stack.kill("driver", signal.SIGTERM)
    code = world.await_death("driver")
    expect(code == 0, f"the driver ended with {code}")
    world.healed()
    world.restart_driver()
    world.await_recovery()
