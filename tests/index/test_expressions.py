"""Events of expressions against every value of a small domain, and value sets at their edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.algorithms.betree import BETree
from index.evaluate import truth
from index.language import parse_text
from index.model import And, Filter, Subscription, children_of, predicates_of
from index.value_sets import EVERYTHING, ValueSet
from tests.drawn import thoroughly
from tests.strategies import NOW

VALUES: tuple[Any, ...] = (
    *(-1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 1e300),
    *("", "a", "a\0", "ab", "b", "b\0", "c", "z", True, False, None),
)
"""For every predicate below, and for every two of them, those that share a value share one here."""
NUMBERS = ("0", "1", "2", "3", str(2**53), str(2**53 + 1))
STRINGS = ("'a'", "'b'", "'ab'")

numbers, strings = st.sampled_from(NUMBERS), st.sampled_from(STRINGS)
operands = numbers | strings
orders = st.sampled_from(("<", "<=", ">", ">="))
equalities = st.sampled_from(("=", "!=", "="))
comparisons = st.one_of(
    st.builds("{} {}".format, orders, operands),
    st.builds("{} {}".format, equalities, operands | st.sampled_from(("TRUE", "FALSE"))),
    st.builds("{} ({}, {})".format, st.sampled_from(("IN", "NOT IN")), operands, operands),
    st.builds("BETWEEN {0[0]} AND {0[1]}".format, st.tuples(numbers, numbers).map(sorted)),
    st.builds("NOT BETWEEN {0[0]} AND {0[1]}".format, st.tuples(strings, strings).map(sorted)),
    st.sampled_from(("IS NULL", "IS NOT NULL")),
)
leaves = st.builds("{} {}".format, st.sampled_from("abc"), comparisons) | st.just("EXISTS a")
conjunctions = st.lists(leaves, min_size=1, max_size=4).map(" AND ".join).map(parse_text)


def holds(node: Filter, attribute: str, value: Any) -> bool:
    return truth(node, {attribute: value}, NOW) is True


def parts_of(node: Filter) -> list[Filter]:
    return list(children_of(node)) if isinstance(node, And) else [node]


def attribute_of(part: Filter) -> str:
    return next(iter(predicates_of(part))).path[0]


def meets(subscription: Filter, event: Filter) -> bool:
    """The definition, value by value."""
    said = parts_of(event)
    for part in parts_of(subscription):
        attribute = attribute_of(part)
        about = [one for one in said if attribute_of(one) == attribute]
        if not about or not any(
            all(holds(one, attribute, value) for one in (part, *about)) for value in VALUES
        ):
            return False
    return True


@settings(max_examples=thoroughly(150))
@given(st.lists(conjunctions, min_size=1, max_size=12), st.lists(conjunctions, max_size=4))
def test_events_of_expressions_meet_what_some_value_satisfies(
    nodes: list[Filter], events: list[Filter]
) -> None:
    index = BETree.build(Subscription(f"s{at}", node) for at, node in enumerate(nodes))
    matches = index.match_expressions(events)
    expected = [
        [f"s{at}" for at, node in enumerate(nodes) if meets(node, event)] for event in events
    ]
    assert index.ids_by_event(matches) == expected


def test_a_tree_of_many_rows_with_changes() -> None:
    texts = [
        f"kind = 'k{at % 7}' AND price BETWEEN {at % 50} AND {at % 50 + 3}"
        + (f" AND c{at % 11} != {at}" if at % 3 else "")
        for at in range(600)
    ]
    nodes = {f"s{at:03}": parse_text(text) for at, text in enumerate(texts)}
    index = BETree.build(Subscription(name, node) for name, node in list(nodes.items())[:450])
    for name in list(nodes)[450:]:
        index.add(Subscription(name, nodes[name]))
    for name in list(nodes)[::5]:
        index.remove(name)
        del nodes[name]
    events = [
        parse_text(text)
        for text in (
            "kind = 'k3' AND price < 6",
            "kind != 'k3' AND price BETWEEN 10 AND 12 AND c4 IN (4, 15) AND c5 = 5",
            "price > 40 AND kind IN ('k1', 'k2') AND c1 > 0 AND c1 < 2",
            "kind = 'none of them' AND price = 1",
        )
    ]
    found = index.ids_by_event(index.match_expressions(events))
    expected = [[name for name, node in nodes.items() if meets_fine(node, one)] for one in events]
    assert [sorted(ids) for ids in found] == expected
    assert [bool(ids) for ids in found] == [True, True, True, False]
    assert index.stats()["candidate_count"] == 0, "events of values are counted alone"


def meets_fine(subscription: Filter, event: Filter) -> bool:
    """As `meets`, over the integers and strings that these filters name."""
    domain = [*range(60), *range(60, 600), *(f"k{at}" for at in range(7)), "none of them"]
    for part in parts_of(subscription):
        attribute = attribute_of(part)
        about = [one for one in parts_of(event) if attribute_of(one) == attribute]
        tests = (part, *about)
        if not about or not any(
            all(holds(one, attribute, value) for one in tests) for value in domain
        ):
            return False
    return True


@pytest.mark.parametrize(
    "text", ["a = 1 OR b = 2", "a LIKE 'x%'", "MISSING a", "a = 'x' NOCASE", "ALL a = 1", "TRUE"]
)
def test_other_filters_are_no_events_and_match_none(text: str) -> None:
    index = BETree.build(
        [Subscription("s", parse_text(text)), Subscription("t", parse_text("a = 1"))]
    )
    with pytest.raises(ValueError, match="event 1 must be a conjunction of comparisons"):
        index.match_expressions([parse_text("a = 1"), parse_text(text)])
    found = index.ids_by_event(
        index.match_expressions([parse_text("a = 1"), parse_text("a = 'x'")])
    )
    assert found == [["t"], []]


def test_sets_of_numbers_end_at_numbers() -> None:
    """Between neighbours there is nothing, be they doubles or integers beyond doubles."""
    above = math.nextafter(3.0, math.inf)
    tests = [
        ("a > 3", f"a < {above!r}", False),
        ("a > 3", f"a <= {above!r}", True),
        (f"a > {2**53}", f"a < {2**53 + 2}", True),
        (f"a > {2**53 + 1}", f"a < {2**53 + 2}", False),
        (f"a > {2**53 + 1}", f"a <= {2**53 + 2}", True),
        (f"a > {2**63 - 1}", "a < 9223372036854775808", False),
        (f"a > {2**63 - 1}", "a < 9.3e18", True),
        (f"a >= {2**63 - 1}", "a < 9223372036854775808", True),
        ("a > 1.7976931348623157e308", "a > 0", False),
        ("a < -1.7976931348623157e308", "a < 0", False),
        (f"a != {2**53 + 1}", f"a BETWEEN {2**53 + 1} AND {2**53 + 1}", False),
        ("NOT a BETWEEN 1 AND 5", "a BETWEEN 1 AND 5", False),
        ("NOT a BETWEEN 1 AND 5", f"a BETWEEN 1 AND {math.nextafter(5.0, 6.0)!r}", True),
    ]
    for one, other, expected in tests:
        for subscription, event in ((one, other), (other, one)):
            index = BETree.build([Subscription("s", parse_text(subscription))])
            found = index.match_expressions([parse_text(event)])
            assert bool(found.row.size) == expected, (subscription, event)


def test_sets_are_complementary() -> None:
    some = ValueSet(((1, 2), (5, 5)), ((b"a", b"b"),), frozenset((True,)), True)
    assert not some & some.complement()
    assert some.complement().complement() == some
    assert some & EVERYTHING == some
    assert not EVERYTHING.complement() and EVERYTHING
