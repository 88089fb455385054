"""Crowds: many small filters over few attributes and values, and events that match some of them.

Filters drawn at random seldom hold as a whole; then a lost match would seldom be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any

from hypothesis import strategies as st

from index.model import And, AtLeast, Filter, Not, Operator, Or, Predicate

Crowd = tuple[list[Filter], list[dict[str, Any]]]
"""Filters and events."""

_NUMBERS: tuple[Any, ...] = (0, 1, 2, 3)
_WORDS: tuple[Any, ...] = ("x", "xy", "y")
_VALUES: tuple[Any, ...] = (*_NUMBERS, "x", "xy", "X", True, None)
_OPERANDS: dict[Operator, Sequence[Any]] = {
    Operator.EQ: _VALUES[:-1],
    Operator.NE: _NUMBERS,
    Operator.IN: [
        tuple(some) for size in (1, 2, 3) for some in combinations(_NUMBERS + _WORDS, size)
    ],
    Operator.LE: _NUMBERS + _WORDS,
    Operator.GT: _NUMBERS + _WORDS,
    Operator.BETWEEN: list(combinations_with_replacement(_NUMBERS, 2)),
    Operator.PREFIX: [(word,) for word in _WORDS],
    Operator.LIKE: ["x%", "y%"],
    Operator.IS_NULL: [None],
    Operator.EXISTS: [None],
    Operator.MISSING: [None],
}
_LEAVES = [
    [Predicate((path,), operator, operand) for path in "abcd" for operand in _OPERANDS[operator]]
    for operator in _OPERANDS
]


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """A crowd; leaves are drawn from lists made once, for drawing their parts took most time."""
    leaves = st.one_of(*map(st.sampled_from, _LEAVES))
    several = st.lists(leaves, min_size=1, max_size=4).map(tuple)
    nodes = st.one_of(
        several.map(And), several.map(And), several.map(Or), leaves.map(Not), several.map(_most_of)
    )
    trees = nodes | st.lists(nodes, min_size=2, max_size=3).map(lambda some: And(tuple(some)))
    single = st.sampled_from(_VALUES)
    value = single | single | st.lists(single, max_size=3)
    event = st.dictionaries(st.sampled_from("abcd"), value, min_size=2)
    return (
        draw(st.lists(trees, min_size=5, max_size=25)),
        draw(st.lists(event, min_size=1, max_size=8)),
    )


def _most_of(leaves: tuple[Filter, ...]) -> Filter:
    return AtLeast((len(leaves) + 1) // 2, leaves)
