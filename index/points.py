"""Points of leaves: which operands the leaves of a segment name, and their numbering."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels.points import MARK_BITS, PointColumns, number_points
from index.predicates import ALL, NO_MARK, NOCASE, STRING_MARK, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.spaces import FACET_BITS, Facet

_POINT_KINDS = PredicateKind.EQUAL, PredicateKind.IN, PredicateKind.IS_NULL


class Operands(NamedTuple):
    """The o operands of some leaves, leaf after leaf."""

    owner: NDArray[np.int64]  # [o] position of the leaf
    dimension: NDArray[np.int64]
    number: NDArray[np.float64]
    mark: NDArray[np.int16]


def names_points(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which leaves ask of a predicate that is TRUE by a single value, one of those it names."""
    record = predicates.record[leaves >> POLARITY_BITS]
    named: NDArray[np.bool_] = np.isin(record["kind"], _POINT_KINDS) & (record["flags"] & ALL == 0)
    return named


def operands_of(
    predicates: PredicateColumns, leaves: NDArray[np.int32], chosen: NDArray[np.int64]
) -> Operands:
    """The operands of the leaves at the positions `chosen`, which name points."""
    record = predicates.record[leaves[chosen] >> POLARITY_BITS]
    is_set = record["kind"] == PredicateKind.IN
    size = np.where(is_set, record["size"], 1).astype(np.int64)
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    record = np.repeat(record, size)
    number, mark = record["low"].copy(), record["low_residual"].copy()
    of_set = record["kind"] == PredicateKind.IN
    member = record["start"][of_set] + within[of_set]
    number[of_set], mark[of_set] = predicates.member_number[member], predicates.member_mark[member]
    is_null = record["kind"] == PredicateKind.IS_NULL
    number[is_null], mark[is_null] = 0.0, NO_MARK
    folds = (record["flags"] & NOCASE != 0) & (mark == STRING_MARK)
    dimension = record["attribute"].astype(np.int64) << FACET_BITS
    dimension |= np.where(folds, Facet.FOLDED, Facet.POINT)
    return Operands(np.repeat(chosen, size), dimension, number, mark)


def numbered_points(
    operands: Operands, attribute_count: int
) -> tuple[PointColumns, NDArray[np.int32]]:
    """The distinct points among these operands, and the number of each operand's."""
    points, numbered = _numbered(operands, attribute_count)
    # Few points may be operands of many leaves; those who look points up want a small table.
    kind, number = points.kind, points.number
    mark = (kind & ((1 << MARK_BITS) - 1)).astype(np.uint16).view(np.int16)
    points, _ = _numbered(Operands(kind, kind >> MARK_BITS, number, mark), attribute_count)
    return points, numbered


def _numbered(operands: Operands, attribute_count: int) -> tuple[PointColumns, NDArray[np.int32]]:
    """The same with a table that has room for as many points as there are operands."""
    points = PointColumns(
        np.zeros(attribute_count, np.uint8),
        np.zeros(1 << (2 * operands.number.size).bit_length(), np.int32),
        np.empty(operands.number.size, np.int64),
        np.empty(operands.number.size, np.float64),
    )
    numbered = np.empty(operands.number.size, np.int32)
    count = number_points(points, operands.dimension, operands.number, operands.mark, numbered)
    return points._replace(kind=points.kind[:count], number=points.number[:count]), numbered
