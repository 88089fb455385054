"""Fabret's workloads: equalities of which some stand on fixed attributes, in a stream of changes.

Paper    Fabret et al., SIGMOD 2001, section 6.1 and Table 1: 32 attributes, values 1..35,
         `predicates` a subscription of which `fixed` are on the first attributes, events with all
         32; 6.2.1 W0, W1, W2; 6.2.2 W3 to W6, where schemas change or values become skewed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.workloads.workload import (
    Predicates,
    Workload,
    attribute_name,
    conjunction,
    equalities,
    payloads_of,
)
from index.model import Operator, Subscription

RANGES = (Operator.LT, Operator.GT, Operator.NE)
"""What the paper calls non-equality predicates, in turn."""


@dataclass(frozen=True, slots=True)
class FixedAttributes:
    """Parameters, named after the paper's; the defaults are W0."""

    subscriptions: int = 100_000
    events: int = 1_000
    attributes: int = 32  # n_t: names that subscriptions use
    first_attribute: int = 0
    event_attributes: int = 32  # n_A
    predicates: int = 5  # n_P
    fixed: int = 2  # n_Pfix
    fixed_ranges: int = 0  # of the fixed ones, not `=`
    values: int = 35
    skewed_values: int = 0
    """If not 0, the first fixed attribute takes only so many values, in both."""


W0 = FixedAttributes()
W1 = replace(W0, predicates=4, fixed=3, fixed_ranges=1)
W2 = replace(W0, predicates=9, fixed=8, fixed_ranges=6)
W3 = replace(W0, attributes=16, fixed=1)
W4 = replace(W3, first_attribute=16)
W5 = W0
W6 = replace(W5, skewed_values=2)


def generate(name: str, parameters: FixedAttributes, seed: int = 1) -> Workload:
    """Subscriptions and events of one specification."""
    random = np.random.default_rng(seed)
    return Workload(
        name, subscriptions_of(random, parameters), payloads_of(events_of(random, parameters))
    )


def subscriptions_of(
    random: Generator, parameters: FixedAttributes, first_number: int = 0
) -> list[Subscription]:
    """Subscriptions of one specification, numbered from `first_number` on."""
    count, fixed = parameters.subscriptions, parameters.fixed
    free = parameters.predicates - fixed
    attribute = np.empty((count, parameters.predicates), np.int64)
    attribute[:, :fixed] = parameters.first_attribute + np.arange(fixed)
    if free:
        order = np.argsort(random.random((count, parameters.attributes - fixed)), axis=1)
        attribute[:, fixed:] = parameters.first_attribute + fixed + order[:, :free]
    value = random.integers(1, parameters.values, attribute.shape, endpoint=True)
    if parameters.skewed_values:
        value[:, 0] = random.integers(1, parameters.skewed_values, count, endpoint=True)
    if not parameters.fixed_ranges:
        rows = equalities(attribute, value)
    else:
        rows = _with_ranges(parameters, attribute, value)
    return [Subscription(f"s{first_number + at}", one.filter) for at, one in enumerate(rows)]


def events_of(random: Generator, parameters: FixedAttributes) -> list[dict[str, object]]:
    """Events that have all attributes."""
    shape = parameters.events, parameters.event_attributes
    value = random.integers(1, parameters.values, shape, endpoint=True)
    if parameters.skewed_values:
        value[:, 0] = random.integers(1, parameters.skewed_values, shape[0], endpoint=True)
    names = [attribute_name(at) for at in range(parameters.event_attributes)]
    return [dict(zip(names, row, strict=True)) for row in value.tolist()]


def _with_ranges(
    parameters: FixedAttributes, attribute: NDArray[np.int64], value: NDArray[np.int64]
) -> list[Subscription]:
    """The last fixed predicates are `<`, `>` and `!=`, in turn."""
    known = Predicates()
    first_range = parameters.fixed - parameters.fixed_ranges
    operators = [
        RANGES[(place - first_range) % len(RANGES)]
        if first_range <= place < parameters.fixed
        else Operator.EQ
        for place in range(parameters.predicates)
    ]
    return [
        conjunction(
            number,
            [
                known.of(at, operator, one)
                for at, operator, one in zip(names, operators, values, strict=True)
            ],
        )
        for number, (names, values) in enumerate(
            zip(attribute.tolist(), value.tolist(), strict=True)
        )
    ]
