"""PSTHash against scan, and against the examples of its paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.algorithms.psthash import PSTHash
from index.algorithms.scan import Scan
from index.events import encode
from index.language import parse_text
from index.model import And, Filter, Or, Subscription
from index.statistics import EventStatistics
from tests.strategies import NOW, events_near, filters, predicates

GOLDEN = Path(__file__).parent.parent / "golden" / "psthash.json"

World = tuple[list[Filter], list[dict[str, Any]]]


def conjunctions() -> st.SearchStrategy[Filter]:
    return st.lists(predicates(), min_size=2, max_size=5).map(lambda leaves: And(tuple(leaves)))


def disjunctions() -> st.SearchStrategy[Filter]:
    return st.lists(conjunctions(), min_size=2, max_size=3).map(lambda nodes: Or(tuple(nodes)))


worlds: st.SearchStrategy[World] = st.lists(
    filters() | conjunctions() | conjunctions() | disjunctions(), min_size=1, max_size=8
).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(events_near(*nodes), min_size=1, max_size=5))
)


def subscriptions(nodes: Sequence[Filter]) -> list[Subscription]:
    return [Subscription(f"s{number}", node) for number, node in enumerate(nodes)]


def built(*texts: str) -> PSTHash:
    return PSTHash.build(subscriptions([parse_text(text) for text in texts]))


def matched(index: PSTHash | Scan, events: Sequence[dict[str, Any]]) -> list[list[str]]:
    matches = index.match(encode(events, index.vocabulary), NOW)
    return [sorted(ids) for ids in index.ids_by_event(matches)]


@settings(max_examples=300)
@given(worlds)
def test_matches_are_those_of_scan(world: World) -> None:
    nodes, events = world
    index = PSTHash.build(subscriptions(nodes))
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


@given(worlds)
def test_statistics_change_no_match(world: World) -> None:
    nodes, events = world
    statistics = EventStatistics()
    for event in events:
        statistics.observe_event(event)
    index = PSTHash.build(subscriptions(nodes), statistics)
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: case["name"])
def test_golden(case: dict[str, Any]) -> None:
    index = PSTHash.build(
        [Subscription(name, parse_text(text)) for name, text in case["subscriptions"].items()]
    )
    index.check()
    filed = {name: index.filing_of(name) for name in case["subscriptions"]}
    assert filed == case["filed"]
    for asked in case["events"]:
        before = index.stats()["candidate_count"]
        assert matched(index, [asked["event"]]) == [asked["matches"]]
        assert index.stats()["candidate_count"] - before == asked["candidate_count"]
