"""Schedule: everything that happens in one world from its seed to the checker's verdict.

After its steps all faults end, and the service gets the time it needs to tell of every event; what
it has not told of by then, it has lost.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from deploy.checker import check
from deploy.history import History
from store.base import Put
from store.records import SubscriptionRecord
from streaming import refresh, snapshots
from streaming.drift import read_statistics
from tests.simulation.broker import Sent
from tests.simulation.processes import SnapshotProcess
from tests.simulation.steps import (
    EVENTS,
    deliver_late,
    run_snapshot_process,
    take_step,
    weights_of,
)
from tests.simulation.world import World

STEPS_MIN, STEPS_MAX = 8, 30
RECOVERY_ROUNDS = 12
SEED_VARIABLE = "HERALD_SIMULATION_SEED"
COUNT_VARIABLE = "HERALD_SIMULATION_COUNT"
MEMORY_FOLDER = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a schedule; `found` is empty if all promises were held."""

    seed: int
    trace: tuple[str, ...]
    history: History
    counts: dict[str, int]
    found: tuple[str, ...]

    def report(self) -> str:
        """What happened, what was found, and how to see it again."""
        command = f"{SEED_VARIABLE}={self.seed} python -m pytest tests/simulation -k one_seed"
        return "\n".join([*self.trace, "", *self.found, "", f"again: {command}"])


@contextmanager
def simulating() -> Iterator[Path]:
    """What all schedules share: a folder in memory, no waiting for disks, and no log."""
    parent = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="herald-simulation-", dir=parent))
    disabled = logging.root.manager.disable
    logging.disable()
    gc.freeze()  # the collector need not walk over all modules again and again
    try:
        with (
            mock.patch.object(os, "fsync", lambda descriptor: None),
            mock.patch.object(refresh, "quiet_collector", lambda: None),
        ):
            yield folder
    finally:
        logging.disable(disabled)
        gc.unfreeze()
        shutil.rmtree(folder, ignore_errors=True)


def run_schedule(seed: int, parent: Path, faults: Collection[str] | None = None) -> Outcome:
    """Run the schedule of a seed in a new folder, with these faults instead of drawn ones."""
    folder = parent / str(seed)
    folder.mkdir()
    SnapshotProcess.building = False
    world = World(seed, folder, take_step, faults)
    world.weights = weights_of(world)

    def read_while_others_go_on(folder: Path) -> object:
        """The snapshot process has read all it needs, and has not published anything yet."""
        if world.course.goes_wrong(world.interleave_share):
            world.interleave()
        return read_statistics(folder)

    try:
        with mock.patch.object(snapshots, "read_statistics", read_while_others_go_on):
            world.start_driver()
            for _ in range(STEPS_MIN + world.course.below(STEPS_MAX - STEPS_MIN)):
                take_step(world)
            recover(world)
        return judge(world)
    finally:
        shutil.rmtree(folder)


def recover(world: World) -> None:
    """End all faults, and let the service tell of everything, the newest changes included."""
    course = world.course
    course.note("all faults end")
    course.calm = True
    world.store_is_away = world.driver_is_cut_off = False
    deliver_late(world)
    # With one more epoch, the checker sees which of those before it the store has kept.
    world.write([Put(SubscriptionRecord("acme", "last", (True,)))])
    for value in EVENTS:
        world.broker.append(Sent("events", None, (), value))
    for _ in range(RECOVERY_ROUNDS):
        world.pass_time(10)
        run_snapshot_process(world)
        if not world.drivers:
            world.start_driver()
        for driver in list(world.drivers):
            while world.run_batch(driver):
                pass
        if world.drivers and world.is_done():
            return
    world.found.append("it did not recover")


def judge(world: World) -> Outcome:
    """Have the checker look at the history; leave out what the contract allows."""
    history = world.history
    history.events = world.broker.visible("events")
    history.notifications = world.broker.visible("notifications")
    history.dead_letters = world.broker.visible("dead-letters")
    if world.has_jumped:
        history.writes = []
    verdict = check(history)
    counts = dict(verdict.counts)
    if history.delivery == "at_least_once":
        # A batch that is pinned anew may have been written in part, and nothing takes it back.
        if world.repins or world.has_lost_checkpoint:
            counts.pop("duplicate", None)
        # Nothing fences a driver that has no transactions: it may still run, and pin, a batch whose
        # pin the other has long dropped.
        if world.had_two_drivers:
            counts.pop("order", None)
            counts.pop("backward", None)
    found = [f"{kind}: {words}" for kind in counts for words in verdict.examples[kind]]
    return Outcome(
        world.course.seed, tuple(world.course.trace), history, counts, (*found, *world.found)
    )
