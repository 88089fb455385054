"""Event statistics: how often an attribute is there, and how often a predicate holds of it.

An index that files a subscription under its most selective predicate asks here which one that is
(PS-Tree, TODS 2019, section 3.3: estimate the probability by the share of past events). Estimates
change speed only, never an answer.

    event_count 4     attribute    present   values                  other
                      carrier      4         'UA': 3, 'AA': 1        0
                      delay        2         61: 1                   1      a value past the limit

    delay > 60        (1 of the 1 kept value holds, so 1 + 1 * 1) / 4 = 0.5

Everything is bounded: ATTRIBUTES_MAX attributes, VALUES_MAX distinct values of each, in the order
in which they came; what does not fit is counted as `other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from index.errors import EventError
from index.evaluate import is_number, values_truth
from index.model import POSITIVE_FORM, Instant, Now, Operator, Path, Predicate

if TYPE_CHECKING:
    from index.events import Events

ATTRIBUTES_MAX = 4_096
VALUES_MAX = 256
STRING_LENGTH_MAX = 256
REMEMBERED_MAX = 65_536

_ANY_TIME = Instant(0, 0)
Value = tuple[type, object]
"""A value with its type, because Python holds True and 1 for equal."""


@dataclass(slots=True)
class AttributeCounts:
    """Events that have the attribute, and of these how many have each value."""

    present: int = 0
    other: int = 0
    values: dict[Value, int] = field(default_factory=dict)


class EventStatistics:
    """Counts over the events shown to `observe`; `fraction` estimates from them."""

    def __init__(self) -> None:
        self.event_count = 0
        self._attributes: dict[Path, AttributeCounts] = {}
        self._hits_of: dict[Predicate, float] = {}

    def observe(self, events: Events) -> None:
        """Count a batch, rejected events apart; O(values), in plain Python: show it a sample."""
        for row in range(len(events)):
            with suppress(EventError):
                self.observe_event(events.event(row))

    def observe_event(self, event: dict[str, object]) -> None:
        """Count one decoded event."""
        self.event_count += 1
        self._hits_of.clear()
        found: dict[Path, set[Value | None]] = {}
        for path, value in attribute_values(event):
            found.setdefault(path, set()).update(value)
        for path, values in found.items():
            counts = self._attributes.get(path)
            if counts is None:
                if len(self._attributes) >= ATTRIBUTES_MAX:
                    continue
                counts = self._attributes[path] = AttributeCounts()
            counts.present += 1
            for one in values:
                if one is not None and (one in counts.values or len(counts.values) < VALUES_MAX):
                    counts.values[one] = counts.values.get(one, 0) + 1
                else:
                    counts.other += 1

    def fraction(self, predicate: Predicate) -> float | None:
        """The expected share of events of which the predicate is TRUE; None if none can be told.

        O(operands) for = != IN NOT IN; for the others O(values kept), remembered until the next
        event is observed.
        """
        counts = self._attributes.get(predicate.path)
        # A path that only leads to others is not counted, though it exists: nothing can be told.
        if counts is None or _needs_now(predicate):
            return None
        match predicate.operator:
            case Operator.EXISTS:
                return counts.present / self.event_count
            case Operator.MISSING:
                return 1 - counts.present / self.event_count
        positive = POSITIVE_FORM.get(predicate.operator, predicate.operator)
        if positive is predicate.operator:
            hits = self._hits(counts, predicate)
        else:
            asked = replace(predicate, operator=positive, quantifier=None)
            hits = counts.present - self._hits(counts, asked)
        return min(max(hits, 0.5), counts.present) / self.event_count

    def _hits(self, counts: AttributeCounts, predicate: Predicate) -> float:
        """Events expected to satisfy a positive predicate."""
        if predicate.operator in (Operator.EQ, Operator.IN) and not predicate.nocase:
            operands = _operands(predicate)
            hits = sum(counts.values.get(_value_of(one), 0) for one in operands)
            return hits + min(counts.other, 1)
        if predicate not in self._hits_of:
            if len(self._hits_of) >= REMEMBERED_MAX:
                self._hits_of.clear()
            self._hits_of[predicate] = _hits_by_testing(counts, predicate)
        return self._hits_of[predicate]


def attribute_values(node: object, path: Path = ()) -> Iterator[tuple[Path, list[Value | None]]]:
    """Each attribute of an event, piece by piece: a path and values, None for one not kept."""
    if isinstance(node, dict):
        for name, child in node.items():
            yield from attribute_values(child, (*path, name))
    elif isinstance(node, list):
        yield path, [None] if any(isinstance(child, dict) for child in node) else []
        for child in node:
            yield from attribute_values(child, path)
    elif isinstance(node, str):
        yield path, [(str, node) if len(node) <= STRING_LENGTH_MAX else None]
    else:
        yield path, [_value_of(node)]


def _hits_by_testing(counts: AttributeCounts, predicate: Predicate) -> float:
    """Test the values kept, and take the others to be like them."""
    kept = sum(counts.values.values())
    hits = sum(
        count
        for (_, value), count in counts.values.items()
        if values_truth(predicate, (value,), _ANY_TIME) is True
    )
    return hits + (counts.other * hits / kept if kept else counts.other)


def _value_of(value: object) -> Value:
    return (float if is_number(value) else type(value), value)


def _operands(predicate: Predicate) -> tuple[object, ...]:
    operand = predicate.operand
    return operand if isinstance(operand, tuple) else (operand,)


def _needs_now(predicate: Predicate) -> bool:
    """Instants are compared after parsing, and NOW() moves: the values seen say nothing of it."""
    return any(isinstance(one, Instant | Now) for one in _operands(predicate))
