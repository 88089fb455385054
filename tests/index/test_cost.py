from __future__ import annotations

import time

import pytest
from hypothesis import given

from index.cost import filter_cost
from index.language import parse_text
from index.limits import LIMITS
from index.model import Filter, Not, predicates_of
from tests.strategies import filters


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("TRUE", 0),
        ("a = 1", 1),
        ("a = 'x' NOCASE", 2),
        ("a = 1 AND (b < 2 OR NOT EXISTS c)", 3),
        ("a IN (1)", 2),
        ("a IN (1, 2, 3, 4, 5, 6, 7)", 4),
        ("a CONTAINS ('x', 'y', 'z')", 3),
        ("a LIKE '%x%y%'", 5),
        ("a MATCHES '^x.*y$'", 16),
        ("a IN CIDR '10.0.0.0/8'", 8),
        ("a > NOW() - 5m", 9),
        ("a BETWEEN TIMESTAMP '2020-01-01T00:00:00Z' AND NOW()", 9),
        ("i[a = 1 AND j[b = 1]]", 4 + 16),
        ("i[" * 32 + "a = 1" + "]" * 32, 4**6),
    ],
)
def test_costs(text: str, cost: int) -> None:
    assert filter_cost(parse_text(text)) == cost


@given(filters())
def test_no_predicate_is_free_and_a_not_is(tree: Filter) -> None:
    assert filter_cost(tree) >= len(list(predicates_of(tree)))
    assert filter_cost(Not(tree)) == filter_cost(tree)


def test_the_costliest_filter_is_counted_in_bounded_time() -> None:
    like = "a LIKE '" + "%x" * 50 + "'"
    tree = parse_text(" OR ".join([like] * LIMITS.filter_predicates))
    started = time.process_time()
    assert filter_cost(tree) == LIMITS.filter_predicates * 52
    assert time.process_time() - started < 10  # some 0.3 s, however busy the machine
