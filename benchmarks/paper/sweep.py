"""A sweep: one parameter of a workload takes several values, and methods are measured at each."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean

from benchmarks.paper.chart import draw_lines
from benchmarks.paper.measure import COLUMNS, Figures, Progress, measure
from benchmarks.workloads import Workload

FIGURES = {
    "us_per_event": "µs per event",
    "bytes_per_subscription": "bytes per subscription",
    "build_s": "build, seconds",
    "candidates_per_event": "candidates per event",
    "evaluation_count": "value comparisons per event",
}
"""What can be drawn, and the label of its axis."""
ALIKE = 1.1
"""Methods within that factor are not told apart."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One figure of a paper at the sizes of this machine.

    name       of the files it is written to
    title      what the figure shows, and where it stands in the paper
    parameter  what varies
    values     its values
    workload   the workload at one value
    methods    names of the registry
    order      methods as the paper ranks them, the fastest first; none beyond the paper
    figure     what is drawn
    scaled     the sizes here against those of the paper
    """

    name: str
    title: str
    parameter: str
    values: Sequence[float]
    workload: Callable[[float], Workload]
    methods: Sequence[str]
    order: Sequence[str]
    scaled: str
    figure: str = "us_per_event"
    published: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the paper prints, by method, in the unit of the figure."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Other things measured that are drawn, too: what, and the title."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep measured."""

    sweep: Sweep
    points: dict[float, dict[str, Figures]]

    def value(self, at: float, method: str, figure: str) -> float:
        """What was measured of a method at one point."""
        figures = self.points[at][method]
        if figure in figures.counted:
            return figures.counted[figure]
        return float(getattr(figures, figure))

    def mean(self, method: str) -> float:
        """The geometric mean of a method's drawn figure over all points."""
        figure = self.sweep.figure
        return geometric_mean(max(self.value(at, method, figure), 1e-9) for at in self.points)

    def draw(self, path: Path, title: str, figure: str) -> None:
        """A chart of one thing measured."""
        sweep = self.sweep
        lines = {
            method: [self.value(at, method, figure) for at in sweep.values]
            for method in sweep.methods
        }
        draw_lines(path, title, (sweep.parameter, FIGURES[figure]), list(sweep.values), lines)

    def order(self) -> list[str]:
        """All methods, the fastest first."""
        return sorted(self.sweep.methods, key=self.mean)

    def keeps_order(self) -> bool:
        """Is no method faster, by more than what is alike, than one that the paper ranks before?"""
        return in_order([self.mean(method) for method in self.sweep.order])


def in_order(values: Sequence[float]) -> bool:
    """Is none less, by more than what is alike, than one before it?"""
    return all(
        first <= ALIKE * second for at, first in enumerate(values) for second in values[at + 1 :]
    )


def run_sweep(sweep: Sweep, folder: Path, progress: Progress) -> Outcome:
    """Measure every point; write NAME.csv, NAME.png, and NAME-FIGURE.png of what else is drawn."""
    points = {at: measure(sweep.workload(at), sweep.methods, progress) for at in sweep.values}
    outcome = Outcome(sweep, points)
    write_csv(outcome, folder / f"{sweep.name}.csv")
    outcome.draw(folder / f"{sweep.name}.png", sweep.title, sweep.figure)
    for figure, title in sweep.also.items():
        outcome.draw(folder / f"{sweep.name}-{figure}.png", title, figure)
    return outcome


def write_csv(outcome: Outcome, path: Path) -> None:
    """One line a point and method."""
    sweep = outcome.sweep
    path.parent.mkdir(parents=True, exist_ok=True)
    extra = [sweep.figure] if sweep.figure not in COLUMNS else []
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([sweep.parameter, "method", *COLUMNS, *extra])
        for at, methods in outcome.points.items():
            for method, figures in methods.items():
                measured = figures.cells(COLUMNS)
                measured += [f"{outcome.value(at, method, one):.6g}" for one in extra]
                writer.writerow([f"{at:g}", method, *measured])
