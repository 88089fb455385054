"""The threshold tree holds exactly when the filter is TRUE, and has the promised form."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from index.evaluate import truth
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
from index.threshold import ALWAYS, NEVER, Gate, Leaf, Polarity, ThresholdTree, threshold
from tests.strategies import NOW, events_near, filters

A = Predicate(("a",), Operator.EQ, 1)
B = Predicate(("b",), Operator.LT, 2)
C = Predicate(("c",), Operator.PREFIX, ("x",))
TRUE, FALSE = Constant(True), Constant(False)

HOLDS = {
    Polarity.IS_TRUE: (True,),
    Polarity.IS_FALSE: (False,),
    Polarity.NOT_TRUE: (False, None),
    Polarity.NOT_FALSE: (True, None),
}


def tree_holds(tree: ThresholdTree, event: dict[str, Any]) -> bool:
    if isinstance(tree, Leaf):
        return truth(tree.predicate, event, NOW) in HOLDS[tree.polarity]
    return sum(tree_holds(child, event) for child in tree.children) >= tree.need


def check_form(tree: ThresholdTree, root: bool = True) -> None:
    if isinstance(tree, Leaf):
        predicate = tree.predicate
        if isinstance(predicate, Predicate):
            assert predicate.operator not in POSITIVE_FORM
            assert predicate.quantifier is not Quantifier.ANY
            if predicate.operator in (Operator.EXISTS, Operator.MISSING):
                assert tree.polarity is Polarity.IS_TRUE
        return
    if root and tree in (ALWAYS, NEVER):
        return
    assert len(tree.children) >= 2
    assert 1 <= tree.need <= len(tree.children)
    for child in tree.children:
        if isinstance(child, Gate):
            assert not (tree.is_conjunction and child.is_conjunction)
            assert not (tree.is_disjunction and child.is_disjunction)
        check_form(child, root=False)


@given(st.data())
def test_it_holds_exactly_when_the_filter_is_true(data: st.DataObject) -> None:
    node = data.draw(filters())
    tree = threshold(node)
    check_form(tree)
    for _ in range(3):
        event = data.draw(events_near(node))
        assert tree_holds(tree, event) == (truth(node, event, NOW) is True)


def is_true(predicate: Predicate | Element) -> Leaf:
    return Leaf(predicate, Polarity.IS_TRUE)


def is_false(predicate: Predicate | Element) -> Leaf:
    return Leaf(predicate, Polarity.IS_FALSE)


def test_the_worked_example() -> None:
    node = IsNotTrue(Or((A, Not(B))))
    assert threshold(node) == Gate(2, (Leaf(A, Polarity.NOT_TRUE), Leaf(B, Polarity.NOT_FALSE)))


def test_negated_operators_become_positive_ones() -> None:
    different = Predicate(("a",), Operator.NE, 1)
    assert threshold(different) == is_false(A)
    assert threshold(Not(different)) == is_true(A)
    some_differs = Predicate(("a",), Operator.NE, 1, quantifier=Quantifier.ANY)
    all_equal = Predicate(("a",), Operator.EQ, 1, quantifier=Quantifier.ALL)
    assert threshold(some_differs) == is_false(all_equal)
    all_differ = Predicate(("a",), Operator.NE, 1, quantifier=Quantifier.ALL)
    assert threshold(all_differ) == is_false(A)


def test_absence_is_asked_one_way() -> None:
    exists, missing = Predicate(("a",), Operator.EXISTS), Predicate(("a",), Operator.MISSING)
    assert threshold(Not(exists)) == is_true(missing)
    assert threshold(IsNotTrue(missing)) == is_true(exists)


def test_constants_disappear() -> None:
    cases: list[tuple[Filter, ThresholdTree]] = [
        (TRUE, ALWAYS),
        (Not(TRUE), NEVER),
        (And((TRUE, A)), is_true(A)),
        (Or((TRUE, A)), ALWAYS),
        (And((FALSE, A)), NEVER),
        (AtLeast(2, (TRUE, A, B)), Gate(1, (is_true(A), is_true(B)))),
        (AtLeast(2, (FALSE, A, B)), Gate(2, (is_true(A), is_true(B)))),
        (AtLeast(2, (FALSE, FALSE, A)), NEVER),
    ]
    for node, tree in cases:
        assert threshold(node) == tree


def test_nests_of_one_connective_become_flat() -> None:
    flat = Gate(3, (is_true(A), is_true(B), is_true(C)))
    assert threshold(And((A, And((B, C))))) == flat
    assert threshold(And((A, Not(Or((Not(B), Not(C))))))) == flat
    assert threshold(Or((And((A, And((TRUE, B)))), FALSE))) == Gate(2, (is_true(A), is_true(B)))


def test_equal_children_of_atleast_are_all_kept() -> None:
    assert threshold(AtLeast(2, (A, A, B))) == Gate(2, (is_true(A), is_true(A), is_true(B)))


def test_thousands_of_children() -> None:
    tree = threshold(Not(Or((A,) * 8_192)))
    assert isinstance(tree, Gate)
    assert tree.need == len(tree.children) == 8_192
