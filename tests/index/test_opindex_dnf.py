"""OpIndex for DNF against scan: many clauses, and rows that are named once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from index.algorithms.opindex_dnf import Disjunctions, OpIndexDNF
from index.algorithms.scan import Scan
from index.companion import Accompanied
from index.events import encode
from index.language import parse_text
from index.model import Subscription
from tests.index.segments import matched
from tests.strategies import NOW


def texts(*filters: str) -> list[Subscription]:
    return [Subscription(f"s{at}", parse_text(text)) for at, text in enumerate(filters)]


@pytest.mark.parametrize("seed", range(4))
def test_many_clauses(seed: int) -> None:
    """Several clauses of a row often hold at once, some for certain and some perhaps."""
    random = Random(seed)

    def leaf() -> str:
        path = random.choice("abcdefgh")
        if random.random() < 0.1:
            return f"{path} MATCHES '^{random.choice('xy')}'"
        operator = random.choice(("=", "=", "<=", ">", "!="))
        return f"{path} {operator} {random.choice((0, 1, 2, chr(39) + 'xy' + chr(39)))}"

    def clause() -> str:
        return " AND ".join(leaf() for _ in range(random.randint(1, 3)))

    given_all = texts(
        *(" OR ".join(f"({clause()})" for _ in range(random.randint(1, 5))) for _ in range(300))
    )
    index = OpIndexDNF.build(given_all)
    index.check()
    assert index.stats()["own_row_count"] == 300
    assert index.stats()["clause_count"] > 600
    values = (0, 1, 2, "xy", "y", [0, 2], [1, "x"])
    events = [
        {path: random.choice(values) for path in "abcdefgh" if random.random() < 0.7}
        for _ in range(40)
    ]
    found = matched(index, events)
    assert found == matched(Scan.build(given_all), events) and any(found)


def test_each_clause_has_a_pivot_of_its_own() -> None:
    index = OpIndexDNF.build(texts(*(f"a = 1 OR (a = 2 AND b{at} = 3)" for at in range(9))))
    assert index.stats()["pivot_count"] == 1 + 9
    assert matched(index, [{"b7": 3, "a": 2}, {"b7": 3}]) == [["s7"], []]


def test_a_row_is_named_once_however_many_clauses_hold() -> None:
    index = OpIndexDNF.build(texts(" OR ".join(f"a >= {at}" for at in range(300)), "a = 1"))
    found = index.match(encode([{"a": 299}, {"a": 1}, {"a": [0, 1]}], index.vocabulary), NOW)
    assert found.row.tolist() == [0, 0, 1, 0, 1]
    assert index.stats()["candidate_count"] == 300 + 3 + 3


def test_what_is_certain_is_not_left_to_a_regular_expression() -> None:
    """Whichever of the two clauses is met first: that of the lower attribute is."""
    index = OpIndexDNF.build(texts("a MATCHES 'x' OR b = 1", "b MATCHES 'x' OR a = 'x'"))
    assert matched(index, [{"a": "x", "b": 1}]) == [["s0", "s1"]]
    assert index.stats()["settled_count"] == 0
    assert matched(index, [{"a": "xy", "b": 2}, {"a": "y", "b": "x"}]) == [["s0"], ["s1"]]
    assert index.stats()["settled_count"] == 3


def test_check_sees_a_row_without_clauses() -> None:
    index = OpIndexDNF.build(texts("a = 1 OR b = 2", "c = 3"))
    segment = index._state.base_segment
    assert isinstance(segment, Accompanied) and isinstance(segment.own, Disjunctions)
    columns = segment.own._columns
    rows = np.arange(2, dtype=np.int32)
    segment.own.check(rows)
    with pytest.raises(AssertionError, match="no clause"):
        Disjunctions(columns._replace(owner=np.zeros_like(columns.owner))).check(rows)
    with pytest.raises(AssertionError, match="other rows"):
        Disjunctions(columns._replace(row=columns.row + np.int32(1))).check(rows)
