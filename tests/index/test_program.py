"""Programs: the kernel's verdict on whole filters, numbering of predicates, and growth."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from index.evaluate import truth
from index.flatten import columns_of, entries_of
from index.kernels.hashing import insert
from index.kernels.predicate_interning import find_predicates, hash_predicate
from index.kernels.verify import NO, UNDECIDED, YES, match_rows, new_scratch
from index.lowering import encode, lower
from index.model import (
    And,
    AtLeast,
    Constant,
    Element,
    Filter,
    IsNotTrue,
    Not,
    Operand,
    Operator,
    Or,
    Predicate,
    Quantifier,
)
from index.predicate_table import PredicateTable, words_of
from index.predicates import SIZE_MAX, PredicateKind
from index.program import GATE_DEPTH_MAX, ProgramTable
from index.row_store import CachedPredicates
from index.vocabulary import Vocabulary
from tests.strategies import NOW, events_near, filters

A = Predicate(("a",), Operator.EQ, 1)
B = Predicate(("b",), Operator.GT, 2)
C = Predicate(("c",), Operator.EQ, "x")
R = Predicate(("r",), Operator.REGEX, "^x")


def tables() -> ProgramTable:
    return ProgramTable(PredicateTable(Vocabulary()))


def verdicts(table: ProgramTable, events: list[dict[str, Any]]) -> NDArray[np.uint8]:
    """The kernel's verdicts, [event, row]."""
    vocabulary = table.predicates.vocabulary
    batch = columns_of([entries_of(event, vocabulary) for event in events], vocabulary)
    scratch = new_scratch(vocabulary.attribute_count)
    rows = np.arange(len(table), dtype=np.int32)
    return match_rows(table.columns(), table.predicates.columns(), rows, batch, scratch)


def verdict(node: Filter, event: dict[str, Any]) -> int:
    table = tables()
    table.append(node)
    return int(verdicts(table, [event])[0, 0])


def has_opaque(table: ProgramTable, row: int) -> bool:
    programs = table.columns()
    code = programs.code[programs.start[row] : programs.start[row + 1]].tolist()
    at = 0
    while at < len(code):
        if code[at] < 0:
            at += 3
            continue
        if table.predicates.kind(code[at] >> 2) >= PredicateKind.OPAQUE_TEXT:
            return True
        at += 1
    return False


@given(st.data())
def test_it_equals_the_oracle(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(filters(), min_size=1, max_size=4))
    events = [data.draw(events_near(*nodes)) for _ in range(3)]
    table = tables()
    table.append_all(nodes)
    check(table, nodes, events)


def check(table: ProgramTable, nodes: list[Filter], events: list[dict[str, Any]]) -> None:
    answers = verdicts(table, events)
    for row, node in enumerate(nodes):
        opaque = has_opaque(table, row)
        for number, event in enumerate(events):
            answer = answers[number, row]
            if answer == UNDECIDED:
                assert opaque
            else:
                assert (answer == YES) == (truth(node, event, NOW) is True)


def test_many_filters_of_few_attributes_equal_the_oracle() -> None:
    """A small world, where most filters are close calls, drawn much faster than by Hypothesis."""
    random = Random(4)
    nodes = [random_filter(random, 3) for _ in range(400)]
    events = [random_event(random) for _ in range(30)]
    table = tables()
    for node in nodes:
        table.append(node)
    check(table, nodes, events)


def random_filter(random: Random, depth: int) -> Filter:
    if depth == 0 or random.random() < 0.2:
        return random_predicate(random)
    children = tuple(random_filter(random, depth - 1) for _ in range(random.randint(2, 3)))
    count = random.randint(1, len(children))
    several: list[Filter] = [And(children), Or(children), AtLeast(count, children)]
    return random.choice([*several, Not(children[0]), IsNotTrue(children[0])])


SMALL_OPERANDS: dict[Operator, list[Operand]] = {
    Operator.EQ: [0, 1, True, "a", "ab"],
    Operator.NE: [0, 1, False, "a", "b"],
    Operator.IN: [(0, 1), ("a", 2, True), ("ab", "b")],
    Operator.NOT_IN: [(0, 1), ("a", 2, True)],
    Operator.LT: [1, 1.5, "ab"],
    Operator.GE: [1, 1.5, "b"],
    Operator.BETWEEN: [(0.5, 1), ("a", "ab")],
    Operator.NOT_BETWEEN: [(0.5, 1), ("a", "ab")],
    Operator.LIKE: ["a%", "%b", "_", "%a_b%"],
    Operator.PREFIX: [("a",), ("b", "ac")],
    Operator.CONTAINS: [("b",), ("aa", "ba")],
    Operator.REGEX: ["b$"],
    Operator.EXISTS: [None],
    Operator.MISSING: [None],
    Operator.IS_NULL: [None],
}


def random_predicate(random: Random) -> Predicate:
    operator = random.choice(list(SMALL_OPERANDS))
    quantifier = None
    if operator not in (Operator.EXISTS, Operator.MISSING):
        quantifier = random.choice((None, None, Quantifier.ANY, Quantifier.ALL))
    path = random.choice((("a",), ("b",), ("b", "a")))
    return Predicate(path, operator, random.choice(SMALL_OPERANDS[operator]), quantifier=quantifier)


def random_event(random: Random) -> dict[str, Any]:
    scalars: list[Any] = [0, 1, 2, 0.5, "", "a", "ab", "aab", None, True, False]

    def value() -> Any:
        if random.random() < 0.7:
            return random.choice(scalars)
        return [random.choice([*scalars, {}, [1, "b"]]) for _ in range(random.randint(0, 3))]

    event: dict[str, Any] = {}
    if random.random() < 0.8:
        event["a"] = value()
    if random.random() < 0.8:
        event["b"] = random.choice([value(), {"a": value()}, [{"a": value()}, value()]])
    return event


def test_the_worked_example() -> None:
    table = tables()
    b, c = Predicate(("b",), Operator.GT, 2), Predicate(("c",), Operator.EQ, 3)
    table.append(And((A, Not(b))))
    table.append(AtLeast(2, (A, b, c)))
    table.append(And((Or((b, c)), A)))
    programs = table.columns()
    rows = [
        programs.code[start:stop].tolist()
        for start, stop in zip(programs.start[:-1], programs.start[1:], strict=True)
    ]
    a, b_false, b_true, c_true = 0, 5, 4, 8
    assert rows == [
        [a, b_false],
        [-2, 1, 6, a, c_true, b_true],
        [-2, 0, 9, a, -1, 1, 5, c_true, b_true],
    ]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Constant(True), YES),
        (Constant(False), NO),
        (And((A, R)), UNDECIDED),
        (And((B, R)), NO),
        (Or((A, R)), YES),
        (Or((B, R)), UNDECIDED),
        (Not(R), UNDECIDED),
        (IsNotTrue(R), UNDECIDED),
        (IsNotTrue(Predicate(("z",), Operator.REGEX, "x")), YES),
        (AtLeast(2, (A, B, C)), YES),
        (AtLeast(2, (A, B, R)), UNDECIDED),
        (AtLeast(3, (A, C, Or((B, R)), And((B, R)))), UNDECIDED),
        (AtLeast(3, (A, B, And((B, R)), C)), NO),
        (And((Or((B, C)), Or((A, B)), Not(B))), YES),
        (Element(("a",), A), UNDECIDED),
        (Element(("z",), A), NO),
    ],
)
def test_verdicts(node: Filter, expected: int) -> None:
    assert verdict(node, {"a": 1, "b": 1, "c": "x", "r": "y"}) == expected


def test_appending_one_by_one_or_together_is_the_same() -> None:
    random = Random(5)
    nodes = [random_filter(random, 2) for _ in range(100)]
    one_by_one, together = tables(), tables()
    assert [one_by_one.append(node) for node in nodes] == list(together.append_all(nodes))
    assert one_by_one.columns().start.tolist() == together.columns().start.tolist()
    assert one_by_one.columns().code.tolist() == together.columns().code.tolist()
    assert len(one_by_one.predicates) == len(together.predicates)
    assert together.append_all([]) == range(100, 100)


@given(st.lists(filters(), min_size=1, max_size=6))
def test_a_table_that_remembers_spellings_writes_the_same(nodes: list[Filter]) -> None:
    flat = [And(tuple(child for child in nodes if isinstance(child, Predicate)))]
    remembering, other = ProgramTable(CachedPredicates(Vocabulary(), {})), tables()
    for _ in range(3):
        for some in (nodes, flat):
            assert remembering.append_all(some) == other.append_all(some)
    mine, its = remembering.columns(), other.columns()
    assert mine.start.tolist() == its.start.tolist()
    assert mine.code.tolist() == its.code.tolist()
    records = (table.predicates.columns().record.tolist() for table in (remembering, other))
    assert next(records) == next(records)


def test_equal_predicates_share_a_number() -> None:
    table = PredicateTable(Vocabulary())
    path = ("a",)
    numbers = [
        table.number(predicate)
        for predicate in (
            Predicate(path, Operator.EQ, 1),
            Predicate(path, Operator.EQ, 1.0),
            Predicate(path, Operator.IN, (1,)),
            Predicate(path, Operator.EQ, True),
            Predicate(path, Operator.EQ, "1"),
            Predicate(("b",), Operator.EQ, 1),
            Predicate(path, Operator.IN, ("x", 2)),
            Predicate(path, Operator.IN, (2.0, "x", 2)),
            Predicate(path, Operator.IN, ("x", 3)),
            Predicate(path, Operator.LIKE, "x%"),
            Predicate(path, Operator.PREFIX, ("x",)),
            Predicate(path, Operator.PREFIX, ("x",), nocase=True),
            Predicate(path, Operator.PREFIX, ("X",), nocase=True),
            Predicate(path, Operator.PREFIX, ("x",), quantifier=Quantifier.ALL),
            Predicate(path, Operator.CONTAINS, ("x", "yz")),
            Predicate(path, Operator.CONTAINS, ("xy", "z")),
            Predicate(path, Operator.CONTAINS, ("yz", "x", "x")),
            Predicate(path, Operator.REGEX, "x"),
            Predicate(path, Operator.REGEX, "y"),
        )
    ]
    assert numbers == [0, 0, 0, 1, 2, 3, 4, 4, 5, 6, 6, 7, 7, 8, 9, 10, 9, 11, 12]
    assert len(table) == 13


def test_equal_hashes_do_not_make_predicates_equal() -> None:
    vocabulary = Vocabulary()
    path = ("a",)
    different = [
        Predicate(path, Operator.GE, 1),
        Predicate(path, Operator.GE, 2),
        Predicate(path, Operator.LE, 2),
        Predicate(path, Operator.LE, 1),
        Predicate(("b",), Operator.LE, 1),
        Predicate(path, Operator.IN, (1, 2)),
        Predicate(path, Operator.IN, (1, 3)),
        Predicate(path, Operator.IN, (0, True)),
        Predicate(path, Operator.IN, (0, 1)),
        Predicate(path, Operator.PREFIX, ("xy",)),
        Predicate(path, Operator.PREFIX, ("xz",)),
        Predicate(path, Operator.PREFIX, ("x",)),
    ]
    placed = [(lower(one, vocabulary.string), vocabulary.attribute(one.path)) for one in different]
    seed = np.uint64(7)
    for wanted in placed:
        words = words_of(encode([wanted]))
        slots = np.zeros(2, np.uint64)
        insert(slots, np.uint64(hash_predicate(words, np.int64(0), seed)), 0)
        for known in placed:
            # The slots say that the hashes agree; only a comparison can tell.
            found = find_predicates(words_of(encode([known])), slots, words, seed).tolist()
            assert found == [0 if known == wanted else -1]


def test_columns_stay_valid_while_the_table_grows() -> None:
    table = tables()
    table.append(A)
    programs, predicates = table.columns(), table.predicates.columns()
    before = predicates.record.copy()
    for number in range(2_000):
        table.append(And((A, Predicate(("n",), Operator.EQ, number), C)))
    assert len(programs.start) == 2
    assert (predicates.record == before).all()
    assert len(table.predicates) == 2_002
    again = [table.predicates.number(Predicate(("n",), Operator.EQ, n)) for n in range(2_000)]
    assert again == [1, *range(3, 2_002)]


def test_a_copy_through_arrays_goes_on() -> None:
    table = tables()
    nodes: list[Filter] = [
        And((A, Or((B, C)))),
        Predicate(("s",), Operator.IN, ("x", 1, True)),
        Predicate(("s",), Operator.CONTAINS, ("foo", "bar"), nocase=True),
        R,
    ]
    for node in nodes:
        table.append(node)
    vocabulary = table.predicates.vocabulary
    arrays = {**table.to_arrays(), **table.predicates.to_arrays()}
    for array in arrays.values():
        array.flags.writeable = False
    known = Vocabulary.from_arrays(vocabulary.to_arrays())
    copy = ProgramTable.from_arrays(arrays, PredicateTable.from_arrays(arrays, known))
    always = ProgramTable.from_arrays(arrays, copy.predicates).append(Constant(True))
    assert always == len(nodes)
    events: list[dict[str, Any]] = [{"a": 1, "b": 3, "s": "aFOOb", "r": "x"}, {"a": 1, "s": True}]
    assert (verdicts(copy, events) == verdicts(table, events)).all()
    count = len(copy.predicates)
    assert [copy.append(node) for node in nodes] == [4, 5, 6, 7]
    assert len(copy.predicates) == count
    copy.append(Predicate(("new",), Operator.EQ, "new"))
    assert verdicts(copy, [{"new": "new", **events[0]}]).tolist() == [[1, 0, 1, 2] * 2 + [1]]
    assert len(table) == 4


def nested(depth: int) -> Filter:
    node: Filter = A
    for level in range(depth):
        node = And((A, node)) if level % 2 else Or((A, node))
    return node


def test_depth_at_the_limit_and_beyond() -> None:
    table = tables()
    table.append(nested(GATE_DEPTH_MAX))
    assert verdicts(table, [{"a": 1}, {"a": 2}]).tolist() == [[YES], [NO]]
    with pytest.raises(ValueError, match="nests more than"):
        table.append(nested(GATE_DEPTH_MAX + 1))


def test_list_size_at_the_limit_and_beyond() -> None:
    table = tables()
    table.append(Predicate(("a",), Operator.IN, tuple(range(SIZE_MAX))))
    assert verdicts(table, [{"a": SIZE_MAX - 1}, {"a": SIZE_MAX}]).tolist() == [[YES], [NO]]
    with pytest.raises(ValueError, match="filter_list_values"):
        table.append(Predicate(("a",), Operator.IN, tuple(range(SIZE_MAX + 1))))
