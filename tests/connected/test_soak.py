"""A short soak on the real stack: everything that is judged is measured, and the log is trimmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.soak.run import Plan, soak

LASTING = {"Valkey", "Kafka", "API", "driver", "driver's JVM", "daemon", "worker"}


@pytest.mark.connected
@pytest.mark.slow
def test_a_short_soak_measures_all_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERALD_SNAPSHOT_CHANGES_MIN", "200")
    outcome = soak(Plan(0.4, 0.1, 50, 50, 200), tmp_path, print)
    verdict = outcome.verdict
    assert verdict.broken == (), "all events were told of after the end"
    assert verdict.lag.writes > 500 and 0 <= verdict.lag.p50_s <= verdict.lag.p99_s
    assert all(rate.done > 0.8 * rate.asked for rate in verdict.rates)
    assert verdict.notifications > 0
    names = {growth.name for growth in verdict.growths}
    assert {f"memory/{name}" for name in LASTING} <= names
    assert {"count/snapshots", "bytes/changes", "count/checkpoint"} <= names
    # The log would have an entry of each of 240 requests.
    assert max(sample.figures["log/entries"] for sample in outcome.samples) < 200
    assert outcome.samples[-1].figures["memory/snapshot process"] > 0
