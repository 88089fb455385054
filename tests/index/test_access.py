"""Access covers: what rows are filed under, and that limits bound how often."""

from __future__ import annotations

import numpy as np
import pytest

from index.algorithms.psthash import PSTHash
from index.algorithms.scan import Scan
from index.events import encode
from index.kernels import cover
from index.language import parse_text
from index.model import Subscription
from index.statistics import EventStatistics
from tests.strategies import NOW


def filed(text: str, *others: str, statistics: EventStatistics | None = None) -> str:
    """What a filter is filed under, beside others that give its attributes more values."""
    texts = [text, *others]
    index = PSTHash.build(
        [Subscription(f"s{number}", parse_text(one)) for number, one in enumerate(texts)],
        statistics,
    )
    index.check()
    return index.filing_of("s0").removeprefix("under ")


MANY_TAILS = [f"tail = 'N{number}'" for number in range(50)]
MANY_CARRIERS = [f"carrier = 'C{number}'" for number in range(10)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the operators' ranking: = before IN before BETWEEN before order before the rest
        ("a = 1 AND b IN (1, 2) AND c BETWEEN 1 AND 2", "a = 1 with b = 1 or 2"),
        ("b IN (1, 2) AND c BETWEEN 1 AND 2 AND d > 1", "b = 1 or 2 with c from 1 up to 2"),
        ("c BETWEEN 1 AND 2 AND d > 1 AND e != 1", "c from 1 up to 2 with d from 2 up to any"),
        ("e != 1 AND a = 1", "a = 1"),
        # two access predicates are of different attributes
        ("a = 1 AND a = 2 AND d > 1", "a = 1 with d from 2 up to any"),
        ("a = 1 AND a = 2", "a = 1"),
        # what holds only where the attribute is there
        ("a != 1", "a present"),
        ("NOT a > 1", "a present"),
        ("ALL a = 1", "a present"),
        ("a CONTAINS 'x'", "a present"),
        ("a MATCHES 'x'", "a present"),
        ("a = NOW()", "a present"),
        ("EXISTS a", "a exists"),
        ("a[b = 1]", "a exists"),
        # negations of negations
        ("NOT a != 1", "a = 1"),
        ("NOT (a != 1 OR b NOT IN (2, 3))", "a = 1 with b = 2 or 3"),
        # other values
        ("a IS NULL", "a = null"),
        ("a = TRUE", "a = true"),
        ("a IN (1, 'x', FALSE)", "a = false or 'x' or 1"),
        ("a = 'Straße' NOCASE", "a = 'straße'"),
        ("a STARTS WITH ('x', 'y')", "a from 'x' up to 'x' and all it begins or from 'y' up to 'y' and all it begins"),  # noqa: E501
        # trees
        ("a = 1 OR b = 2", "a = 1, or b = 2"),
        ("(a = 1 OR b = 2) AND c = 3", "c = 3"),
        ("(a = 1 AND b = 1) OR (a = 2 AND c = 3)", "a = 1 with b = 1, or a = 2 with c = 3"),
        ("ATLEAST 2 OF (a = 1, b != 2, c = 3)", "a = 1, or c = 3"),
        ("ATLEAST 3 OF (a = 1, b != 2, c = 3)", "a = 1 with c = 3"),
        ("NOT (a = 1 AND b = 2)", "a present, or b present"),
        # nothing that must be there
        ("MISSING a", ""),
        ("a = 1 OR MISSING b", ""),
        ("(a = 1) IS NOT TRUE", ""),
        ("TRUE", ""),
    ],
)  # fmt: skip
def test_filing(text: str, expected: str) -> None:
    assert filed(text) == (expected or "no key: it is tried on every event")


def test_attributes_with_more_named_values_are_taken_for_more_selective() -> None:
    text = "carrier = 'UA' AND tail = 'N1' AND origin = 'JFK' AND day IN (1, 2)"
    assert filed(text, *MANY_TAILS, *MANY_CARRIERS) == "carrier = 'UA' with tail = 'N1'"


def test_statistics_know_better() -> None:
    statistics = EventStatistics()
    for number in range(100):
        statistics.observe_event({"carrier": "UA", "tail": "N1", "origin": f"O{number}", "day": 1})
    text = "carrier = 'UA' AND tail = 'N1' AND origin = 'O7' AND day > 40"
    assert filed(text, *MANY_TAILS, statistics=statistics) == (
        "day from 41 up to any with origin = 'O7'"
    )


def test_a_leaf_of_too_many_values_is_filed_under_presence() -> None:
    for count, expected in ((cover.SINGLE_KEYS_MAX, "a = 0"), (cover.SINGLE_KEYS_MAX + 1, "a p")):
        values = ", ".join(map(str, range(count)))
        assert filed(f"a IN ({values})").startswith(expected)


def test_a_pair_of_too_many_keys_is_not_chosen() -> None:
    others = [f"{name} = {value}" for name in "ab" for value in range(1_000)]
    some, more = (", ".join(map(str, range(count))) for count in (16, 17))
    assert cover.PAIR_KEYS_MAX == 16 * 16
    named = "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or one of"
    assert filed(f"a IN ({some}) AND b IN ({some})", *others) == (
        f"a = {named} 8 more with b = {named} 8 more"
    )
    assert filed(f"a IN ({some}) AND b IN ({more})", *others) == f"a = {named} 8 more"


def test_a_row_of_too_many_keys_is_filed_under_presences() -> None:
    """And still matches."""
    values = ", ".join(map(str, range(1_000)))
    within = cover.ROW_KEYS_MAX // 1_000
    small, large = (
        " OR ".join(f"a{number} IN ({values})" for number in range(count))
        for count in (within, within + 1)
    )
    assert filed(small).startswith("a0 = 0 or 1 or 2")
    assert filed(large).startswith("a0 present, or a1 present")
    index = PSTHash.build([Subscription("s", parse_text(large))])
    assert index.stats()["filing_count"] == within + 1
    events = encode([{"a3": 999}, {"a3": 1_000}], index.vocabulary)
    assert index.ids_by_event(index.match(events, NOW)) == [["s"], []]


def test_or_of_ors_is_filed_in_linear_space() -> None:
    text = " AND ".join(
        "(" + " OR ".join(f"a{outer} = {inner}" for inner in range(50)) + ")" for outer in range(50)
    )
    index = PSTHash.build([Subscription("s", parse_text(text))])
    assert index.stats()["filing_count"] == 50


def test_room_for_hits_grows() -> None:
    """In the middle of a batch, whatever the first events needed."""
    subscriptions = [
        Subscription(f"s{number}", parse_text(f"a{number % 40} = 1 AND b != 2 AND c < {number}"))
        for number in range(400)
    ]
    every: dict[str, object] = {f"a{number}": 1 for number in range(40)}
    events: list[dict[str, object]] = [
        {"a1": 1, "b": 1, "c": 0},
        *[{**every, "b": 1, "c": -1}] * 5,
        {},
        {"a1": [1, 1]},
    ]
    index, scan = PSTHash.build(subscriptions), Scan.build(subscriptions)
    found = index.match(encode(events, index.vocabulary), NOW)
    expected = scan.match(encode(events, scan.vocabulary), NOW)
    assert np.array_equal(found.start, expected.start)
    assert np.array_equal(found.row, expected.row)
