"""PSTHash against scan, and against the examples of its paper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from index.algorithms.psthash import PSTHash
from index.algorithms.scan import Scan
from index.events import encode
from index.language import parse_text
from index.model import And, Filter, Or, Subscription
from index.statistics import EventStatistics
from tests.crowds import crowds
from tests.strategies import NOW, events_near, filters, predicates

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


CHANGED_EXAMPLES = 2_000 if os.environ.get("CI") == "true" else 300


@settings(max_examples=CHANGED_EXAMPLES)
@given(crowds() | worlds, st.integers(0, 25), st.randoms(use_true_random=False))
def test_adds_and_removes_in_between(world: World, built_count: int, order: Random) -> None:
    nodes, events = world
    given_all = subscriptions(nodes)
    index, scan = PSTHash.build(given_all[:built_count]), Scan.build(given_all[:built_count])
    changes = given_all[built_count:]
    replaced = [Subscription(one.id, order.choice(nodes)) for one in given_all[:built_count:3]]
    removed = [one.id for one in order.sample(given_all, len(given_all) // 2)]
    steps: list[Subscription | str] = [*changes, *replaced, *removed]
    order.shuffle(steps)
    for number, step in enumerate(steps):
        if isinstance(step, Subscription):
            index.add(step)
            scan.add(step)
        else:
            assert index.remove(step) == scan.remove(step)
        if number % 16 == 8:
            assert matched(index, events) == matched(scan, events)
    assert matched(index, events) == matched(scan, events)
    index.merge()
    assert matched(index, events) == matched(scan, events)


@given(worlds)
def test_statistics_change_no_match(world: World) -> None:
    nodes, events = world
    statistics = EventStatistics()
    for event in events:
        statistics.observe_event(event)
    index = PSTHash.build(subscriptions(nodes), statistics)
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)
