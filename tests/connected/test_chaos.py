"""Random faults on the real stack for ten minutes, one draw of the catalogue after the other.

HERALD_CHAOS_SEED repeats a draw, whose seed is printed; HERALD_CHAOS_SECONDS gives it another time.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from deploy.chaos import report, selection

SECONDS = 600.0
"""All tests together have to end within half an hour on two cores."""


@pytest.mark.connected
@pytest.mark.slow
@pytest.mark.patient
def test_what_must_hold_holds_whatever_is_injected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("HERALD_CHAOS_SEED") or SystemRandom().randrange(1_000_000))
    seconds = float(os.environ.get("HERALD_CHAOS_SECONDS") or SECONDS)
    with capsys.disabled():
        print(f"\nchaos: HERALD_CHAOS_SEED={seed}, {seconds:g} s")
        chosen = selection.select(seed, seconds)
        outcomes = []
        for outcome in selection.run(chosen, tmp_path):
            outcomes.append(outcome)
            print("\n".join(report.described(outcome)), flush=True)
    failed = [one for one in outcomes if not one.holds]
    assert not failed, "\n".join(
        [f"HERALD_CHAOS_SEED={seed}", *map(selection.repeat_command, failed)]
    )
    assert {one.row.delivery for one in outcomes} == set(chosen.faults)
    assert all(one.verdict is not None and one.verdict.matches > 0 for one in outcomes)
