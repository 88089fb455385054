"""Choosing access predicates for rows that come and go, by the shares that events have shown.

    share of a leaf               (events it held of + guess * PRIOR_EVENTS)
                                  / (events + PRIOR_EVENTS)
    share of an access predicate  the same, where the guess is the product over its leaves

A row is filed under the access predicate of the least share, among the single equalities of the row
and the tables whose schemas it has (Fabret et al., section 4). What it would gain from tables that
do not exist is counted by schema.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.access import VALUES_UNSEEN
from index.hash_configuration import EQUALITIES_MAX
from index.kernels import inlined, leaf
from index.kernels.access_tables import ATTRIBUTES_MAX, find_access
from index.kernels.growing_clusters import (
    AT,
    CLUSTER,
    HELD,
    LINE_BITS,
    LIVE,
    MOVED,
    NO_ACCESS,
    OWNER,
    PLACES,
    PRIOR,
    ROW,
    USE,
    GrowingColumns,
    RowMemory,
    access_of,
    gather_leaves,
    has_room,
    put_row,
    take_out_row,
)
from index.kernels.hashing import hash_under

PRIOR_EVENTS = 64
"""A guess weighs as much as so many events."""
SORTED_MAX = 64
"""The leaves of longer rows are not sorted by share."""
GAIN_MIN = 0.999
"""A row moves only if its share is below so much of what it is: estimates waver."""

_EMPTY = np.uint64(0)


class Asked(NamedTuple):
    """The distinct leaves of rows to file."""

    row: NDArray[np.int32]  # [n] ascending
    start: NDArray[np.int64]  # [n+1] leaves of the i-th row are leaf[start[i]:start[i+1]]
    leaf: NDArray[np.int32]


class Potential(NamedTuple):
    """Schemas that have no table, and what one would save. Open addressing, by hash of schema."""

    key: NDArray[np.uint64]  # [s] 0 if empty
    schema: NDArray[np.int32]  # [s, ATTRIBUTES_MAX] attributes, ascending, then -1
    benefit: NDArray[np.float64]  # [s] checks an event


@inlined
def leaf_share(columns: GrowingColumns, number: int) -> float:
    """The share of events that a leaf is expected to hold of."""
    guess = float(columns.share[number, PRIOR])
    if np.isnan(guess):
        attribute = columns.tables.leaf_attribute[number]
        guess = 1.0 / (columns.value_count[attribute] + VALUES_UNSEEN)
    held = columns.share[number, HELD] + PRIOR_EVENTS * guess
    return float(held / (columns.event_count[0] + PRIOR_EVENTS))


@leaf
def predicate_share(columns: GrowingColumns, number: int) -> float:
    """The share of events that are expected to satisfy an access predicate."""
    guess, width = 1.0, 0
    for at in range(ATTRIBUTES_MAX):
        if columns.tables.access[number, at] >= 0:
            guess *= leaf_share(columns, columns.tables.access[number, at])
            width += 1
    if width < 2:
        return guess
    satisfied = columns.satisfied[number] + PRIOR_EVENTS * guess
    return float(satisfied / (columns.event_count[0] + PRIOR_EVENTS))


@leaf
def list_shares(
    columns: GrowingColumns,
    of_leaf: NDArray[np.float64],
    of_predicate: NDArray[np.float64],
) -> None:
    """Fill in the shares of all leaves, and of all access predicates; free ones have any."""
    for number in range(of_leaf.size):
        of_leaf[number] = leaf_share(columns, number)
    for number in range(of_predicate.size):
        of_predicate[number] = predicate_share(columns, number)


@leaf
def file_rows(columns: GrowingColumns, asked: Asked, memory: RowMemory, first: int) -> int:
    """File rows from `first` on; returns the first that there may be no room for."""
    for at in range(first, asked.row.size):
        start, stop = asked.start[at], asked.start[at + 1]
        if not has_room(columns, stop - start):
            return at
        place = int(columns.counter[PLACES])
        columns.counter[PLACES] += 1
        columns.counter[LIVE] += 1
        columns.place[place, ROW] = asked.row[at]
        for number in range(start, stop):
            memory.leaf[number - start] = asked.leaf[number]
            columns.leaf[asked.leaf[number], USE] += 1
        _file(columns, memory, stop - start, place)
    return asked.row.size


@leaf
def take_out_rows(columns: GrowingColumns, places: NDArray[np.int64], memory: RowMemory) -> None:
    """Let rows go, and what they alone asked for."""
    for place in places:
        count = gather_leaves(columns, place, memory)
        for at in range(count):
            columns.leaf[memory.leaf[at], USE] -= 1
        take_out_row(columns, place)
        columns.counter[LIVE] -= 1


@leaf
def distribute(
    columns: GrowingColumns, places: NDArray[np.int64], memory: RowMemory, first: int
) -> int:
    """Move rows, from places[first] on, to better access predicates if there are any.

    Rows of a table without schema move in any case. Returns the first that there may be no room
    for.
    """
    for at in range(first, places.size):
        place = places[at]
        count = gather_leaves(columns, place, memory)
        if not has_room(columns, count):
            return at
        number = owner_of(columns, place)
        table = columns.tables.table_of[number]
        current = predicate_share(columns, number)
        if table >= 0 and columns.tables.schema[table, 0] < 0:
            current = np.inf
        equal_count = _study(columns, memory, count)
        choice = _choose(columns, memory, equal_count)
        if choice[2] < GAIN_MIN * current:
            take_out_row(columns, place)
            _put(columns, memory, count, place, choice)
            columns.counter[MOVED] += 1
    return places.size


@leaf
def copy_rows(
    source: GrowingColumns,
    columns: GrowingColumns,
    number_of: NDArray[np.int32],
    memory: RowMemory,
    first: int,
) -> int:
    """File the rows of `source` from place `first` on, leaves renumbered; returns the first that
    there may be no room for.
    """
    for old in range(first, source.counter[PLACES]):
        if source.place[old, AT] < 0:
            continue
        count = gather_leaves(source, old, memory)
        if not has_room(columns, count):
            return old
        place = int(columns.counter[PLACES])
        columns.counter[PLACES] += 1
        columns.counter[LIVE] += 1
        columns.place[place, ROW] = source.place[old, ROW]
        for at in range(count):
            memory.leaf[at] = number_of[memory.leaf[at]]
            columns.leaf[memory.leaf[at], USE] += 1
        _file(columns, memory, count, place)
    return int(source.counter[PLACES])


@inlined
def owner_of(columns: GrowingColumns, place: int) -> int:
    """The access predicate that a row is filed under."""
    block = columns.place[place, AT] >> LINE_BITS
    return int(columns.cluster[columns.block[block, CLUSTER], OWNER])


@leaf
def _file(columns: GrowingColumns, memory: RowMemory, count: int, place: int) -> None:
    """File a row of memory.leaf[:count] where it is checked least."""
    equal_count = _study(columns, memory, count)
    _put(columns, memory, count, place, _choose(columns, memory, equal_count))


@leaf
def _put(
    columns: GrowingColumns,
    memory: RowMemory,
    count: int,
    place: int,
    choice: tuple[int, int, float],
) -> None:
    """File a row of memory.leaf[:count] under the access predicate of memory.chosen."""
    table, width, share = choice
    number = access_of(columns, table, memory.chosen, width)
    if np.isnan(columns.satisfied[number]):
        columns.satisfied[number] = share * columns.event_count[0]
    put_row(columns, number, memory.leaf, count, place)


@leaf
def _study(columns: GrowingColumns, memory: RowMemory, count: int) -> int:
    """Sort memory.leaf[:count] by share, and pick the rarest equalities, one an attribute.

    Returns the number of equalities.
    """
    for at in range(count):
        number, share = memory.leaf[at], leaf_share(columns, memory.leaf[at])
        before = at
        while count <= SORTED_MAX and before > 0 and memory.share[before - 1] > share:
            memory.share[before], memory.leaf[before] = (
                memory.share[before - 1],
                memory.leaf[before - 1],
            )
            before -= 1
        memory.share[before], memory.leaf[before] = share, number
    equal_count = 0
    for at in range(count):
        attribute = columns.tables.leaf_attribute[memory.leaf[at]]
        is_new = attribute >= 0
        for other in range(equal_count):
            is_new = is_new and memory.attribute[other] != attribute
        if is_new and equal_count < EQUALITIES_MAX:
            memory.attribute[equal_count] = attribute
            memory.equal[equal_count] = memory.leaf[at]
            memory.equal_share[equal_count] = memory.share[at]
            equal_count += 1
    return equal_count


@leaf
def _choose(columns: GrowingColumns, memory: RowMemory, equal_count: int) -> tuple[int, int, float]:
    """Fill memory.chosen with the leaves of the best access predicate.

    Returns its table (-1 for a leaf alone), its number of attributes, and its share.
    """
    if equal_count == 0:
        return -1, 0, 1.0
    best, best_width, best_share = -1, 1, memory.equal_share[0]
    memory.chosen[0] = memory.equal[0]
    for at in range(1, equal_count):
        if memory.equal_share[at] < best_share:
            best_share, memory.chosen[0] = memory.equal_share[at], memory.equal[at]
    schema = columns.tables.schema
    for table in range(schema.shape[0]):
        width, share = 0, 1.0
        while width < ATTRIBUTES_MAX and schema[table, width] >= 0:
            found = -1
            for at in range(equal_count):
                if memory.attribute[at] == schema[table, width]:
                    found = at
            if found < 0:
                width = 0
                break
            memory.tried[width] = memory.equal[found]
            share *= memory.equal_share[found]
            width += 1
        if width == 0:
            continue
        number = find_access(columns.tables, table, memory.tried, width)
        if number >= 0:
            share = predicate_share(columns, number)
        if share < best_share:
            best, best_width, best_share = table, width, share
            for at in range(width):
                memory.chosen[at] = memory.tried[at]
    return best, best_width, best_share


@leaf
def count_benefits(
    columns: GrowingColumns,
    places: NDArray[np.int64],
    weight: float,
    memory: RowMemory,
    potential: Potential,
    room: int,
) -> int:
    """Add to `potential` what rows would gain from tables, each for `weight` rows.

    No more than `room` schemas are counted; returns how many are.
    """
    schema_count = 0
    for place in places:
        count = _study(columns, memory, gather_leaves(columns, place, memory))
        _sort_by_attribute(memory, count)
        number = owner_of(columns, place)
        current = 0.0 if number == NO_ACCESS else predicate_share(columns, number)
        for group in range(1, 1 << count):
            width, share, key = 0, 1.0, np.uint64(1)
            for at in range(count):
                if group >> at & 1:
                    width += 1
                    if width <= ATTRIBUTES_MAX:
                        memory.tried[width - 1] = memory.attribute[at]
                        share *= memory.equal_share[at]
                        key = hash_under(key, memory.attribute[at])
            if width < 2 or width > ATTRIBUTES_MAX or share >= current:
                continue
            at = _schema_at(potential, memory, width, key)
            if potential.key[at] == _EMPTY:
                if schema_count == room:
                    continue
                schema_count += 1
                potential.key[at] = key
                for one in range(width):
                    potential.schema[at, one] = memory.tried[one]
            potential.benefit[at] += weight * (current - share)
    return schema_count


@inlined
def _schema_at(potential: Potential, memory: RowMemory, width: int, key: np.uint64) -> int:
    """Where the schema of memory.tried[:width] is, or belongs."""
    mask = np.int64(potential.key.size - 1)
    at = np.int64(key & np.uint64(mask))
    while potential.key[at] != _EMPTY:
        same = potential.key[at] == key
        for one in range(ATTRIBUTES_MAX):
            wanted = memory.tried[one] if one < width else -1
            same = same and potential.schema[at, one] == wanted
        if same:
            break
        at = (at + 1) & mask
    return int(at)


@leaf
def _sort_by_attribute(memory: RowMemory, count: int) -> None:
    """Sort the equalities that were picked."""
    for at in range(1, count):
        attribute, equal = memory.attribute[at], memory.equal[at]
        share, before = memory.equal_share[at], at
        while before > 0 and memory.attribute[before - 1] > attribute:
            memory.attribute[before] = memory.attribute[before - 1]
            memory.equal[before] = memory.equal[before - 1]
            memory.equal_share[before] = memory.equal_share[before - 1]
            before -= 1
        memory.attribute[before], memory.equal[before] = attribute, equal
        memory.equal_share[before] = share
