"""Probing: the candidates of an event by way of its predicate spaces, and which of them match.

    spaces of an event's values -> keys of one and of two spaces -> rows -> signatures -> verify

Most keys that an event could have are nobody's. Three bit filters, each smaller than the next, let
them go early: spaces that are part of no key, pairs of dimensions that no subscription combines,
keys that are not in the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.cells import number_cell, string_cell
from index.kernels.filing import Dimensions, dimension_pair, point_part
from index.kernels.keys import find_bucket, has_bit, pair_of, part_of
from index.kernels.prefetch import prefetch
from index.kernels.signature import (
    SIGNATURE_WORDS,
    Signed,
    cell_code,
    may_match,
    point_code,
)
from index.kernels.verify import NO, Scratch, enter_event, holds, leave_event
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK, PredicateColumns
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS, Facet, SpaceColumns

VERDICT_BITS = 2
"""A hit is row << VERDICT_BITS | verdict, with the verdict of `index.kernels.verify`."""

_PROGRAMS_AHEAD, _PREDICATES_AHEAD = 8, 4
_PREFETCHED_LEAVES = 8
COUNTS = 5
_PROBES, _CANDIDATES, _VERIFIED, _HITS, _TOUCHED = range(COUNTS)
_FACET_MASK = (1 << FACET_BITS) - 1
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


class Compiled(NamedTuple):
    """What verification reads."""

    programs: Programs
    predicates: PredicateColumns


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


class Hits(NamedTuple):
    """Hits of the events so far; those of event e are hit[start[e]:start[e+1]], in any order."""

    start: NDArray[np.int64]  # [n+1]
    hit: NDArray[np.int64]


@leaf
def match_events(
    keys: KeyColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: Memory,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose candidates may not
    fit into `hits` any more, and how many more hits must fit before it is tried again.
    """
    for event in range(first_event, batch.entry_start.size - 1):
        part_count = _event_parts(keys, batch, event, memory)
        candidate_count = _probe(keys, memory, event, part_count)
        hit_count = hits.start[event]
        if hit_count + candidate_count + keys.residue.size > hits.hit.size:
            for place in range(candidate_count):
                memory.stamp[memory.candidate[place]] = 0
            _forget_codes(memory)
            return event, candidate_count + keys.residue.size
        left_count = _rule_out(keys, compiled, memory, candidate_count)
        _forget_codes(memory)
        tried_count = left_count + keys.residue.size
        enter_event(batch, event, memory.scratch.entry_of)
        for place in range(tried_count):
            _prefetch_ahead(compiled, memory, place, left_count)
            row = (
                keys.residue[place - left_count] if place >= left_count else memory.candidate[place]
            )
            verdict = holds(compiled.programs, compiled.predicates, batch, memory.scratch, row)
            if verdict != NO:
                hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | verdict
                hit_count += 1
        leave_event(batch, event, memory.scratch.entry_of)
        memory.counts[_CANDIDATES] += candidate_count + keys.residue.size
        memory.counts[_VERIFIED] += tried_count
        memory.counts[_HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _rule_out(keys: KeyColumns, compiled: Compiled, memory: Memory, candidate_count: int) -> int:
    """Keep the candidates whose signature lets them match; returns how many are left."""
    left_count = 0
    for place in range(candidate_count):
        row = memory.candidate[place]
        if may_match(keys.signed, memory.event_mask, row):
            prefetch(compiled.programs.start, row)
            memory.candidate[left_count] = row
            left_count += 1
    return left_count


@inlined
def _prefetch_ahead(compiled: Compiled, memory: Memory, place: int, left_count: int) -> None:
    """Ask for the program of the candidate after next but six, and for the predicates of the next
    but two, whose program has arrived by now.
    """
    start, code = compiled.programs.start, compiled.programs.code
    if place + _PROGRAMS_AHEAD < left_count:
        prefetch(code, start[memory.candidate[place + _PROGRAMS_AHEAD]])
    if place + _PREDICATES_AHEAD < left_count:
        row = memory.candidate[place + _PREDICATES_AHEAD]
        for at in range(start[row], min(start[row] + _PREFETCHED_LEAVES, start[row + 1])):
            prefetch(compiled.predicates.record, code[at] >> POLARITY_BITS)


@inlined
def _forget_codes(memory: Memory) -> None:
    """Make the event mask empty again."""
    for place in range(memory.counts[_TOUCHED]):
        memory.event_mask[memory.touched[place]] = np.uint64(0)
    memory.counts[_TOUCHED] = 0


@inlined
def _event_parts(keys: KeyColumns, batch: EventBatch, event: int, memory: Memory) -> int:
    """Fill memory.dimension and memory.part, attributes ascending; returns the number of spaces."""
    count = 0
    dimensions = keys.dimensions
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        if attribute >= dimensions.single.size:
            continue
        facets = dimensions.single[attribute] | dimensions.paired[attribute]
        facets |= keys.signed.facets[attribute]
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
    keys: KeyColumns,
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
    keys: KeyColumns, memory: Memory, count: int, dimension: int, part: np.uint64
) -> int:
    """Append a point space."""
    _set_code(keys.signed, memory, dimension, point_code(part))
    return _push(keys, memory, count, dimension, part)


@inlined
def _push_cell(keys: KeyColumns, memory: Memory, count: int, dimension: int, cell: int) -> int:
    """Append a cell."""
    _set_code(keys.signed, memory, dimension, cell_code(keys.spaces, dimension, cell))
    return _push(keys, memory, count, dimension, part_of(dimension, np.uint64(cell)))


@inlined
def _push_whole(keys: KeyColumns, memory: Memory, count: int, dimension: int) -> int:
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
        memory.touched[memory.counts[_TOUCHED]] = slot
        memory.counts[_TOUCHED] += 1
    memory.event_mask[slot] |= np.uint64(1) << code


@inlined
def _push(keys: KeyColumns, memory: Memory, count: int, dimension: int, part: np.uint64) -> int:
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
def _probe(keys: KeyColumns, memory: Memory, event: int, part_count: int) -> int:
    """Fill memory.candidate with the rows under the event's keys, each once; returns the number."""
    count = 0
    single, paired = keys.dimensions.single, keys.dimensions.paired
    pair_filter = keys.dimensions.pair_filter
    pairable = 0
    for one in range(part_count):
        dimension, part = memory.dimension[one], memory.part[one]
        attribute, facet = dimension >> FACET_BITS, dimension & _FACET_MASK
        if single[attribute] >> facet & 1:
            memory.counts[_PROBES] += 1
            count = _collect(keys, memory, event, part, count)
        if paired[attribute] >> facet & 1:
            for other in range(pairable):
                earlier = memory.dimension[other]
                if earlier >> FACET_BITS == attribute:
                    break
                if has_bit(pair_filter, dimension_pair(earlier, dimension)):
                    memory.counts[_PROBES] += 1
                    key = pair_of(memory.part[other], part)
                    count = _collect(keys, memory, event, key, count)
            memory.dimension[pairable], memory.part[pairable] = dimension, part
            pairable += 1
    return count


@inlined
def _collect(keys: KeyColumns, memory: Memory, event: int, key: np.uint64, count: int) -> int:
    """Append the rows of a key that are not yet candidates of the event."""
    if not has_bit(keys.key_filter, key):
        return count
    start, stop = find_bucket(keys.table, key)
    for at in range(start, stop):
        row = keys.bucket_row[at]
        if memory.stamp[row] != event + 1:
            place = (row - keys.signed.first_row[0]) * SIGNATURE_WORDS
            prefetch(keys.signed.signature, place)
            memory.stamp[row] = event + 1
            memory.candidate[count] = row
            count += 1
    return count
