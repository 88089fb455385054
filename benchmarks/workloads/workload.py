"""A workload: subscriptions and events, and how arrays of numbers become both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from index.model import And, Operator, Predicate, Subscription

ABSENT = -1
"""Place of an attribute that a row does not have."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What an index is built of, and what is then asked of it."""

    name: str
    subscriptions: list[Subscription]
    payloads: list[bytes]  # events, as JSON
    batch_events: int | None = None
    """Events that a method is asked for in one call; all that it sees, if there is no such number.
    """


class Predicates:
    """Predicates by what they say: each is made once, for most subscriptions share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Operator, object], Predicate] = {}

    def of(self, attribute: int, operator: Operator, operand: object) -> Predicate:
        """The predicate of attribute number `attribute`."""
        key = attribute, operator, operand
        predicate = self._known.get(key)
        if predicate is None:
            # Operands of a workload are numbers and tuples of numbers.
            predicate = Predicate((attribute_name(attribute),), operator, operand)  # type: ignore[arg-type]
            self._known[key] = predicate
        return predicate


def attribute_name(attribute: int) -> str:
    """What attribute number `attribute` is called in filters and events."""
    return f"a{attribute}"


def conjunction(number: int, predicates: Sequence[Predicate]) -> Subscription:
    """Subscription number `number`, to events that satisfy all of these."""
    node = And(tuple(predicates)) if len(predicates) > 1 else predicates[0]
    return Subscription(f"s{number}", node)


def payloads_of(events: Iterable[dict[str, object]]) -> list[bytes]:
    """Events as JSON."""
    return [orjson.dumps(event) for event in events]


def payloads_of_rows(attribute: NDArray[np.int64], value: NDArray[np.int64]) -> list[bytes]:
    """Events from [events, places] of attributes, or ABSENT, and their values."""
    return payloads_of(
        {attribute_name(at): one for at, one in zip(names, values, strict=True) if at != ABSENT}
        for names, values in zip(attribute.tolist(), value.tolist(), strict=True)
    )


def equalities(attribute: NDArray[np.int64], value: NDArray[np.int64]) -> list[Subscription]:
    """Conjunctions of equalities from [subscriptions, places] of attributes and values."""
    known = Predicates()
    return [
        conjunction(
            number,
            [
                known.of(at, Operator.EQ, one)
                for at, one in zip(names, values, strict=True)
                if at != ABSENT
            ],
        )
        for number, (names, values) in enumerate(
            zip(attribute.tolist(), value.tolist(), strict=True)
        )
    ]
