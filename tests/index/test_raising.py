"""Predicates from their records: what they ask, if not how it was written."""

from __future__ import annotations

import pytest

from index.algorithms.herald import Herald
from index.language import parse_text
from index.model import Predicate
from index.predicate_table import PredicateTable
from index.raising import raised
from index.statistics import EventStatistics
from index.text_writer import to_text
from index.vocabulary import Vocabulary
from tests.index.segments import subscriptions

TEXTS = {
    "a.b = 1": "a.b = 1",
    "a = 1.5": "a = 1.5",
    "a = 'x'": "a = 'x'",
    "a = TRUE": "a = TRUE",
    "a = 'X' NOCASE": "a = 'x' NOCASE",
    "a IN (2, 'y', FALSE, 9007199254740993)": "a IN (FALSE, 'y', 2, 9007199254740993)",
    "a < 5": "a <= 4",
    "a >= 5": "a >= 5",
    "a BETWEEN 0.5 AND 7": "a BETWEEN 0.5 AND 7",
    "a > 'm'": "a >= 'm\0'",
    "a < 'm'": "a < 'm'",
    "a BETWEEN 'b' AND 'd'": "a BETWEEN 'b' AND 'd\0'",
    "a STARTS WITH 'x'": "a STARTS WITH 'x'",
    "a CONTAINS 'É' NOCASE": "a CONTAINS 'é' NOCASE",
    "a LIKE 'x%'": "a STARTS WITH 'x'",
    "a LIKE 'x_%y'": "a LIKE 'x_%y'",
    "a MATCHES 'x+'": "a MATCHES 'x+'",
    "a IN CIDR '10.0.0.0/8'": "a IN CIDR '10.0.0.0/8'",
    "a > TIMESTAMP '2026-01-01T00:00:00Z'": "a > TIMESTAMP '2026-01-01T00:00:00Z'",
    "EXISTS a": "EXISTS a",
    "a IS NULL": "a IS NULL",
    "ALL a = 3": "ALL a = 3",
}


@pytest.mark.parametrize(("written", "text"), TEXTS.items())
def test_a_record_asks_what_was_written(written: str, text: str) -> None:
    predicate = parse_text(written)
    assert isinstance(predicate, Predicate)
    table = PredicateTable(Vocabulary())
    number = table.number(predicate)
    found = raised(table.columns(), table.vocabulary, number)
    assert found is not None
    assert to_text(found) == text


def test_what_only_the_filter_can_tell_is_not_raised() -> None:
    table = PredicateTable(Vocabulary())
    for text in ("p[a = 1 AND b = 2]", "a IN (1, TIMESTAMP '2026-01-01T00:00:00Z')"):
        node = parse_text(text)
        number = table.number(node)  # type: ignore[arg-type]
        assert raised(table.columns(), table.vocabulary, number) is None


def test_a_merge_knows_the_predicates_of_rows_that_it_joins() -> None:
    statistics = EventStatistics()
    for _ in range(500):
        statistics.observe_event({"kind": "other", "user": 1})
    every = subscriptions([f"kind = 'k' AND user = {number % 2}" for number in range(40)])
    index = Herald.build(every[:20])
    index.add_all(every[20:])
    assert index.filing_of("s1").startswith("under user = 1;")
    index.merge(statistics=statistics)
    assert index.filing_of("s1").startswith("under kind = 'k';")
    assert index.filing_of("s1") == index.filing_of("s39")
