"""Explain: why a filter is or is not TRUE of an event, node by node.

    explain((delay > 60 AND carrier = 'UA') OR vip = TRUE, {"delay": 61, "carrier": "AA"})

    OR                     UNKNOWN  *
    ├─ AND                 FALSE
    │  ├─ delay > 60       TRUE         delay is 61
    │  └─ carrier = 'UA'   FALSE        carrier is "AA"
    └─ vip = TRUE          UNKNOWN  *   the event has no vip

A star marks a node that decides: were the truth of all of them another, so might be the filter's.
The truths come from `index.evaluate`, so an explanation cannot disagree with a match. Where an
index keeps the subscription is told by its `filing_of`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from index.decode import elements_at, exists, values_at
from index.evaluate import Truth, truth, values_truth
from index.model import (
    And,
    AtLeast,
    Element,
    Filter,
    Instant,
    IsNotTrue,
    Not,
    Operator,
    Or,
    Predicate,
    children_of,
)
from index.text_writer import path_text, to_text

VALUE_LENGTH_MAX = 80
VALUES_MAX = 5
ELEMENTS_MAX = 16
"""What one explanation shows of a long string, of many values, and of many elements."""

_NAMES: dict[Truth, str] = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of a filter on one event.

    text      a leaf in the language; of an inner node only its operator
    truth     True, False, or None for UNKNOWN
    why       what the event has there; '' for an inner node
    decides   the filter's truth rests on this node
    children  explanations of the children; of an Element one for each element of the array
    """

    text: str
    truth: Truth
    why: str
    decides: bool
    children: tuple[Explanation, ...] = ()


def explain(node: Filter, event: dict[str, object], now: Instant) -> Explanation:
    """The tree of truths of a filter on an event, with the nodes that decide marked."""
    return _explain(node, event, now, decides=True)


def deciding(explanation: Explanation) -> Iterator[Explanation]:
    """The leaves that the filter's truth rests on, in the order of writing."""
    if not explanation.decides:
        return
    if not explanation.children:
        yield explanation
    for child in explanation.children:
        yield from deciding(child)


def lines(explanation: Explanation) -> list[str]:
    """The tree drawn as text, truths and reasons in columns."""
    rows = list(_rows(explanation, "", ""))
    width = max(len(drawn) for drawn, _ in rows)
    return [
        f"{drawn:<{width}}   {_NAMES[node.truth]:<7} {'*' if node.decides else ' '}  "
        f"{node.why}".rstrip()
        for drawn, node in rows
    ]


def as_object(explanation: Explanation) -> dict[str, object]:
    """The tree as JSON: truth is true, false or null."""
    drawn: dict[str, object] = {
        "text": explanation.text,
        "truth": explanation.truth,
        "decides": explanation.decides,
    }
    if explanation.why:
        drawn["why"] = explanation.why
    if explanation.children:
        drawn["children"] = [as_object(child) for child in explanation.children]
    return drawn


def _explain(node: Filter, event: dict[str, object], now: Instant, decides: bool) -> Explanation:
    found = truth(node, event, now)
    match node:
        case Predicate():
            return Explanation(to_text(node), found, _why(node, event, now), decides)
        case Element():
            return _explain_element(node, event, now, found, decides)
    children = (
        _explain(
            child, event, now, decides and _child_decides(node, found, truth(child, event, now))
        )
        for child in children_of(node)
    )
    return Explanation(_label(node), found, "", decides, tuple(children))


def _explain_element(
    node: Element, event: dict[str, object], now: Instant, found: Truth, decides: bool
) -> Explanation:
    name = path_text(node.path)
    present, elements = elements_at(event, node.path)
    shown = elements[:ELEMENTS_MAX]
    if not present:
        why = f"the event has no {name}"
    elif len(shown) < len(elements):
        why = f"the first {len(shown)} of {len(elements)} elements"
    else:
        why = "" if elements else f"{name} is an empty array"
    children = (
        (element, decides and truth(node.where, element, now) is found) for element in shown
    )
    return Explanation(
        f"{name}[…]",
        found,
        why,
        decides,
        tuple(_explain(node.where, element, now, decisive) for element, decisive in children),
    )


def _child_decides(node: Filter, found: Truth, child: Truth) -> bool:
    """AND, OR and ATLEAST rest on the children that have their own truth; NOT on its child."""
    match node:
        case And() | Or() | AtLeast():
            return child is found
        case _:
            return True


def _label(node: Filter) -> str:
    match node:
        case And():
            return "AND"
        case Or():
            return "OR"
        case Not():
            return "NOT"
        case IsNotTrue():
            return "IS NOT TRUE"
        case AtLeast(count, children):
            return f"ATLEAST {count} OF {len(children)}"
        case _:
            return to_text(node)


def _why(predicate: Predicate, event: dict[str, object], now: Instant) -> str:
    name = path_text(predicate.path)
    if predicate.operator in (Operator.EXISTS, Operator.MISSING):
        found = exists(event, predicate.path)
        return f"the event {'has' if found else 'has no'} {name}"
    present, values, array = values_at(event, predicate.path)
    if not present:
        return f"the event has no {name}"
    if not array:
        return f"{name} is {_shown(values[0])}"
    if len(values) < 2:
        return f"{name} has {_shown(values[0])} alone" if values else f"{name} is an empty array"
    holding = [one for one in values if values_truth(predicate, (one,), now) is True]
    if len(holding) == len(values):
        return f"{name} has {_some(values)}, all of which hold"
    return f"{name} has {_some(values)}; of these {_some(holding) or 'none'} holds"


def _some(values: list[object]) -> str:
    shown = ", ".join(map(_shown, values[:VALUES_MAX]))
    return shown if len(values) <= VALUES_MAX else f"{shown} and {len(values) - VALUES_MAX} more"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str) and len(value) > VALUE_LENGTH_MAX:
        start = json.dumps(value[:VALUE_LENGTH_MAX], ensure_ascii=False)
        return f"{start}… ({len(value)} characters)"
    return json.dumps(value, ensure_ascii=False)


def _rows(node: Explanation, first: str, rest: str) -> Iterator[tuple[str, Explanation]]:
    yield first + node.text, node
    for position, child in enumerate(node.children):
        last = position == len(node.children) - 1
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _rows(child, rest + branch, rest + below)
