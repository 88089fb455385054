"""Campaign: which faults run, how often, and on which stacks."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException

from deploy.chaos import (
    broker_faults,
    clock_faults,
    driver_faults,
    input_faults,
    snapshot_faults,
    store_faults,
    topic_faults,
    worker_faults,
)
from deploy.chaos.faults import BOTH, FAULTS, NOT_INJECTED, Fault, NotInjected
from deploy.chaos.injection import Broken
from deploy.chaos.judge import judge
from deploy.chaos.outcome import Outcome, Row, Turn
from deploy.chaos.world import World
from deploy.environment import REPOSITORY, UserError
from deploy.history import History, write_history
from store.errors import StoreError

MODULES = (
    driver_faults,
    worker_faults,
    broker_faults,
    topic_faults,
    store_faults,
    snapshot_faults,
    input_faults,
    clock_faults,
)
"""Importing them fills the catalogue."""
RUNS_OF_A_STACK = 25
"""Later runs find what earlier ones left, but log and topics shall not grow for hours."""
LOAD_BEFORE_S = 2.0
LOAD_AFTER_S = 2.0


@dataclass(frozen=True)
class Plan:
    """What to run.

    runs        of each fault; `minutes` repeats all of it until so much time has passed.
    crash_runs  of each process that is killed, if these are more; see `runs_of`.
    """

    faults: Sequence[Fault]
    deliveries: Sequence[str] = BOTH
    runs: int = 1
    seed: int = 1
    minutes: float = 0.0
    crash_runs: int = 0

    def runs_of(self, fault: Fault) -> int:
        """How often a fault runs in one delivery: of one process, all places have their share."""
        if not fault.killed:
            return self.runs
        places = sum(one.killed == fault.killed for one in FAULTS)
        return max(self.runs, -(-self.crash_runs // places))

    def steps(self, delivery: str, done: Container[Turn] = ()) -> Iterator[tuple[Fault, Turn]]:
        """What is still to run in one delivery, which has its share of the time."""
        for fault, run in self._runs(delivery):
            turn = Turn(row_of(fault, delivery), run, self.seed)
            if turn not in done:
                yield fault, turn

    def _runs(self, delivery: str) -> Iterator[tuple[Fault, int]]:
        """Each fault once, then the rest of each in a row, then all again while there is time.

        In a row, because a driver that runs where a fault needs it can stay there for the next run.
        """
        deadline = time.monotonic() + self.minutes * 60 / len(self.deliveries)
        promised = [fault for fault in self.faults if delivery in fault.deliveries]
        yield from ((fault, 1) for fault in promised)
        for fault in promised:
            yield from ((fault, run) for run in range(2, self.runs_of(fault) + 1))
        for more in count(1):
            if not promised or time.monotonic() >= deadline:
                return
            yield from ((fault, self.runs_of(fault) + more) for fault in promised)

    def rows(self) -> list[Row]:
        """The rows of the table that the plan fills."""
        return [
            row_of(fault, delivery)
            for delivery in self.deliveries
            for fault in self.faults
            if delivery in fault.deliveries
        ]


def row_of(fault: Fault, delivery: str) -> Row:
    """The row of a fault in one delivery."""
    return Row(fault.number, fault.name, delivery)


def catalogue() -> list[Fault]:
    """All faults, by number; of one number in the order of their modules."""
    return sorted(FAULTS, key=lambda fault: fault.number)


def choose(numbers: Iterable[int]) -> tuple[list[Fault], list[NotInjected]]:
    """The faults of some numbers, all if none is given, and those that are not injected."""
    wanted = set(numbers)
    known = {one.number for one in catalogue()} | {one.number for one in NOT_INJECTED}
    if unknown := sorted(wanted - known):
        raise UserError(f"there is no fault {unknown[0]}; choose from {sorted(known)}.")
    wanted = wanted or known
    return (
        [one for one in catalogue() if one.number in wanted],
        [one for one in NOT_INJECTED if one.number in wanted],
    )


def able(
    faults: Iterable[Fault], deliveries: Container[str]
) -> tuple[list[Fault], list[NotInjected]]:
    """Of the faults that concern some deliveries: those this machine can inject, and the others."""
    promised = [one for one in faults if any(name in deliveries for name in one.deliveries)]
    return (
        [one for one in promised if not one.lacks()],
        [NotInjected(one.number, one.name, one.lacks()) for one in promised if one.lacks()],
    )


def run_plan(
    plan: Plan, folder: Path, done: Container[Turn] = (), keep: bool = False
) -> Iterator[Outcome]:
    """Run all of it that is not done; what held leaves no files unless they are to be kept."""
    for delivery in plan.deliveries:
        yield from run_steps(plan.steps(delivery, done), folder, delivery, keep)


def run_steps(
    steps: Iterator[tuple[Fault, Turn]], folder: Path, delivery: str, keep: bool = False
) -> Iterator[Outcome]:
    """Run faults in one delivery, on a new stack after some runs, and after one that failed."""
    step = next(steps, None)
    for number in count(1):
        if step is None:
            return
        home = folder / f"{delivery}-{number}"
        outcome = None
        with World(home, delivery, load_seed(step[1])) as world:
            for _ in range(RUNS_OF_A_STACK):
                if step is None or (outcome is not None and not outcome.holds):
                    break
                outcome = run_fault(world, *step)
                yield outcome
                step = next(steps, None)
        if outcome is not None and outcome.holds and not keep:
            shutil.rmtree(home)


def load_seed(turn: Turn) -> int:
    """The seed of the load on the stack whose first run this is."""
    return Random(f"{turn.seed} load {turn.row.name} {turn.run}").getrandbits(32)


@cache
def revision() -> str:
    """The code's revision, with a mark if it was edited since; '' where git does not tell."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        told = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    except OSError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


def run_fault(world: World, fault: Fault, turn: Turn) -> Outcome:
    """One fault in one window of a world that is fit for it."""
    outcome = Outcome(turn, revision=revision())
    began = time.monotonic()
    try:
        history = inject(world, fault, outcome)
    except (Broken, UserError, StoreError, KafkaException, RuntimeError, OSError) as error:
        outcome.broken.append(f"{type(error).__name__}: {error}")
    else:
        name = f"history-{turn.row.number}-{turn.row.name.replace(' ', '-')}-{turn.run}.jsonl"
        write_history(world.folder / name.replace("'", ""), history)
        outcome.verdict, outcome.broken = judge(world, history)
    outcome.seconds = time.monotonic() - began
    return outcome


def inject(world: World, fault: Fault, outcome: Outcome) -> History:
    """The history of a window in which a fault was injected, once all of it is done."""
    turn = outcome.turn
    world.begin(fault.master)
    world.run_load(LOAD_BEFORE_S)
    fault.inject(world, Random(f"{turn.seed} {turn.row.name} {turn.run}"))
    outcome.recovery_s = world.injection.recovered_s
    time.sleep(LOAD_AFTER_S)
    world.drain()
    return world.end_window()
