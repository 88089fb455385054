"""Clusters that rows enter and leave: the layout of `index.growing_clusters`, moved in place.

    access predicate -> its clusters, one a size -> blocks, the last first -> places -> rows

    block of a cluster of size 2 with room for four     word  p p p -  q q q -  3 9 7 -
                                                              first    second   places

A block has room for LINE_ROWS places, a cache line of each column. The last block of a cluster has
room for as many as it needs, rounded up to a power of two, so what a cluster takes depends on its
size and count alone. A row that leaves is replaced by the last of its cluster. A block that has
become half empty gives back its second half; runs of words given back are kept by length.

Numbers of access predicates, clusters and blocks that are given back are chained and used again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.access_tables import (
    ATTRIBUTES_MAX,
    AccessTables,
    access_key,
    drop_access,
    find_access,
)
from index.kernels.clusters import LINE_ROWS
from index.kernels.hashing import insert
from index.kernels.words import bits_below

# Fields of a leaf, of its shares, of an access predicate, a cluster, a block and a place.
CODE, USE, SINGLE = range(3)
LEAF_FIELDS = 3
PRIOR, HELD = range(2)
SHARE_FIELDS = 2
FIRST, ROWS = range(2)
PREDICATE_FIELDS = 2
OWNER, SIZE, COUNT, LAST, NEXT = range(5)
CLUSTER_FIELDS = 5
START, CLUSTER, BELOW = range(3)
BLOCK_FIELDS = 3
ROW, AT = range(2)
PLACE_FIELDS = 2

# Places in the array of counters. FREE_x is the first of a chain, FREE_x_COUNT its length.
LEAVES, PLACES, LIVE, WORDS, FREE_WORDS, FILED = range(6)
PREDICATES, FREE_PREDICATE, FREE_PREDICATE_COUNT = range(6, 9)
CLUSTERS, FREE_CLUSTER, FREE_CLUSTER_COUNT = range(9, 12)
BLOCKS, FREE_BLOCK, FREE_BLOCK_COUNT = range(12, 15)
MOVED = 15
COUNTER_COUNT = 16

NO_ACCESS = 0
"""The access predicate of rows that have none: it holds of every event."""
FREE = -1
LINE_BITS = 4
assert 1 << LINE_BITS == LINE_ROWS
SIZES_KEPT = 32
"""Runs of clusters of larger sizes are only counted when given back, until words are compacted."""


class GrowingColumns(NamedTuple):
    """l leaves, n places of rows, g access predicates, c clusters of b blocks, and their words."""

    leaf: NDArray[np.int32]  # [l, LEAF_FIELDS] code, rows that ask for it, access predicate or -1
    share: NDArray[np.float32]  # [l, SHARE_FIELDS] known share or NaN; events it held of
    tables: AccessTables
    predicate: NDArray[np.int32]  # [g, PREDICATE_FIELDS] first cluster, rows, -1 if free
    satisfied: NDArray[np.float32]  # [g] events that satisfied it
    cluster: NDArray[np.int32]  # [c, CLUSTER_FIELDS]
    block: NDArray[np.int32]  # [b, BLOCK_FIELDS] first word, cluster or -1, block before or -1
    word: NDArray[np.int32]  # blocks
    free_word: NDArray[np.int32]  # [LINE_BITS+1, SIZES_KEPT] first word of a chain of runs, or -1
    place: NDArray[np.int32]  # [n, PLACE_FIELDS] row; block << LINE_BITS | place in it, or -1
    value_count: NDArray[np.int32]  # [attributes] leaves that are equalities
    counter: NDArray[np.int64]  # [COUNTER_COUNT]
    event_count: NDArray[np.float64]  # [1] events of which shares count


class RowMemory(NamedTuple):
    """The row at hand. Working memory of one thread."""

    leaf: NDArray[np.int32]  # its leaves
    share: NDArray[np.float64]  # of each
    attribute: NDArray[np.int32]  # [EQUALITIES_MAX] of the equalities that may be chosen
    equal: NDArray[np.int32]  # [EQUALITIES_MAX] their leaves, ascending by share
    equal_share: NDArray[np.float64]  # [EQUALITIES_MAX]
    tried: NDArray[np.int32]  # [ATTRIBUTES_MAX] leaves of an access predicate
    chosen: NDArray[np.int32]  # [ATTRIBUTES_MAX] those of the best so far


@inlined
def has_room(columns: GrowingColumns, leaf_count: int) -> bool:
    """Can a row of so many leaves be filed, whatever that takes?"""
    counter = columns.counter
    return bool(
        (
            counter[FREE_PREDICATE] >= 0
            or counter[PREDICATES] < min(len(columns.predicate), len(columns.tables.access))
        )
        and (counter[FREE_CLUSTER] >= 0 or counter[CLUSTERS] < len(columns.cluster))
        and (counter[FREE_BLOCK] >= 0 or counter[BLOCKS] < len(columns.block))
        and counter[PLACES] < len(columns.place)
        and counter[WORDS] + LINE_ROWS * (leaf_count + 1) <= columns.word.size
        and 2 * (counter[FILED] + 1) <= columns.tables.slot.size
    )


@inlined
def room_of(columns: GrowingColumns, block: int) -> int:
    """Places in a block: the stride of its columns."""
    cluster = columns.block[block, CLUSTER]
    if columns.cluster[cluster, LAST] != block:
        return LINE_ROWS
    return 1 << bits_below(count_in_last(columns, cluster))


@inlined
def count_in_last(columns: GrowingColumns, cluster: int) -> int:
    """Rows in the last block of a cluster."""
    return int(columns.cluster[cluster, COUNT] - 1) % LINE_ROWS + 1


@leaf
def gather_leaves(columns: GrowingColumns, place: int, memory: RowMemory) -> int:
    """Fill memory.leaf with the leaves of a row that is filed; returns their number."""
    block = columns.place[place, AT] >> LINE_BITS
    at = columns.block[block, START] + (columns.place[place, AT] & (LINE_ROWS - 1))
    room = room_of(columns, block)
    cluster = columns.block[block, CLUSTER]
    count = int(columns.cluster[cluster, SIZE])
    for number in range(count):
        memory.leaf[number] = columns.word[at + number * room]
    owner = columns.cluster[cluster, OWNER]
    for number in range(ATTRIBUTES_MAX):
        if columns.tables.access[owner, number] >= 0:
            memory.leaf[count] = columns.tables.access[owner, number]
            count += 1
    return count


@leaf
def access_of(columns: GrowingColumns, table: int, leaves: NDArray[np.int32], width: int) -> int:
    """The access predicate of these leaves, made if there is none; table -1 for a leaf alone."""
    if width == 0:
        return NO_ACCESS
    tables, counter = columns.tables, columns.counter
    if table < 0:
        number = int(columns.leaf[leaves[0], SINGLE])
    else:
        number = find_access(tables, table, leaves, width)
    if number >= 0:
        return number
    number = int(counter[FREE_PREDICATE])
    if number >= 0:
        counter[FREE_PREDICATE] = columns.predicate[number, FIRST]
        counter[FREE_PREDICATE_COUNT] -= 1
    else:
        number = int(counter[PREDICATES])
        counter[PREDICATES] += 1
    columns.predicate[number, FIRST] = -1
    columns.predicate[number, ROWS] = 0
    columns.satisfied[number] = np.nan
    tables.table_of[number] = table
    for at in range(ATTRIBUTES_MAX):
        tables.access[number, at] = leaves[at] if at < width else -1
    if table < 0:
        columns.leaf[leaves[0], SINGLE] = number
    else:
        insert(tables.slot, access_key(table, leaves, width), number)
        counter[FILED] += 1
    return number


@leaf
def put_row(
    columns: GrowingColumns, number: int, leaves: NDArray[np.int32], count: int, place: int
) -> None:
    """File a row under an access predicate; leaves[:count] are all of its leaves. There is room."""
    size = 0
    for at in range(count):
        size += not _is_checked(columns, number, leaves[at])
    cluster = _cluster_of(columns, number, size)
    block, within = _append_place(columns, cluster)
    room = room_of(columns, block)
    at = columns.block[block, START] + within
    for one in range(count):
        if not _is_checked(columns, number, leaves[one]):
            columns.word[at] = leaves[one]
            at += room
    columns.word[at] = place
    columns.place[place, AT] = block << LINE_BITS | within
    columns.predicate[number, ROWS] += 1


@inlined
def _is_checked(columns: GrowingColumns, number: int, leaf: int) -> bool:
    """Is a leaf part of an access predicate?"""
    found = False
    for at in range(ATTRIBUTES_MAX):
        found = found or columns.tables.access[number, at] == leaf
    return found


@leaf
def _cluster_of(columns: GrowingColumns, number: int, size: int) -> int:
    """The cluster of that size under an access predicate, made if there is none."""
    cluster = int(columns.predicate[number, FIRST])
    while cluster >= 0:
        if columns.cluster[cluster, SIZE] == size:
            return cluster
        cluster = int(columns.cluster[cluster, NEXT])
    counter = columns.counter
    cluster = int(counter[FREE_CLUSTER])
    if cluster >= 0:
        counter[FREE_CLUSTER] = columns.cluster[cluster, NEXT]
        counter[FREE_CLUSTER_COUNT] -= 1
    else:
        cluster = int(counter[CLUSTERS])
        counter[CLUSTERS] += 1
    columns.cluster[cluster, OWNER] = number
    columns.cluster[cluster, SIZE] = size
    columns.cluster[cluster, COUNT] = 0
    columns.cluster[cluster, LAST] = -1
    columns.cluster[cluster, NEXT] = columns.predicate[number, FIRST]
    columns.predicate[number, FIRST] = cluster
    return cluster


@leaf
def _append_place(columns: GrowingColumns, cluster: int) -> tuple[int, int]:
    """Make room for one row more at the end of a cluster; returns its block and place in it."""
    size = int(columns.cluster[cluster, SIZE])
    within = int(columns.cluster[cluster, COUNT]) % LINE_ROWS
    block = int(columns.cluster[cluster, LAST])
    if within == 0:
        counter = columns.counter
        below, block = block, int(counter[FREE_BLOCK])
        if block >= 0:
            counter[FREE_BLOCK] = columns.block[block, BELOW]
            counter[FREE_BLOCK_COUNT] -= 1
        else:
            block = int(counter[BLOCKS])
            counter[BLOCKS] += 1
        columns.block[block, START] = _take_words(columns, size, 0)
        columns.block[block, CLUSTER] = cluster
        columns.block[block, BELOW] = below
        columns.cluster[cluster, LAST] = block
    else:
        exponent = bits_below(within)
        if within == 1 << exponent:
            old = int(columns.block[block, START])
            new = _take_words(columns, size, exponent + 1)
            for column in range(size + 1):
                for at in range(within):
                    columns.word[new + 2 * within * column + at] = columns.word[
                        old + within * column + at
                    ]
            _give_words(columns, old, size, exponent)
            columns.block[block, START] = new
    columns.cluster[cluster, COUNT] += 1
    return block, within


@inlined
def _take_words(columns: GrowingColumns, size: int, exponent: int) -> int:
    """Words for 2 ** exponent rows of `size` leaves."""
    counter, length = columns.counter, (size + 1) << exponent
    if size < SIZES_KEPT and columns.free_word[exponent, size] >= 0:
        start = int(columns.free_word[exponent, size])
        columns.free_word[exponent, size] = columns.word[start]
        counter[FREE_WORDS] -= length
        return start
    start = int(counter[WORDS])
    counter[WORDS] += length
    return start


@inlined
def _give_words(columns: GrowingColumns, start: int, size: int, exponent: int) -> None:
    """Take words back."""
    columns.counter[FREE_WORDS] += (size + 1) << exponent
    if size < SIZES_KEPT:
        columns.word[start] = columns.free_word[exponent, size]
        columns.free_word[exponent, size] = start


@leaf
def take_out_row(columns: GrowingColumns, place: int) -> None:
    """Let a row leave its cluster, whose last row takes its place."""
    at = columns.place[place, AT]
    block, within = at >> LINE_BITS, at & (LINE_ROWS - 1)
    cluster = int(columns.block[block, CLUSTER])
    size, last = int(columns.cluster[cluster, SIZE]), int(columns.cluster[cluster, LAST])
    last_room, room = room_of(columns, last), room_of(columns, block)
    last_within = count_in_last(columns, cluster) - 1
    to = columns.block[block, START] + within
    source = columns.block[last, START] + last_within
    for column in range(size + 1):
        columns.word[to + column * room] = columns.word[source + column * last_room]
    columns.place[columns.word[to + size * room], AT] = at
    columns.place[place, AT] = -1
    _drop_last(columns, cluster, last_within)
    number = int(columns.cluster[cluster, OWNER])
    columns.predicate[number, ROWS] -= 1
    if columns.cluster[cluster, COUNT] == 0:
        _drop_cluster(columns, number, cluster)
    if number != NO_ACCESS and columns.predicate[number, ROWS] == 0:
        _drop_predicate(columns, number)


@leaf
def _drop_last(columns: GrowingColumns, cluster: int, last_within: int) -> None:
    """Give up the last place of a cluster, and the half of a block that is empty then."""
    size, last = int(columns.cluster[cluster, SIZE]), int(columns.cluster[cluster, LAST])
    start = int(columns.block[last, START])
    columns.cluster[cluster, COUNT] -= 1
    if last_within == 0:
        _give_words(columns, start, size, 0)
        columns.cluster[cluster, LAST] = columns.block[last, BELOW]
        columns.block[last, CLUSTER] = FREE
        columns.block[last, BELOW] = columns.counter[FREE_BLOCK]
        columns.counter[FREE_BLOCK] = last
        columns.counter[FREE_BLOCK_COUNT] += 1
        return
    exponent = bits_below(last_within)
    if exponent == bits_below(last_within + 1):
        return
    room = 1 << exponent
    for column in range(1, size + 1):
        for at in range(room):
            columns.word[start + column * room + at] = columns.word[start + column * 2 * room + at]
    _give_words(columns, start + (size + 1) * room, size, exponent)


@leaf
def _drop_cluster(columns: GrowingColumns, number: int, cluster: int) -> None:
    """Take an empty cluster out of the list of its access predicate."""
    before = int(columns.predicate[number, FIRST])
    if before == cluster:
        columns.predicate[number, FIRST] = columns.cluster[cluster, NEXT]
    else:
        while columns.cluster[before, NEXT] != cluster:
            before = int(columns.cluster[before, NEXT])
        columns.cluster[before, NEXT] = columns.cluster[cluster, NEXT]
    columns.cluster[cluster, OWNER] = FREE
    columns.cluster[cluster, NEXT] = columns.counter[FREE_CLUSTER]
    columns.counter[FREE_CLUSTER] = cluster
    columns.counter[FREE_CLUSTER_COUNT] += 1


@leaf
def _drop_predicate(columns: GrowingColumns, number: int) -> None:
    """Forget an access predicate that has no row."""
    tables = columns.tables
    if tables.table_of[number] < 0:
        columns.leaf[tables.access[number, 0], SINGLE] = -1
    else:
        drop_access(tables, number)
        columns.counter[FILED] -= 1
    tables.table_of[number] = -1
    tables.access[number, :] = -1
    columns.predicate[number, ROWS] = FREE
    columns.predicate[number, FIRST] = columns.counter[FREE_PREDICATE]
    columns.counter[FREE_PREDICATE] = number
    columns.counter[FREE_PREDICATE_COUNT] += 1


@leaf
def compact_words(columns: GrowingColumns, word: NDArray[np.int32]) -> None:
    """Copy all blocks to `word`, cluster by cluster and without gaps; then it replaces the old."""
    stop = 0
    for cluster in range(columns.counter[CLUSTERS]):
        if columns.cluster[cluster, OWNER] == FREE:
            continue
        block = int(columns.cluster[cluster, LAST])
        while block >= 0:
            length = (columns.cluster[cluster, SIZE] + 1) * room_of(columns, block)
            start = columns.block[block, START]
            for at in range(length):
                word[stop + at] = columns.word[start + at]
            columns.block[block, START] = stop
            stop += length
            block = int(columns.block[block, BELOW])
    columns.counter[WORDS] = stop
    columns.counter[FREE_WORDS] = 0
    columns.free_word[:] = -1
