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
from index.model import And, AtLeast, Filter, Not, Operator, Or, Predicate, Subscription
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


@st.composite
def crowds(draw: st.DrawFn) -> World:
    """Many small filters over few attributes and values, so that most events match some.

    Random filters seldom hold as a whole; then a lost match would seldom be seen.
    """
    values = st.sampled_from((0, 1, 2, 3, "x", "xy", "X", True, None))
    numbers = st.sampled_from((0, 1, 2, 3))
    words = st.sampled_from(("x", "xy", "y"))
    paths = st.sampled_from((("a",), ("b",), ("c",), ("d",)))
    operands: dict[Operator, st.SearchStrategy[Any]] = {
        Operator.EQ: values.filter(lambda one: one is not None),
        Operator.NE: numbers,
        Operator.IN: st.lists(numbers | words, min_size=1, max_size=3).map(tuple),
        Operator.LE: numbers | words,
        Operator.GT: numbers | words,
        Operator.BETWEEN: st.tuples(numbers, numbers).map(lambda pair: tuple(sorted(pair))),
        Operator.PREFIX: words.map(lambda word: (word,)),
        Operator.LIKE: words.map(lambda word: word[0] + "%"),
        Operator.IS_NULL: st.none(),
        Operator.EXISTS: st.none(),
        Operator.MISSING: st.none(),
    }
    leaves = st.sampled_from(tuple(operands)).flatmap(
        lambda operator: st.builds(Predicate, paths, st.just(operator), operands[operator])
    )
    several = st.lists(leaves, min_size=1, max_size=4).map(tuple)
    nodes = st.one_of(
        several.map(And), several.map(And), several.map(Or), leaves.map(Not), several.map(_most_of)
    )
    trees = nodes | st.lists(nodes, min_size=2, max_size=3).map(lambda some: And(tuple(some)))
    value = values | values | st.lists(values, max_size=3)
    event = st.dictionaries(st.sampled_from("abcd"), value, min_size=2)
    return (
        draw(st.lists(trees, min_size=5, max_size=25)),
        draw(st.lists(event, min_size=1, max_size=8)),
    )


def _most_of(leaves: tuple[Filter, ...]) -> Filter:
    return AtLeast((len(leaves) + 1) // 2, leaves)


@settings(max_examples=300)
@given(crowds())
def test_nothing_is_missed_in_a_crowd(world: World) -> None:
    nodes, events = world
    index = PSTHash.build(subscriptions(nodes))
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


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
