"""What an event shows on each lane, and the parts of keys that its values are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import ARRAY, PRESENT, EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.cells import number_cell, string_cell
from index.kernels.event_memory import (
    ENTERED,
    EventMemory,
    add_part,
    enter_part,
    set_word,
    show_code,
)
from index.kernels.lanes import (
    CELL_PARTS,
    CELL_USED,
    CUTS,
    CUTS_MASK,
    HASHED,
    HASHED_LANE,
    HEAD,
    LANES,
    LINE_WORDS,
    OTHER,
    POINT_PARTS,
    POINT_USED,
    UNTESTED,
    WIDE,
    LaneColumns,
    direct_codes,
    direct_place,
    hash_bit,
    is_used,
    is_whole,
    point_code,
    point_place,
)
from index.kernels.prefetch import prefetch
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK
from index.spaces import FACET_BITS, Facet

_EXISTS, _PRESENT = int(Facet.EXISTS), int(Facet.PRESENT)
_POINT, _FOLDED = int(Facet.POINT), int(Facet.FOLDED)
_NUMBER_CELL, _STRING_CELL = int(Facet.NUMBER_CELL), int(Facet.STRING_CELL)
_BOOLEAN, _NUMBER = int(ValueType.BOOLEAN), int(ValueType.NUMBER)
_STRING = int(ValueType.STRING)
_ZERO, _ALL_BITS = np.uint64(0), ~np.uint64(0)
_LANE_MASK = 0xFFFFFFFF
_FACETS = 0xFF
_POINTS, _NUMBER_CELLS = 1 << _POINT, 1 << _NUMBER_CELL
_OF_NUMBERS = _POINTS | _NUMBER_CELLS
_LINES_AHEAD, _VALUES_AHEAD = 8, 4
NEAR_WORDS = 1 << 15
"""What is looked up of values is taken to be in the cache if it is no more."""


@leaf
def enter_words(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    event: int,
    at: int,
    memory: EventMemory,
) -> None:
    """Fill the words of an event, the group's number `at`, and its parts that keys are made of."""
    memory.unsure[at] = False
    memory.counts[ENTERED] = at + 1
    start, stop = batch.entry_start[event], batch.entry_start[event + 1]
    is_far = lanes.line.size + lanes.direct.size + lanes.point.size > NEAR_WORDS
    for entry in range(start, min(start + _LINES_AHEAD, stop) if is_far else start):
        prefetch(lanes.line, batch.entry_attribute[entry] * LINE_WORDS)
    for entry in range(start, stop):
        if is_far and entry + _LINES_AHEAD < stop:
            prefetch(lanes.line, batch.entry_attribute[entry + _LINES_AHEAD] * LINE_WORDS)
        if is_far and entry + _VALUES_AHEAD < stop:
            _ask_for_value(lanes, batch, entry + _VALUES_AHEAD)
        attribute = int(batch.entry_attribute[entry])
        if attribute * LINE_WORDS >= lanes.line.size:
            continue
        facets = lanes.line[attribute * LINE_WORDS + HEAD] & _FACETS
        if facets == 0:
            continue
        if facets & ~_OF_NUMBERS == 0 and batch.entry_flags[entry] == PRESENT:
            value = batch.value_start[entry]
            if _show_integer(lanes, batch, value, memory, at, attribute):
                continue
        _show_entry(lanes, part_used, batch, entry, memory, at, attribute << FACET_BITS)


@inlined
def _ask_for_value(lanes: LaneColumns, batch: EventBatch, entry: int) -> None:
    """Ask for where a number will be looked up, by the line of its attribute, which is here now."""
    line = int(batch.entry_attribute[entry]) * LINE_WORDS
    value = batch.value_start[entry]
    if line >= lanes.line.size or value == batch.value_start[entry + 1]:
        return
    number, residual = batch.value_number[value], int(batch.value_residual[value])
    place = direct_place(lanes, line // LINE_WORDS, number, residual)
    if place >= 0:
        prefetch(lanes.direct, place)
        return
    bits = np.float64(number).view(np.uint64)
    lane = int(lanes.line[line + LANES] & _LANE_MASK)
    prefetch(lanes.point, 2 * int(point_place(lanes.point, lane, bits, residual)))
    cuts = lanes.line[line + CUTS]
    prefetch(
        lanes.spaces.number_cut_double, int((cuts & _LANE_MASK) + (cuts >> 33 & (CUTS_MASK >> 1)))
    )


@inlined
def _show_entry(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    entry: int,
    memory: EventMemory,
    at: int,
    base: int,
) -> None:
    """Presence and values of one attribute."""
    if _asks(lanes, base, _EXISTS):
        _show(lanes, part_used, memory, at, base | _EXISTS, 0, 0, True)
    if batch.entry_flags[entry] & PRESENT == 0:
        return
    if _asks(lanes, base, _PRESENT):
        _show(lanes, part_used, memory, at, base | _PRESENT, 0, 0, True)
    first, stop = batch.value_start[entry], batch.value_start[entry + 1]
    is_plain = stop - first == 1 and batch.entry_flags[entry] & ARRAY == 0
    is_plain = is_plain and not _is_between(lanes, batch, first, base >> FACET_BITS)
    if not is_plain:
        memory.unsure[at] = True
        _show_anything(lanes, memory, at, base)
    for value in range(first, stop):
        _show_value(lanes, part_used, batch, value, memory, at, base, is_plain)


@inlined
def _show_integer(
    lanes: LaneColumns,
    batch: EventBatch,
    value: int,
    memory: EventMemory,
    at: int,
    attribute: int,
) -> bool:
    """Show the only value of an attribute that numbers are asked of, if its codes are listed."""
    if batch.value_type[value] != _NUMBER:
        return False
    place = direct_place(
        lanes, attribute, batch.value_number[value], int(batch.value_residual[value])
    )
    if place < 0:
        return False
    marks = lanes.direct[place]
    used = marks & POINT_USED != _ZERO, marks & CELL_USED != _ZERO
    _show_codes(lanes, memory, at, attribute, direct_codes(lanes, place), used, True)
    return True


@inlined
def _is_between(lanes: LaneColumns, batch: EventBatch, value: int, attribute: int) -> bool:
    """Is a value a number between integers, of which cells tell nothing?"""
    number = batch.value_number[value]
    is_number = batch.value_type[value] == _NUMBER
    return bool(is_whole(lanes, attribute) and is_number and number != np.floor(number))


@inlined
def _asks(lanes: LaneColumns, base: int, facet: int) -> bool:
    """Is a facet of the attribute asked for?"""
    return bool(lanes.line[(base >> FACET_BITS) * LINE_WORDS + HEAD] >> facet & 1)


@inlined
def _number_codes(
    lanes: LaneColumns, batch: EventBatch, value: int, attribute: int
) -> tuple[int, int, int]:
    """The codes of a number: among points, among cells, and among coarser cells."""
    line = attribute * LINE_WORDS
    number, residual = batch.value_number[value], int(batch.value_residual[value])
    place = direct_place(lanes, attribute, number, residual)
    if place >= 0:
        return direct_codes(lanes, place)
    lane = int(lanes.line[line + LANES] & _LANE_MASK)
    code = point_code(lanes.point, lane, number, residual) if lane else OTHER
    cell, coarse = _cell_of(lanes, attribute, number, residual)
    return code, cell, coarse


@inlined
def _cell_of(
    lanes: LaneColumns, attribute: int, number: np.float64, residual: int
) -> tuple[int, int]:
    """The cell of a number, and the coarser one."""
    bounds = lanes.line[attribute * LINE_WORDS + CUTS]
    start, count = bounds & _LANE_MASK, bounds >> 32 & CUTS_MASK
    cuts = (lanes.spaces.number_cut_double, lanes.spaces.number_cut_residual)
    cell = int(number_cell(cuts, start, start + count, number, residual))
    return cell, int(lanes.number_coarse[start + attribute + cell])


@inlined
def _show_anything(lanes: LaneColumns, memory: EventMemory, at: int, base: int) -> None:
    """Let every test of the attribute's values be passed: there is no value, or there are many."""
    for facet in range(_POINT, HASHED + 2):
        lane = lanes.lane_of[base | facet]
        if 0 < lane < lanes.first[WIDE]:
            set_word(lanes, memory, at, lane, _ALL_BITS)


@inlined
def _show_value(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    value: int,
    memory: EventMemory,
    at: int,
    base: int,
    is_plain: bool,
) -> None:
    """The codes of one value in all dimensions of its attribute."""
    kind = batch.value_type[value]
    if kind == _NUMBER:
        _show_number(lanes, part_used, batch, value, memory, at, base, is_plain)
        return
    number, mark = np.float64(0.0), NO_MARK
    if kind == _STRING:
        number, mark = np.float64(batch.string_code[batch.value_string[value]]), STRING_MARK
        _show_text(lanes, part_used, batch, value, memory, at, base, is_plain)
    elif kind == _BOOLEAN:
        number, mark = batch.value_number[value], BOOLEAN_MARK
    if _asks(lanes, base, _POINT):
        code = point_code(lanes.point, lanes.lane_of[base | _POINT], number, mark)
        _show_point(lanes, part_used, memory, at, base | _POINT, code, is_plain)
    if _asks(lanes, base, _FOLDED) and kind != _STRING:
        _show_point(lanes, part_used, memory, at, base | _FOLDED, OTHER, is_plain)


@inlined
def _show_number(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    value: int,
    memory: EventMemory,
    at: int,
    base: int,
    is_plain: bool,
) -> None:
    """The codes of a number, by the line of its attribute."""
    attribute = base >> FACET_BITS
    line = attribute * LINE_WORDS
    codes = _number_codes(lanes, batch, value, attribute)
    used = (
        is_used(part_used, int(lanes.line[line + POINT_PARTS] + codes[0])),
        is_used(part_used, int(lanes.line[line + CELL_PARTS] + codes[2])),
    )
    _show_codes(lanes, memory, at, attribute, codes, used, is_plain)
    if _asks(lanes, base, _FOLDED):
        _show_point(lanes, part_used, memory, at, base | _FOLDED, OTHER, is_plain)
    if _asks(lanes, base, _NUMBER_CELL) and _is_between(lanes, batch, value, attribute):
        # A range with a number between two integers has one of these, too.
        after = np.floor(batch.value_number[value]) + 1.0
        coarse_after = _cell_of(lanes, attribute, after, 0)[1]
        if coarse_after != codes[2]:
            lane = int(lanes.line[line + LANES] >> 32)
            enter_part(part_used, memory, lane, lanes.line[line + CELL_PARTS] + coarse_after)


@inlined
def _show_codes(
    lanes: LaneColumns,
    memory: EventMemory,
    at: int,
    attribute: int,
    codes: tuple[int, int, int],
    used: tuple[bool, bool],
    is_plain: bool,
) -> None:
    """Show the codes of a number, of its point, of its cell, and of the coarser cell.

    used   whether keys are made of the parts of the point and of the coarser cell
    """
    line = attribute * LINE_WORDS
    code, cell, coarse = codes
    facets = lanes.line[line + HEAD]
    if facets & _POINTS:
        lane = int(lanes.line[line + LANES] & _LANE_MASK)
        if is_plain:
            show_code(lanes, memory, at, lane, code)
            hashed = int(lanes.line[line + HASHED_LANE])
            if hashed:
                set_word(lanes, memory, at, hashed, hash_bit(code))
        if used[0]:
            add_part(memory, lane, lanes.line[line + POINT_PARTS] + code)
    if facets & _NUMBER_CELLS:
        lane = int(lanes.line[line + LANES] >> 32)
        if is_plain:
            show_code(lanes, memory, at, lane, cell)
        if used[1]:
            add_part(memory, lane, lanes.line[line + CELL_PARTS] + coarse)


@inlined
def _show_text(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    value: int,
    memory: EventMemory,
    at: int,
    base: int,
    is_plain: bool,
) -> None:
    """The codes of a string, apart from that of its point."""
    attribute = base >> FACET_BITS
    string = batch.value_string[value]
    if _asks(lanes, base, _FOLDED):
        folded = np.float64(batch.folded_code[string])
        code = point_code(lanes.point, lanes.lane_of[base | _FOLDED], folded, STRING_MARK)
        _show_point(lanes, part_used, memory, at, base | _FOLDED, code, is_plain)
    if _asks(lanes, base, _STRING_CELL):
        texts = (lanes.spaces.string_start, lanes.spaces.string_text)
        start = lanes.spaces.string_cut_start[attribute]
        stop = lanes.spaces.string_cut_start[attribute + 1]
        bounds = (batch.string_start[string], batch.string_start[string + 1])
        cell = int(string_cell(texts, start, stop, batch.text, bounds))
        coarse = int(lanes.string_coarse[start + attribute + cell])
        _show(lanes, part_used, memory, at, base | _STRING_CELL, cell, coarse, is_plain)


@inlined
def _show_point(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    memory: EventMemory,
    at: int,
    dimension: int,
    code: int,
    is_plain: bool,
) -> None:
    """Show a code of points, and its hash."""
    _show(lanes, part_used, memory, at, dimension, code, code, is_plain)
    if is_plain:
        hashed = lanes.lane_of[dimension + HASHED - _POINT]
        if 0 < hashed < lanes.first[UNTESTED]:
            set_word(lanes, memory, at, hashed, hash_bit(code))


@inlined
def _show(
    lanes: LaneColumns,
    part_used: NDArray[np.uint64],
    memory: EventMemory,
    at: int,
    dimension: int,
    code: int,
    coarse: int,
    is_plain: bool,
) -> None:
    """Show a code, and enter the part of its coarser one if keys are made of it."""
    lane = int(lanes.lane_of[dimension])
    if is_plain:
        show_code(lanes, memory, at, lane, code)
    enter_part(part_used, memory, lane, lanes.part_start[lane] + coarse)
