"""Schedules of everything that may go wrong, each from one seed: the promises hold in all of them.

A schedule that fails prints its trace and how to run it again. `HERALD_SIMULATION_SEED` runs one
seed, `HERALD_SIMULATION_COUNT` so many more than usual.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from deploy.environment import REPOSITORY
from tests.simulation.schedule import (
    COUNT_VARIABLE,
    SEED_VARIABLE,
    Outcome,
    run_schedule,
    simulating,
)
from tests.simulation.world import FAULTS

BLOCK = 100
FIXED_BLOCKS = 12
SEEDS_MAX = 2**31


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with simulating() as made:
        yield made


class Seen:
    """What schedules are for, and which of it none has met yet."""

    def __init__(self) -> None:
        self.unmet = {*MET, *FAULTS}

    def note(self, outcome: Outcome) -> None:
        """Look for it in a trace, whose first line names the faults."""
        text = "\n".join(outcome.trace)
        drawn = outcome.trace[0]
        self.unmet = {
            words for words in self.unmet if words not in (drawn if words in FAULTS else text)
        }


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


def require(outcome: Outcome) -> None:
    if outcome.found:
        pytest.fail(outcome.report(), pytrace=False)


@pytest.mark.large
@pytest.mark.parametrize("block", range(FIXED_BLOCKS))
def test_the_promises_hold_in_every_schedule(folder: Path, seen: Seen, block: int) -> None:
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        outcome = run_schedule(seed, folder)
        require(outcome)
        seen.note(outcome)


@pytest.mark.large
def test_the_promises_hold_in_schedules_that_nobody_has_seen(folder: Path) -> None:
    first = SystemRandom().randrange(SEEDS_MAX)
    count = int(os.environ.get(COUNT_VARIABLE, BLOCK))
    print(f"seeds {first} to {first + count - 1}")
    for seed in range(first, first + count):
        require(run_schedule(seed, folder))


def test_one_seed(folder: Path) -> None:
    outcome = run_schedule(int(os.environ.get(SEED_VARIABLE, "1")), folder)
    require(outcome)
    assert outcome.history.notifications


def test_a_seed_is_the_same_schedule_byte_for_byte(folder: Path) -> None:
    for seed in range(5):
        one, other = run_schedule(seed, folder), run_schedule(seed, folder)
        assert one.trace == other.trace
        assert one.history == other.history


def test_another_process_runs_the_same_schedule(folder: Path) -> None:
    """Strings have other hashes there, so sets have another order."""
    program = (
        "from tests.simulation.schedule import run_schedule, simulating\n"
        "with simulating() as folder: print(run_schedule(7, folder).report())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == run_schedule(7, folder).report() + "\n"


@pytest.mark.large
def test_schedules_meet_what_they_are_for(folder: Path, seen: Seen) -> None:
    """A simulator in which nothing happens would find nothing, too."""
    seeds = iter(range(FIXED_BLOCKS * BLOCK))
    while seen.unmet:  # unless the schedules of the tests before have met all of it
        seed = next(seeds, None)
        assert seed is not None, f"in no schedule: {sorted(seen.unmet)}"
        seen.note(run_schedule(seed, folder))


MET = (
    "exactly_once",
    "at_least_once",
    "is killed before its pin",
    "is killed after its pin",
    "is killed before a task",
    "is killed before it commits",
    "is killed after it has committed",
    "is killed before Spark records the batch",
    "is killed between two passes",
    "an event was told of in part at another pin",
    "is stopped",
    "Fenced",
    "ConcurrentUpdate",
    "commit_transaction, not carried out",
    "commit_transaction, carried out",
    "a worker dies",
    "--from-store",
    "fails over",
    "truncated",
    "flipped",
    "missing",
    "the log is trimmed",
    "an older checkpoint is restored",
    "clock jumps",
)
