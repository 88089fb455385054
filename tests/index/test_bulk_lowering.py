"""Predicates that are lowered together become what each becomes by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.bulk_lowering import lower_all
from index.lowering import lower_each
from index.model import Element, Filter, Instant, Now, Operator, Predicate, Quantifier, Scalar
from index.predicate_table import BULK_MIN, PredicateTable, some_predicates
from index.predicates import STRING_MARK, PredicateColumns, PredicateKind, needles_of
from index.threshold import Polarity, leaf_of
from index.vocabulary import Vocabulary
from tests.strategies import filters

NUMBERS: list[Scalar] = [
    *(0, -0.0, 0.0, 1, 1.0, 2, 2.5, -7),
    *(2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2.0**53, 1e308),
]
OTHERS: list[Scalar] = [True, False, "", "x", "1", "é", Instant(1, 5), Now(3_000_000)]
ORDERED: list[list[Scalar]] = [NUMBERS, ["", "x", "é"], [Instant(1, 5), Now(3_000_000)]]
OPERANDS = st.sampled_from(NUMBERS + OTHERS)


@st.composite
def comparisons(draw: st.DrawFn) -> Predicate:
    path = (draw(st.sampled_from("abc")),)
    operator = draw(
        st.sampled_from(
            [
                *(Operator.EQ, Operator.IN, Operator.LT, Operator.LE, Operator.GT, Operator.GE),
                *(Operator.BETWEEN, Operator.EXISTS),
            ]
        )
    )
    if operator is Operator.EXISTS:
        return Predicate(path, operator)
    if operator in (Operator.EQ, Operator.IN):
        operand = draw(OPERANDS)
        if operator is Operator.IN:
            members = tuple(draw(st.lists(OPERANDS, max_size=6)))
            return Predicate(path, operator, members, nocase="x" in members)
        quantifier = draw(st.sampled_from([None, Quantifier.ALL]))
        return Predicate(path, operator, operand, operand == "x", quantifier)
    kind = draw(st.sampled_from(ORDERED))
    if operator is Operator.BETWEEN:
        return Predicate(path, operator, (draw(st.sampled_from(kind)), draw(st.sampled_from(kind))))
    return Predicate(path, operator, draw(st.sampled_from(kind)))


def leaves_of(node: Filter) -> list[Predicate | Element]:
    if isinstance(node, Predicate):
        return [leaf_of(node, Polarity.IS_TRUE).predicate]
    return [node] if isinstance(node, Element) else []


def meaning(columns: PredicateColumns, vocabulary: Vocabulary) -> list[object]:
    """Of each record all but where its operands lie; strings instead of codes."""

    def key(number: float, mark: int) -> object:
        return (vocabulary.text(int(number)), mark) if mark == STRING_MARK else (number, mark)

    found: list[object] = []
    for at, record in enumerate(columns.record):
        fields = dict(zip(record.dtype.names, record.item(), strict=True))
        start = fields.pop("start")
        is_set = fields["kind"] == PredicateKind.IN
        if fields["kind"] == PredicateKind.EQUAL:
            fields["low"] = key(fields["low"], fields["low_residual"])
        stop = start + fields["size"] if is_set else start
        own = slice(start, stop)
        members = zip(columns.member_number[own], columns.member_mark[own], strict=True)
        texts = [] if is_set else needles_of(columns, at)
        found.append((fields, [key(*member) for member in members], texts))
    return found


@given(st.lists(comparisons(), max_size=12), st.lists(filters(), max_size=8))
def test_together_is_as_by_themselves(compared: list[Predicate], nodes: list[Filter]) -> None:
    predicates = [*compared, *(leaf for node in nodes for leaf in leaves_of(node))]
    one, other = Vocabulary(), Vocabulary()
    together, apart = lower_all(predicates, one), lower_each(predicates, other)
    assert meaning(together, one) == meaning(apart, other)
    assert one.folds == other.folds
    assert one.attribute_count == other.attribute_count


@given(st.lists(comparisons(), min_size=1, max_size=12))
def test_some_predicates_keep_their_operands_and_no_others(predicates: list[Predicate]) -> None:
    vocabulary = Vocabulary()
    columns = lower_all(predicates, vocabulary)
    rows = np.arange(len(predicates))[::-2].copy()
    some = some_predicates(columns, rows)
    everything = meaning(columns, vocabulary)
    assert meaning(some, vocabulary) == [everything[row] for row in rows]
    sizes = some.record["size"][some.record["kind"] == PredicateKind.IN]
    assert some.member_number.size == some.member_mark.size == sizes.sum()


def test_a_table_numbers_many_as_it_numbers_few() -> None:
    predicates = [
        Predicate((name,), operator, operand)
        for name in "ab"
        for operand in range(BULK_MIN // 2)
        for operator in (Operator.EQ, Operator.LT)
    ]
    predicates += [Predicate(("a",), Operator.IN, (1, 1.0)), Predicate(("c",), Operator.EQ, "x")]
    few, many = PredicateTable(Vocabulary()), PredicateTable(Vocabulary())
    apart = [few.number(one) for one in predicates]
    assert many.numbers(predicates).tolist() == apart
    assert many.numbers(predicates[::-1]).tolist() == apart[::-1]
    assert len(many) == len(few) == len(predicates) - 1, "a IN (1, 1.0) is a = 1"


def test_as_many_values_as_a_record_holds_are_lowered_and_more_are_refused() -> None:
    vocabulary = Vocabulary()
    largest = Predicate(("a",), Operator.IN, tuple(range(65_535)))
    columns = lower_all([largest, largest], vocabulary)
    assert columns.record["size"].tolist() == [65_535] * 2
    assert columns.record["start"].tolist() == [0, 65_535]
    same = Predicate(("a",), Operator.IN, (7,) * 70_000)
    assert lower_all([same], vocabulary).record["kind"].tolist() == [PredicateKind.EQUAL]
    with pytest.raises(ValueError, match="filter_list_values"):
        lower_all([Predicate(("a",), Operator.IN, tuple(range(65_536)))], vocabulary)
