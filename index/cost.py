"""What a filter may cost to evaluate, from its text alone: a number for admission and for users.

One unit is about one comparison of a value with a constant; the weights below are ratios between
operators, not times. A filter of five comparisons costs 5. The sum takes one walk over the tree.
"""

from __future__ import annotations

from index.model import Element, Filter, Instant, Now, Operator, Predicate, children_of
from index.validation import NEEDLE_OPERATORS

ELEMENT_FACTOR = 4
"""An array's elements are evaluated one by one; this many are assumed."""
ELEMENT_FACTOR_MAX = ELEMENT_FACTOR**6
"""An event has few values, however deep its arrays; it also keeps every cost within int64."""
INSTANT_WEIGHT = 8
"""A string must be parsed as a timestamp first."""
CIDR_WEIGHT = 8
REGEX_WEIGHT = 16
REGEX_CHARACTERS_PER_UNIT = 8
LIKE_WEIGHT = 2
NOCASE_WEIGHT = 1


def filter_cost(node: Filter) -> int:
    """Units of work for one event that has every attribute, nothing cut short.

    >>> filter_cost(Predicate(("a",), Operator.IN, ("x", "y", "z")))
    3
    """
    cost = 0
    stack = [(node, 1)]
    while stack:
        top, factor = stack.pop()
        if isinstance(top, Predicate):
            cost += factor * _predicate_cost(top)
        if isinstance(top, Element):
            factor = min(factor * ELEMENT_FACTOR, ELEMENT_FACTOR_MAX)
        stack.extend([(child, factor) for child in children_of(top)])
    return cost


def _predicate_cost(predicate: Predicate) -> int:
    operator, operand = predicate.operator, predicate.operand
    members = operand if isinstance(operand, tuple) else (operand,)
    cost = NOCASE_WEIGHT if predicate.nocase else 0
    if any(isinstance(member, (Instant, Now)) for member in members):
        cost += INSTANT_WEIGHT
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return cost + 1 + len(members).bit_length()  # a search in a sorted list
        case Operator.LIKE:
            return cost + LIKE_WEIGHT + str(operand).count("%")  # each run may scan the text anew
        case Operator.REGEX:
            return cost + REGEX_WEIGHT + len(str(operand)) // REGEX_CHARACTERS_PER_UNIT
        case Operator.CIDR:
            return cost + CIDR_WEIGHT
        case _ if operator in NEEDLE_OPERATORS:
            return cost + len(members)
        case _:
            return cost + 1
