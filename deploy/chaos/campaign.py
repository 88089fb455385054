"""Campaign: which faults run, how often, and what came of each run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException

from deploy.chaos import (
    broker_faults,
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
from deploy.chaos.world import World
from deploy.environment import UserError
from deploy.history import write_history
from deploy.verdicts import Verdict
from store.errors import StoreError

MODULES = (
    driver_faults,
    worker_faults,
    broker_faults,
    topic_faults,
    store_faults,
    snapshot_faults,
    input_faults,
)
"""Importing them fills the catalogue."""
LOAD_BEFORE_S = 2.0
LOAD_AFTER_S = 2.0


@dataclass
class Outcome:
    """What came of one run of one fault."""

    fault: Fault
    delivery: str
    run: int
    verdict: Verdict | None = None
    recovery_s: float | None = None
    broken: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all that must hold did."""
        return self.verdict is not None and self.verdict.holds and not self.broken

    def count(self, kind: str) -> int | None:
        """How many findings of a kind; None where there is no verdict."""
        return None if self.verdict is None else self.verdict.counts[kind]

    def to_json(self) -> dict[str, object]:
        """All of it."""
        return {
            "fault": self.fault.number,
            "name": self.fault.name,
            "delivery": self.delivery,
            "run": self.run,
            "holds": self.holds,
            "recovery_s": None if self.recovery_s is None else round(self.recovery_s, 2),
            "broken": self.broken,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }


@dataclass(frozen=True)
class Plan:
    """What to run; `minutes` repeats all of it until so much time has passed."""

    faults: Sequence[Fault]
    deliveries: Sequence[str] = BOTH
    runs: int = 1
    seed: int = 1
    minutes: float = 0.0

    def steps(self, delivery: str) -> Iterator[tuple[Fault, int]]:
        """What to run in one delivery, which has its share of the time: faults and run numbers."""
        deadline = time.monotonic() + self.minutes * 60 / len(self.deliveries)
        for run in count(1):
            if run > self.runs and time.monotonic() > deadline:
                return
            promised = [fault for fault in self.faults if delivery in fault.deliveries]
            if not promised:
                return
            yield from ((fault, run) for fault in promised)


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


def run_plan(plan: Plan, folder: Path) -> Iterator[Outcome]:
    """Run all of it, one stack for each delivery, and a new one after a run that failed."""
    for delivery in plan.deliveries:
        steps = plan.steps(delivery)
        step = next(steps, None)
        for number in count(1):
            if step is None:
                break
            home = folder / f"{delivery}-{number}"
            with World(home, delivery, plan.seed + number) as world:
                outcome: Outcome | None = None
                while step is not None and (outcome is None or outcome.holds):
                    outcome = run_fault(world, *step, plan.seed)
                    yield outcome
                    step = next(steps, None)


def run_fault(world: World, fault: Fault, run: int, seed: int) -> Outcome:
    """One fault in one window of a world that is fit for it."""
    outcome = Outcome(fault, world.delivery, run)
    random = Random(f"{seed} {fault.name} {run}")
    try:
        world.begin()
        world.run_load(LOAD_BEFORE_S)
        fault.inject(world, random)
        outcome.recovery_s = world.injection.recovered_s
        time.sleep(LOAD_AFTER_S)
        world.drain()
        history = world.end_window()
    except (Broken, UserError, StoreError, KafkaException, RuntimeError, OSError) as error:
        outcome.broken.append(f"{type(error).__name__}: {error}")
        return outcome
    write_history(world.folder / f"history-{fault.number}-{run}.jsonl", history)
    outcome.verdict, outcome.broken = judge(world, history)
    return outcome
