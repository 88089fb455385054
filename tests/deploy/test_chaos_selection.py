"""The selection of faults that CI runs: as random as its seed, and no longer than its time."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from deploy.chaos import campaign, selection
from deploy.chaos.faults import BOTH, ONCE, Fault
from deploy.chaos.outcome import Outcome, Turn
from deploy.commands import chaos


def test_the_seed_decides_what_is_selected() -> None:
    first, again, other = (selection.select(seed, 600) for seed in (1, 1, 2))
    assert first.faults == again.faults != other.faults
    assert first.faults["exactly_once"] != first.faults["at_least_once"]


def test_each_delivery_fits_into_its_share_and_uses_most_of_it() -> None:
    shortest = min(one.seconds for one in campaign.catalogue())
    for seed in range(50):
        chosen = selection.select(seed, 600)
        assert set(chosen.faults) == set(BOTH)
        for delivery, faults in chosen.faults.items():
            taken = selection.STACK_S + sum(one.seconds for one in faults)
            assert 300 - shortest - 60 < taken <= 300
            assert all(delivery in one.deliveries for one in faults)
            assert len({one.name for one in faults}) == len(faults)


def test_every_fault_is_selected_by_some_seed() -> None:
    met = {
        (delivery, fault.name)
        for seed in range(200)
        for delivery, faults in selection.select(seed, 600).faults.items()
        for fault in faults
    }
    assert met == {(d, one.name) for one in campaign.catalogue() for d in one.deliveries}


def test_without_time_nothing_is_selected() -> None:
    assert selection.select(1, 0).faults == {delivery: [] for delivery in BOTH}


def test_a_run_that_would_end_late_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = selection.select(1, 600).faults["exactly_once"][:3]
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    deadline = sum(one.seconds for one in faults)
    ran = []
    for fault, turn in selection.timely(faults, "exactly_once", 1, deadline):
        ran.append((fault, turn.run, turn.seed))
        now += fault.seconds * 1.2
    assert ran == [(one, 1, 1) for one in faults[:2]]


def test_the_deliveries_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = Outcome(Turn(campaign.row_of(campaign.catalogue()[0], ONCE[0]), 1, 1))
    ran = []

    def run_steps(steps: object, folder: Path, delivery: str) -> list[Outcome]:
        ran.append(delivery)
        return [outcome]

    monkeypatch.setattr(campaign, "run_steps", run_steps)
    assert list(selection.run(selection.select(1, 600), tmp_path)) == [outcome, outcome]
    assert ran == list(BOTH)


@pytest.mark.parametrize("fault", campaign.catalogue(), ids=lambda one: one.name)
def test_the_command_of_a_run_runs_it_alone(fault: Fault) -> None:
    turn = Turn(campaign.row_of(fault, ONCE[0]), 1, 7)
    words = shlex.split(selection.repeat_command(Outcome(turn)))
    parser = argparse.ArgumentParser()
    chaos.configure(parser)
    plan, _ = chaos.plan_of(parser.parse_args(words[2:]))
    assert words[:2] == ["./herald", "chaos"]
    assert [turn for _, turn in plan.steps(ONCE[0])] == [turn]
    assert plan.deliveries == ONCE
