"""An event's predicate spaces: the space in which each of its values lies, as parts of keys.

Only dimensions that some key or signature is made of are looked at, and a space that is part of no
key is dropped by a bit filter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels import inlined
from index.kernels.cells import number_cell, string_cell
from index.kernels.filing import Dimensions, point_part
from index.kernels.keys import has_bit, part_of
from index.kernels.scratch import Scratch, new_scratch
from index.kernels.signature import Signed, cell_code, point_code
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK
from index.spaces import FACET_BITS, Facet, SpaceColumns

COUNTS = 5
PROBES, CANDIDATES, VERIFIED, HITS, TOUCHED = range(COUNTS)
"""Places in `Memory.counts`."""

_PRESENT, _EXISTS = int(Facet.PRESENT), int(Facet.EXISTS)
_POINT, _FOLDED = int(Facet.POINT), int(Facet.FOLDED)
_NUMBER_CELL, _STRING_CELL = int(Facet.NUMBER_CELL), int(Facet.STRING_CELL)
_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)


class KeyColumns(NamedTuple):
    """Rows by key, and the filters in front of them."""

    spaces: SpaceColumns
    dimensions: Dimensions
    key_filter: NDArray[np.uint64]
    table: NDArray[np.uint64]  # [slots, 2] see index.kernels.keys
    bucket_row: NDArray[np.int32]
    residue: NDArray[np.int32]  # rows without key, tried on every event
    signed: Signed


class EventSpaces(NamedTuple):
    """What an event's values are looked up in, for methods that keep their rows otherwise."""

    spaces: SpaceColumns
    dimensions: Dimensions  # only `asked` and `part_filter` count
    signed: Signed


Divisions = KeyColumns | EventSpaces


class Memory(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    dimension: NDArray[np.int64]  # spaces of the event at hand
    part: NDArray[np.uint64]
    stamp: NDArray[np.int32]  # [rows] 1 + the last event of which the row was a candidate
    candidate: NDArray[np.int32]  # [rows]
    event_mask: NDArray[np.uint64]  # [slots] see index.kernels.signature; slot 0 has all codes
    touched: NDArray[np.int32]  # slots that the event at hand has codes in
    counts: NDArray[np.int64]  # keys looked for, candidates, verified, hits; slots touched


def new_memory(
    batch: EventBatch, attribute_count: int, row_count: int, event_mask: NDArray[np.uint64]
) -> Memory:
    """Memory for the events of a batch and rows below `row_count`."""
    value_at = batch.value_start[batch.entry_start]
    part_count = int((2 * np.diff(batch.entry_start) + 3 * np.diff(value_at)).max(initial=0))
    return Memory(
        new_scratch(attribute_count),
        np.empty(part_count, np.int64),
        np.empty(part_count, np.uint64),
        np.zeros(row_count, np.int32),
        np.empty(row_count, np.int32),
        event_mask,
        np.empty(part_count, np.int32),
        np.zeros(COUNTS, np.int64),
    )


@inlined
def event_parts(keys: Divisions, batch: EventBatch, event: int, memory: Memory) -> int:
    """Fill memory.dimension and memory.part, attributes ascending; returns the number of spaces."""
    count = 0
    dimensions = keys.dimensions
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        if attribute >= dimensions.asked.size:
            continue
        facets = dimensions.asked[attribute]
        if facets == 0:
            continue
        base = attribute << FACET_BITS
        if facets >> _EXISTS & 1:
            count = _push_whole(keys, memory, count, base | _EXISTS)
        if batch.entry_flags[entry] & PRESENT == 0:
            continue
        if facets >> _PRESENT & 1:
            count = _push_whole(keys, memory, count, base | _PRESENT)
        for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
            count = _value_parts(keys, batch, value, facets, attribute, memory, count)
    return count


@inlined
def _value_parts(
    keys: Divisions,
    batch: EventBatch,
    value: int,
    facets: int,
    attribute: int,
    memory: Memory,
    count: int,
) -> int:
    """Append the spaces in which one value lies."""
    value_type = batch.value_type[value]
    base = attribute << FACET_BITS
    point = base | _POINT
    number = batch.value_number[value]
    if value_type == _STRING:
        string = batch.value_string[value]
        code = batch.string_code[string]
        if facets >> _POINT & 1 and code >= 0:
            part = point_part(point, np.float64(code), STRING_MARK)
            count = _push_point(keys, memory, count, point, part)
        if facets >> _FOLDED & 1:
            code = batch.folded_code[string]
            if code >= 0:
                part = point_part(base | _FOLDED, np.float64(code), STRING_MARK)
                count = _push_point(keys, memory, count, base | _FOLDED, part)
        if facets >> _STRING_CELL & 1:
            dimension = base | _STRING_CELL
            cell = _string_cell(keys.spaces, batch, attribute, string)
            count = _push_cell(keys, memory, count, dimension, cell)
    elif value_type == _NUMBER:
        residual = int(batch.value_residual[value])
        if facets >> _POINT & 1:
            part = point_part(point, number, residual)
            count = _push_point(keys, memory, count, point, part)
        if facets >> _NUMBER_CELL & 1:
            dimension = base | _NUMBER_CELL
            cell = _number_cell(keys.spaces, attribute, number, residual)
            count = _push_cell(keys, memory, count, dimension, cell)
    elif facets >> _POINT & 1:
        if value_type == _BOOLEAN:
            part = point_part(point, number, BOOLEAN_MARK)
            count = _push_point(keys, memory, count, point, part)
        elif value_type == _NULL:
            part = point_part(point, 0.0, NO_MARK)
            count = _push_point(keys, memory, count, point, part)
    return count


@inlined
def _push_point(
    keys: Divisions, memory: Memory, count: int, dimension: int, part: np.uint64
) -> int:
    """Append a point space."""
    _set_code(keys.signed, memory, dimension, point_code(part))
    return _push(keys, memory, count, dimension, part)


@inlined
def _push_cell(keys: Divisions, memory: Memory, count: int, dimension: int, cell: int) -> int:
    """Append a cell."""
    _set_code(keys.signed, memory, dimension, cell_code(keys.spaces, dimension, cell))
    return _push(keys, memory, count, dimension, part_of(dimension, np.uint64(cell)))


@inlined
def _push_whole(keys: Divisions, memory: Memory, count: int, dimension: int) -> int:
    """Append the only space of a dimension."""
    _set_code(keys.signed, memory, dimension, np.uint64(0))
    return _push(keys, memory, count, dimension, part_of(dimension, np.uint64(0)))


@inlined
def _set_code(signed: Signed, memory: Memory, dimension: int, code: np.uint64) -> None:
    """Let the event have a code of a dimension, if rows ask for it."""
    slot = signed.slot_of[dimension]
    if slot == 0:
        return
    if memory.event_mask[slot] == np.uint64(0):
        memory.touched[memory.counts[TOUCHED]] = slot
        memory.counts[TOUCHED] += 1
    memory.event_mask[slot] |= np.uint64(1) << code


@inlined
def _push(keys: Divisions, memory: Memory, count: int, dimension: int, part: np.uint64) -> int:
    """Append a space unless it is part of no key."""
    if not has_bit(keys.dimensions.part_filter, part):
        return count
    memory.dimension[count] = dimension
    memory.part[count] = part
    return count + 1


@inlined
def _number_cell(spaces: SpaceColumns, attribute: int, double: float, residual: int) -> int:
    cuts = (spaces.number_cut_double, spaces.number_cut_residual)
    start, stop = spaces.number_cut_start[attribute], spaces.number_cut_start[attribute + 1]
    return number_cell(cuts, start, stop, double, residual)


@inlined
def _string_cell(spaces: SpaceColumns, batch: EventBatch, attribute: int, string: int) -> int:
    cuts = (spaces.string_start, spaces.string_text)
    start, stop = spaces.string_cut_start[attribute], spaces.string_cut_start[attribute + 1]
    bounds = (batch.string_start[string], batch.string_start[string + 1])
    return string_cell(cuts, start, stop, batch.text, bounds)


@inlined
def forget_codes(memory: Memory) -> None:
    """Make the event mask empty again."""
    for place in range(memory.counts[TOUCHED]):
        memory.event_mask[memory.touched[place]] = np.uint64(0)
    memory.counts[TOUCHED] = 0
