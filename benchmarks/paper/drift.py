"""Drift: the population turns from one workload into another while events go on.

Paper    Fabret et al., SIGMOD 2001, 6.2.2 and Figure 4: every step removes the oldest subscriptions
         and inserts as many of the next workload. Sadoghi, Jacobsen, SIGMOD 2011, Figure 13: from
         uniform to Zipf and back.
Measured after each step the time of an event, and over all steps that of a change. What every
         method matches is compared, step by step. A method that does not change in place is merged
         after each step, as an index is while it serves; a change then has its part of that, too.
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.paper.chart import draw_lines
from benchmarks.paper.measure import NOW, MatchesDifferError, Progress
from benchmarks.paper.sweep import ALIKE, in_order
from benchmarks.workloads import Workload
from index.events import Events, decode_payloads
from index.in_place import InPlace
from index.model import Subscription
from index.updatable import Updatable

STEPS = 8
"""Steps in which a whole population is replaced."""
STABLE_STEPS = 2
"""Steps within one workload, at the beginning and after each change."""
CHANGED_AT_ONCE = 256
"""Subscriptions that leave one by one before as many are added together."""
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Drift:
    """One figure. `stages` are workloads of equal size, one after the other; `methods` are measured
    under their labels. At the end the paper ranks those of `order`, and those of `recovers` are as
    fast as at the beginning.
    """

    name: str
    title: str
    stages: Sequence[Callable[[], Workload]]
    methods: Mapping[str, type[Updatable]]
    order: Sequence[str]
    scaled: str
    recovers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Course:
    """µs an event at each step, by label."""

    drift: Drift
    lines: Mapping[str, Sequence[float]]

    def order(self) -> list[str]:
        """All labels, the one that ends fastest first."""
        return sorted(self.lines, key=self._last)

    def keeps_order(self) -> bool:
        """Does none end faster than one ranked before it, and do those recover that should?"""
        recovers = (
            self._last(label) <= ALIKE * self._first(label) for label in self.drift.recovers
        )
        return in_order([self._last(label) for label in self.drift.order]) and all(recovers)

    def _first(self, label: str) -> float:
        return statistics.mean(self.lines[label][:STABLE_STEPS])

    def _last(self, label: str) -> float:
        return statistics.mean(self.lines[label][-STABLE_STEPS:])


def run_drift(drift: Drift, folder: Path, progress: Progress) -> Course:
    """Measure all steps; write NAME.csv and NAME.png."""
    stages = [stage() for stage in drift.stages]
    lines: dict[str, list[float]] = {}
    change_us: dict[str, float] = {}
    answers: list[list[frozenset[str]]] = []
    for label, method in drift.methods.items():
        progress(f"{drift.name}: {label}")
        found: list[list[frozenset[str]]] = []
        lines[label], change_us[label] = _run(stages, method, found)
        if answers and found != answers:
            raise MatchesDifferError(f"{label} matches other subscriptions than the others")
        answers = found
    _write_csv(folder / f"{drift.name}.csv", lines, change_us)
    steps = list(range(len(next(iter(lines.values())))))
    axes = f"steps of 1/{STEPS} of the population", "µs per event"
    draw_lines(folder / f"{drift.name}.png", drift.title, axes, steps, lines)
    return Course(drift, lines)


def _run(
    stages: Sequence[Workload], method: type[Updatable], found: list[list[frozenset[str]]]
) -> tuple[list[float], float]:
    """µs an event after each step, and µs a change; `found` receives what was matched."""
    living = stages[0].subscriptions
    index = method.build(())
    index.add_all(living)
    _settle(index)
    count = len(living)
    times = []
    changed, change_s = 0, 0.0
    events = _events(index, stages[0])
    for _ in range(STABLE_STEPS):
        times.append(_time(index, events, found))
    for number, workload in enumerate(stages[1:], start=1):
        fresh = [Subscription(f"{number}.{one.id}", one.filter) for one in workload.subscriptions]
        events = _events(index, workload)
        bounds = [count * step // STEPS for step in range(STEPS + 1)]
        for start, stop in pairwise(bounds):
            began = time.perf_counter()
            for at in range(start, stop, CHANGED_AT_ONCE):
                replaced = slice(at, min(at + CHANGED_AT_ONCE, stop))
                for old in living[replaced]:
                    index.remove(old.id)
                index.add_all(fresh[replaced])
            _settle(index)
            change_s += time.perf_counter() - began
            changed += 2 * (stop - start)
            times.append(_time(index, events, found))
        living = fresh
        for _ in range(STABLE_STEPS):
            times.append(_time(index, events, found))
    return times, 1e6 * change_s / max(1, changed)


def _settle(index: Updatable) -> None:
    if not isinstance(index, InPlace):
        index.merge()


def _events(index: Updatable, workload: Workload) -> Events:
    return decode_payloads(workload.payloads, index.vocabulary).events


def _time(index: Updatable, events: Events, found: list[list[frozenset[str]]]) -> float:
    matches = index.match(events, NOW)
    found.append([frozenset(ids) for ids in index.ids_by_event(matches)])
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        index.match(events, NOW)
        rounds.append(time.perf_counter() - started)
    return 1e6 * statistics.median(rounds) / len(events)


def _write_csv(
    path: Path, lines: Mapping[str, Sequence[float]], change_us: Mapping[str, float]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "method", "us_per_event", "us_per_change"])
        for label, times in lines.items():
            for step, us_per_event in enumerate(times):
                writer.writerow([step, label, f"{us_per_event:.4g}", f"{change_us[label]:.4g}"])
