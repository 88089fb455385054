"""The columns of a batch while it is decoded: what one event has is held, then filed in order.

A document names attributes in any order and may come back to one (arrays of objects do), so the
values of an event are held in the order of the document and filed by attribute when it ends.

    held      b: 7   a: 'x'   b: 8            touched   b (2 values)   a (1 value)
    filed     a: 'x'   b: 7, 8
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import ValueType
from index.kernels import inlined, leaf
from index.kernels.hashing import find_string, hash_bytes, insert

# Places in the array of counters.
ROW, STAMP, TOUCHED, HELD, ENTRIES, VALUES, STRINGS, LATE, LEAVES, ADDED, OBJECTS, KEYS = range(12)
COUNTER_COUNT = 12

# Fields of a touched attribute. After filing, COUNT is where its values end.
FLAGS, COUNT = range(2)
TOUCHED_FIELDS = 2
# Fields of a held value. A late number has the bounds of its token in RESIDUAL and STRING.
PLACE, TYPE, RESIDUAL, STRING = range(4)
HELD_FIELDS = 4

LATE_NUMBER = 0x80 | int(ValueType.NUMBER)
"""Held type of a number that Python must read."""

_NUMBER = int(ValueType.NUMBER)


class Held(NamedTuple):
    """What one event has, before it is filed; a = attributes, h = the most values of one event."""

    mark: NDArray[np.int64]  # [a] stamp of the event that touched it last << 32 | its place then
    order: NDArray[np.int64]  # [h] attribute << 32 | place of the touched, sorted at the end
    touched: NDArray[np.int64]  # [h, TOUCHED_FIELDS]
    value: NDArray[np.int64]  # [h, HELD_FIELDS]
    number: NDArray[np.float64]  # [h]


class Strings(NamedTuple):
    """The distinct strings of a batch, with room, and the table that finds them."""

    slot: NDArray[np.uint64]  # see kernels.hashing
    hash: NDArray[np.uint64]
    start: NDArray[np.int64]
    text: NDArray[np.uint8]


class Filed(NamedTuple):
    """The columns of `index.columns.EventBatch`, with room at their ends."""

    entry_start: NDArray[np.int32]
    entry_attribute: NDArray[np.int32]
    entry_flags: NDArray[np.uint8]
    value_start: NDArray[np.int32]
    value_type: NDArray[np.uint8]
    value_number: NDArray[np.float64]
    value_residual: NDArray[np.int16]
    value_string: NDArray[np.int32]
    late: NDArray[np.int64]  # [l, 3] value, start and stop of tokens that Python must read


@inlined
def begin_event(counters: NDArray[np.int64]) -> None:
    """Forget what is held; stamps of earlier events become void."""
    counters[STAMP] += 1
    for at in (TOUCHED, HELD, LEAVES, ADDED, OBJECTS, KEYS):
        counters[at] = 0


@inlined
def touch(held: Held, counters: NDArray[np.int64], attribute: int, flags: int) -> int:
    """Note that the event has something at an attribute; its place among the touched."""
    mark = held.mark[attribute]
    if mark >> 32 == counters[STAMP]:
        place = int(mark & 0xFFFFFFFF)
        held.touched[place, FLAGS] |= flags
        return place
    place = int(counters[TOUCHED])
    counters[TOUCHED] = place + 1
    held.mark[attribute] = counters[STAMP] << 32 | place
    held.order[place] = attribute << 32 | place
    held.touched[place, FLAGS] = flags
    held.touched[place, COUNT] = 0
    return place


@inlined
def hold(held: Held, counters: NDArray[np.int64], place: int, kind: int, string: int) -> int:
    """Hold a value of a touched attribute; where, so that a number can be put there."""
    at = int(counters[HELD])
    counters[HELD] = at + 1
    held.touched[place, COUNT] += 1
    held.value[at, PLACE] = place
    held.value[at, TYPE] = kind
    held.value[at, RESIDUAL] = 0
    held.value[at, STRING] = string
    held.number[at] = 0.0
    return at


@leaf
def file_event(held: Held, filed: Filed, counters: NDArray[np.int64]) -> None:
    """Append what is held to the columns as the entries of one event."""
    touched, held_value = held.touched, held.value
    touched_count = int(counters[TOUCHED])
    sort(held.order, touched_count)
    entry, value = int(counters[ENTRIES]), int(counters[VALUES])
    for rank in range(touched_count):
        key = held.order[rank]
        place = key & 0xFFFFFFFF
        filed.entry_attribute[entry] = key >> 32
        filed.entry_flags[entry] = touched[place, FLAGS]
        filed.value_start[entry] = value
        count = touched[place, COUNT]
        touched[place, COUNT] = value
        value += count
        entry += 1
    for at in range(counters[HELD]):
        place = held_value[at, PLACE]
        target = touched[place, COUNT]
        touched[place, COUNT] = target + 1
        kind = held_value[at, TYPE]
        late = kind == LATE_NUMBER
        if late:
            filed.late[counters[LATE], 0] = target
            filed.late[counters[LATE], 1] = held_value[at, RESIDUAL]
            filed.late[counters[LATE], 2] = held_value[at, STRING]
            counters[LATE] += 1
        filed.value_type[target] = _NUMBER if late else kind
        filed.value_number[target] = held.number[at]
        filed.value_residual[target] = 0 if late else held_value[at, RESIDUAL]
        filed.value_string[target] = -1 if late else held_value[at, STRING]
    filed.value_start[entry] = value
    counters[ENTRIES] = entry
    counters[VALUES] = value


@leaf
def sort(numbers: NDArray[np.int64], size: int) -> None:
    """Sort numbers[:size] in place: Shell's method, which for a few is insertion alone."""
    gap = 1
    while gap < size // 20:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            number = numbers[at]
            before = at - gap
            while before >= 0 and numbers[before] > number:
                numbers[before + gap] = numbers[before]
                before -= gap
            numbers[before + gap] = number
        gap //= 3


@leaf
def number_string(
    strings: Strings,
    counters: NDArray[np.int64],
    seed: np.uint64,
    data: NDArray[np.uint8],
    start: int,
    stop: int,
) -> int:
    """The number of the string data[start:stop] in the batch, which is given on first sight."""
    value = hash_bytes(data, start, stop, seed)
    known = (strings.start, strings.text)
    number = find_string(strings.slot, known, value, data, start, stop)
    if number < 0:
        number = int(counters[STRINGS])
        counters[STRINGS] = number + 1
        begin = strings.start[number]
        for at in range(stop - start):
            strings.text[begin + at] = data[start + at]
        strings.start[number + 1] = begin + stop - start
        strings.hash[number] = value
        insert(strings.slot, value, number)
    return number


@leaf
def file_strings(strings: Strings, count: int) -> None:
    """Fill a new table with the strings numbered so far."""
    for number in range(count):
        insert(strings.slot, strings.hash[number], number)
