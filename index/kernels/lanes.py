"""Lanes: what an event shows of each dimension, as one word that subscriptions are tested on.

    lane    word of an event                              test of a leaf                holds if
    narrow  1 << code; 1 << NOTHING without a value       mask of codes                 word & mask
    wide    1 + code; 0 without a value                   first | span << 32 | flags    in the run
                                                          some words | flags            one of them
    hashed  1 << some bits of the code; 0 without         mask of such bits             word & mask
    texts   bits of what holds; 1 << NOTHING without      mask of such bits             word & mask

A dimension is one division of an attribute's values into disjoint spaces (see `index.spaces`), and
a code numbers the space that a value lies in. Spaces are as fine as the predicates are, so that a
test on a narrow lane tells exactly whether a leaf holds, in each of its four polarities: the bit
NOTHING stands for values of other types and for absence. A dimension of more codes than a word has
bits is wide; there a test tells exactly for runs of codes and for sets of three, or of five if the
lane has few enough. Larger sets of points have a lane of hashes beside, whose tests can only rule
out. What holds of a string is shown on narrow lanes of its own,
see `index.texts`; one more lane of the attribute has the parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cells import number_cell
from index.kernels.hashing import fold_product
from index.kernels.keys import first_slot
from index.kernels.text_runs import TextColumns
from index.spaces import FACET_BITS, Covers, Facet, SpaceColumns

ALWAYS_LANE = 0
"""The lane whose word has all bits in every event."""
NOTHING = 63
"""The bit of a narrow lane that an event without a value of the lane's types has."""
NARROW_CODES_MAX = NOTHING
OTHER = 0
"""The code of a value that no point of its dimension equals; the points have codes from 1 on."""
HASHED_LANES, WIDE, UNTESTED, ALL_LANES, TEXT_LANES = range(5)
"""Places in `LaneColumns.first`; lanes of texts are the last ones before those of hashes."""
NO_TEST, NECESSARY, EXACT = 0, 1, 2
"""What a test of a leaf tells: nothing, when it cannot hold, whether it holds."""

MARK_SHIFT = np.uint64(24)
CODE_MASK = np.uint64((1 << 24) - 1)
"""The second word of a point's slot: lane, mark, code."""

_MARK_MASK = 0xFFFF
_ONE, _ZERO, _IN_WORD = np.uint64(1), np.uint64(0), np.uint64(63)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_SHORT, _SET = np.uint64(1 << 60), np.uint64(1 << 61)
INVERTED, PRESENT_ONLY = np.uint64(1 << 62), np.uint64(1 << 63)
"""Bits of the test of a wide lane: outside of the run or set; not where there is no value."""
_SPAN_MASK = np.uint64((1 << 28) - 1)
_SET_BITS = 60
"""Sets are words of 12 or of 20 bits side by side."""
_SHORT_BITS, _LONG_BITS = 12, 20
_SHORT_ONES = np.uint64(sum(1 << at for at in range(0, _SET_BITS, _SHORT_BITS)))
_LONG_ONES = np.uint64(sum(1 << at for at in range(0, _SET_BITS, _LONG_BITS)))
_SHORT_HIGHS = _SHORT_ONES << np.uint64(_SHORT_BITS - 1)
_LONG_HIGHS = _LONG_ONES << np.uint64(_LONG_BITS - 1)
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(58)
_LANE_SHIFT, _SPREAD = np.uint64(16), np.uint64(0xD6E8FEB86659FD93)

_POINT = int(Facet.POINT)
HASHED = len(Facet)
"""Facet of the hashes of a wide dimension of points; HASHED + 1 that of folded ones."""
TEXTS = HASHED
"""Bit in HEAD of an attribute that text predicates ask about."""


class LaneColumns(NamedTuple):
    """The lanes of `a` attributes, from 1 on: narrow, texts, hashed, wide, those without tests."""

    lane_of: NDArray[np.int32]  # [a << FACET_BITS] of a dimension, 0 for none
    first: NDArray[np.int64]  # [5] the first lane of each kind, and the number of all
    part_start: NDArray[np.int64]  # [lanes + 1] the part of code c is part_start[lane] + c
    spaces: SpaceColumns
    number_coarse: NDArray[np.int32]  # [number cuts + a] the coarser cell of a cell
    string_coarse: NDArray[np.int32]  # [string cuts + a]
    point: NDArray[np.uint64]  # [slots, 2] bits of a number | lane, mark, code
    line: NDArray[np.int64]  # [a * LINE_WORDS] what is asked of most values, see below
    direct: NDArray[np.uint64]  # codes of integers: point << 40 | cell << 20 | its coarser cell,
    # and whether keys are made of the parts of the point and of the coarser cell


LINE_WORDS = 8
HEAD, DIRECT_FIRST, DIRECT_START, LANES, POINT_PARTS, CELL_PARTS, HASHED_LANE, CUTS = range(8)
"""An attribute's cache line: number of integers whose codes are listed << 8 | facets asked for; the
first of them; where its codes are; lanes of points and << 32 of cells of numbers; the first parts
of both; lane of hashes of points; the first cut of numbers | << 32 the number of cuts | WHOLE."""
WHOLE = 1 << 62
"""Cells of numbers tell integers apart, and nothing of numbers between (see `divide_finely`)."""
CUTS_MASK = (1 << 30) - 1
CELL_BITS = 20
CELL_MASK = np.uint64((1 << CELL_BITS) - 1)
_CELL_SHIFT = np.uint64(CELL_BITS)
_CODE_SHIFT = np.uint64(2 * CELL_BITS)
POINT_USED, CELL_USED = np.uint64(1 << 62), np.uint64(1 << 63)


class Lookup(NamedTuple):
    """What tells the codes of a leaf: the lanes, and the runs of cells of each predicate in use."""

    lanes: LaneColumns
    position: NDArray[np.int32]  # [p] predicate number -> its place in `covers` and `text`
    covers: Covers
    text: NDArray[np.int32]  # [u] place among the text predicates, -1 for others
    texts: TextColumns


@inlined
def point_place(point: NDArray[np.uint64], lane: int, bits: np.uint64, mark: int) -> np.int64:
    """Where the search for a point begins."""
    # The bits of small integers differ in the upper half alone, so a lane is spread over all.
    key = bits ^ (np.uint64(lane) << _LANE_SHIFT | np.uint64(int(mark) & _MARK_MASK)) * _SPREAD
    return np.int64(first_slot(point, fold_product(key, _HASH_MULTIPLIER)))


@inlined
def _place_after(point: NDArray[np.uint64], place: np.int64) -> np.int64:
    return np.int64(place + 1) if place + 1 < point.shape[0] else np.int64(0)


@inlined
def point_code(point: NDArray[np.uint64], lane: int, number: np.float64, mark: int) -> int:
    """The code of a key of equality (see `index.predicates`) among the points of a lane."""
    bits = np.float64(number).view(np.uint64)
    place = point_place(point, lane, bits, mark)
    wanted = np.uint64(lane) << _LANE_SHIFT | np.uint64(int(mark) & _MARK_MASK)
    while point[place, 1] != _ZERO:
        if point[place, 0] == bits and point[place, 1] >> MARK_SHIFT == wanted:
            return int(np.int64(point[place, 1] & CODE_MASK))
        place = _place_after(point, place)
    return OTHER


@leaf
def insert_points(
    point: NDArray[np.uint64],
    lane: NDArray[np.int32],
    number: NDArray[np.float64],
    mark: NDArray[np.int16],
    code: NDArray[np.int64],
) -> None:
    """File distinct points in a table that has room for all of them."""
    for at in range(lane.size):
        bits = np.float64(number[at]).view(np.uint64)
        place = point_place(point, lane[at], bits, mark[at])
        while point[place, 1] != _ZERO:
            place = _place_after(point, place)
        point[place, 0] = bits
        named = np.uint64(lane[at]) << _LANE_SHIFT | np.uint64(int(mark[at]) & _MARK_MASK)
        point[place, 1] = named << MARK_SHIFT | np.uint64(code[at])


@leaf
def fill_direct(lanes: LaneColumns) -> None:
    """List the codes of the integers that each attribute's predicates are about."""
    spaces = lanes.spaces
    cuts = (spaces.number_cut_double, spaces.number_cut_residual)
    for attribute in range(lanes.line.size // LINE_WORDS):
        line = attribute * LINE_WORDS
        lane = lanes.lane_of[attribute << FACET_BITS | _POINT]
        start, stop = spaces.number_cut_start[attribute], spaces.number_cut_start[attribute + 1]
        for at in range(lanes.line[line + HEAD] >> 8):
            number = np.float64(lanes.line[line + DIRECT_FIRST] + at)
            code = point_code(lanes.point, lane, number, 0) if lane else OTHER
            cell = number_cell(cuts, start, stop, number, 0)
            codes = np.uint64(code) << _CODE_SHIFT | np.uint64(cell) << _CELL_SHIFT
            codes |= np.uint64(lanes.number_coarse[start + attribute + cell])
            lanes.direct[lanes.line[line + DIRECT_START] + at] = codes


@leaf
def mark_direct(lanes: LaneColumns, part_used: NDArray[np.uint64]) -> None:
    """Note beside the codes of integers of which of their parts keys are made."""
    for attribute in range(lanes.line.size // LINE_WORDS):
        line = attribute * LINE_WORDS
        for at in range(lanes.line[line + HEAD] >> 8):
            place = lanes.line[line + DIRECT_START] + at
            code, _, coarse = direct_codes(lanes, place)
            if is_used(part_used, lanes.line[line + POINT_PARTS] + code):
                lanes.direct[place] |= POINT_USED
            if is_used(part_used, lanes.line[line + CELL_PARTS] + coarse):
                lanes.direct[place] |= CELL_USED


@inlined
def is_used(part_used: NDArray[np.uint64], part: int) -> bool:
    """Are keys made of a part?"""
    return bool(part_used[part >> 6] >> (np.uint64(part) & _IN_WORD) & _ONE)


@inlined
def direct_place(lanes: LaneColumns, attribute: int, number: np.float64, residual: int) -> int:
    """Where the codes of a number are listed, or -1."""
    line = attribute * LINE_WORDS
    distance = number - np.float64(lanes.line[line + DIRECT_FIRST])
    if residual or not 0.0 <= distance < np.float64(lanes.line[line + HEAD] >> 8):
        return -1
    place = np.int64(distance)
    if np.float64(place) != distance:
        return -1
    return int(lanes.line[line + DIRECT_START] + place)


@inlined
def direct_codes(lanes: LaneColumns, place: int) -> tuple[int, int, int]:
    """The codes that are listed there: of the point, of the cell, of the coarser cell."""
    codes = lanes.direct[place]
    point = np.int64(codes >> _CODE_SHIFT & CELL_MASK)
    cell = np.int64(codes >> _CELL_SHIFT & CELL_MASK)
    return int(point), int(cell), int(np.int64(codes & CELL_MASK))


@inlined
def is_whole(lanes: LaneColumns, attribute: int) -> bool:
    """Do cells of numbers tell nothing of numbers between integers?"""
    return bool(lanes.line[attribute * LINE_WORDS + CUTS] & WHOLE)


@inlined
def hash_bit(code: int) -> np.uint64:
    """The bit of a code on a hashed lane."""
    return _ONE << (np.uint64(code) * _HASH_MULTIPLIER >> _HASH_SHIFT)


@inlined
def points_of_set(lanes: LaneColumns, lane: int) -> int:
    """How many codes of a wide lane one test can hold."""
    codes = lanes.part_start[lane + 1] - lanes.part_start[lane]
    if codes < 1 << _SHORT_BITS:
        return _SET_BITS // _SHORT_BITS
    return _SET_BITS // _LONG_BITS if codes < 1 << _LONG_BITS else 1


@inlined
def set_of_codes(operand: np.uint64, code: int, at: int, most: int) -> np.uint64:
    """A test for a set on a wide lane that holds `most`, with a code at its places from `at` on."""
    bits = np.uint64(_SET_BITS // most)
    operand &= (_ONE << np.uint64(at) * bits) - _ONE
    for place in range(at, most):
        operand |= np.uint64(code + 1) << np.uint64(place) * bits
    return operand | (_SET | _SHORT if bits == np.uint64(_SHORT_BITS) else _SET)


@inlined
def _is_among(word: np.uint64, operand: np.uint64) -> bool:
    """Is a word one of those of a set? Their differences are looked at all at once."""
    is_short = operand & _SHORT != _ZERO
    ones = _SHORT_ONES if is_short else _LONG_ONES
    highs = _SHORT_HIGHS if is_short else _LONG_HIGHS
    differing = operand ^ word * ones
    # A word that does not differ at all is the only one to borrow from its highest bit.
    return bool((differing - ones) & ~differing & highs != _ZERO)


@inlined
def passes_wide(word: np.uint64, operand: np.uint64, unsure: bool) -> bool:
    """The test of a wide lane; any event whose values it cannot show is `unsure`, and passes."""
    distance = (word - (operand & _LOW)) & _LOW
    inside = distance <= (operand >> _HALF & _SPAN_MASK)
    is_set = operand & _SET != _ZERO
    inside = (_is_among(word, operand) if is_set else inside) ^ (operand & INVERTED != _ZERO)
    inside &= (word != _ZERO) | (operand & PRESENT_ONLY == _ZERO)
    return bool(inside | unsure)
