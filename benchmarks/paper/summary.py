"""All methods on all workloads: the table of docs/benchmarks/README.md."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.paper.chart import draw_bars, three_digits
from benchmarks.paper.measure import COLUMNS, Figures, Progress, churn, measure
from benchmarks.workloads import Workload, begen, fixed_attributes, sparse_table
from benchmarks.workloads.begen import ADS, BEGen
from benchmarks.workloads.fixed_attributes import W0
from benchmarks.workloads.sparse_table import SparseTable
from index.registry import ALGORITHMS
from index.updatable import Updatable

SUBSCRIPTIONS = 100_000
EVENTS = 1_024
CHURNED = 20_000
"""Subscriptions of the index whose insertions and deletions are timed."""

WORKLOADS: Mapping[str, Callable[[int], Workload]] = {
    "ads": lambda count: begen.generate("ads", replace(ADS, subscriptions=count, events=EVENTS)),
    "begen": lambda count: begen.generate("begen", BEGen(subscriptions=count, events=EVENTS)),
    "eq": lambda count: fixed_attributes.generate(
        "eq", replace(W0, subscriptions=count, events=EVENTS)
    ),
    "sparse": lambda count: sparse_table.generate(
        "sparse", SparseTable(subscriptions=count, events=EVENTS)
    ),
}

MEASURED = COLUMNS[:4]  # matches are the same for all methods
RATES = ("insert_per_s", "delete_per_s")
HEADINGS = ("µs/event", "bytes/subscription", "build s", "candidates/event", "insert/s", "delete/s")


@dataclass(frozen=True, slots=True)
class Line:
    """One method on one workload."""

    workload: str
    method: str
    figures: Figures
    insert_per_s: float
    delete_per_s: float


def run_summary(folder: Path, progress: Progress) -> list[Line]:
    """Measure all, and write summary.csv, the same as summary.md, and a chart a workload."""
    methods = [name for name, one in ALGORITHMS.items() if issubclass(one, Updatable)]
    lines = []
    for name, generate in WORKLOADS.items():
        figures = measure(generate(SUBSCRIPTIONS), methods, progress)
        small = generate(CHURNED)
        for method in methods:
            progress(f"{name}: {method}, insertions and deletions")
            lines.append(Line(name, method, figures[method], *churn(small, method)))
        title = f"{name}: {SUBSCRIPTIONS:,} subscriptions"
        times = {method: one.us_per_event for method, one in figures.items()}
        draw_bars(folder / f"summary-{name}.png", title, "µs per event", times)
    _write_csv(lines, folder / "summary.csv")
    _write_tables(lines, folder / "summary.md")
    return lines


def _write_csv(lines: list[Line], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["workload", "method", *MEASURED, *RATES])
        for line in lines:
            measured = line.figures.cells(MEASURED)
            rates = [f"{getattr(line, name):.0f}" for name in RATES]
            writer.writerow([line.workload, line.method, *measured, *rates])


def _write_tables(lines: list[Line], path: Path) -> None:
    """A table a workload, the fastest method first."""
    text = ["# All methods on four workloads", "Written by `./herald bench paper summary`."]
    for workload in WORKLOADS:
        own = [line for line in lines if line.workload == workload]
        matches = own[0].figures.matches_per_event
        text += [
            "",
            f"## {workload}",
            f"{SUBSCRIPTIONS:,} subscriptions, {matches:.3g} matches an event; insertions and"
            f" deletions of one at a time, in an index of {CHURNED:,}.",
            "",
            f"| method | {' | '.join(HEADINGS)} |",
            "|---|" + "---:|" * len(HEADINGS),
        ]
        for line in sorted(own, key=lambda one: one.figures.us_per_event):
            cells = [three_digits(getattr(line.figures, name)) for name in MEASURED]
            cells += [three_digits(getattr(line, name)) for name in RATES]
            text.append(f"| `{line.method}` | {' | '.join(cells)} |")
    path.write_text("\n".join(text) + "\n")
