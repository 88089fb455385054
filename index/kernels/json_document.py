"""One pass over the bytes of each event: grammar checked, and entries along the trie of names.

Every byte is checked, but only what the vocabulary names is kept. A stack of levels says where the
reader stands; level 0, or that of the prefix, stands for what surrounds the document.

    {"legs": [{"to": "SFO"     level 1 object at node 0     level 2 array at node 1 (legs)
                               level 3 object at node 1     'SFO' is held at node 2 (legs.to)

The reader never refuses an event. It reads on as long as all is plain, and otherwise gives the
event up, without saying why, to the plain decoder, which refuses or decodes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import ARRAY, PRESENT, ValueType
from index.kernels import inlined
from index.kernels.batch import (
    ADDED,
    KEYS,
    LATE_NUMBER,
    LEAVES,
    OBJECTS,
    RESIDUAL,
    STAMP,
    STRING,
    TYPE,
    Held,
    Strings,
    hold,
    number_string,
    touch,
)
from index.kernels.hashing import ATTRIBUTE, find_child, hash_bytes, hash_under
from index.kernels.json_number import LATE as LATE_STATUS
from index.kernels.json_number import scan_number
from index.kernels.json_text import BAD, QUOTE, is_literal, skip_space, text_between_quotes

if TYPE_CHECKING:
    from index.vocabulary import VocabularyColumns

ALONE, PLACED, LIFTED, PLAIN = 0, 1, 2, 3
"""What a payload is: the event; a part of it at the prefix; members of the root beside the context;
or something that only the plain decoder reads."""

_KIND, _NODE, _THROUGH, _ADDED, _SERIAL = range(5)
LEVEL_FIELDS = 5
_OBJECT, _ARRAY = 0x7B, 0x5B  # the opening bytes; the closing ones are two more
_OUTSIDE = 0

_NULL, _BOOLEAN, _NUMBER = int(ValueType.NULL), int(ValueType.BOOLEAN), int(ValueType.NUMBER)
_STRING, _OBJECT_VALUE = int(ValueType.STRING), int(ValueType.OBJECT)


class Source(NamedTuple):
    """Payloads of n events as kernels see them, with the context attributes that the trie knows.

    `data` holds all payloads, then all context values, then room where one string at a time is
    written without its escapes.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]  # [n+1] payload e is data[offsets[e]:offsets[e + 1]]
    mode: NDArray[np.uint8]  # [n] ALONE | PLACED | LIFTED | PLAIN
    context_start: NDArray[np.int64]  # [n+1] context attributes of event e
    context: NDArray[np.int64]  # [c, 3] trie node below the root, start and stop of the value
    prefix_node: NDArray[np.int64]  # the trie's nodes along the prefix, -1 from where it ends
    room_start: int  # where a string without its escapes is written
    bytes_max: int
    depth_max: int
    values_max: int


class Workspace(NamedTuple):
    """What the reader of one event writes to."""

    counters: NDArray[np.int64]
    held: Held
    strings: Strings
    level: NDArray[np.int64]  # [depth_max + 2, LEVEL_FIELDS]
    keys: NDArray[np.uint64]  # [slots, 2] hash and stamp of the event's keys, to find a second one
    node_stamp: NDArray[np.int64]  # [nodes] the event that has this root member as context


@inlined
def read_document(source: Source, vocabulary: VocabularyColumns, work: Workspace, row: int) -> bool:
    """Read one JSON value and nothing after it; an object unless it is placed somewhere."""
    data, level = source.data, work.level
    stop = int(source.offsets[row + 1])
    placed = source.mode[row] == PLACED
    bottom = source.prefix_node.size if placed else 0
    level[bottom, _KIND] = _OUTSIDE
    level[bottom, _NODE] = int(source.prefix_node[bottom - 1]) if placed else 0
    level[bottom, _THROUGH] = 0
    depth = bottom
    position = skip_space(data, int(source.offsets[row]), stop)
    if position == stop or (not placed and data[position] != _OBJECT):
        return False
    while True:
        # A member or an element begins at `position`.
        node = int(level[depth, _NODE])
        if level[depth, _KIND] == _OBJECT:
            position, node = _read_key(source, vocabulary, work, depth, (position, stop))
        if position >= stop:
            return False
        byte = data[position]
        attribute = attribute_of(vocabulary, node)
        if byte == _OBJECT or byte == _ARRAY:
            depth += 1
            if depth > source.depth_max:
                return False
            _open(work, depth, node, attribute, byte)
            position = skip_space(data, position + 1, stop)
            if position < stop and data[position] != byte + 2:
                continue
        else:
            flags = PRESENT | level[depth, _THROUGH]
            place = touch(work.held, work.counters, attribute, flags) if attribute >= 0 else -1
            position = _read_scalar(source, vocabulary.seed, work, place, (position, stop))
            if work.counters[LEAVES] > source.values_max:
                return False
        # It ended before `position`, or an empty container is about to.
        while True:
            if position < 0:
                return False
            position = skip_space(data, position, stop)
            if depth == bottom or position >= stop:
                return depth == bottom and position == stop
            byte = data[position]
            position += 1
            kind = level[depth, _KIND]
            if byte == 0x2C:
                position = skip_space(data, position, stop)
                break
            if byte != kind + 2:
                return False
            if kind == _OBJECT:
                _close_object(vocabulary, work, depth)
            depth -= 1


@inlined
def attribute_of(vocabulary: VocabularyColumns, node: int) -> int:
    """The attribute that ends at a node, or -1; one that was interned later has no place here."""
    if node < 0:
        return -1
    attribute = int(vocabulary.node[node, ATTRIBUTE])
    return attribute if attribute < vocabulary.attribute_count else -1


@inlined
def _open(work: Workspace, depth: int, node: int, attribute: int, byte: int) -> None:
    """Enter an object or array that belongs to `node`, where `attribute` ends if one does."""
    level, counters = work.level, work.counters
    level[depth, _KIND] = byte
    level[depth, _NODE] = node
    if byte == _ARRAY:
        level[depth, _THROUGH] = ARRAY
        counters[ADDED] += 1
        if attribute >= 0:
            touch(work.held, counters, attribute, PRESENT | ARRAY)
        return
    level[depth, _THROUGH] = level[depth - 1, _THROUGH]
    level[depth, _ADDED] = counters[ADDED]
    level[depth, _SERIAL] = counters[OBJECTS]
    counters[OBJECTS] += 1
    if attribute >= 0 and level[depth - 1, _KIND] == _ARRAY:
        place = touch(work.held, counters, attribute, PRESENT | ARRAY)
        hold(work.held, counters, place, _OBJECT_VALUE, -1)


@inlined
def _close_object(vocabulary: VocabularyColumns, work: Workspace, depth: int) -> None:
    """Leave an object: what it belongs to exists if something inside added an attribute."""
    level = work.level
    attribute = attribute_of(vocabulary, level[depth, _NODE])
    if attribute >= 0 and work.counters[ADDED] != level[depth, _ADDED]:
        touch(work.held, work.counters, attribute, 0)


@inlined
def _read_key(
    source: Source,
    vocabulary: VocabularyColumns,
    work: Workspace,
    depth: int,
    bounds: tuple[int, int],
) -> tuple[int, int]:
    """From a key to the value behind its colon: (position or the stop if it is not plain, node)."""
    data = source.data
    position, stop = bounds
    if position >= stop or data[position] != QUOTE:
        return stop, -1
    start, end, behind = text_between_quotes(data, position + 1, stop, source.room_start)
    if behind < 0:
        return stop, -1
    value = hash_bytes(data, start, end, vocabulary.seed)
    if not _is_new_key(work, hash_under(value, work.level[depth, _SERIAL])):
        return stop, -1
    node = find_child(vocabulary, work.level[depth, _NODE], value, data, start, end)
    if depth == 1 and node >= 0 and work.node_stamp[node] == work.counters[STAMP]:
        node = -1  # the context has this attribute, and takes precedence
    position = skip_space(data, behind, stop)
    if position >= stop or data[position] != 0x3A:
        return stop, -1
    return skip_space(data, position + 1, stop), node


@inlined
def _is_new_key(work: Workspace, value: np.uint64) -> bool:
    """File a key of the event; False if its hash is there already, or the table is half full."""
    counters, keys = work.counters, work.keys
    slot_count = keys.shape[0]
    counters[KEYS] += 1
    if 2 * counters[KEYS] > slot_count:
        return False
    stamp = np.uint64(counters[STAMP])
    place = int(np.int64(value & np.uint64(slot_count - 1)))
    while keys[place, 1] == stamp:
        if keys[place, 0] == value:
            return False
        place = (place + 1) & (slot_count - 1)
    keys[place, 0] = value
    keys[place, 1] = stamp
    return True


@inlined
def _read_scalar(
    source: Source, seed: np.uint64, work: Workspace, place: int, bounds: tuple[int, int]
) -> int:
    """Read a string, number or literal, and hold it if it has a place; the position behind it."""
    data, counters = source.data, work.counters
    position, stop = bounds
    counters[LEAVES] += 1
    counters[ADDED] += 1
    byte = data[position]
    if byte == QUOTE:
        start, end, behind = text_between_quotes(data, position + 1, stop, source.room_start)
        if behind >= 0 and place >= 0:
            string = number_string(work.strings, counters, seed, data, start, end)
            hold(work.held, counters, place, _STRING, string)
        return behind
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        return _read_number(data, work, place, bounds)
    size = 5 if byte == 0x66 else 4
    if position + size > stop or not is_literal(data, position):
        return BAD
    if place >= 0:
        at = hold(work.held, counters, place, _NULL if byte == 0x6E else _BOOLEAN, -1)
        work.held.number[at] = byte == 0x74
    return position + size


@inlined
def _read_number(
    data: NDArray[np.uint8], work: Workspace, place: int, bounds: tuple[int, int]
) -> int:
    position, stop = bounds
    end, status, double, residual = scan_number(data, position, stop)
    if status < 0:
        return BAD
    if place >= 0:
        value, at = work.held.value, hold(work.held, work.counters, place, _NUMBER, -1)
        work.held.number[at] = double
        value[at, RESIDUAL] = residual
        if status == LATE_STATUS:
            value[at, TYPE] = LATE_NUMBER
            value[at, RESIDUAL] = position
            value[at, STRING] = end
    return end
