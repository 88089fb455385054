"""A short soak on the real stack: everything that is judged is measured, and the log is trimmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.soak.load import REQUESTS_PER_S
from deploy.soak.run import Plan, soak

LASTING = {"Valkey", "Kafka", "API", "driver", "driver's JVM", "daemon", "worker"}


@pytest.mark.connected
@pytest.mark.slow
def test_a_short_soak_measures_all_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first snapshot is of the fourth second: the log is trimmed to it.
    monkeypatch.setenv("HERALD_SNAPSHOT_CHANGES_MIN", "400")
    outcome = soak(Plan(0.6, 0.1, 50, 50, 200), tmp_path, print)
    verdict = outcome.verdict
    assert verdict.broken == (), "all events were told of after the end"
    assert verdict.lag.writes > 800 and 0 <= verdict.lag.p50_s <= verdict.lag.p99_s
    assert all(rate.done > 0.8 * rate.asked for rate in verdict.rates)
    assert verdict.notifications > 0
    names = {growth.name for growth in verdict.growths}
    assert {f"memory/{name}" for name in LASTING} <= names
    assert {"count/snapshots", "count/checkpoint"} <= names
    # Judged where it is seen often enough; so few samples may fall between a trim and a write.
    assert any("bytes/changes" in sample.figures for sample in outcome.samples)
    last = outcome.samples[-1]
    assert last.figures["log/entries"] < 0.9 * last.at_s * REQUESTS_PER_S, "an entry a request"
    assert outcome.samples[-1].figures["memory/snapshot process"] > 0
