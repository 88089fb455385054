"""A long walk: thousands of changes one after the other, and the oracle's answer after each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from index import recent_rows
from index.algorithms.herald import Herald
from index.evaluate import truth
from index.events import encode
from index.language import parse_text
from index.model import Filter, Subscription
from index.statistics import EventStatistics
from index.updatable import Updatable
from tests.strategies import NOW

pytestmark = pytest.mark.slow
STEPS = 5_000
IDS = [f"s{number}" for number in range(160)]
ATTRIBUTES = "abcdefgh"
TEXTS = "red", "green", "Blue", "blue sky", ""


class Walk:
    """An index, what it should hold, and an older version that somebody still asks for."""

    def __init__(self, index_type: type[Updatable], folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.path = folder / "index.snapshot"
        self.index = index_type.build([])
        self.living: dict[str, Filter] = {}
        self.pinned = self.index.version, dict(self.living)
        self.statistics = EventStatistics()
        self.compared = self.found = 0

    def go(self, steps: int) -> None:
        verbs: list[tuple[Callable[[], None], int]] = [
            (self.add, 40),
            (self.remove, 18),
            (self.match, 34),
            (self.merge, 2),
            (self.drift, 1),
            (self.reopen, 1),
            (self.check, 4),
        ]
        kinds, weights = zip(*verbs, strict=True)
        for step in range(steps):
            try:
                self.random.choices(kinds, weights)[0]()
            except AssertionError as error:
                raise AssertionError(f"after {step} steps: {error}") from error

    def add(self) -> None:
        """New subscriptions and new filters of old ones."""
        nodes = {
            self.random.choice(IDS): parse_text(self.filter_text())
            for _ in range(self.random.choice((1, 1, 1, 9)))
        }
        self.index.add_all([Subscription(name, node) for name, node in nodes.items()])
        self.living |= nodes

    def remove(self) -> None:
        name = self.random.choice(IDS)
        assert self.index.remove(name) == (self.living.pop(name, None) is not None), name

    def match(self) -> None:
        events = [self.event() for _ in range(self.random.choice((1, 2, 7)))]
        for event in events:
            self.statistics.observe_event(event)
        for version, living in (self.index.version, self.living), self.pinned:
            matches = self.index.match(encode(events, self.index.vocabulary), NOW, version)
            ids = self.index.ids_by_event(matches)
            for at, event in enumerate(events):
                rows = matches.row[matches.start[at] : matches.start[at + 1]]
                assert np.all(np.diff(rows) > 0)
                expected = [one for one, node in living.items() if truth(node, event, NOW) is True]
                assert sorted(ids[at]) == sorted(expected), event
                self.compared += 1
                self.found += len(expected)

    def merge(self) -> None:
        self.index.merge(self.pinned[0])

    def drift(self) -> None:
        """Keys are chosen anew by the events seen since the last time."""
        self.index.merge(statistics=self.statistics)
        self.pin()
        self.statistics = EventStatistics()

    def reopen(self) -> None:
        self.index.save(self.path)
        self.index = type(self.index).open(self.path)
        self.pin()

    def check(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.living)

    def pin(self) -> None:
        self.pinned = self.index.version, dict(self.living)

    def filter_text(self, depth: int = 0) -> str:
        """Mostly conjunctions of what can be looked up; sometimes anything."""
        kind = self.random.random()
        if depth == 2 or kind < 0.4:
            return self.predicate_text()
        parts = [self.filter_text(depth + 1) for _ in range(self.random.randint(2, 4))]
        if kind < 0.8:
            return f"({' AND '.join(parts)})"
        if kind < 0.9:
            return f"({' OR '.join(parts)})"
        return (
            f"ATLEAST 2 OF ({', '.join(parts)})" if kind < 0.95 else f"NOT ({' AND '.join(parts)})"
        )

    def predicate_text(self) -> str:
        name, text = self.random.choice(ATTRIBUTES), self.random.choice(TEXTS)
        # Skewed, so that some keys have many rows; and of so many that they fill no word.
        low = int(100 * self.random.random() ** 3)
        return self.random.choice(
            [
                f"{name} = {low}",
                f"{name} = {low}",
                f"{name} IN ({low}, {low + 1}, {3 * low})",
                f"{name} BETWEEN {low} AND {low + 9}",
                f"{name} > {low}",
                f"{name} != {low}",
                f"{name} NOT IN ({low}, 1)",
                f"{name} = '{text}'",
                f"{name} LIKE '{text[:2]}%'",
                f"MISSING {name}",
                f"{name} IS NULL",
            ]
        )

    def event(self) -> dict[str, Any]:
        return {name: self.value() for name in ATTRIBUTES if self.random.random() < 0.7}

    def value(self) -> Any:
        kind = self.random.random()
        if kind < 0.75:
            return int(100 * self.random.random() ** 3)
        if kind < 0.9:
            return self.random.choice(TEXTS)
        return self.random.choice([None, True, 4.5, [1, 2], [], {"a": 1}])


def test_the_oracle_is_agreed_with_at_every_step(tmp_path: Path, monkeypatch: Any) -> None:
    # Few rows make segments, so that all of a segment's life is passed many times.
    monkeypatch.setattr(recent_rows, "TAIL_ROWS_MAX", 8)
    walk = Walk(Herald, tmp_path, seed=5)
    walk.go(STEPS)
    assert walk.compared > STEPS
    assert walk.found > walk.compared


def test_changes_leave_no_more_bytes_than_a_fresh_build() -> None:
    """Ten times the population replaced, merged now and then."""
    random = Random(1)

    def changed() -> list[Subscription]:
        return [
            Subscription(
                f"s{one}",
                parse_text(
                    f"a = {random.randrange(99)} AND b IN ({random.randrange(10**6)}, {one}) "
                    f"AND c CONTAINS 'needle {random.randrange(10**6)}'"
                ),
            )
            for one in range(1_000)
        ]

    index = Herald.build(changed())
    for change in range(10):
        for one in changed():
            index.add(one)
        if change % 3 == 2:
            index.merge()
    last = changed()
    index.add_all(last)
    index.merge()
    fresh = Herald.build(last)
    assert index.stats()["row_count"] == fresh.stats()["row_count"] == 1_000
    for part in ("row_bytes", "structure_bytes"):
        assert index.stats()[part] <= 1.3 * fresh.stats()[part], part
