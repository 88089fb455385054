"""Expected selectivity of a filter before any event was seen, from its operators alone.

Operators are ranked as in the PS-Tree paper, section 3.3: = before IN before BETWEEN before the
comparisons before NOT IN before !=. The shares below put rough numbers to the ranks; children are
taken to be independent. It tells an author a broad filter from a narrow one, no more.
"""

from __future__ import annotations

import math

from index.model import (
    And,
    AtLeast,
    Constant,
    Element,
    Filter,
    IsNotTrue,
    Not,
    Operator,
    Or,
    Predicate,
)

EQUAL_SHARE = 0.01
SHARES = {
    Operator.BETWEEN: 0.1,
    Operator.LT: 0.3,
    Operator.LE: 0.3,
    Operator.GT: 0.3,
    Operator.GE: 0.3,
    Operator.EXISTS: 0.9,
    Operator.MISSING: 0.1,
    Operator.IS_NULL: 0.05,
    Operator.REGEX: 0.05,
    Operator.CIDR: 0.05,
    Operator.LIKE: 0.05,
}
TEXT_SHARE = 0.05
"""Of one needle of prefix, suffix or contains."""


def expected_share(node: Filter) -> float:
    """The share of events expected to satisfy a filter, from 0 to 1."""
    match node:
        case Constant(value):
            return float(value)
        case And(children):
            return math.prod(map(expected_share, children))
        case Or(children):
            return 1.0 - math.prod(1.0 - expected_share(child) for child in children)
        case Not(child) | IsNotTrue(child):
            return 1.0 - expected_share(child)
        case AtLeast(count, children):
            # The likeliest way there: its `count` broadest children.
            shares = sorted(map(expected_share, children), reverse=True)
            return math.prod(shares[:count])
        case Element(_, where):
            return expected_share(where)
        case Predicate():
            return _predicate_share(node)


def _predicate_share(predicate: Predicate) -> float:
    operand = predicate.operand
    members = len(operand) if isinstance(operand, tuple) else 1
    match predicate.operator:
        case Operator.EQ:
            return EQUAL_SHARE
        case Operator.IN:
            return min(0.5, EQUAL_SHARE * members)
        case Operator.NE:
            return 1.0 - EQUAL_SHARE
        case Operator.NOT_IN:
            return max(0.5, 1.0 - EQUAL_SHARE * members)
        case Operator.NOT_BETWEEN:
            return 1.0 - SHARES[Operator.BETWEEN]
        case operator if operator in SHARES:
            return SHARES[operator]
        case _:
            return min(0.5, TEXT_SHARE * members)
