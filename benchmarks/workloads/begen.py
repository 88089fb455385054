"""BE-Gen: base expressions are events, and subscriptions are derived so that they match one.

Paper    Sadoghi, Jacobsen: BE-Tree, SIGMOD 2011, section 7.1, Table 2 (operators and how equalities
         are transformed) and Table 3 (parameters); Ji, Jacobsen, PVLDB 12(3), 2018, Table 1 and
         section 7.4, the ads set, whose shape `ADS` models.
Match    with b bases an event matches the subscriptions of its own base, 1 of b, as far as noise
probability leaves them; so b is about 1 / the match probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.workloads.draws import distinct_ranks, ranks, zipf_shares
from benchmarks.workloads.workload import (
    ABSENT,
    Predicates,
    Workload,
    conjunction,
    payloads_of_rows,
)
from index.model import Operator, Predicate, Subscription

SET_VALUES_MAX = 6
"""BE-Tree, section 7.1: up to 6 values of a set."""

MEDIUM = {
    Operator.IN: 2.0,
    Operator.NOT_IN: 0.5,
    Operator.BETWEEN: 3.0,
    Operator.LT: 0.75,
    Operator.LE: 0.75,
    Operator.GT: 0.75,
    Operator.GE: 0.75,
}
"""Weights of the operators that are not `=`, in the paper's medium class of expressiveness."""
HIGH = {**MEDIUM, Operator.NE: 1.0}
SETS_AND_RANGES = {Operator.IN: 3.0, Operator.BETWEEN: 2.0, Operator.NOT_IN: 1.0}


@dataclass(frozen=True, slots=True)
class BEGen:
    """Parameters, named after BE-Tree's Table 3; the defaults are its column of workload sizes."""

    subscriptions: int = 100_000
    events: int = 1_000
    dimensions: int = 400
    cardinality: int = 48
    subscription_size: tuple[int, int] = (5, 9)
    event_size: tuple[int, int] = (13, 17)
    range_share: float = 0.12
    equality_share: float = 0.3
    match_probability: float = 0.01
    zipf_attributes: float = 0.0
    zipf_values: float = 0.0
    other_operators: tuple[tuple[Operator, float], ...] = tuple(MEDIUM.items())
    noise: float = 0.03
    """The share of an event's values that are not those of its base."""


ADS = BEGen(
    dimensions=122,
    cardinality=50,
    subscription_size=(4, 12),
    event_size=(20, 20),
    equality_share=0.4,
    match_probability=0.001,
    zipf_attributes=0.8,
    zipf_values=0.6,
    other_operators=tuple(SETS_AND_RANGES.items()),
    noise=0.05,
)
"""As the ads set is described: 122 attributes, 8 predicates on average, 20 pairs an event."""


def generate(name: str, parameters: BEGen, seed: int = 1) -> Workload:
    """Draw bases, derive subscriptions from them, and make events of them."""
    random = np.random.default_rng(seed)
    base_count = max(1, round(1 / parameters.match_probability))
    attributes = zipf_shares(parameters.dimensions, parameters.zipf_attributes)
    values = zipf_shares(parameters.cardinality, parameters.zipf_values)
    sizes = random.integers(*parameters.event_size, base_count, endpoint=True)
    attribute = distinct_ranks(random, attributes, sizes)
    value = 1 + ranks(random, values, attribute.shape)
    base = random.integers(0, base_count, parameters.events)
    event_value = np.where(
        random.random((base.size, attribute.shape[1])) < parameters.noise,
        1 + ranks(random, values, (base.size, attribute.shape[1])),
        value[base],
    )
    return Workload(
        name,
        _derived(random, parameters, sizes, attribute, value),
        payloads_of_rows(attribute[base], event_value),
    )


def _derived(
    random: Generator,
    parameters: BEGen,
    sizes: NDArray[np.int64],
    attribute: NDArray[np.int64],
    value: NDArray[np.int64],
) -> list[Subscription]:
    """Subscriptions that keep some equalities of a base and widen others."""
    count = parameters.subscriptions
    base = random.integers(0, sizes.size, count)
    size = random.integers(*parameters.subscription_size, count, endpoint=True)
    turn = random.random((count, attribute.shape[1]), np.float32)
    turn[attribute[base] == ABSENT] = 2
    order = np.argsort(turn, axis=1)
    operators, weights = zip(*parameters.other_operators, strict=True)
    shares = np.cumsum(weights) / np.sum(weights)
    drawn = random.random((count, attribute.shape[1]))
    is_equal = random.random(drawn.shape) < parameters.equality_share
    other = np.minimum(np.searchsorted(shares, drawn), len(operators) - 1)
    widen = _Widening(random, parameters, Predicates())
    subscriptions = []
    for number in range(count):
        one = int(base[number])
        kept = order[number, : min(int(size[number]), int(sizes[one]))]
        predicates = [
            widen.predicate(
                int(attribute[one, at]),
                int(value[one, at]),
                Operator.EQ if is_equal[number, at] else operators[other[number, at]],
            )
            for at in kept.tolist()
        ]
        subscriptions.append(conjunction(number, predicates))
    return subscriptions


class _Widening:
    """Table 2(b): predicates that an equality implies."""

    def __init__(self, random: Generator, parameters: BEGen, known: Predicates) -> None:
        self._top = parameters.cardinality
        self._width = 2 * parameters.range_share * parameters.cardinality
        self._known = known
        self._draws = iter(random.random(1 << 16).tolist())
        self._random = random

    def predicate(self, attribute: int, value: int, operator: Operator) -> Predicate:
        """A predicate of this operator that holds of the value."""
        operand: object = value
        if operator is Operator.BETWEEN:
            width = 1 + int(self._draw() * self._width)
            low = max(1, value - int(self._draw() * (width + 1)))
            operand = (low, min(self._top, max(value, low + width)))
        elif operator is Operator.IN:
            operand = self._set(value, holds=True)
        elif operator is Operator.NOT_IN:
            operand = self._set(value, holds=False)
        elif operator is Operator.NE:
            operand = 1 + (value + int(self._draw() * (self._top - 1))) % self._top
        elif operator in (Operator.LT, Operator.LE):
            low = value + (operator is Operator.LT)
            operand = low + int(self._draw() * (self._top - value + 1))
        elif operator in (Operator.GT, Operator.GE):
            operand = value - (operator is Operator.GT) - int(self._draw() * value)
        return self._known.of(attribute, operator, operand)

    def _set(self, value: int, holds: bool) -> tuple[int, ...]:
        size = 2 + int(self._draw() * (SET_VALUES_MAX - 1))
        others = {1 + int(self._draw() * self._top) for _ in range(size)} - {value}
        if not holds:
            return tuple(sorted(others)) or (value % self._top + 1,)
        return (value, *sorted(others)[: SET_VALUES_MAX - 1])

    def _draw(self) -> float:
        drawn: float | None = next(self._draws, None)
        if drawn is None:
            self._draws = iter(self._random.random(1 << 16).tolist())
            drawn = next(self._draws)
        return drawn
