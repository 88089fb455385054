"""OpIndex against scan: pivots from statistics, lists that are cut, tries, and a broken layout."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from index.algorithms.opindex import Conjunctions, OpIndex, OpIndexColumns
from index.algorithms.scan import Scan
from index.companion import Accompanied
from index.language import parse_text
from index.model import Subscription
from index.statistics import EventStatistics
from tests.index.segments import matched, subscriptions


def test_pivots_are_rare_among_events_where_that_is_known() -> None:
    statistics = EventStatistics()
    for number in range(20):
        statistics.observe_event({"b": 1} if number else {"a": 1, "b": 1})
    texts = [f"a = {number} AND b = 1" for number in range(3)] + ["b = 1 AND c = 1"]
    index = OpIndex.build(subscriptions(texts), statistics)
    assert index.filing_of("s0").startswith("with pivot a")
    assert matched(index, [{"b": 1}, {"a": 2, "b": 1}]) == [[], ["s2"]]


def test_long_lists_are_cut_and_skipped() -> None:
    """All under one pivot, so that its list of `=` has many attributes and its ranges, too."""
    rng = np.random.default_rng(7)
    texts = {}
    for number in range(600):
        first, second = rng.choice(np.arange(40), 2, replace=False)
        texts[f"s{number}"] = (
            f"p IN (1, {number % 3}) AND x{first} = {rng.integers(4)}"
            f" AND x{second} {'<=' if number % 2 else '>'} {rng.integers(4)}"
        )
    statistics = EventStatistics()
    for number in range(20):
        common: dict[str, object] = {f"x{at}": 0 for at in range(40)}
        statistics.observe_event(common if number else {**common, "p": 1})
    given_all = [Subscription(name, parse_text(text)) for name, text in texts.items()]
    index, scan = OpIndex.build(given_all, statistics), Scan.build(given_all)
    index.check()
    assert index.stats()["pivot_count"] == 1
    assert index.stats()["predicate_list_count"] == 3
    assert index.stats()["list_segment_count"] > 3 * 8
    events: list[dict[str, Any]] = [
        {"p": int(rng.integers(4))} | {f"x{at}": int(rng.integers(5)) for at in range(40)}
        for _ in range(30)
    ]
    found = matched(index, events)
    assert found == matched(scan, events) and any(found)
    assert index.stats()["skipped_list_segment_count"] > 0
    searched = index.stats()["searched_list_segment_count"]
    assert matched(index, [{f"x{at}": 0 for at in range(40)}]) == [[]]
    assert index.stats()["searched_list_segment_count"] == searched


@pytest.mark.parametrize("seed", range(4))
def test_tries_find_all_needles_and_no_others(seed: int) -> None:
    """Needles that begin and end with each other, of one byte and of several, and the empty one."""
    random = Random(seed)

    def word(most: int) -> str:
        return "".join(random.choice("abÄ世") for _ in range(random.randint(0, most)))

    texts = {}
    for number in range(300):
        needles = ", ".join(f"'{word(5)}'" for _ in range(random.randint(1, 3)))
        path, verb = random.choice("xyz"), random.choice(("STARTS", "ENDS"))
        texts[f"s{number}"] = f"{path} {verb} WITH ({needles}){random.choice(('', ' NOCASE'))}"
    texts |= {"not": "x NOT STARTS WITH 'a'", "all": "ALL x ENDS WITH ('a', 'b')"}
    given_all = [Subscription(name, parse_text(text)) for name, text in texts.items()]
    index, scan = OpIndex.build(given_all), Scan.build(given_all)
    index.check()
    assert index.stats()["own_row_count"] == len(texts)
    events = [
        {path: random.choice((word(7), [word(7), 3, word(2)], 4)) for path in "xyz"}
        for _ in range(60)
    ]
    found = matched(index, events)
    assert found == matched(scan, events) and any(found)


def test_a_trie_is_as_small_as_its_needles_differ() -> None:
    """A root, the common beginning, and two that go on from there; a root for the other case."""
    texts = ["a STARTS WITH 'internal'", "a STARTS WITH ('internet', 'inter')", "a ENDS WITH 'x'"]
    texts += ["a STARTS WITH 'Internet' NOCASE", "a STARTS WITH 'internet'"]
    index = OpIndex.build(subscriptions(texts))
    index.check()
    assert index.stats()["trie_node_count"] == 1 + 3 + 1 + 1
    assert matched(index, [{"a": "internet"}, {"a": "inter"}, {"a": "INTERNETX"}, {"a": "x"}]) == [
        ["s1", "s3", "s4"],
        ["s1"],
        ["s3"],
        ["s2"],
    ]


def test_needles_within_each_other_and_more_than_a_list_files() -> None:
    texts = {f"s{size}": f"a STARTS WITH '{'n' * size}'" for size in range(1, 200)}
    many = ", ".join(f"'{number}'" for number in range(1025))
    texts |= {"many": f"a STARTS WITH ({many})", "fewer": f"a ENDS WITH ({many[:-8]})"}
    index = OpIndex.build([Subscription(name, parse_text(text)) for name, text in texts.items()])
    index.check()
    assert index.stats()["entry_count"] == 199 + 1 + 1024
    found = matched(index, [{"a": "n" * 150}, {"a": ["n", "x1000"]}, {"a": "1024x"}])
    assert [len(ids) for ids in found] == [150, 2, 1]


def test_only_complete_rows_are_left_to_regular_expressions() -> None:
    texts = [
        "a MATCHES '^x' AND b = 1",
        "a MATCHES 'y$'",
        "ip IN CIDR '10.0.0.0/8'",
        "NOT a MATCHES 'z'",
    ]
    index = OpIndex.build(subscriptions(texts))
    assert index.stats()["own_row_count"] == 4
    events: list[dict[str, Any]] = [{"a": "xy", "b": 2}, {"a": "xz", "b": 1}, {"a": 1, "b": 1}]
    assert matched(index, events) == [["s1", "s3"], ["s0"], []]
    assert index.stats()["settled_count"] == 2 + 3
    assert matched(index, [{"ip": "10.1.2.3"}, {"ip": ["10", "11.0.0.1"]}]) == [["s2"], []]


def test_the_two_ends_of_a_range_are_compared_exactly() -> None:
    """2**53 + 1 is no double: its residual decides at either end, and in an array."""
    at = 2**53 + 1
    texts = [
        f"a BETWEEN {at} AND {at}",
        f"a BETWEEN 0 AND {at - 1}",
        f"a BETWEEN {at + 1} AND {2 * at}",
    ]
    texts += [f"a <= {at}", f"a > {at}", "a BETWEEN 1 AND 2"]
    index = OpIndex.build(subscriptions(texts))
    values: list[Any] = [at, at - 1, at + 1, [0, 3], [0, 2], [2, 3 * at]]
    assert matched(index, [{"a": value} for value in values]) == [
        ["s0", "s3"],
        ["s1", "s3"],
        ["s2", "s4"],
        ["s1", "s3"],
        ["s1", "s3", "s5"],
        ["s1", "s3", "s4", "s5"],
    ]


def test_a_predicate_that_several_values_or_needles_satisfy_counts_once() -> None:
    texts = ["a IN (1, 2) AND b = 1", "a IN ('X', 'y', 3) NOCASE AND b = 1"]
    texts += ["a STARTS WITH ('x', 'xy') AND b = 1", "a ENDS WITH ('Z', 'YZ') NOCASE AND b = 1"]
    index = OpIndex.build(subscriptions(texts))
    values: list[Any] = [[1, 2], [1, 1], ["x", "Y", 3], "xyz"]
    assert not any(matched(index, [{"a": value, "b": 2} for value in values]))
    found = matched(index, [{"a": value, "b": 1} for value in values])
    assert found == [["s0"], ["s0"], ["s1", "s2"], ["s2", "s3"]]


Breakage = Callable[[OpIndexColumns], OpIndexColumns]


def of_lists(**changed: Any) -> Breakage:
    """Lists in which some columns are what a function makes of them."""

    def broken(columns: OpIndexColumns) -> OpIndexColumns:
        lists = columns.clauses.lists
        parts = {name: change(getattr(lists, name)) for name, change in changed.items()}
        return columns._replace(clauses=columns.clauses._replace(lists=lists._replace(**parts)))

    return broken


@pytest.mark.parametrize(
    "break_",
    [
        of_lists(number=lambda array: -array),
        of_lists(signature=np.zeros_like),
        of_lists(ask=lambda array: array[::-1].copy()),
        of_lists(upper=lambda array: array + 1),
        of_lists(high=np.zeros_like),
        of_lists(directory=lambda array: array[:-1].copy()),
        of_lists(tries=lambda tries: tries._replace(ends=~tries.ends)),
        of_lists(tries=lambda tries: tries._replace(child=tries.child[::-1].copy())),
        lambda columns: columns._replace(row=columns.row[:-1]),
        lambda columns: columns._replace(
            clauses=columns.clauses._replace(first_ask=np.zeros_like(columns.clauses.first_ask))
        ),
        lambda columns: columns._replace(
            clauses=columns.clauses._replace(pivot=columns.clauses.pivot + np.int32(1))
        ),
    ],
)
def test_check_sees_a_broken_layout(break_: Breakage) -> None:
    texts = ["a BETWEEN 1 AND 3 AND b STARTS WITH 'x'", "a BETWEEN 2 AND 3", "a <= 5"]
    index = OpIndex.build(subscriptions([*texts, "b = 'y'", "b STARTS WITH 'xyz'"]))
    segment, rows = index._state.base_segment, np.arange(5, dtype=np.int32)
    assert isinstance(segment, Accompanied) and isinstance(segment.own, Conjunctions)
    segment.own.check(rows)
    with pytest.raises((AssertionError, IndexError, ValueError)):
        Conjunctions(break_(segment.own._columns)).check(rows)
