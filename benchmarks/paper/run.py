"""`./herald bench paper`: names of figures and tables, and the record of how they came out."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper import betree, fabret, opindex, own, pstree, tatbul
from benchmarks.paper.drift import Drift, run_drift
from benchmarks.paper.measure import Progress
from benchmarks.paper.summary import run_summary
from benchmarks.paper.sweep import Sweep, run_sweep
from benchmarks.paper.table import PaperTable, keeps_order, run_table

Figure = Sweep | PaperTable | Drift

GROUPS: dict[str, Sequence[Figure]] = {
    "table2": (pstree.TABLE2,),
    "table3": (pstree.TABLE3,),
    "pstree": pstree.SWEEPS,
    "betree": (*betree.SWEEPS, *betree.DRIFTS),
    "opindex": opindex.SWEEPS,
    "fabret": (*fabret.SWEEPS, *fabret.DRIFTS),
    "tatbul": tatbul.SWEEPS,
    "herald": own.SWEEPS,
}
SUMMARY = "summary"
ALL = "all"
ORDERS = "orders.csv"
KEPT = {True: "yes", False: "no", None: "not ranked"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the order of the methods came out against the paper's."""

    name: str
    title: str
    paper: tuple[str, ...]
    measured: tuple[str, ...]
    kept: bool | None  # None if the paper ranks none
    scaled: str


def names() -> list[str]:
    """What can be asked for: groups, single figures, the summary, and all."""
    single = [one.name for group in GROUPS.values() for one in group]
    return [*GROUPS, *single, SUMMARY, ALL]


def run(wanted: Sequence[str], folder: Path, progress: Progress) -> list[Verdict]:
    """Draw what is wanted into a folder; the verdicts are kept there, the earlier ones too."""
    verdicts = []
    for group, figures in GROUPS.items():
        for figure in figures:
            if ALL in wanted or group in wanted or figure.name in wanted:
                verdicts.append(_draw(figure, folder, progress))
                _record(verdicts[-1], folder / ORDERS)
    if ALL in wanted or SUMMARY in wanted:
        run_summary(folder, progress)
    return verdicts


def _draw(figure: Figure, folder: Path, progress: Progress) -> Verdict:
    if isinstance(figure, Sweep):
        outcome = run_sweep(figure, folder, progress)
        measured, kept = outcome.order(), outcome.keeps_order()
    elif isinstance(figure, Drift):
        course = run_drift(figure, folder, progress)
        measured, kept = course.order(), course.keeps_order()
    else:
        figures = run_table(figure, folder, progress)
        measured = sorted(figures, key=lambda method: figures[method].us_per_event)
        kept = keeps_order(figure, figures)
    return Verdict(
        figure.name,
        figure.title,
        tuple(figure.order),
        tuple(measured),
        kept if figure.order else None,
        figure.scaled,
    )


def _record(verdict: Verdict, path: Path) -> None:
    """Put the line of a figure in the place of its earlier one."""
    known: dict[str, list[str]] = {}
    if path.exists():
        with path.open(newline="") as file:
            known = {line[0]: line for line in list(csv.reader(file))[1:]}
    known[verdict.name] = [
        verdict.name,
        verdict.title,
        " < ".join(verdict.paper),
        " < ".join(verdict.measured),
        KEPT[verdict.kept],
        verdict.scaled,
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["figure", "title", "paper", "measured", "as in the paper", "scaled"])
        writer.writerows(known[name] for name in sorted(known))
