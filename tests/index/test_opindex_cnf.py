"""OpIndex for CNF against scan: sets of pivots, and a bit for each OR."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from index.algorithms.opindex_cnf import CNFColumns, Conjunctions, OpIndexCNF
from index.algorithms.scan import Scan
from index.companion import Accompanied
from index.events import encode
from index.language import parse_text
from index.model import Subscription
from index.statistics import EventStatistics
from tests.index.segments import matched
from tests.strategies import NOW


def texts(*filters: str) -> list[Subscription]:
    return [Subscription(f"s{at}", parse_text(text)) for at, text in enumerate(filters)]


def own(index: OpIndexCNF) -> Conjunctions:
    segment = index._state.base_segment
    assert isinstance(segment, Accompanied) and isinstance(segment.own, Conjunctions)
    return segment.own


@pytest.mark.parametrize("seed", range(4))
def test_many_disjunctions(seed: int) -> None:
    """Several predicates of an OR often hold at once, some for certain and some perhaps."""
    random = Random(seed)

    def leaf() -> str:
        path = random.choice("abcdefgh")
        if random.random() < 0.1:
            return f"{path} MATCHES '^{random.choice('xy')}'"
        operator = random.choice(("=", "=", "<=", ">", "!="))
        return f"{path} {operator} {random.choice((0, 1, 2, chr(39) + 'xy' + chr(39)))}"

    def disjunction() -> str:
        return " OR ".join(leaf() for _ in range(random.randint(1, 4)))

    def conjunction() -> str:
        return " AND ".join(f"({disjunction()})" for _ in range(random.randint(1, 4)))

    given_all = texts(*(conjunction() for _ in range(300)))
    index = OpIndexCNF.build(given_all)
    index.check()
    assert index.stats()["own_row_count"] == 300
    values = (0, 1, 2, "xy", "y", [0, 2], [1, "x"])
    events = [
        {path: random.choice(values) for path in "abcdefgh" if random.random() < 0.7}
        for _ in range(40)
    ]
    found = matched(index, events)
    assert found == matched(Scan.build(given_all), events) and any(found)


def test_pivots_are_those_of_the_shortest_or_and_then_of_the_rarest() -> None:
    statistics = EventStatistics()
    for number in range(20):
        common: dict[str, object] = {"a": 1, "b": 1, "c": 1}
        statistics.observe_event(common if number else {**common, "d": 1})
    subscriptions = texts(
        "(a = 1 OR b = 1 OR d = 1) AND (a = 1 OR c = 1)",
        "(a = 1 OR b = 1) AND (a = 1 OR d = 1) AND (b = 1 OR c = 1)",
        "(a = 1 OR a = 2) AND b = 1 AND (a = 1 OR d = 1)",
    )
    index = OpIndexCNF.build(subscriptions, statistics)
    pivots = [index.filing_of(f"s{at}").partition(", bits")[0] for at in range(3)]
    assert pivots == ["with pivots a, c", "with pivots a, d", "with pivot b"]


def test_a_row_under_several_pivots_is_named_once_and_counted_once() -> None:
    index = OpIndexCNF.build(texts(" OR ".join(f"a{at} = 1" for at in range(20))))
    assert index.stats()["pivot_count"] == 20 and index.stats()["entry_count"] == 400
    events = [{f"a{at}": 1 for at in range(20)}, {"a3": 1}]
    found = index.match(encode(events, index.vocabulary), NOW)
    assert found.row.tolist() == [0, 0]
    assert index.stats()["candidate_count"] == 2


def test_a_bitmap_has_as_many_bits_as_a_word() -> None:
    def ors(count: int) -> str:
        return " AND ".join(f"(a{at} = 1 OR b{at} = 1)" for at in range(count))

    given_all = texts(ors(63), ors(64), ors(65))
    index = OpIndexCNF.build(given_all)
    index.check()
    assert index.stats()["own_row_count"] == 2
    event = {f"{'ab'[at % 2]}{at}": 1 for at in range(65)}
    events = [event, *({path: 1 for path in event if path != one} for one in event)]
    found = matched(index, events)
    assert found == matched(Scan.build(given_all), events)
    assert found[0] == ["s0", "s1", "s2"] and found[64] == ["s0"] and found[65] == ["s0", "s1"]


def test_what_is_certain_is_not_left_to_a_regular_expression() -> None:
    """Also where the certain predicate is met later: c is the second pivot."""
    index = OpIndexCNF.build(
        texts("(a MATCHES 'x' OR a = 'xy') AND b = 1", "a MATCHES 'x' OR c MATCHES 'x' OR c = 1")
    )
    assert matched(index, [{"a": "xy", "b": 1, "c": 1}]) == [["s0", "s1"]]
    assert index.stats()["settled_count"] == 0
    assert matched(index, [{"a": "xz", "b": 1}, {"a": "z", "b": 1}]) == [["s0", "s1"], []]
    assert index.stats()["settled_count"] == 4


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("place", lambda array: array[::-1].copy()),
        ("bit", lambda array: array ^ np.uint8(1)),
        ("bit", np.zeros_like),
        ("first_ask", lambda array: array + np.int32(1)),
        ("row", lambda array: array + np.int32(1)),
        ("bits", lambda array: array + np.uint8(1)),
        ("bits", lambda array: array - np.uint8(1)),
        ("chosen", lambda array: array + np.uint8(2)),
        ("chosen", lambda array: array ^ np.uint8(1)),
    ],
)
def test_check_sees_a_broken_layout(name: str, change: Callable[[Any], Any]) -> None:
    index = OpIndexCNF.build(texts("(a = 1 OR b = 2) AND c = 3", "d = 4 AND (a = 1 OR b = 2)"))
    segment, rows = own(index), np.arange(2, dtype=np.int32)
    segment.check(rows)
    columns: CNFColumns = segment._columns
    changed: dict[str, Any] = {name: change(getattr(columns, name))}
    with pytest.raises((AssertionError, IndexError)):
        Conjunctions(columns._replace(**changed)).check(rows)
