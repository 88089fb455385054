"""Predicate spaces: the paper's examples, and that a value lies where its predicates cover."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from index import spaces
from index.evaluate import truth
from index.kernels.cells import number_cell, string_cell
from index.language import parse_text
from index.model import Operator, Predicate
from index.numbers import split
from index.predicate_table import PredicateTable
from index.spaces import Covers, SpaceColumns, divide
from index.vocabulary import Vocabulary
from tests.strategies import NOW, near_values, predicates

GOLDEN = Path(__file__).parent.parent / "golden" / "spaces.json"
RANGES = (Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.BETWEEN)
TEXTS = (Operator.PREFIX, Operator.LIKE)


def _cell_of_number(space: SpaceColumns, attribute: int, double: float, residual: int) -> int:
    cuts = (space.number_cut_double, space.number_cut_residual)
    start, stop = space.number_cut_start[attribute], space.number_cut_start[attribute + 1]
    return number_cell(cuts, start, stop, double, residual)


def _cell_of_string(space: SpaceColumns, attribute: int, text: NDArray[np.uint8]) -> int:
    cuts = (space.string_start, space.string_text)
    start, stop = space.string_cut_start[attribute], space.string_cut_start[attribute + 1]
    return string_cell(cuts, start, stop, text, (0, text.size))


cell_of_number: Any = njit(_cell_of_number)
cell_of_string: Any = njit(_cell_of_string)


def cell_of(space: SpaceColumns, attribute: int, value: object) -> int:
    if isinstance(value, str):
        text = np.frombuffer(value.encode(), np.uint8)
        return int(cell_of_string(space, attribute, text))
    return int(cell_of_number(space, attribute, *split(cast(float, value))))


def divided(nodes: list[Predicate]) -> tuple[Vocabulary, SpaceColumns, Covers]:
    vocabulary = Vocabulary()
    table = PredicateTable(vocabulary)
    numbers = np.array(table.numbers(nodes), np.int64)
    return vocabulary, *divide(table.columns(), numbers, vocabulary.attribute_count)


def covered_by(covers: Covers, position: int) -> set[int]:
    runs = range(*covers.run_start[position : position + 2].tolist())
    return {
        cell for run in runs for cell in range(int(covers.first[run]), int(covers.last[run]) + 1)
    }


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: case["name"])
def test_golden(case: dict[str, Any]) -> None:
    nodes = [parse_text(text) for text in case["predicates"]]
    vocabulary, space, covers = divided(cast(list[Predicate], nodes))
    attribute = vocabulary.attribute((case["attribute"],))
    for number, cell in enumerate(case["cells"]):
        for value in cell["values"]:
            assert cell_of(space, attribute, value) == number, value
        counter = sum(number in covered_by(covers, position) for position in range(len(nodes)))
        assert counter == cell["counter"], cell


ordered = st.lists(
    predicates(RANGES + TEXTS).filter(lambda one: one.quantifier is None and not one.nocase),
    min_size=1,
    max_size=8,
)


@given(ordered, st.booleans())
def test_a_value_lies_in_a_cell_of_every_predicate_it_satisfies(
    nodes: list[Predicate], thinned: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if thinned:
            patch.setattr(spaces, "CUTS_UNTHINNED", 1)
            patch.setattr(spaces, "CELLS_PER_RANGE", 1)
        vocabulary, space, covers = divided(nodes)
    for position, node in enumerate(nodes):
        attribute = vocabulary.attribute(node.path)
        for value in near_values(node):
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                continue
            if not len(range(*covers.run_start[position : position + 2])):
                continue  # an order of instants
            holds = truth(node, _event(node.path, value), NOW) is True
            run = int(covers.run_start[position])
            is_text = covers.facet[run] == spaces.Facet.STRING_CELL
            if is_text != isinstance(value, str):
                continue
            inside = cell_of(space, attribute, value) in covered_by(covers, position)
            assert inside or not holds, (node, value)
            exact = node.operator is not Operator.LIKE and not thinned
            assert holds or not inside or not exact, (node, value)


def test_thinning_bounds_the_cells_of_wide_ranges_and_spares_narrow_ones() -> None:
    wide = [Predicate(("w",), Operator.GT, number) for number in range(2_000)]
    narrow = [Predicate(("n",), Operator.BETWEEN, (3 * one, 3 * one + 1)) for one in range(1_000)]
    _, space, covers = divided(wide + narrow)
    assert np.diff(space.number_cut_start).tolist() == [spaces.CUTS_UNTHINNED, 2_000]
    sizes = covers.last - covers.first + 1
    assert sizes[:2_000].mean() <= spaces.CELLS_PER_RANGE + 1
    assert sizes[2_000:].tolist() == [1] * 1_000


def _event(path: tuple[str, ...], value: object) -> dict[str, object]:
    tree: object = value
    for name in reversed(path):
        tree = {name: tree}
    return cast(dict[str, object], tree)
