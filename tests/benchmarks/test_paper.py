"""The papers' figures: measured over equal matches, drawn, and told how they came out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import measure, run, summary
from benchmarks.paper.chart import three_digits
from benchmarks.paper.drift import STABLE_STEPS, STEPS, Course, Drift, run_drift
from benchmarks.paper.measure import Figures, MatchesDifferError
from benchmarks.paper.sweep import Outcome, Sweep, run_sweep
from benchmarks.paper.table import PaperTable, run_table
from benchmarks.workloads import Workload, begen, fixed_attributes
from benchmarks.workloads.begen import BEGen
from benchmarks.workloads.fixed_attributes import W0
from index.algorithms.betree import BETree
from index.algorithms.psthash import PSTHash
from index.columns import Matches
from index.events import Events
from index.model import Instant
from index.registry import ALGORITHMS

METHODS = ("psthash", "sequential")


def workload(count: float = 300) -> Workload:
    return begen.generate("small", BEGen(subscriptions=int(count), events=40))


def quiet(line: str) -> None:
    assert line


SWEEP = Sweep(
    "small", "A small figure", "subscriptions", (100, 300), workload, METHODS, METHODS, "Small."
)


def test_a_sweep_is_written_and_drawn(tmp_path: Path) -> None:
    sweep = replace(SWEEP, also={"build_s": "Construction"})
    outcome = run_sweep(sweep, tmp_path, quiet)
    with (tmp_path / "small.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["subscriptions"], line["method"]) for line in lines] == [
        (count, method) for count in ("100", "300") for method in METHODS
    ]
    assert all(float(line["us_per_event"]) > 0 for line in lines)
    assert [float(line["candidates_per_event"]) for line in lines][1::2] == [100, 300]
    for name in ("small.png", "small-build_s.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert sorted(outcome.order()) == sorted(METHODS)


def figures(us_per_event: float) -> Figures:
    return Figures(us_per_event, 1.0, 1.0, 1.0, {"candidate_count": 1.0})


@pytest.mark.parametrize(("second", "kept"), [(2.0, True), (0.95, True), (0.5, False)])
def test_the_order_is_kept_unless_a_later_one_is_faster(second: float, kept: bool) -> None:
    points = {at: {"psthash": figures(1.0), "sequential": figures(second)} for at in SWEEP.values}
    outcome = Outcome(SWEEP, points)
    assert outcome.keeps_order() is kept
    assert outcome.order()[0] == ("psthash" if second > 1 else "sequential")


def test_a_table_stands_beside_the_published_numbers(tmp_path: Path) -> None:
    table = PaperTable("t", "A table", workload, METHODS, METHODS, "Small.", {"psthash": 240})
    run_table(table, tmp_path, quiet)
    with (tmp_path / "t.csv").open(newline="") as file:
        lines = {line["method"]: line for line in csv.DictReader(file)}
    assert lines["psthash"]["published_us_per_event"] == "240"
    assert lines["sequential"]["published_us_per_event"] == ""
    assert (tmp_path / "t.png").exists()


def test_no_time_is_told_of_methods_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    match = PSTHash.match

    def losing(self: PSTHash, *arguments: object) -> Matches:
        found = match(self, *arguments)  # type: ignore[arg-type]
        return Matches(np.minimum(found.start, found.row.size - 1), found.row[:-1])

    monkeypatch.setattr(PSTHash, "match", losing)
    with pytest.raises(MatchesDifferError, match="psthash differs from the methods before it"):
        measure.measure(workload(), ("sequential", "psthash"), quiet)


def test_events_are_asked_for_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    match = PSTHash.match

    def noting(self: PSTHash, events: Events, now: Instant) -> Matches:
        sizes.append(len(events))
        return match(self, events, now)

    monkeypatch.setattr(PSTHash, "match", noting)
    measured = measure.measure(replace(workload(), batch_events=16), METHODS, quiet)
    assert measured["psthash"].us_per_event > 0
    assert sizes[-3:] == [16, 16, 8], "40 events in batches of 16"


def test_churn_leaves_the_population() -> None:
    inserted, deleted = measure.churn(workload(1_000), "psthash")
    assert inserted > 0 and deleted > 0


def test_the_summary_has_a_line_for_each_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "ALGORITHMS", {name: ALGORITHMS[name] for name in METHODS})
    monkeypatch.setattr(summary, "WORKLOADS", {"small": workload})
    monkeypatch.setattr(summary, "SUBSCRIPTIONS", 1_200)
    monkeypatch.setattr(summary, "CHURNED", 1_000)
    lines = summary.run_summary(tmp_path, quiet)
    assert [(line.workload, line.method) for line in lines] == [("small", name) for name in METHODS]
    with (tmp_path / "summary.csv").open(newline="") as file:
        assert [line["method"] for line in csv.DictReader(file)] == list(METHODS)
    text = (tmp_path / "summary.md").read_text()
    assert "## small\n1,200 subscriptions" in text
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {len(summary.HEADINGS) + 1}
    assert sorted(row[0].strip(" `") for row in rows[2:]) == sorted(METHODS)
    assert (tmp_path / "summary-small.png").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (999.6, "1,000"), (1_234.5, "1,230"), (98_765, "98,800")],
)
def test_numbers_of_charts_have_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_every_figure_names_methods_that_there_are() -> None:
    for figure in (figure for group in run.GROUPS.values() for figure in group):
        assert set(figure.order) <= set(figure.methods), figure.name
        if isinstance(figure, Drift):
            assert set(figure.recovers) <= set(figure.methods), figure.name
        else:
            assert set(figure.methods) <= set(ALGORITHMS), figure.name


DRIFT = Drift(
    "drift",
    "There and back",
    [workload, lambda: fixed_attributes.generate("w0", replace(W0, subscriptions=300, events=40))],
    {"betree": BETree, "psthash": PSTHash},
    ("psthash", "betree"),
    "Small.",
    recovers=("betree",),
)


def test_a_population_is_replaced_step_by_step(tmp_path: Path) -> None:
    course = run_drift(DRIFT, tmp_path, quiet)
    steps = STABLE_STEPS + STEPS + STABLE_STEPS
    assert {label: len(times) for label, times in course.lines.items()} == {
        "betree": steps,
        "psthash": steps,
    }
    with (tmp_path / "drift.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["step"], line["method"]) for line in lines] == [
        (str(step), method) for method in ("betree", "psthash") for step in range(steps)
    ]
    assert all(float(line["us_per_change"]) > 0 for line in lines)
    assert (tmp_path / "drift.png").exists()


@pytest.mark.parametrize(
    ("psthash", "betree", "kept"),
    [((1, 1), (2, 2), True), ((1, 3), (2, 2), False), ((1, 1), (2, 3), False)],
)
def test_a_course_is_judged_by_its_end(
    psthash: tuple[float, float], betree: tuple[float, float], kept: bool
) -> None:
    ends = {"psthash": psthash, "betree": betree}
    lines = {
        label: [first] * STABLE_STEPS + [9.0] * STEPS + [last] * STABLE_STEPS
        for label, (first, last) in ends.items()
    }
    course = Course(DRIFT, lines)
    assert course.keeps_order() is kept
    assert course.order() == sorted(ends, key=lambda label: ends[label][1])


def test_a_verdict_takes_the_place_of_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GROUPS", {"one": (SWEEP, replace(SWEEP, name="other"))})
    for _ in range(2):
        (verdict,) = run.run(["other"], tmp_path, quiet)
    run.run(["small"], tmp_path, quiet)
    with (tmp_path / "orders.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["figure"] for line in lines] == ["other", "small"]
    assert lines[0]["measured"] == " < ".join(verdict.measured)


def test_a_figure_beyond_the_papers_has_no_order_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GROUPS", {"one": (replace(SWEEP, order=()),)})
    (verdict,) = run.run(["one"], tmp_path, quiet)
    assert verdict.kept is None
    assert sorted(verdict.measured) == sorted(METHODS)
    with (tmp_path / "orders.csv").open(newline="") as file:
        assert [line["as in the paper"] for line in csv.DictReader(file)] == ["not ranked"]
