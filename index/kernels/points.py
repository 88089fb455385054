"""Points: the operands of `=` and IN, numbered without gaps, and the way from values to them.

    point    number 0    number 1       number 2          kind  dimension << 16 | mark
             a = 1       a = 'x'        b = true          slot  [ number + 1 ], open addressing

A point is found by hash and settled by comparison, so a collision costs time and never an answer.
An array can be addressed by its number: what an algorithm has to say of a value needs no other key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.filing import point_part
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK
from index.spaces import FACET_BITS, Facet

MARK_BITS = 16
_MARK_MASK = (1 << MARK_BITS) - 1
_POINT, _FOLDED = int(Facet.POINT), int(Facet.FOLDED)
_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)
_NO_POINT = -1
_NO_KEY = 1 << MARK_BITS
"""No mark: the value is no operand's."""


class PointColumns(NamedTuple):
    """p points of a attributes."""

    facets: NDArray[np.uint8]  # [a] bits 1 << facet of those that have points: POINT, FOLDED
    slot: NDArray[np.int32]  # [s] a power of two, at most half of them used
    kind: NDArray[np.int64]  # [p] dimension << MARK_BITS | mark, see `index.predicates`
    number: NDArray[np.float64]  # [p]


@inlined
def kind_of(dimension: int, mark: int) -> int:
    """Dimension and mark of a point in one number."""
    return dimension << MARK_BITS | (mark & _MARK_MASK)


@inlined
def _slot_of(points: PointColumns, dimension: int, number: float, mark: int) -> int:
    """The slot that has a point, or the free one where it belongs."""
    # Adding zero makes the bits of both zeros the same.
    part = point_part(dimension, number + 0.0, mark)
    kind = kind_of(dimension, mark)
    mask = points.slot.size - 1
    place = np.int64(part & np.uint64(mask))
    while points.slot[place] != 0:
        found = points.slot[place] - 1
        if points.kind[found] == kind and points.number[found] == number:
            break
        place = (place + 1) & mask
    return int(place)


@leaf
def number_points(
    points: PointColumns,
    dimension: NDArray[np.int64],
    number: NDArray[np.float64],
    mark: NDArray[np.int16],
    numbered: NDArray[np.int32],
) -> int:
    """Fill `points`, empty on entry, and the number of each of the given points in `numbered`.

    Numbers ascend in the order of first sight. Returns how many there are.
    """
    count = 0
    for at in range(dimension.size):
        place = _slot_of(points, int(dimension[at]), number[at], int(mark[at]))
        if points.slot[place] == 0:
            points.slot[place] = count + 1
            points.kind[count] = kind_of(int(dimension[at]), int(mark[at]))
            points.number[count] = number[at]
            facet = dimension[at] & ((1 << FACET_BITS) - 1)
            points.facets[dimension[at] >> FACET_BITS] |= np.uint8(1 << facet)
            count += 1
        numbered[at] = points.slot[place] - 1
    return count


@leaf
def find_point(points: PointColumns, dimension: int, number: float, mark: int) -> int:
    """The number of a point, or -1."""
    return int(points.slot[_slot_of(points, dimension, number, mark)]) - 1


@inlined
def points_of_value(
    points: PointColumns, batch: EventBatch, value: int, attribute: int
) -> tuple[int, int]:
    """The points of a value of an attribute: as it is, and as a folded string; -1 for none."""
    facets = points.facets[attribute]
    point, folded = _NO_POINT, _NO_POINT
    if facets == 0:
        return point, folded
    base = attribute << FACET_BITS
    value_type = batch.value_type[value]
    number, mark = np.float64(batch.value_number[value]), _NO_KEY
    if value_type == _NUMBER:
        mark = int(batch.value_residual[value])
    elif value_type == _STRING:
        string = batch.value_string[value]
        code, folded_code = batch.string_code[string], batch.folded_code[string]
        if code >= 0:
            number, mark = np.float64(code), STRING_MARK
        if facets >> _FOLDED & 1 and folded_code >= 0:
            folded = find_point(points, base | _FOLDED, np.float64(folded_code), STRING_MARK)
    elif value_type == _BOOLEAN:
        mark = BOOLEAN_MARK
    elif value_type == _NULL:
        number, mark = np.float64(0.0), NO_MARK
    if facets >> _POINT & 1 and mark != _NO_KEY:
        point = find_point(points, base | _POINT, number, mark)
    return point, folded
