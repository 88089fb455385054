"""Measuring methods side by side on one workload.

All methods share the rows of one base and the decoded events, so what differs is the structure and
the search alone. Rounds of all methods are interleaved, each figure is the median of its rounds,
and slow methods see fewer events. On every event that two methods see, their matches are compared.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.workloads import Workload
from index.columns import Matches
from index.events import Events, decode_payloads
from index.model import Instant
from index.registry import ALGORITHMS
from index.updatable import Updatable

BATCH_EVENTS = 256
PILOT_EVENTS = 8
"""Events that every method sees, to know how many more it can be asked."""
ROUND_S = 0.4
"""At most so long a method is asked in a round, one batch or the pilot excepted."""
ROUNDS = 3
WARM_SUBSCRIPTIONS = 200
CHURN_SUBSCRIPTIONS = 1_000
SEED = 1
NOW = Instant(0, 0)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one method at one point."""

    us_per_event: float
    bytes_per_subscription: float  # of the structure; rows are shared
    build_s: float  # of the structure; filters are compiled once for all
    matches_per_event: float
    counted: dict[str, float]  # what rises in `stats` while matching, an event

    @property
    def candidates_per_event(self) -> float:
        """Subscriptions that the method had to look at."""
        return self.counted["candidate_count"]


@dataclass(slots=True)
class _Contender:
    name: str
    index: Updatable
    build_s: float
    batches: list[Events]
    counted: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def event_count(self) -> int:
        return sum(len(events) for events in self.batches)


class MatchesDifferError(AssertionError):
    """Two methods disagree, so no time of theirs means anything."""


def measure(
    workload: Workload,
    methods: Sequence[str],
    progress: Progress,
    variants: Mapping[str, type[Updatable]] | None = None,
) -> dict[str, Figures]:
    """Figures of each method of the registry, and of each variant, which has a name of its own;
    MatchesDifferError if they do not find the same.
    """
    classes = {name: updatable(name) for name in methods} | dict(variants or {})
    rows = updatable("sequential").build(workload.subscriptions)
    events = [
        decode_payloads(workload.payloads[start : start + BATCH_EVENTS], rows.vocabulary).events
        for start in range(0, len(workload.payloads), BATCH_EVENTS)
    ]
    pilot = decode_payloads(workload.payloads[:PILOT_EVENTS], rows.vocabulary).events
    contenders = []
    matches: list[Matches] = []
    for name, algorithm in classes.items():
        progress(f"{workload.name}: {name}")
        contender = _prepare(name, algorithm, workload, rows, (pilot, events))
        contenders.append(contender)
        matches = _compared(contender, matches, methods[0])
    for _ in range(ROUNDS):
        for contender in contenders:
            contender.seconds.append(_time(contender))
    matched = sum(one.row.size for one in matches) / sum(one.start.size - 1 for one in matches)
    return {one.name: _figures(one, len(workload.subscriptions), matched) for one in contenders}


def updatable(name: str) -> type[Updatable]:
    """The algorithm of that name, which has to be one that is built of segments."""
    algorithm = ALGORITHMS[name]
    assert issubclass(algorithm, Updatable), name
    return algorithm


def _prepare(
    name: str,
    algorithm: type[Updatable],
    workload: Workload,
    rows: Updatable,
    asked: tuple[Events, list[Events]],
) -> _Contender:
    pilot, events = asked
    # Kernels compile on first use, or load from their cache: not what build_s is about.
    warm = algorithm.build(workload.subscriptions[:WARM_SUBSCRIPTIONS])
    warm.match(decode_payloads(workload.payloads[:1], warm.vocabulary).events, NOW)
    started = time.perf_counter()
    index = algorithm.sharing(rows)
    build_s = time.perf_counter() - started
    index.match(pilot, NOW)
    started = time.perf_counter()
    index.match(pilot, NOW)
    batch_s = (time.perf_counter() - started) / len(pilot) * BATCH_EVENTS
    count = min(len(events), int(ROUND_S / batch_s))
    return _Contender(name, index, build_s, events[:count] if count else [pilot])


def _compared(contender: _Contender, known: list[Matches], first: str) -> list[Matches]:
    """The longer of what is known and what the method finds, after comparing what both have."""
    before = contender.index.stats()
    found = [contender.index.match(events, NOW) for events in contender.batches]
    contender.counted = {
        name: (total - before[name]) / contender.event_count
        for name, total in contender.index.stats().items()
    }
    for number, (one, other) in enumerate(zip(found, known, strict=False)):
        last = min(one.start.size, other.start.size) - 1
        stop = int(one.start[last])
        same = np.array_equal(one.start[: last + 1], other.start[: last + 1])
        if not same or not np.array_equal(one.row[:stop], other.row[:stop]):
            problem = f"{contender.name} and {first} differ in batch {number}"
            raise MatchesDifferError(problem)
    return max(found, known, key=lambda one: sum(matches.start.size for matches in one))


def _time(contender: _Contender) -> float:
    started = time.perf_counter()
    for events in contender.batches:
        contender.index.match(events, NOW)
    return time.perf_counter() - started


def _figures(contender: _Contender, count: int, matched: float) -> Figures:
    structure_bytes = contender.index.stats()["structure_bytes"]
    return Figures(
        1e6 * statistics.median(contender.seconds) / contender.event_count,
        structure_bytes / max(1, count),
        contender.build_s,
        matched,
        contender.counted,
    )


def churn(workload: Workload, name: str) -> tuple[float, float]:
    """Subscriptions inserted and deleted a second, one call each, of an index of the workload."""
    index = updatable(name).build(workload.subscriptions)
    chosen = random.Random(SEED).sample(workload.subscriptions, CHURN_SUBSCRIPTIONS)
    started = time.perf_counter()
    for subscription in chosen:
        index.remove(subscription.id)
    deleted = time.perf_counter()
    for subscription in chosen:
        index.add(subscription)
    inserted = time.perf_counter()
    assert len(index) == len(workload.subscriptions), name
    return len(chosen) / (inserted - deleted), len(chosen) / (deleted - started)
