"""Gryphon against scan: nodes of many edges, rows that share many tests, and broken trees."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from index.algorithms.gryphon import Gryphon, MatchingTree
from index.algorithms.scan import Scan
from index.kernels.matching_tree import DEPTH_MAX, EDGES_SCANNED_MAX
from tests.index.segments import built, matched, reopened, subscriptions


@pytest.mark.parametrize("value_count", [2, EDGES_SCANNED_MAX, EDGES_SCANNED_MAX + 1, 60])
def test_few_edges_are_scanned_and_many_are_looked_up(value_count: int) -> None:
    random = Random(value_count)
    texts = [f"a = {value}" for value in range(value_count)]
    for _ in range(400):
        first = f"a = {random.randrange(value_count)}"
        second = f"b {random.choice(('=', '<', '!='))} {random.randrange(value_count)}"
        texts.append(f"{first} AND {second} AND c = {random.randrange(3)}")
    given = subscriptions(texts)
    index, scan = Gryphon.build(given), Scan.build(given)
    index.check()
    values = range(value_count + 2)
    events: list[dict[str, Any]] = [
        {path: random.choice(values) for path in "abc" if random.random() < 0.9} for _ in range(30)
    ]
    events.append({"a": list(values), "b": [1, 1], "c": [0, 2]})
    found = matched(index, events)
    assert found == matched(scan, events) and any(found)


def test_nodes_do_not_find_the_edges_of_each_other() -> None:
    """They test the same of b, and share one table in which their searches meet."""
    random = Random(9)
    values = range(2 * EDGES_SCANNED_MAX)
    texts = [
        f"a = {value} AND b = {other}"
        for value in values
        for other in random.sample(values, EDGES_SCANNED_MAX + 1)
    ]
    given = subscriptions(texts)
    index, scan = Gryphon.build(given), Scan.build(given)
    index.check()
    events: list[dict[str, Any]] = [{"a": value, "b": list(values)} for value in values]
    events += [{"a": random.choice(values), "b": random.choice(values)} for _ in range(300)]
    assert matched(index, events) == matched(scan, events)


@pytest.mark.parametrize("shared", [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 3 * DEPTH_MAX])
def test_rows_that_share_more_tests_than_the_tree_branches_on(shared: int) -> None:
    beginning = " AND ".join(f"a{number} = 1" for number in range(shared))
    # Four rows ask first what three, two and one of them ask at all.
    texts = [beginning, *(f"{beginning} AND z = {number}" for number in range(3)), beginning]
    given = subscriptions([*texts, "a0 = 1", f"{beginning} AND z > 1 AND y = 1"])
    index, scan = Gryphon.build(given), Scan.build(given)
    index.check()
    event: dict[str, Any] = {f"a{number}": 1 for number in range(shared)}
    events = [event, {**event, "z": 1}, {**event, "z": 2, "y": 1}, {**event, f"a{shared - 1}": 2}]
    found = matched(index, events)
    assert found == matched(scan, events)
    assert [len(ids) for ids in found] == [3, 4, 5, 1]


def test_the_most_tested_attribute_comes_first_and_equalities_before_all_else() -> None:
    given = subscriptions(["b = 1 AND c < 5 AND a = 1", "b = 2 AND c < 5", "b = 1 AND a = 2"])
    index = Gryphon.build(given)
    assert index.filing_of("s0") == "at the end of b = 1 / a = 1, left to test: c from any up to 4"
    assert index.filing_of("s1") == "at the end of b = 2, left to test: c from any up to 4"


def test_tests_of_attributes_that_an_event_lacks_are_passed_over() -> None:
    """As every star is followed, nothing of them is visited."""
    texts = [f"p{number % 7} > {number}" for number in range(70)]
    given = subscriptions([f"{text} AND q = {at % 2}" for at, text in enumerate(texts)] + texts)
    index, scan = Gryphon.build(given), Scan.build(given)
    index.check()
    events: list[dict[str, Any]] = [{"p3": 1_000, "q": 1}, {"p0": 5, "p6": 1_000}, {"q": 0}]
    found = matched(index, events)
    assert found == matched(scan, events)
    assert [len(ids) for ids in found] == [15, 11, 0]
    assert index.stats()["visited_node_count"] == 5


def test_what_was_written_is_read_again() -> None:
    texts = [f"a = {number % 30} AND b {'<' if number % 2 else '='} 5" for number in range(90)]
    given = subscriptions(texts)
    events: list[dict[str, Any]] = [{"a": 7, "b": 4}, {"a": [2, 8], "b": 5}]
    assert reopened(Gryphon.build(given), events) == matched(Scan.build(given), events)


@pytest.mark.parametrize("column", ["edge", "node", "table", "rest", "test", "row"])
def test_check_finds_a_broken_tree(column: str) -> None:
    texts = [f"a = {number % 20} AND b = {number} AND c > {number % 2}" for number in range(60)]
    segment, rows = built(MatchingTree, texts)
    segment.check(rows)
    arrays = segment.to_arrays()
    broken = arrays[column].copy()
    broken[np.flatnonzero(broken)[0]] -= 1
    with pytest.raises(AssertionError):
        MatchingTree.from_arrays({**arrays, column: broken}).check(rows)
