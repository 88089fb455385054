"""The kernel's truth of one predicate is the oracle's, or OPAQUE where only the oracle can tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.evaluate import truth
from index.flatten import columns_of, entries_of
from index.kernels.leaf_test import FALSE, TRUE, UNKNOWN, enter_event, leaf_truth, leave_event
from index.kernels.scratch import OPAQUE, new_scratch
from index.model import POSITIVE_FORM, Element, Operator, Path, Predicate, Quantifier, Scalar
from index.predicate_table import PredicateTable
from index.predicates import PredicateKind
from index.threshold import Leaf, threshold
from index.vocabulary import Vocabulary
from tests.strategies import NOW, STRINGS, events_near, predicates

TRUTHS = {TRUE: True, FALSE: False, UNKNOWN: None}
POSITIVE = [operator for operator in Operator if operator not in POSITIVE_FORM]
TESTED = [one for one in POSITIVE if one not in (Operator.REGEX, Operator.CIDR)]


def kernel_truths(
    leaves: list[Predicate | Element], events: list[dict[str, Any]]
) -> list[list[int]]:
    """The kernel's answers, [leaf][event]."""
    vocabulary = Vocabulary()
    table = PredicateTable(vocabulary)
    numbers = [table.number(leaf) for leaf in leaves]
    batch = columns_of([entries_of(event, vocabulary) for event in events], vocabulary)
    scratch = new_scratch(vocabulary.attribute_count)
    answers: list[list[int]] = [[] for _ in leaves]
    for event in range(len(events)):
        enter_event(batch, event, scratch.entry_of)
        for number, answer in zip(numbers, answers, strict=True):
            answer.append(leaf_truth(table.columns(), number, batch, scratch))
        leave_event(batch, event, scratch.entry_of)
        assert (scratch.entry_of == -1).all()
    return answers


def kernel_truth(leaf: Predicate | Element, event: dict[str, Any]) -> int:
    return kernel_truths([leaf], [event])[0][0]


def is_opaque(predicate: Predicate | Element) -> bool:
    table = PredicateTable(Vocabulary())
    return table.kind(table.number(predicate)) >= PredicateKind.OPAQUE_TEXT


def check(predicate: Predicate | Element, event: dict[str, Any], answer: int) -> None:
    if answer == OPAQUE:
        assert is_opaque(predicate)
    else:
        assert TRUTHS[answer] is truth(predicate, event, NOW)


@given(st.data())
def test_it_equals_the_oracle(data: st.DataObject) -> None:
    leaves: list[Predicate | Element] = []
    drawn = predicates(POSITIVE) | predicates(TESTED)
    for predicate in data.draw(st.lists(drawn, min_size=1, max_size=4)):
        tree = threshold(predicate)
        assert isinstance(tree, Leaf)
        leaves.append(tree.predicate)
    events = [data.draw(events_near(*leaves)) for _ in range(3)]
    for leaf, answers in zip(leaves, kernel_truths(leaves, events), strict=True):
        for event, answer in zip(events, answers, strict=True):
            check(leaf, event, answer)


TEXT_OPERATORS = (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS)


@given(st.lists(st.text("aAb%_éÉ雨", max_size=7), min_size=1, max_size=4), st.data())
def test_texts_of_a_small_alphabet(values: list[str], data: st.DataObject) -> None:
    """Short texts over few letters meet every way to fail half-way through a pattern."""
    texts = st.text("aAb%_éÉ雨", max_size=5)
    leaves: list[Predicate | Element] = [
        Predicate(("a",), Operator.LIKE, data.draw(texts), nocase, escape="")
        for nocase in (False, True)
    ]
    for operator in TEXT_OPERATORS:
        needles = tuple(data.draw(st.lists(texts, min_size=1, max_size=3)))
        leaves.append(Predicate(("a",), operator, needles, data.draw(st.booleans())))
    for operator in (Operator.LT, Operator.LE, Operator.GT, Operator.GE):
        leaves.append(Predicate(("a",), operator, data.draw(texts)))
    events: list[dict[str, Any]] = [{"a": value} for value in values]
    for leaf, answers in zip(leaves, kernel_truths(leaves, events), strict=True):
        for event, answer in zip(events, answers, strict=True):
            check(leaf, event, answer)


PATH: Path = ("a",)
EXACT = 2**53


@pytest.mark.parametrize(
    ("operator", "operand", "value", "expected"),
    [
        (Operator.EQ, 1, True, FALSE),
        (Operator.EQ, True, 1, FALSE),
        (Operator.EQ, True, True, TRUE),
        (Operator.EQ, "1", 1, FALSE),
        (Operator.EQ, 1, None, FALSE),
        (Operator.EQ, 0, [{"b": 0}], FALSE),
        (Operator.EQ, 0, -0.0, TRUE),
        (Operator.EQ, EXACT + 1, float(EXACT), FALSE),
        (Operator.EQ, EXACT + 1, EXACT + 1, TRUE),
        (Operator.LT, EXACT + 1, float(EXACT), TRUE),
        (Operator.GT, float(EXACT), EXACT + 1, TRUE),
        (Operator.GE, EXACT + 1, EXACT, FALSE),
        (Operator.LE, 2**63 - 1, float(2**63), FALSE),
        (Operator.LT, 3, "2", UNKNOWN),
        (Operator.LT, "b", 1, UNKNOWN),
        (Operator.LT, "\uffff", "😀", FALSE),
        (Operator.GT, "a", "a\x00", TRUE),
        (Operator.IN, (1, "1", False), "1", TRUE),
        (Operator.IN, (1, "1", False), 0, FALSE),
        (Operator.IN, (1, "1", False), False, TRUE),
        (Operator.IN, tuple(range(0, 100, 2)), 98, TRUE),
        (Operator.IN, tuple(range(0, 100, 2)), 97, FALSE),
        (Operator.BETWEEN, (2, 1), 1, FALSE),
        (Operator.CONTAINS, ("",), "", TRUE),
        (Operator.CONTAINS, ("x", "雨"), "a雨", TRUE),
        (Operator.SUFFIX, ("longer than it",), "it", FALSE),
        (Operator.LIKE, "%_", "", FALSE),
        (Operator.LIKE, "__", "é", FALSE),
        (Operator.LIKE, "%", "\n", TRUE),
        (Operator.LIKE, r"\%%", "%x", TRUE),
        (Operator.LIKE, "%a%a%a%b", "a" * 2_000, FALSE),
        (Operator.IS_NULL, None, [1, None], TRUE),
        (Operator.IS_NULL, None, [{}], FALSE),
        (Operator.GT, 3, [], FALSE),
        (Operator.GT, 3, ["x", 2], UNKNOWN),
        (Operator.GT, 3, [["x", 4]], TRUE),
        (Operator.REGEX, "a", 1, UNKNOWN),
        (Operator.REGEX, "a", ["a", 1], OPAQUE),
    ],
)
def test_edges(operator: Operator, operand: Any, value: Any, expected: int) -> None:
    predicate = Predicate(PATH, operator, operand)
    assert kernel_truth(predicate, {"a": value}) == expected
    if expected != OPAQUE:
        assert truth(predicate, {"a": value}, NOW) is TRUTHS[expected]


@pytest.mark.parametrize("values", [[], [4], [4, 2], [4, "x"], [2, "x"], [4, None]])
def test_all(values: list[Any]) -> None:
    predicate = Predicate(PATH, Operator.GT, 3, quantifier=Quantifier.ALL)
    check(predicate, {"a": values}, kernel_truth(predicate, {"a": values}))


def test_only_what_lies_below_is_there() -> None:
    event = {"a": {"b": 1}}
    assert kernel_truth(Predicate(PATH, Operator.EXISTS), event) == TRUE
    assert kernel_truth(Predicate(PATH, Operator.MISSING), event) == FALSE
    assert kernel_truth(Predicate(PATH, Operator.IS_NULL), event) == UNKNOWN
    element = Element(PATH, Predicate(("b",), Operator.EQ, 1))
    assert kernel_truth(element, event) == OPAQUE
    assert kernel_truth(element, {"b": 1}) == UNKNOWN


@pytest.mark.parametrize("text", STRINGS)
def test_nocase_equality_is_by_folding(text: str) -> None:
    operands: list[Scalar] = [text, text.upper(), text.lower()]
    leaves: list[Predicate | Element] = [
        Predicate(PATH, Operator.EQ, operand, nocase=True) for operand in operands
    ]
    events: list[dict[str, Any]] = [{"a": text}, {"a": text.swapcase()}, {"a": [text, 1]}]
    for leaf, answers in zip(leaves, kernel_truths(leaves, events), strict=True):
        for event, answer in zip(events, answers, strict=True):
            check(leaf, event, answer)
