"""The demo's verdict: what was notified against an independent count and against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deploy.demo.independent import FlightCounter
from deploy.demo.written import WRITTEN
from index.decode import parse_event
from index.evaluate import truth
from index.filter_json import parse_json
from index.language import parse_text
from index.model import Filter, Instant

Tree = dict[str, Any]

SHOWN = 5
SEED = 7


@dataclass(frozen=True)
class Verdict:
    """Whether two tellings of the same agree, and the first places where they do not."""

    title: str
    expected: int
    found: int
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """No difference."""
        return not self.differences


def independent_counts(table: pa.Table, generated: Iterable[tuple[str, Tree]]) -> Counter[str]:
    """Matches of every demo subscription, by pyarrow alone."""
    counts = Counter({one.id: table.filter(one.twin).num_rows for one in WRITTEN})
    counts.update(FlightCounter(table).count_all(generated))
    return +counts


def compare_counts(expected: Counter[str], found: Counter[str]) -> Verdict:
    """Subscription by subscription, so that a lost and a false notification cannot cancel out."""
    wrong = [name for name in expected.keys() | found.keys() if expected[name] != found[name]]
    shown = [f"{name}: {expected[name]:,} expected, {found[name]:,} notified" for name in wrong]
    return Verdict(
        "independent count, each subscription",
        expected.total(),
        found.total(),
        tuple(sorted(shown)),
    )


def sample_rows(count: int, size: int) -> list[int]:
    """The flights that the oracle will look at."""
    return sorted(random.Random(SEED).sample(range(count), min(size, count)))


def compare_sample(
    payloads: Sequence[bytes],
    generated: Iterable[tuple[str, Tree]],
    heard: Mapping[int, Iterable[str]],
) -> Verdict:
    """Every subscription evaluated by the oracle on the sampled flights.

    `heard` has, for each sampled row of `payloads`, the subscriptions that were notified.
    """
    filters: dict[str, Filter] = {one.id: parse_text(one.expr) for one in WRITTEN}
    filters.update((name, parse_json(tree)) for name, tree in generated)
    differences, expected_total, found_total = [], 0, 0
    for row, names in heard.items():
        expected, found = matching(filters, payloads[row]), set(names)
        expected_total += len(expected)
        found_total += len(found)
        if expected != found:
            differences.append(
                f"flight {row}: lost {sorted(expected - found)[:SHOWN]}, "
                f"false {sorted(found - expected)[:SHOWN]}"
            )
    title = f"oracle, {len(heard)} flights × {len(filters):,} subscriptions"
    return Verdict(title, expected_total, found_total, tuple(differences))


def matching(filters: Mapping[str, Filter], payload: bytes) -> set[str]:
    """Ids of the filters that are TRUE of an event, by the oracle."""
    event = parse_event(payload)
    epoch = Instant(0, 0)  # no demo subscription asks for the time
    return {name for name, filter_ in filters.items() if truth(filter_, event, epoch) is True}
