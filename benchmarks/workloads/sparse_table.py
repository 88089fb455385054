"""The sparse table of OpIndex's evaluation: any attributes and operands, by uniform or Zipf draws.

Paper    Zhang, Chan, Tan, PVLDB 7(8), 2014, section 7.1 and Table 3: 20,000 attributes,
         `=` of share theta, `<=` and `>=` of half the rest each, values 1..sigma; 7.6 DNF and CNF
         of up to 5 clauses; 7.7 `=` and prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.workloads.draws import distinct_ranks, ranks, zipf_shares
from benchmarks.workloads.words import vocabulary
from benchmarks.workloads.workload import (
    ABSENT,
    Predicates,
    Workload,
    attribute_name,
    conjunction,
    payloads_of,
    payloads_of_rows,
)
from index.model import And, Operator, Or, Predicate, Subscription

MINIMUM_SIZE = 2
"""Fewest predicates of a subscription; sizes are uniform up to the largest."""
WORD_ATTRIBUTES = 100
"""Attributes of words beside those of numbers in the prefix workload."""


@dataclass(frozen=True, slots=True)
class SparseTable:
    """Parameters, named after OpIndex's Table 3; the defaults are its bold ones."""

    subscriptions: int = 100_000
    events: int = 1_000
    dimensions: int = 20_000
    subscription_size: int = 8  # Gamma_max
    event_size: int = 40  # m
    equality_share: float = 0.4  # theta_1
    value_space: int = 50  # sigma
    zipf: float = 0.0


def generate(name: str, parameters: SparseTable, seed: int = 1) -> Workload:
    """Conjunctions of any attributes with any operators and operands."""
    random = np.random.default_rng(seed)
    rows = list(_predicates(random, parameters, parameters.subscriptions))
    subscriptions = [conjunction(number, row) for number, row in enumerate(rows)]
    return Workload(name, subscriptions, _events(random, parameters))


def generate_clauses(
    name: str, parameters: SparseTable, clause_count: int, is_dnf: bool, seed: int = 1
) -> Workload:
    """Section 7.6: OR of up to `clause_count` conjunctions (DNF), or AND of as many ORs (CNF)."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, clause_count, parameters.subscriptions, endpoint=True)
    clauses = _predicates(random, parameters, int(counts.sum()))
    inner, outer = (And, Or) if is_dnf else (Or, And)
    subscriptions = []
    for number, size in enumerate(counts.tolist()):
        parts = [
            inner(tuple(clause)) if len(clause) > 1 else clause[0]
            for clause in (next(clauses) for _ in range(size))
        ]
        node = outer(tuple(parts)) if len(parts) > 1 else parts[0]
        subscriptions.append(Subscription(f"s{number}", node))
    return Workload(name, subscriptions, _events(random, parameters))


def generate_prefixes(
    name: str, parameters: SparseTable, prefix_share: float, length: int, seed: int = 1
) -> Workload:
    """Section 7.7: `=` on numbers, and a share of prefixes of words on other attributes."""
    random = np.random.default_rng(seed)
    words = vocabulary()
    known = Predicates()
    subscriptions = []
    sizes = random.integers(
        MINIMUM_SIZE, parameters.subscription_size, parameters.subscriptions, endpoint=True
    )
    for number, size in enumerate(sizes.tolist()):
        row = {}
        for _ in range(size):
            if random.random() < prefix_share:
                attribute = parameters.dimensions + int(random.integers(WORD_ATTRIBUTES))
                needle = words[int(random.integers(len(words)))][:length]
                row[attribute] = known.of(attribute, Operator.PREFIX, (needle,))
            else:
                attribute = int(random.integers(parameters.dimensions))
                value = 1 + int(random.integers(parameters.value_space))
                row[attribute] = known.of(attribute, Operator.EQ, value)
        subscriptions.append(conjunction(number, list(row.values())))
    half = parameters.event_size // 2
    events = (
        {
            **{
                attribute_name(at): 1 + int(random.integers(parameters.value_space))
                for at in random.integers(0, parameters.dimensions, half).tolist()
            },
            **{
                attribute_name(parameters.dimensions + at): words[int(random.integers(len(words)))]
                for at in random.integers(0, WORD_ATTRIBUTES, half).tolist()
            },
        }
        for _ in range(parameters.events)
    )
    return Workload(name, subscriptions, payloads_of(events))


def _predicates(
    random: Generator, parameters: SparseTable, row_count: int
) -> Iterator[list[Predicate]]:
    """The predicates of as many conjunctions."""
    known = Predicates()
    sizes = random.integers(MINIMUM_SIZE, parameters.subscription_size, row_count, endpoint=True)
    names = zipf_shares(parameters.dimensions, parameters.zipf)
    attribute = distinct_ranks(random, names, sizes)
    values = zipf_shares(parameters.value_space, parameters.zipf)
    value = 1 + ranks(random, values, attribute.shape)
    drawn = random.random(attribute.shape)
    half = (1 - parameters.equality_share) / 2
    operators = (Operator.LE, Operator.GE, Operator.EQ)
    operator = (drawn >= half).astype(int) + (drawn >= 2 * half)
    for at, one, which in zip(attribute.tolist(), value.tolist(), operator.tolist(), strict=True):
        yield [
            known.of(name, operators[kind], operand)
            for name, operand, kind in zip(at, one, which, strict=True)
            if name != ABSENT
        ]


def _events(random: Generator, parameters: SparseTable) -> list[bytes]:
    sizes = random.integers(
        max(1, parameters.event_size // 2),
        parameters.event_size,
        parameters.events,
        endpoint=True,
    )
    names = zipf_shares(parameters.dimensions, parameters.zipf)
    attribute = distinct_ranks(random, names, sizes)
    values = zipf_shares(parameters.value_space, parameters.zipf)
    return payloads_of_rows(attribute, 1 + ranks(random, values, attribute.shape))
