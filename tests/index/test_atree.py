"""A-Tree against scan where trees are deep, wide and shared, and what its graph looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from index.access import Shares
from index.algorithms.atree import ATree, ATreeColumns, ATreeNodes
from index.algorithms.scan import Scan
from index.row_store import RowStore
from index.statistics import EventStatistics
from index.vocabulary import Vocabulary
from tests.index.segments import matched, subscriptions


def columns_of(*texts: str) -> tuple[ATreeColumns, np.ndarray[Any, np.dtype[np.int32]]]:
    """The columns of a segment by themselves, and its rows."""
    vocabulary = Vocabulary()
    store = RowStore(vocabulary)
    store.append(subscriptions(texts), 0)
    rows = np.arange(len(texts), dtype=np.int32)
    count = vocabulary.attribute_count
    arrays = ATreeNodes.build(store.compiled(), rows, count, Shares.unknown()).to_arrays()
    return ATreeNodes.from_arrays(arrays)._columns, rows


_LEAVES = [
    *(f"{path} {operator} {value}" for path in "abcd" for operator in ("=", "<", ">=", "!=")
      for value in range(3)),
    *(f"MISSING {path}" for path in "abcd"),
    *("a MATCHES 'x'", "b MATCHES '^y'", "EXISTS d", "c IN (1, 'x')", "ALL c > 0"),
    *("(a = 1) IS NOT TRUE", "(b > 1) IS NOT TRUE", "NOT c < 2"),
]  # fmt: skip


def tree(random: Random, pool: Sequence[str], depth: int, texts: list[str]) -> str:
    """A filter in words; some of its parts become filters of their own."""
    kind = random.random()
    if not depth or kind < 0.25:
        return random.choice(pool)
    children = [tree(random, pool, depth - 1, texts) for _ in range(random.randint(2, 4))]
    if kind < 0.85:
        text = (" AND " if kind < 0.55 else " OR ").join(f"({child})" for child in children)
    else:
        text = f"ATLEAST {random.randint(1, len(children))} OF ({', '.join(children)})"
    if random.random() < 0.1:
        text = f"NOT ({text})"
    if random.random() < 0.3:
        texts.append(text)
    return text


@pytest.mark.parametrize("seed", range(12))
def test_trees_that_share_their_parts(seed: int) -> None:
    random = Random(seed)
    pool = random.choices(_LEAVES, k=random.choice((4, 8, 20)))
    texts: list[str] = []
    texts += [tree(random, pool, random.randint(1, 4), texts) for _ in range(60)]
    values = [0, 1, 2, 3, "x", "yx", None, [], [0, 2], ["x", 1]]
    events = [
        {path: random.choice(values) for path in "abcd" if random.random() < 0.7} for _ in range(20)
    ]
    statistics = EventStatistics()
    for event in events:
        statistics.observe_event(event)
    index = ATree.build(subscriptions(texts), statistics if seed % 2 else None)
    index.check()
    found = matched(index, events)
    assert found == matched(Scan.build(subscriptions(texts)), events)
    assert any(found)
    assert index.stats()["level_count"] >= 4
    assert index.stats()["asked_gate_count"] > 0
    # Under an equality that wakes the whole, all parts are asked for, by many gates each.
    texts = [f"k = {number % 3} AND ({text})" for number, text in enumerate(texts)]
    events = [{**event, "k": [0, 1, 2]} for event in events]
    index = ATree.build(subscriptions(texts))
    index.check()
    assert index.stats()["filed_predicate_count"] < index.stats()["distinct_predicate_count"]
    assert matched(index, events) == matched(Scan.build(subscriptions(texts)), events)


def test_equal_parts_are_one_node() -> None:
    """However they are ordered, and repetitions say nothing but to ATLEAST."""
    index = ATree.build(
        subscriptions(
            [
                "a = 1 AND b = 2 AND c = 3",
                "c = 3 AND a = 1 AND b = 2 AND a = 1",
                "ATLEAST 3 OF (b = 2, c = 3, a = 1)",
                "d = 4 OR (a = 1 AND b = 2 AND c = 3)",
                "d = 4 OR d = 4",
                "ATLEAST 1 OF (d = 4, d = 4)",
            ]
        )
    )
    index.check()
    stats = index.stats()
    assert (stats["distinct_predicate_count"], stats["gate_count"]) == (4, 2)
    found = matched(index, [{"a": 1, "b": 2, "c": 3}, {"d": 4}, {"a": 1, "b": 2}])
    assert found == [["s0", "s1", "s2", "s3"], ["s3", "s4", "s5"], []]


def test_atleast_counts_a_child_as_often_as_it_has_it() -> None:
    texts = [
        "ATLEAST 2 OF (a = 1, a = 1, b = 1)",
        "ATLEAST 2 OF (a = 1, b = 1, b = 1)",
        "ATLEAST 2 OF (a = 1, b = 1, c = 1)",
        "ATLEAST 3 OF (a = 1, a = 1, b = 1, c = 1)",
    ]
    index = ATree.build(subscriptions(texts))
    index.check()
    assert index.stats()["gate_count"] == 4
    found = matched(index, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}])
    assert found == [["s0"], ["s1"], ["s0", "s1", "s2", "s3"], ["s1", "s2"]]


def test_only_access_children_and_equalities_are_looked_for() -> None:
    texts = [f"a = {value} AND b = 1 AND c > {value} AND d != {value}" for value in range(20)]
    index = ATree.build(subscriptions(texts))
    stats = index.stats()
    assert (stats["distinct_predicate_count"], stats["filed_predicate_count"]) == (61, 21)
    assert stats["always_tried_count"] == 0
    events = [{"a": 3, "b": 1, "c": 4, "d": 0}, {"a": 3, "b": 0, "c": 4}, {"b": 1, "c": 99}]
    before = index.stats()["candidate_count"]
    assert matched(index, events) == [["s3"], [], []]
    assert index.stats()["candidate_count"] - before == 2


def test_what_is_only_asked_for_is_evaluated_below_what_asks() -> None:
    """The disjunction asks for a conjunction, which asks for leaves, and none of them wakes."""
    inner = "(c > 1 AND d > 1 AND (e > 1 OR f > 1)) OR g > 1"
    texts = [f"a = {value} AND ({inner})" for value in range(9)]
    index = ATree.build(subscriptions(texts))
    index.check()
    stats = index.stats()
    assert (stats["gate_count"], stats["asked_gate_count"]) == (9 + 3, 3)
    assert stats["filed_predicate_count"] == 9
    large = {"c": 2, "d": 2, "f": 2}
    events: list[dict[str, Any]] = [
        {"a": 1, **large},
        {"a": [1, 4], "g": 2},
        {"a": 2, "c": 2, "d": 2},
        large,
    ]
    assert matched(index, events) == [["s1"], ["s1", "s4"], [], []]


def test_filters_that_no_value_leads_to_are_here_too() -> None:
    texts = ["MISSING a", "a MATCHES 'x'", "b = 1 AND a MATCHES 'x'", "b = 1 OR a[c = 1]", "TRUE"]
    texts += ["FALSE", "(a = 1) IS NOT TRUE", "b = 1 AND MISSING c", "a IN CIDR '10.0.0.0/8'"]
    index = ATree.build(subscriptions(texts))
    index.check()
    assert ATree.companion is None
    events: list[dict[str, Any]] = [{}, {"a": "xy", "b": 1}, {"a": [{"c": 1}]}, {"a": "10.1.2.3"}]
    found = matched(index, events)
    assert found == matched(Scan.build(subscriptions(texts)), events)
    assert all("s4" in ids and "s5" not in ids for ids in found)
    assert index.filing_of("s6") == "at the leaf a on every event"
    assert index.filing_of("s4") == "at no node: it always holds"


def test_deep_and_wide_trees(tmp_path: Path) -> None:
    deep = "a = 0"
    for level in range(1, 15):
        deep = f"(({deep}) AND b >= {level}) OR c = {level}"
    wide = " OR ".join(f"(d = {at} AND e > {at})" for at in range(1_500))
    most = f"ATLEAST 1200 OF ({', '.join(f'e >= {at}' for at in range(1_500))})"
    given = subscriptions([deep, wide, most, f"f = 1 AND ({wide})", f"f = 1 AND {most}"])
    index = ATree.build(given)
    index.check()
    assert index.stats()["level_count"] > 25
    events: list[dict[str, Any]] = [
        {"a": 0, "b": 14},
        {"a": 0, "b": 13},
        {"c": 7, "b": 14},
        {"d": 1_499, "e": 1_500, "f": 1},
        {"d": 7, "e": 7, "f": 1},
        {"e": 1_199},
        {"e": 1_198, "f": 1},
    ]
    expected = [["s0"], [], ["s0"], ["s1", "s2", "s3", "s4"], [], ["s2"], []]
    assert matched(index, events) == expected
    index.save(tmp_path / "snapshot")
    assert matched(ATree.open(tmp_path / "snapshot"), events) == expected


_FAMILY = (
    "a = 1 AND (b = 2 OR c < 3)",
    "d = 4 AND (b = 2 OR c < 3) AND b = 2 AND e != 1",
    "b = 2 OR c < 3",
    "ATLEAST 2 OF (a = 1, b = 2, c < 3)",
    "a = 1 AND b = 2 AND (e != 1 OR e != 2)",
)


def test_a_sound_graph_passes_its_check() -> None:
    columns, rows = columns_of(*_FAMILY)
    ATreeNodes(columns).check(rows)


def _lose_a_row(columns: ATreeColumns) -> ATreeColumns:
    return columns._replace(row=np.roll(columns.row, 1) // 2)


def _repeat_a_row(columns: ATreeColumns) -> ATreeColumns:
    rows = columns.rows.copy()
    rows[1] = rows[-1]
    return columns._replace(rows=rows)


def _raise_a_level(columns: ATreeColumns) -> ATreeColumns:
    return columns._replace(level=columns.level + np.uint8(1))


def _wake_another(columns: ATreeColumns) -> ATreeColumns:
    return columns._replace(parent=np.sort(columns.parent))


def _take_a_stranger_for_a_partner(columns: ATreeColumns) -> ATreeColumns:
    strangers = (columns.partner + 1) % columns.phase.leaf.size
    return columns._replace(partner=strangers.astype(np.int32))


def _need_one_more(columns: ATreeColumns) -> ATreeColumns:
    is_atleast = columns.need < np.diff(columns.start)
    return columns._replace(need=columns.need + is_atleast.astype(np.int32))


def _forget_who_is_asked(columns: ATreeColumns) -> ATreeColumns:
    return columns._replace(child=np.maximum(columns.child, ~columns.child))


@pytest.mark.parametrize(
    ("breaking", "problem"),
    [
        (_lose_a_row, "other rows"),
        (_repeat_a_row, "overlap"),
        (_raise_a_level, "another level"),
        (_wake_another, "a gate"),
        (_take_a_stranger_for_a_partner, "do without"),
        (_need_one_more, "a gate|a conjunction"),
        (_forget_who_is_asked, "evaluated by need"),
    ],
)
def test_a_broken_graph_does_not(
    breaking: Callable[[ATreeColumns], ATreeColumns], problem: str
) -> None:
    columns, rows = columns_of(*_FAMILY)
    with pytest.raises(AssertionError, match=problem):
        ATreeNodes(breaking(columns)).check(rows)
