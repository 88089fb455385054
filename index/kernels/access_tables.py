"""Multi-attribute hash tables: which conjunctions of equalities does an event satisfy?

    table a, b      a=1, b=2 -> access predicate 0      a=1, b=3 -> 1
    table a, b, c   a=1, b=2, c=5 -> 2

An event is looked up once in each table all of whose attributes it has a value for that some
predicate names (Fabret et al., section 3); where an attribute has several such values, because of
an array or of NOCASE, once for each combination. Values are known by their leaves, which the
predicate phase has found to hold, so a key is a hash of leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.hashing import hash_under, insert

ATTRIBUTES_MAX = 4
"""Attributes of one table: each more makes the table larger and its clusters hardly smaller."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_EMPTY = np.uint64(0)


class AccessTables(NamedTuple):
    """t tables and their g access predicates, over l leaves of a predicate phase."""

    schema: NDArray[np.int32]  # [t, ATTRIBUTES_MAX] attributes, ascending, then -1; or only -1
    leaf_attribute: NDArray[np.int32]  # [l] of an equality; -1 if it is in no access predicate
    slot: NDArray[np.uint64]  # [s] upper half of a key | access predicate + 1, 0 if empty
    access: NDArray[np.int32]  # [g, ATTRIBUTES_MAX] leaves by attribute, then -1
    table_of: NDArray[np.int32]  # [g] -1: of no table


class Equals(NamedTuple):
    """The equalities that the event at hand satisfies, by attribute. Memory of one thread."""

    stamp: NDArray[np.int32]  # [attributes] 1 + the last event that had any
    several: NDArray[np.int32]  # [attributes] how many
    first: NDArray[np.int32]  # [attributes] a leaf
    next: NDArray[np.int32]  # [l] another leaf of the same attribute, or -1
    chosen: NDArray[np.int32]  # [ATTRIBUTES_MAX] a leaf of each attribute of a table
    access: NDArray[np.int32]  # [g] access predicates that the event satisfies


def new_equals(tables: AccessTables, attribute_count: int) -> Equals:
    """Working memory for `satisfied_access`."""
    return Equals(
        np.zeros(attribute_count, np.int32),
        np.empty(attribute_count, np.int32),
        np.empty(attribute_count, np.int32),
        np.empty(tables.leaf_attribute.size, np.int32),
        np.empty(ATTRIBUTES_MAX, np.int32),
        np.empty(tables.table_of.size, np.int32),
    )


@inlined
def note_equal(tables: AccessTables, equals: Equals, leaf: int, stamp: int) -> None:
    """Let the event at hand satisfy a leaf; nothing happens unless tables ask for it."""
    attribute = tables.leaf_attribute[leaf]
    if attribute < 0:
        return
    if equals.stamp[attribute] != stamp:
        equals.stamp[attribute] = stamp
        equals.several[attribute] = 0
        equals.first[attribute] = -1
    equals.next[leaf] = equals.first[attribute]
    equals.first[attribute] = leaf
    equals.several[attribute] += 1


@inlined
def satisfied_access(
    tables: AccessTables, equals: Equals, held: NDArray[np.uint8], stamp: int
) -> int:
    """Fill equals.access with what the event satisfies; returns the number."""
    count = 0
    for table in range(tables.schema.shape[0]):
        width, combinations = 0, np.int64(1)
        while width < ATTRIBUTES_MAX and tables.schema[table, width] >= 0:
            attribute = tables.schema[table, width]
            if equals.stamp[attribute] != stamp:
                combinations = np.int64(0)
                break
            combinations *= np.int64(equals.several[attribute])
            equals.chosen[width] = equals.first[attribute]
            width += 1
        if width == 0 or combinations == 0:
            continue
        if combinations > tables.table_of.size:
            count = _test_all(tables, equals, held, table, count)
        else:
            count = _look_up(tables, equals, table, width, count)
    return count


@leaf
def _look_up(tables: AccessTables, equals: Equals, table: int, width: int, count: int) -> int:
    """Append the access predicates of all combinations of values; the first has been chosen."""
    while True:
        number = find_access(tables, table, equals.chosen, width)
        if number >= 0:
            equals.access[count] = number
            count += 1
        at = width - 1
        while at >= 0:
            equals.chosen[at] = equals.next[equals.chosen[at]]
            if equals.chosen[at] >= 0:
                break
            equals.chosen[at] = equals.first[tables.schema[table, at]]
            at -= 1
        if at < 0:
            return count


@leaf
def _test_all(
    tables: AccessTables, equals: Equals, held: NDArray[np.uint8], table: int, count: int
) -> int:
    """The same for long arrays, which have more combinations than there are access predicates."""
    for number in range(tables.table_of.size):
        if tables.table_of[number] == table:
            holds = True
            for at in range(ATTRIBUTES_MAX):
                leaf = tables.access[number, at]
                holds = holds and (leaf < 0 or held[leaf] != 0)
            if holds:
                equals.access[count] = number
                count += 1
    return count


@inlined
def access_key(table: int, leaves: NDArray[np.int32], width: int) -> np.uint64:
    """The hash of a table and of leaves, one of each of its attributes."""
    key = np.uint64(table + 1)
    for at in range(width):
        key = hash_under(key, leaves[at])
    return key


@inlined
def find_access(tables: AccessTables, table: int, leaves: NDArray[np.int32], width: int) -> int:
    """The access predicate of these leaves in a table, or -1."""
    slots = tables.slot
    key = access_key(table, leaves, width)
    mask = np.int64(slots.size - 1)
    place = np.int64(key & np.uint64(mask))
    while slots[place] != _EMPTY:
        if slots[place] >> _HALF == key >> _HALF:
            number = int(slots[place] & _LOW) - 1
            if is_access(tables, number, table, leaves, width):
                return number
        place = (place + 1) & mask
    return -1


@leaf
def fill_slots(tables: AccessTables) -> None:
    """File all access predicates; the slots are empty on entry, and at least twice as many."""
    for number in range(tables.table_of.size):
        if tables.table_of[number] >= 0:
            insert(tables.slot, _own_key(tables, number), number)


@leaf
def drop_access(tables: AccessTables, number: int) -> None:
    """Take an access predicate out of the slots; those behind it move up to fill the gap."""
    slots = tables.slot
    mask = np.int64(slots.size - 1)
    gap = np.int64(_own_key(tables, number) & np.uint64(mask))
    while np.int64(slots[gap] & _LOW) - 1 != number:
        gap = (gap + 1) & mask
    place = (gap + 1) & mask
    while slots[place] != _EMPTY:
        home = np.int64(_own_key(tables, int(slots[place] & _LOW) - 1) & np.uint64(mask))
        if (place - home) & mask >= (place - gap) & mask:
            slots[gap] = slots[place]
            gap = place
        place = (place + 1) & mask
    slots[gap] = _EMPTY


@leaf
def lost_access(tables: AccessTables, leaves: NDArray[np.int32]) -> int:
    """The first access predicate that is not found by its leaves, or -1; `leaves` is for work."""
    for number in range(tables.table_of.size):
        table = tables.table_of[number]
        if table < 0:
            continue
        width = 0
        while width < ATTRIBUTES_MAX and tables.access[number, width] >= 0:
            leaves[width] = tables.access[number, width]
            width += 1
        if find_access(tables, table, leaves, width) != number:
            return number
    return -1


@inlined
def _own_key(tables: AccessTables, number: int) -> np.uint64:
    """The key of an access predicate of a table."""
    key = np.uint64(tables.table_of[number] + 1)
    for at in range(ATTRIBUTES_MAX):
        if tables.access[number, at] >= 0:
            key = hash_under(key, tables.access[number, at])
    return key


@inlined
def is_access(
    tables: AccessTables, number: int, table: int, leaves: NDArray[np.int32], width: int
) -> bool:
    """Is this the access predicate of these leaves?"""
    same = tables.table_of[number] == table
    for at in range(width):
        same = same and tables.access[number, at] == leaves[at]
    return bool(same)
