"""The demo's own judges are judged here: two independent counts and the oracle must agree."""

from __future__ import annotations

from collections import Counter

import orjson
import pyarrow as pa
import pytest

from deploy.demo import checking, flights, generated
from deploy.demo.independent import FlightCounter
from deploy.demo.written import WRITTEN
from index.filter_json import parse_json
from index.language import parse_text

FLIGHTS = 400
DRAWN = 300


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Flights spread over the year, so that cancelled ones and every month are there."""
    whole = flights.load()
    step = whole.num_rows // FLIGHTS
    return whole.take(pa.array(range(0, step * FLIGHTS, step)))


@pytest.fixture(scope="module")
def drawn(table: pa.Table) -> list[tuple[str, generated.Tree]]:
    return list(generated.generate(table, DRAWN))


def test_payloads_leave_out_what_the_source_lacks(table: pa.Table) -> None:
    payloads = flights.payloads(table)
    assert len(payloads) == FLIGHTS
    events = [orjson.loads(payload) for payload in payloads]
    assert all(value is not None for event in events for value in event.values())
    missing = table["dep_time"].null_count
    assert missing > 0
    assert sum("dep_time" not in event for event in events) == missing
    assert all(event["time_hour"].endswith("Z") for event in events)


def test_equal_seeds_draw_equal_subscriptions(table: pa.Table) -> None:
    first = list(generated.generate(table, 50))
    assert first == list(generated.generate(table, 50))
    assert first != list(generated.generate(table, 50, seed=1))


def test_the_written_subscriptions_are_forty_and_parse() -> None:
    assert len(WRITTEN) == 40
    assert len({one.id for one in WRITTEN}) == 40
    for one in WRITTEN:
        parse_text(one.expr)


def test_the_independent_count_agrees_with_the_oracle(
    table: pa.Table, drawn: list[tuple[str, generated.Tree]]
) -> None:
    expected = checking.independent_counts(table, drawn)
    filters = {one.id: parse_text(one.expr) for one in WRITTEN}
    filters.update((name, parse_json(tree)) for name, tree in drawn)
    found: Counter[str] = Counter()
    for payload in flights.payloads(table):
        found.update(checking.matching(filters, payload))
    assert found == expected
    assert found.total() > FLIGHTS // 10
    assert any(name.startswith("g") for name in found)


def test_a_filter_on_no_known_value_counts_nothing(table: pa.Table) -> None:
    counter = FlightCounter(table)
    assert counter.count({"and": [{"attr": "tailnum", "op": "eq", "value": "none"}]}) == 0


def test_a_lost_and_a_false_notification_do_not_cancel_out() -> None:
    verdict = checking.compare_counts(Counter({"a": 2, "b": 1}), Counter({"a": 1, "b": 2}))
    assert verdict.expected == verdict.found == 3
    assert not verdict.holds
    assert len(verdict.differences) == 2


def test_the_sample_names_what_is_lost_and_what_is_false(
    table: pa.Table, drawn: list[tuple[str, generated.Tree]]
) -> None:
    payloads = flights.payloads(table)
    filters = {one.id: parse_text(one.expr) for one in WRITTEN}
    filters.update((name, parse_json(tree)) for name, tree in drawn)
    row = next(n for n, payload in enumerate(payloads) if checking.matching(filters, payload))
    truth = checking.matching(filters, payloads[row])
    assert checking.compare_sample(payloads, drawn, {row: truth}).holds
    verdict = checking.compare_sample(payloads, drawn, {row: ["g999999"]})
    assert "false ['g999999']" in verdict.differences[0]
    assert sorted(truth)[0] in verdict.differences[0]
