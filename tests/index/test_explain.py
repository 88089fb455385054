"""Explanations: readable, bounded, and never at odds with a match."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from index.decode import parse_event
from index.evaluate import truth
from index.explain import ELEMENTS_MAX, as_object, deciding, explain, lines
from index.language import parse_text
from index.model import Filter
from tests.strategies import NOW, events_near, filters


def told(text: str, event: dict[str, Any]) -> list[str]:
    return lines(explain(parse_text(text), event, NOW))


def reasons(text: str, event: dict[str, Any]) -> list[str]:
    return [leaf.why for leaf in deciding(explain(parse_text(text), event, NOW))]


def test_the_tree_is_drawn_with_truths_and_reasons() -> None:
    filter_text = "(delay > 60 AND carrier = 'UA') OR vip = TRUE"
    assert told(filter_text, {"delay": 61, "carrier": "AA"}) == [
        "OR                     UNKNOWN *",
        "├─ AND                 FALSE",
        "│  ├─ delay > 60       TRUE       delay is 61",
        "│  └─ carrier = 'UA'   FALSE      carrier is \"AA\"",
        "└─ vip = TRUE          UNKNOWN *  the event has no vip",
    ]


def test_what_decides() -> None:
    event = {"a": 1, "b": "x"}
    assert reasons("a = 1 AND b = 'x'", event) == ["a is 1", 'b is "x"']
    assert reasons("a = 2 AND b = 'x'", event) == ["a is 1"]
    assert reasons("a = 2 OR b = 'x'", event) == ['b is "x"']
    assert reasons("NOT (a = 2 OR c = 1)", event) == ["the event has no c"]
    assert reasons("(c = 1) IS NOT TRUE", event) == ["the event has no c"]
    assert reasons("ATLEAST 1 OF (a = 1, b = 'y', c = 1)", event) == ["a is 1"]


def test_values_and_presence_are_told() -> None:
    assert reasons("a > 2", {"a": [1, 5, "x"]}) == ['a has 1, 5, "x"; of these 5 holds']
    assert reasons("a > 9", {"a": [1, 5]}) == ["a has 1, 5; of these none holds"]
    assert reasons("a > 0", {"a": [1, 5]}) == ["a has 1, 5, all of which hold"]
    assert reasons("a = 1", {"a": []}) == ["a is an empty array"]
    assert reasons("a != 1", {"a": [{"b": 1}]}) == ["a has an object alone"]
    assert reasons("EXISTS a.b", {"a": {"b": {"c": 1}}}) == ["the event has a.b"]
    assert reasons('MISSING "a.b"', {}) == ['the event has no "a.b"']


def test_elements_are_told_one_by_one() -> None:
    event: dict[str, object] = {"p": [{"x": 1, "y": 2}, {"x": 1}]}
    explanation = explain(parse_text("p[x = 1 AND y = 2]"), event, NOW)
    assert explanation.text == "p[…]"
    assert [child.truth for child in explanation.children] == [True, None]
    assert [child.decides for child in explanation.children] == [True, False]
    assert reasons("p[x = 1]", {}) == ["the event has no p"]
    assert reasons("p[x = 1]", {"p": []}) == ["p is an empty array"]


def test_what_is_long_is_cut() -> None:
    explanation = explain(parse_text("p[x = 1]"), {"p": [{"x": 2}] * 100}, NOW)
    assert len(explanation.children) == ELEMENTS_MAX
    assert explanation.why == "the first 16 of 100 elements"
    assert len(reasons("a = 'x'", {"a": "y" * 10_000})[0]) < 200
    assert reasons("a = 0", {"a": list(range(1, 9))})[0].startswith(
        "a has 1, 2, 3, 4, 5 and 3 more"
    )


def test_as_json() -> None:
    assert as_object(explain(parse_text("NOT a = 1"), parse_event(b'{"a": 2}'), NOW)) == {
        "text": "NOT",
        "truth": True,
        "decides": True,
        "children": [{"text": "a = 1", "truth": False, "decides": True, "why": "a is 2"}],
    }


@given(filters().flatmap(lambda node: events_near(node).map(lambda event: (node, event))))
def test_an_explanation_agrees_with_the_match(drawn: tuple[Filter, dict[str, Any]]) -> None:
    node, event = drawn
    explanation = explain(node, event, NOW)
    assert explanation.truth is truth(node, event, NOW)
    assert list(deciding(explanation))
    assert len(lines(explanation)) >= 1
