"""Soak without services: what is drawn, how lag is told, what grew, and what is written down."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.cli import main
from deploy.environment import REPOSITORY, UserError
from deploy.marked_text import replace_between
from deploy.processes import STACK_MARK
from deploy.roles import role_of
from deploy.soak import report
from deploy.soak.churn import Churn
from deploy.soak.lag import Lag, LagMeter, quantile
from deploy.soak.load import Steady, epochs_of
from deploy.soak.memory import Processes, SnapshotProcesses
from deploy.soak.run import Outcome, Plan
from deploy.soak.sampling import Sample, files_below
from deploy.soak.verdict import Growth, LagFigures, Rate, Verdict, growths_of

PLAN = Plan(30, 5, 1_000, 100, 20_000)
DRIVER = ["python", "-P", "-m", "streaming"]
DAEMON = ["python", "-m", "streaming.daemon", "pyspark.worker"]
JVM = ["/usr/lib/jvm/bin/java", "-cp", "…"]


def test_churn_keeps_the_population_and_never_meets_an_id_that_is_gone() -> None:
    churn = Churn([{"n": 1}, {"n": 2}], 50, seed=3)
    alive = {form["id"] for form in churn.population()}
    kinds = Counter[str]()
    for form in churn.draw(400):
        if form.get("op") == "delete":
            kinds["delete"] += 1
            alive.remove(form["id"])
        else:
            kinds["replace" if form["id"] in alive else "add"] += 1
            alive.add(form["id"])
    assert kinds == {"replace": 200, "add": 100, "delete": 100}
    assert len(alive) == len(churn) == 50
    other = Churn([{"n": 1}, {"n": 2}], 50, seed=3)
    assert list(other.population()) and other.draw(400) != churn.draw(400)


def test_lag_ends_with_the_first_batch_at_the_epoch() -> None:
    meter = LagMeter()
    meter.acknowledge(5, 100.0, 10)
    meter.acknowledge(6, 100.1, 20)
    meter.pin(4, 100.15)
    meter.pin(5, 100.2)
    meter.pin(9, 100.6)
    meter.acknowledge(7, 100.7, 30)  # the batch was pinned before the answer arrived
    meter.acknowledge(10, 100.8, 40)
    lags = meter.lags(102.8)
    assert [lag.writes for lag in lags] == [10, 20, 30, 40]
    assert [round(lag.lag_s, 3) for lag in lags] == [0.2, 0.5, 0.0, 2.0]


def test_a_pin_of_a_replay_does_not_take_a_write_back() -> None:
    meter = LagMeter()
    meter.pin(9, 1.0)
    meter.pin(3, 2.0)
    meter.acknowledge(9, 2.5, 1)
    assert [lag.lag_s for lag in meter.lags(3.0)] == [0.0]


def test_quantiles_count_writes_and_not_requests() -> None:
    lags = [Lag(0, 0.1, 98), Lag(0, 5.0, 1), Lag(0, 0.2, 1)]
    assert quantile(lags, 0.5) == 0.1
    assert quantile(lags, 0.99) == 0.2
    assert quantile(lags, 1.0) == 5.0
    assert math.isnan(quantile([], 0.5))
    assert LagFigures.of(lags) == LagFigures(100, 0.1, 0.2, 5.0)
    assert LagFigures.of(lags).holds
    assert not LagFigures.of([Lag(0, 1.0, 5)]).holds, "it must be less than a second"
    assert not LagFigures.of([]).holds, "nothing was measured"


def samples(name: str, values: list[float], step_s: float = 10.0) -> list[Sample]:
    return [Sample(step_s * at, {name: value}) for at, value in enumerate(values)]


def test_growth_compares_how_high_the_first_part_goes_with_how_high_the_last_goes() -> None:
    teeth = [100.0 + 10 * (at % 5) for at in range(101)]
    (growth,) = growths_of(samples("memory/API", [900.0] * 10 + teeth), 100.0)
    assert (growth.begin, growth.end, growth.most) == (140, 140, 140)
    assert growth.holds, "neither the warm-up nor what goes up and down counts"
    rising = [one + 0.1 * at for at, one in enumerate(teeth)]
    (growth,) = growths_of(samples("memory/API", rising), 0.0)
    assert growth.share == pytest.approx(0.057, abs=0.005)
    assert not growth.holds
    slow = [100.0] * 12 + [120.0] * 8 + [100.0] * 60 + [120.0] * 15 + [100.0] * 5
    (growth,) = growths_of(samples("memory/worker", slow), 0.0)
    assert growth.holds, "it has been as high before, though not for as long"


def test_a_log_that_is_never_trimmed_is_found_even_in_a_short_soak() -> None:
    (growth,) = growths_of(samples("log/entries", [10.0 * at for at in range(90)]), 300.0)
    assert not growth.holds
    teeth = [200.0 + 10 * (at % 20) for at in range(90)]
    (growth,) = growths_of(samples("log/entries", teeth), 300.0)
    assert growth.holds


def test_what_comes_and_goes_is_not_judged() -> None:
    lasting = samples("memory/API", [1.0] * 40)
    for at in (3, 35):
        lasting[at].figures["memory/Valkey 2"] = at
    lasting[5].figures["behind/events"] = 7
    assert [one.name for one in growths_of(lasting, 0.0)] == ["memory/API"]
    assert list(growths_of(lasting[:1], 0.0)) == []


GOOD = Verdict(
    growths=(Growth("memory/API", 100.0 * 2**20, 104.0 * 2**20, 120.0 * 2**20, 0.05),),
    lag=LagFigures(1_000, 0.1, 0.9, 1.5),
    rates=(Rate("writes", 1_000, 981.0), Rate("events", 100, 100.0)),
    notifications=3,
    broken=(),
)


def test_all_must_hold() -> None:
    assert GOOD.holds
    assert not replace(GOOD, growths=()).holds, "nothing was looked at"
    assert not replace(GOOD, broken=("driver ended",)).holds
    assert not replace(GOOD, rates=(Rate("writes", 1_000, 979.0),)).holds, "it was not under load"
    assert not replace(GOOD, lag=LagFigures(1, 0.1, 1.0, 1.0)).holds
    assert not replace(GOOD, growths=(Growth("log/entries", 100, 125, 130, 0.25),)).holds
    assert not replace(GOOD, growths=(Growth("bytes/scratch", 0, 1, 1, 0.25),)).holds
    assert not replace(GOOD, growths=(Growth("count/changes", 2, 4, 4, 0.25, 1),)).holds
    assert replace(GOOD, growths=(Growth("count/changes", 2, 3, 3, 0.25, 1),)).holds
    assert replace(GOOD, growths=(Growth("count/scratch", 0, 0, 1, 0.25),)).holds


def test_roles_are_told_by_command_lines() -> None:
    assert role_of("kafka", JVM, []) == "Kafka"
    assert role_of("driver", JVM, DRIVER) == "driver's JVM"
    assert role_of("driver", DRIVER, ["python", "-m", "deploy.cli"]) == "driver"
    assert role_of("driver", DAEMON, JVM) == "daemon"
    assert role_of("driver", DAEMON, DAEMON) == "worker"
    assert role_of("driver", ["python", "-m", "streaming.snapshots"], DRIVER) == "snapshot process"


def test_processes_are_found_by_their_mark_and_a_successor_takes_its_place() -> None:
    mark = f"soak-{os.getpid()}-{time.time_ns()}"
    marked = {**os.environ, STACK_MARK: mark, "HERALD_SERVICE": "api"}

    def start(environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
        child = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
        # What a process takes is asked only after its interpreter runs.
        assert child.stdout is not None and child.stdout.readline()
        return child

    children = [start(marked), start(marked)]
    hidden = start(None)
    processes = Processes(mark, lambda: {"api": children[0].pid, "valkey": hidden.pid})
    try:
        figures = processes.figures()
        assert sorted(figures) == ["API", "API 2", "Valkey"]
        assert all(2**20 < taken < 2**28 for taken in figures.values())
        children[0].kill()
        children[0].wait()
        children.append(start(marked))
        assert sorted(processes.figures()) == ["API", "API 2", "Valkey"]
        children[1].kill()
        children[1].wait()
        assert sorted(processes.figures()) == ["API", "Valkey"]
    finally:
        for child in (hidden, *children):
            child.kill()
            child.communicate()


def test_a_process_that_lives_for_moments_counts_with_the_most_it_had() -> None:
    words = "print(flush=True); b = bytearray(30_000_000); del b; input()"
    known = SnapshotProcesses(os.getpid())
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", words, "streaming.snapshots"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None and child.stdout.readline()
            deadline = time.monotonic() + 10
            while known._peak_bytes < 30_000_000:
                assert time.monotonic() < deadline
                known.look()
            child.communicate(b"\n")
        known.look()
        assert 30_000_000 <= known.peak_bytes < 2**27


def test_files_are_counted_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one").write_bytes(b"123")
    (tmp_path / "two").write_bytes(b"1")
    assert sorted(files_below(tmp_path)) == [("one", 3), ("two", 1)]
    assert list(files_below(tmp_path / "none")) == []


def test_a_steady_load_asks_for_what_is_due_and_tells_of_failures() -> None:
    asked: list[int] = []
    with Steady("writes", 1_000, 100, asked.append) as steady:
        while steady.done < 50:
            time.sleep(0.005)
        steady.raise_failure()
    assert set(asked) == {10} and sum(asked) == steady.done

    def fail(count: int) -> None:
        raise ValueError("no")

    with Steady("writes", 1_000, 100, fail) as steady:
        steady._thread.join()
        with pytest.raises(RuntimeError, match="writes: no"):
            steady.raise_failure()


def test_answers_are_counted_by_epoch_and_refusals_end_the_soak() -> None:
    told = [{"status": 201, "epoch": 8}, {"status": 204, "epoch": 7}, {"status": 200, "epoch": 8}]
    assert epochs_of(told, 3) == {7: 1, 8: 2}
    with pytest.raises(RuntimeError, match="refused"):
        epochs_of(told, 4)
    with pytest.raises(RuntimeError, match="store_full"):
        epochs_of([{"status": 507, "code": "store_full"}], 1)


def test_the_report_tells_of_everything(tmp_path: Path) -> None:
    bad = replace(GOOD, broken=("driver ended",))
    outcome = Outcome(PLAN, bad, samples("memory/API", [1.0]))
    text = "\n".join(report.lines(outcome))
    assert "30 minutes with 20,000 subscriptions, 1,000 writes/s and 100 events/s" in text
    assert "| memory of API, MiB | 100.0 | 104.0 | 120.0 | +4.0%" in text
    assert "- driver ended" in text and "It FAILED." in text
    told = json.loads(report.to_json(outcome))
    assert told["holds"] is False and told["growths"][0]["holds"] is True
    assert told["samples"] == [{"at_s": 0.0, "memory/API": 1.0}]
    document = tmp_path / "reliability.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    report.write_down(outcome, document)
    content = document.read_text(encoding="utf-8")
    assert content.startswith("before\n") and content.endswith("\nafter\n")
    assert "\nold\n" not in content and text in content
    with pytest.raises(UserError, match="has no place for results"):
        replace_between(document, "<!-- other -->", report.END, [])


def test_the_document_has_a_place_for_figures() -> None:
    text = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert report.BEGIN in text and report.END in text


@pytest.mark.parametrize(
    "words", [["--minutes", "5", "--warm-up-minutes", "5"], ["--writes", "0"], ["--events", "-1"]]
)
def test_a_soak_that_proves_nothing_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["soak", *words]) == 1
    assert "must be" in capsys.readouterr().err
