"""The threshold tree: a filter whose negations have moved into its leaves.

A filter is three-valued, yet an index asks one two-valued question: is it TRUE? Pushing that
question down to the leaves leaves a tree without any negation. Each inner node holds if at least
`need` of its children do; each leaf asks one of four questions about one positive predicate.

    polarity      AND of n     OR of n      ATLEAST k      NOT x         x IS NOT TRUE
    IS_TRUE       all n        1            k              IS_FALSE x    NOT_TRUE x
    IS_FALSE      1            all n        n - k + 1      IS_TRUE x     IS_TRUE x
    NOT_TRUE      1            all n        n - k + 1      NOT_FALSE x   IS_TRUE x
    NOT_FALSE     all n        1            k              NOT_TRUE x    NOT_TRUE x

    (a = 1 OR NOT b < 2) IS NOT TRUE   becomes   all of: a = 1 NOT_TRUE, b < 2 NOT_FALSE

The tree is monotone: a leaf that turns from not holding to holding can never make the tree stop
holding. So a kernel may assume that a leaf it cannot test holds, and ask for a second opinion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, assert_never

from index.model import (
    POSITIVE_FORM,
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
    Quantifier,
)


class Polarity(IntEnum):
    """What a leaf asks of its predicate's truth."""

    IS_TRUE = 0
    IS_FALSE = 1
    NOT_TRUE = 2
    NOT_FALSE = 3


class Leaf(NamedTuple):
    """One question about one predicate.

    The predicate is positive (no NE, NOT_IN, NOT_BETWEEN); its quantifier is ALL or None, because
    ANY says of a positive predicate what no quantifier says. EXISTS and MISSING are only asked
    IS_TRUE, because each is the other's negation.
    """

    predicate: Predicate | Element
    polarity: Polarity


@dataclass(frozen=True, slots=True)
class Gate:
    """Holds if at least `need` of its children hold.

    Out of `threshold` come only the very ALWAYS and NEVER, and gates of two or more children, none
    of which is ALWAYS or NEVER, with 1 <= need <= len(children). No conjunction lies directly in a
    conjunction, no disjunction in a disjunction.
    """

    need: int
    children: tuple[Leaf | Gate, ...]

    @property
    def is_conjunction(self) -> bool:
        """All children have to hold."""
        return self.need == len(self.children)

    @property
    def is_disjunction(self) -> bool:
        """One child suffices."""
        return self.need == 1


ThresholdTree = Leaf | Gate

ALWAYS = Gate(0, ())
NEVER = Gate(1, ())

_OF_NOT = {
    Polarity.IS_TRUE: Polarity.IS_FALSE,
    Polarity.IS_FALSE: Polarity.IS_TRUE,
    Polarity.NOT_TRUE: Polarity.NOT_FALSE,
    Polarity.NOT_FALSE: Polarity.NOT_TRUE,
}
_UPRIGHT = (Polarity.IS_TRUE, Polarity.NOT_FALSE)
"""The polarities that hold of TRUE; the other two hold of FALSE."""
_POSITIVE = frozenset(Operator) - POSITIVE_FORM.keys() - {Operator.EXISTS, Operator.MISSING}
"""Operators that stay as they are."""


def threshold(filter: Filter) -> ThresholdTree:
    """The tree that holds exactly when the filter is TRUE, in time linear in the filter's size."""
    return _push(filter, Polarity.IS_TRUE)


def is_positive(predicate: Predicate | Element) -> bool:
    """Whether a leaf that asks if it is TRUE asks nothing else than what is written."""
    return isinstance(predicate, Element) or (
        predicate.quantifier is None and predicate.operator in _POSITIVE
    )


def _push(node: Filter, polarity: Polarity) -> ThresholdTree:
    match node:
        case Predicate():
            return leaf_of(node, polarity)
        case Element():
            return Leaf(node, polarity)
        case Constant(value):
            return ALWAYS if value == (polarity in _UPRIGHT) else NEVER
        case Not(child):
            return _push(child, _OF_NOT[polarity])
        case IsNotTrue(child):
            upright = polarity in _UPRIGHT
            return _push(child, Polarity.NOT_TRUE if upright else Polarity.IS_TRUE)
        case And(children):
            return _push_all(len(children), children, polarity)
        case Or(children):
            return _push_all(1, children, polarity)
        case AtLeast(count, children):
            return _push_all(count, children, polarity)
        case _:
            assert_never(node)


def _push_all(count: int, children: tuple[Filter, ...], polarity: Polarity) -> ThresholdTree:
    """At least `count` of the children, asked with one polarity: AND is all of n, OR is one."""
    need = count if polarity in _UPRIGHT else len(children) - count + 1
    return gate(need, [_push(child, polarity) for child in children])


def leaf_of(predicate: Predicate, polarity: Polarity) -> Leaf:
    """The leaf that asks this of a predicate, which may be any."""
    operator = predicate.operator
    if is_positive(predicate):
        return Leaf(predicate, polarity)
    if operator in (Operator.EXISTS, Operator.MISSING):
        if polarity not in _UPRIGHT:
            operator = Operator.MISSING if operator is Operator.EXISTS else Operator.EXISTS
        return Leaf(Predicate(predicate.path, operator), Polarity.IS_TRUE)
    quantifier = predicate.quantifier
    if operator in POSITIVE_FORM:
        # A quantifier negates per element, so some element differs unless all are equal.
        operator = POSITIVE_FORM[operator]
        polarity = _OF_NOT[polarity]
        if quantifier is not None:
            quantifier = Quantifier.ALL if quantifier is Quantifier.ANY else Quantifier.ANY
    if quantifier is Quantifier.ANY:
        quantifier = None
    if operator is predicate.operator and quantifier is predicate.quantifier:
        return Leaf(predicate, polarity)
    changed = Predicate(
        predicate.path,
        operator,
        predicate.operand,
        predicate.nocase,
        quantifier,
        predicate.escape,
    )
    return Leaf(changed, polarity)


def gate(need: int, children: Iterable[ThresholdTree]) -> ThresholdTree:
    """A gate in the form that `Gate` promises: constants folded, lone children and nests gone."""
    kept: list[ThresholdTree] = []
    for child in children:
        if child is ALWAYS:
            need -= 1
        elif child is not NEVER:
            kept.append(child)
    if need <= 0:
        return ALWAYS
    if need > len(kept):
        return NEVER
    if len(kept) == 1:
        return kept[0]
    if need == len(kept):
        flat = _flatten(kept, conjunction=True)
        return Gate(len(flat), flat)
    if need == 1:
        return Gate(1, _flatten(kept, conjunction=False))
    return Gate(need, tuple(kept))


def _flatten(children: list[ThresholdTree], *, conjunction: bool) -> tuple[ThresholdTree, ...]:
    if not any(isinstance(child, Gate) for child in children):
        return tuple(children)
    flat: list[ThresholdTree] = []
    for child in children:
        nested = isinstance(child, Gate) and (
            child.is_conjunction if conjunction else child.is_disjunction
        )
        if nested:
            assert isinstance(child, Gate)
            flat.extend(child.children)
        else:
            flat.append(child)
    return tuple(flat)
