"""Points: values find the operands they equal, whatever else has the same hash."""

from __future__ import annotations

import numpy as np

from index.kernels.points import find_point
from index.points import Operands, numbered_points
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK


def operands(*keys: tuple[int, float, int]) -> Operands:
    return Operands(
        np.arange(len(keys)),
        np.array([dimension for dimension, _, _ in keys], np.int64),
        np.array([number for _, number, _ in keys], np.float64),
        np.array([mark for _, _, mark in keys], np.int16),
    )


KEYS = (
    (2, 1.0, 0),
    (2, 1.0, -1),
    (2, 1.0, STRING_MARK),
    (2, 1.0, BOOLEAN_MARK),
    (3, 1.0, STRING_MARK),
    (10, 1.0, 0),
    (10, 0.0, NO_MARK),
    (10, 0.0, 0),
)


def test_points_differ_by_dimension_number_and_mark() -> None:
    points, numbered = numbered_points(operands(*KEYS, *reversed(KEYS)), 4)
    assert numbered.tolist() == [*range(len(KEYS)), *reversed(range(len(KEYS)))]
    assert [find_point(points, *key) for key in KEYS] == list(range(len(KEYS)))
    assert find_point(points, 10, -0.0, 0) == len(KEYS) - 1
    assert find_point(points, 10, 1.0, -1) == -1
    assert points.facets.tolist() == [0b1100, 0b100, 0, 0]
    assert points.slot.size == 32, "the table has room for operands, not for points"


def test_a_point_whose_slot_another_one_has_is_found_and_a_stranger_is_not() -> None:
    """All slots but one are taken, by points that were given to no search."""
    points, _ = numbered_points(operands((2, 7.0, 0)), 1)
    assert points.slot.size == 4
    other = points._replace(
        slot=np.array([1, 1, 1, 0], np.int32),
        kind=np.array([0, *points.kind.tolist()]),
        number=np.array([7.0, 7.0]),
    )
    assert find_point(other, 2, 7.0, 0) == -1
    found = [
        find_point(other._replace(slot=np.roll([2, 1, 1, 0], at).astype(np.int32)), 2, 7.0, 0)
        for at in range(4)
    ]
    assert 1 in found and set(found) <= {-1, 1}


def test_many_points_are_numbered_by_first_sight() -> None:
    rng = np.random.default_rng(3)
    keys = [(2 + 8 * int(a), float(n), int(m)) for a, n, m in rng.integers(0, 30, (4_000, 3))]
    points, numbered = numbered_points(operands(*keys), 40)
    distinct = list(dict.fromkeys(keys))
    assert points.number.size == len(distinct)
    assert [distinct[number] for number in numbered] == keys
    assert [find_point(points, *key) for key in distinct] == list(range(len(distinct)))
