"""A short campaign on the real stack: a driver that dies before its commit, a store that dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.chaos import campaign, report

CHOSEN = ("driver killed at sink.uncommitted", "store killed")


@pytest.mark.connected
@pytest.mark.slow
def test_what_must_hold_holds_when_driver_and_store_are_killed(tmp_path: Path) -> None:
    faults = [one for one in campaign.catalogue() if one.name in CHOSEN]
    plan = campaign.Plan(faults, ("exactly_once",))
    outcomes = list(campaign.run_plan(plan, tmp_path))
    assert len(outcomes) == len(CHOSEN)
    assert all(one.holds for one in outcomes), "\n".join(
        line for one in outcomes for line in report.described(one)
    )
    assert all(one.verdict is not None and one.verdict.matches > 100 for one in outcomes)
