"""Measuring methods side by side on one workload.

All methods share the rows of one base and the decoded events, so what differs is the structure and
the search alone. A method is asked for all events in one batch, or in batches of the size that the
workload wants, or for the first of them if it is slow. Rounds of all methods are interleaved, and
each figure is the median of its rounds. On every event that two methods see, their matches are
compared.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from benchmarks.workloads import Workload
from index.columns import Matches
from index.events import Events, decode_payloads
from index.model import Instant
from index.registry import ALGORITHMS
from index.updatable import Updatable

EVENTS_MIN = 8
"""Events that every method sees, however slow it is."""
ROUND_S = 0.4
"""At most so long a method is asked in a round, unless it sees no more than these."""
ROUNDS = 3
WARM_SUBSCRIPTIONS = 200
CHURN_SUBSCRIPTIONS = 1_000
SEED = 1
NOW = Instant(0, 0)

Progress = Callable[[str], None]

COLUMNS = (
    "us_per_event",
    "bytes_per_subscription",
    "build_s",
    "candidates_per_event",
    "matches_per_event",
)
"""What CSV files tell of a method; see `Figures`."""


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

    def cells(self, columns: Sequence[str]) -> list[str]:
        """What was measured, as it stands in a CSV file."""
        return [f"{getattr(self, name):.4g}" for name in columns]


@dataclass(slots=True)
class _Contender:
    name: str
    index: Updatable
    build_s: float
    events: Events
    batches: Sequence[Events]  # the same, as many as are asked for in one call
    counted: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


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

    @cache
    def first_events(count: int) -> Events:
        return decode_payloads(workload.payloads[:count], rows.vocabulary).events

    contenders = []
    matches: Matches | None = None
    for name, algorithm in classes.items():
        progress(f"{workload.name}: {name}")
        contender = _prepare(name, algorithm, workload, rows, first_events)
        contenders.append(contender)
        matches = _compared(contender, matches)
    for _ in range(ROUNDS):
        for contender in contenders:
            contender.seconds.append(_time(contender.index, contender.batches))
    matched = 0.0 if matches is None else matches.row.size / (matches.start.size - 1)
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
    first_events: Callable[[int], Events],
) -> _Contender:
    # Kernels compile on first use, or load from their cache: not what build_s is about.
    warm = algorithm.build(workload.subscriptions[:WARM_SUBSCRIPTIONS])
    warm.match(decode_payloads(workload.payloads[:1], warm.vocabulary).events, NOW)
    started = time.perf_counter()
    index = algorithm.sharing(rows)
    build_s = time.perf_counter() - started
    count = min(EVENTS_MIN, len(workload.payloads))
    index.match(first_events(count), NOW)
    while (room := ROUND_S / _time(index, [first_events(count)])) >= 2:
        if count == len(workload.payloads):
            break
        count = min(len(workload.payloads), count << int(math.log2(room)))
    events = first_events(count)
    size = workload.batch_events or count
    if size >= count:
        return _Contender(name, index, build_s, events, [events])
    starts = range(0, count, size)
    payloads = [workload.payloads[start : min(start + size, count)] for start in starts]
    batches = [decode_payloads(some, index.vocabulary).events for some in payloads]
    return _Contender(name, index, build_s, events, batches)


def _compared(contender: _Contender, known: Matches | None) -> Matches:
    """What is known or what the method finds, of more events, after comparing what both have."""
    before = contender.index.stats()
    found = contender.index.match(contender.events, NOW)
    contender.counted = {
        name: (total - before[name]) / len(contender.events)
        for name, total in contender.index.stats().items()
    }
    if known is None:
        return found
    stop = min(found.start.size, known.start.size)
    same = np.array_equal(found.start[:stop], known.start[:stop])
    if not same or not np.array_equal(
        found.row[: found.start[stop - 1]], known.row[: known.start[stop - 1]]
    ):
        raise MatchesDifferError(f"{contender.name} differs from the methods before it")
    return max(found, known, key=lambda one: one.start.size)


def _time(index: Updatable, batches: Sequence[Events]) -> float:
    started = time.perf_counter()
    for events in batches:
        index.match(events, NOW)
    return time.perf_counter() - started


def _figures(contender: _Contender, count: int, matched: float) -> Figures:
    structure_bytes = contender.index.stats()["structure_bytes"]
    return Figures(
        1e6 * statistics.median(contender.seconds) / len(contender.events),
        structure_bytes / max(1, count),
        contender.build_s,
        matched,
        contender.counted,
    )


def churn(workload: Workload, name: str) -> tuple[float, float]:
    """Subscriptions inserted and deleted a second, one call each, of an index of the workload."""
    chosen = random.Random(SEED).sample(workload.subscriptions, CHURN_SUBSCRIPTIONS)
    warm = updatable(name).build(chosen[:WARM_SUBSCRIPTIONS])
    for subscription in chosen[:WARM_SUBSCRIPTIONS]:
        warm.remove(subscription.id)
        warm.add(subscription)
    index = updatable(name).build(workload.subscriptions)
    started = time.perf_counter()
    for subscription in chosen:
        index.remove(subscription.id)
    deleted = time.perf_counter()
    for subscription in chosen:
        index.add(subscription)
    inserted = time.perf_counter()
    assert len(index) == len(workload.subscriptions), name
    return len(chosen) / (inserted - deleted), len(chosen) / (deleted - started)
