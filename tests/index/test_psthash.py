"""PSTHash against scan, and against the examples of its paper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from index.algorithms.psthash import PSTHash
from index.algorithms.scan import Scan
from index.events import encode
from index.language import parse_text
from index.model import And, AtLeast, Filter, Not, Operator, Or, Predicate, Subscription
from index.statistics import EventStatistics
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


_NUMBERS: tuple[Any, ...] = (0, 1, 2, 3)
_WORDS: tuple[Any, ...] = ("x", "xy", "y")
_VALUES: tuple[Any, ...] = (*_NUMBERS, "x", "xy", "X", True, None)
_OPERANDS: dict[Operator, Sequence[Any]] = {
    Operator.EQ: _VALUES[:-1],
    Operator.NE: _NUMBERS,
    Operator.IN: [
        tuple(some) for size in (1, 2, 3) for some in combinations(_NUMBERS + _WORDS, size)
    ],
    Operator.LE: _NUMBERS + _WORDS,
    Operator.GT: _NUMBERS + _WORDS,
    Operator.BETWEEN: list(combinations_with_replacement(_NUMBERS, 2)),
    Operator.PREFIX: [(word,) for word in _WORDS],
    Operator.LIKE: ["x%", "y%"],
    Operator.IS_NULL: [None],
    Operator.EXISTS: [None],
    Operator.MISSING: [None],
}
_LEAVES = [
    [Predicate((path,), operator, operand) for path in "abcd" for operand in _OPERANDS[operator]]
    for operator in _OPERANDS
]


@st.composite
def crowds(draw: st.DrawFn) -> World:
    """Many small filters over few attributes and values, so that most events match some.

    Random filters seldom hold as a whole; then a lost match would seldom be seen. Leaves are drawn
    from lists made once: drawing their parts took ten times as long as the test itself.
    """
    leaves = st.one_of(*map(st.sampled_from, _LEAVES))
    several = st.lists(leaves, min_size=1, max_size=4).map(tuple)
    nodes = st.one_of(
        several.map(And), several.map(And), several.map(Or), leaves.map(Not), several.map(_most_of)
    )
    trees = nodes | st.lists(nodes, min_size=2, max_size=3).map(lambda some: And(tuple(some)))
    single = st.sampled_from(_VALUES)
    value = single | single | st.lists(single, max_size=3)
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
