"""Settling: undecided rows come out as the oracle has them, and strings are tested once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import index.settling
from index.evaluate import truth, value_truth
from index.flatten import columns_of, entries_of
from index.kernels.settle import Pairs
from index.kernels.verify import NO, UNDECIDED, YES, match_rows, new_scratch
from index.model import And, Element, Filter, Instant, IsNotTrue, Not, Now, Operator, Or, Predicate
from index.predicate_table import PredicateTable
from index.program import ProgramTable
from index.settling import Settler
from index.vocabulary import Vocabulary
from tests.strategies import NOW, events_near, predicates

OPAQUE = (Operator.REGEX, Operator.CIDR)
ANY = Predicate(("a",), Operator.EQ, 1)
X = Predicate(("a",), Operator.REGEX, "^x")
Y = Predicate(("b",), Operator.REGEX, "y$")
LATE = Predicate(("t",), Operator.GT, Now(-1_000_000_000))
EXACTLY = Predicate(("t",), Operator.EQ, Instant(0, 0))


class Settled:
    """Filters compiled, and matched against batches."""

    def __init__(self, nodes: list[Filter]) -> None:
        self.vocabulary = Vocabulary()
        self.table = ProgramTable(PredicateTable(self.vocabulary))
        self.table.append_all(nodes)
        self.settler = Settler(self.table.predicates)

    def verdicts(self, events: list[dict[str, Any]], now: Instant = NOW) -> NDArray[np.uint8]:
        entries = [entries_of(event, self.vocabulary) for event in events]
        batch = columns_of(entries, self.vocabulary)
        programs, scratch = self.table.columns(), new_scratch(self.vocabulary.attribute_count)
        rows = np.arange(len(self.table), dtype=np.int32)
        verdicts = match_rows(programs, self.table.predicates.columns(), rows, batch, scratch)
        pairs = Pairs(*np.nonzero(verdicts == UNDECIDED))
        verdicts[pairs] = self.settler.verdicts(programs, batch, pairs, now)
        return verdicts


def has_more_than_strings(node: Filter) -> bool:
    """May rows with this leaf stay undecided?"""
    return isinstance(node, Element) or (
        isinstance(node, Predicate)
        and isinstance(node.operand, tuple)
        and any(isinstance(one, Instant | Now) for one in node.operand)
    )


@given(st.data())
def test_it_equals_the_oracle(data: st.DataObject) -> None:
    drawn = predicates(OPAQUE) | predicates()
    leaves = data.draw(st.lists(drawn, min_size=2, max_size=4))
    nodes: list[Filter] = [*leaves, And(tuple(leaves)), Or(tuple(leaves)), Not(Or(tuple(leaves)))]
    events = [data.draw(events_near(*leaves)) for _ in range(3)]
    verdicts = Settled(nodes).verdicts(events)
    for row, node in enumerate(nodes):
        for event, verdict in zip(events, verdicts[:, row], strict=True):
            if verdict == UNDECIDED:
                assert any(map(has_more_than_strings, leaves))
            else:
                assert (verdict == YES) == (truth(node, event, NOW) is True)


@pytest.mark.parametrize(
    ("node", "event", "expected"),
    [
        (X, {"a": "xy"}, YES),
        (X, {"a": "yx"}, NO),
        (X, {"a": ["yx", 1, "x"]}, YES),
        (Not(X), {"a": ["yx", 1]}, NO),
        (IsNotTrue(X), {"a": ["yx", 1]}, YES),
        (And((X, Y)), {"a": "x", "b": "y"}, YES),
        (And((X, Y)), {"a": "x", "b": "z"}, NO),
        (Or((And((X, Y)), ANY)), {"a": ["x", 2], "b": "z"}, NO),
        (EXACTLY, {"t": "1970-01-01T01:00:00+01:00"}, YES),
        (EXACTLY, {"t": ["1970-01-01", 0]}, NO),
        (Element(("a",), X), {"a": ["x"]}, UNDECIDED),
        (Predicate(("a",), Operator.CIDR, "10.0.0.0/8"), {"a": "10.1.2.3"}, YES),
        (Not(Predicate(("a",), Operator.CIDR, "10.0.0.0/8")), {"a": "ten"}, NO),
    ],
)
def test_verdicts(node: Filter, event: dict[str, Any], expected: int) -> None:
    assert Settled([node]).verdicts([event]).tolist() == [[expected]]


def test_nothing_to_settle() -> None:
    assert Settled([ANY]).verdicts([{"a": 1}]).tolist() == [[YES]]


def test_now_is_the_time_of_each_batch() -> None:
    settled = Settled([LATE])
    event = {"t": "1970-01-01T00:00:10Z"}
    assert settled.verdicts([event], Instant(5, 0)).tolist() == [[YES]]
    assert settled.verdicts([event], Instant(50, 0)).tolist() == [[NO]]


def test_a_predicate_is_tested_once_on_a_string(monkeypatch: pytest.MonkeyPatch) -> None:
    tested: list[object] = []

    def counting(operator: Operator, predicate: Predicate, value: object, now: Instant) -> Any:
        tested.append(value)
        return value_truth(operator, predicate, value, now)

    monkeypatch.setattr(index.settling, "value_truth", counting)
    settled = Settled([X, Or((X, Y)), And((X, ANY)), And((Y, X))])
    events: list[dict[str, Any]] = [{"a": "x", "b": "y"}, {"a": ["x", "z"]}, {"b": ["y", "y"]}]
    first = settled.verdicts(events)
    assert sorted(map(str, tested)) == ["x", "y", "z"]
    assert (settled.verdicts(events) == first).all()
    assert len(tested) == 3
    monkeypatch.setattr(index.settling, "REMEMBERED_MAX", 3)
    assert settled.verdicts([{"a": "new"}]).tolist() == [[NO] * 4]
    assert (settled.verdicts(events) == first).all()
    assert len(tested) == 7
    monkeypatch.setattr(index.settling, "REMEMBERED_BYTES_MAX", 2)
    for count in (8, 9):
        assert settled.verdicts([{"a": "xyz"}]).tolist() == [[YES, YES, NO, NO]]
        assert len(tested) == count


def test_opaque_predicates_survive_a_snapshot() -> None:
    settled = Settled([X, EXACTLY])
    known = Vocabulary.from_arrays(settled.vocabulary.to_arrays())
    table = PredicateTable.from_arrays(settled.table.predicates.to_arrays(), known)
    assert [table.opaque(number) for number in range(2)] == [X, EXACTLY]
