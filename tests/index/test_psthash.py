"""PSTHash against scan, and against the examples of its paper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.algorithms.psthash import PSTHash, PSTHash1, PSTHash3, TripleKeyTable
from index.algorithms.scan import Scan
from index.language import parse_text
from index.model import And, Filter, Or, Subscription
from index.statistics import EventStatistics
from tests.crowds import crowds
from tests.drawn import thoroughly
from tests.index.segments import matched
from tests.strategies import events_near, filters, predicates

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


def built(*texts: str, kind: type[PSTHash] = PSTHash) -> PSTHash:
    return kind.build(subscriptions([parse_text(text) for text in texts]))


@settings(max_examples=thoroughly(300))
@given(st.sampled_from((PSTHash, PSTHash, PSTHash1, PSTHash3, PSTHash3)), crowds())
def test_nothing_is_missed_in_a_crowd(kind: type[PSTHash], world: World) -> None:
    nodes, events = world
    index = kind.build(subscriptions(nodes))
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


@settings(max_examples=thoroughly(300))
@given(worlds)
def test_matches_are_those_of_scan(world: World) -> None:
    nodes, events = world
    index = PSTHash.build(subscriptions(nodes))
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


CHANGED_EXAMPLES = 2_000 if os.environ.get("CI") == "true" else 300


@settings(max_examples=thoroughly(CHANGED_EXAMPLES))
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


MANY = " AND ".join(f"{name} = {value}" for name, value in zip("abcde", range(5), strict=True))


@pytest.mark.parametrize(
    ("kind", "filed"),
    [
        (PSTHash1, "under a = 0"),
        (PSTHash, "under a = 0 with b = 1"),
        (PSTHash3, "under a = 0 with b = 1 with c = 2"),
    ],
)
def test_rows_have_up_to_n_access_predicates(kind: type[PSTHash], filed: str) -> None:
    index = built(MANY, "a = 0", kind=kind)
    assert (index.filing_of("s0"), index.filing_of("s1")) == (filed, "under a = 0")
    event = dict(zip("abcde", range(5), strict=True))
    assert matched(index, [event, {**event, "e": 5}, {**event, "c": 1}]) == [
        ["s0", "s1"],
        ["s1"],
        ["s1"],
    ]


def test_triples_of_spaces_in_several_dimensions() -> None:
    """A list of numbers and of strings without case has spaces in two dimensions."""
    lists = [f"{name} IN ({number}, 'x{number}') NOCASE" for number, name in enumerate("abc")]
    texts = [" AND ".join(some) for some in (lists, lists[::-1], [*lists[:2], "c > 1"])]
    index = built(*texts, kind=PSTHash3)
    index.check()
    assert index.stats()["triple_key_element_count"] == 3
    scan = Scan.build(subscriptions([parse_text(text) for text in texts]))
    values: list[dict[str, Any]] = [
        {"a": a, "b": b, "c": c}
        for a in (0, "X0", [1, "x0"])
        for b in (1, "x1", "x0")
        for c in (2, "x2", [7, "X2"], None)
    ]
    found = matched(index, values)
    assert found == matched(scan, values)
    assert found[0] == ["s0", "s1", "s2"]


def test_room_for_hits_grows_with_triples() -> None:
    texts = [f"a{n % 40} = 1 AND b = {n % 3} AND d = {n % 2} AND c < {n}" for n in range(400)]
    index = built(*texts, "MISSING x", kind=PSTHash3)
    scan = Scan.build(subscriptions([parse_text(text) for text in [*texts, "MISSING x"]]))
    every: dict[str, Any] = {f"a{n}": 1 for n in range(40)}
    every |= {"b": [1, 2], "c": -1, "d": [0, 1]}
    events = [{"a1": 1, "b": 1, "c": 0, "d": 1}, *[every] * 5, {}]
    assert index.stats()["triple_key_element_count"] == 400
    assert matched(index, events) == matched(scan, events)


def test_check_sees_broken_triples() -> None:
    texts = [f"a = {n % 5} AND b = {n % 7} AND c IN ({n}, {n + 1}, 200)" for n in range(60)]
    rows = np.arange(60, dtype=np.int32)

    def broken(**parts: Any) -> None:
        segment = built(*texts, kind=PSTHash3)._state.base_segment
        assert isinstance(segment, TripleKeyTable)
        segment._triples = segment._triples._replace(**parts)
        segment.check(rows)

    broken()
    segment = built(*texts, kind=PSTHash3)._state.base_segment
    assert isinstance(segment, TripleKeyTable)
    triples = segment._triples
    with pytest.raises(AssertionError, match="cannot be found"):
        broken(key_filter=np.zeros_like(triples.key_filter))
    with pytest.raises(AssertionError, match="cannot be found"):
        broken(table=np.roll(triples.table, 5, axis=0))
    with pytest.raises(AssertionError, match="do not ascend"):
        broken(bucket_row=triples.bucket_row[::-1].copy())
    with pytest.raises(AssertionError, match="without element"):
        broken(bucket_row=triples.bucket_row + np.int32(60))
    tripled = np.full_like(triples.dimensions.tripled, 255)
    with pytest.raises(AssertionError, match="not looked up"):
        broken(dimensions=triples.dimensions._replace(tripled=tripled))
