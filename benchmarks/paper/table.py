"""A table of a paper: several methods on one workload, beside the numbers that the paper prints."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.paper.chart import draw_bars
from benchmarks.paper.measure import COLUMNS, Figures, Progress, measure
from benchmarks.paper.sweep import in_order
from benchmarks.workloads import Workload
from index.updatable import Updatable


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table at the sizes of this machine; `published` is in µs per event. `variants` of methods
    are measured, too, to see what a difference comes from.
    """

    name: str
    title: str
    workload: Callable[[], Workload]
    methods: Sequence[str]
    order: Sequence[str]
    scaled: str
    published: Mapping[str, float] = field(default_factory=dict)
    variants: Mapping[str, type[Updatable]] = field(default_factory=dict)


def run_table(table: PaperTable, folder: Path, progress: Progress) -> dict[str, Figures]:
    """Measure, and write NAME.csv and NAME.png."""
    figures = measure(table.workload(), table.methods, progress, table.variants)
    path = folder / f"{table.name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", *COLUMNS, "published_us_per_event"])
        for method, one in figures.items():
            writer.writerow([method, *one.cells(COLUMNS), table.published.get(method, "")])
    times = {method: one.us_per_event for method, one in figures.items()}
    draw_bars(folder / f"{table.name}.png", table.title, "µs per event", times)
    return figures


def keeps_order(table: PaperTable, figures: Mapping[str, Figures]) -> bool:
    """Is no method faster, by more than what is alike, than one that the paper ranks before?"""
    return in_order([figures[method].us_per_event for method in table.order])
