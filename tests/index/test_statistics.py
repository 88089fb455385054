"""Event statistics: what is counted exactly, what is estimated, and that all of it is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import statistics as module
from index.events import decode_payloads
from index.language import parse_text
from index.model import Predicate
from index.statistics import EventStatistics
from index.vocabulary import Vocabulary
from tests.strategies import events_near, predicates


def observed(*events: dict[str, Any]) -> EventStatistics:
    statistics = EventStatistics()
    for event in events:
        statistics.observe_event(event)
    return statistics


def fraction(statistics: EventStatistics, text: str) -> float | None:
    predicate = parse_text(text)
    assert isinstance(predicate, Predicate)
    return statistics.fraction(predicate)


FLIGHTS = observed(
    {"carrier": "UA", "delay": 61, "tags": ["x", "y"]},
    {"carrier": "UA", "delay": None},
    {"carrier": "AA", "vip": True, "legs": [{"to": "SFO"}, {"to": "JFK"}]},
    {"carrier": "UA", "delay": 5.0},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("carrier = 'UA'", 0.75),
        ("carrier != 'UA'", 0.25),
        ("carrier IN ('UA', 'AA')", 1.0),
        ("carrier = 'ua' NOCASE", 0.75),
        ("carrier LIKE 'A%'", 0.25),
        ("delay > 10", 0.25),
        ("delay = 5", 0.25),
        ("delay IS NULL", 0.25),
        ("EXISTS delay", 0.75),
        ("MISSING delay", 0.25),
        ("tags = 'y'", 0.25),
        ("vip = TRUE", 0.25),
        ("vip = 1", 0.125),
        ("legs.to = 'JFK'", 0.25),
        ("carrier = 'ZZ'", 0.125),
        ("nothing = 1", None),
        ("EXISTS nothing", None),
        ("carrier < NOW()", None),
    ],
)
def test_fractions(text: str, expected: float | None) -> None:
    assert fraction(FLIGHTS, text) == expected


def test_nothing_is_told_without_events() -> None:
    assert fraction(EventStatistics(), "a = 1") is None


def test_estimates_follow_new_events() -> None:
    statistics = observed({"n": 1})
    assert fraction(statistics, "n > 1") == 0.5
    statistics.observe_event({"n": 2})
    assert fraction(statistics, "n > 1") == 0.5
    statistics.observe_event({"n": 2})
    assert fraction(statistics, "n > 1") == pytest.approx(2 / 3)


def test_values_beyond_the_limit_are_taken_to_be_like_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "VALUES_MAX", 10)
    monkeypatch.setattr(module, "ATTRIBUTES_MAX", 2)
    statistics = observed(*({"n": n, "m": 0, "late": 1} for n in range(100)))
    assert fraction(statistics, "n < 5") == 0.5
    assert fraction(statistics, "n = 3") == 0.02
    assert fraction(statistics, "n = 50") == 0.01
    assert fraction(statistics, "late = 1") is None


def test_a_batch_is_observed_without_its_dead_letters() -> None:
    statistics = EventStatistics()
    events, _ = decode_payloads([b'{"a": 1}', b"{", b"{}"], Vocabulary())
    statistics.observe(events)
    assert statistics.event_count == 2
    assert fraction(statistics, "a = 1") == 0.5


@given(predicates().flatmap(lambda one: st.tuples(st.just(one), events_near(one))))
def test_a_fraction_is_none_or_a_share(drawn: tuple[Predicate, dict[str, Any]]) -> None:
    predicate, event = drawn
    share = observed(event, {}).fraction(predicate)
    assert share is None or 0 <= share <= 1
