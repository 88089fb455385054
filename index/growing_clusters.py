"""Growing clusters: clusters by access predicate and size, for rows that come and go.

Paper    Fabret et al., SIGMOD 2001, sections 2.2 and 4: clusters by columns, subscriptions that are
         inserted, deleted and moved.
Layout   leaf       code | rows that ask | its access predicate     one a distinct leaf
         share      known share | events it held of
         tables     multi-attribute tables, see index.kernels.access_tables
         predicate  first cluster | rows                            one an access predicate
         satisfied  events
         cluster    access predicate | size | rows | last block | next of the access predicate
         block      first word | cluster | block before
         word       columns of leaves, and below them a line of places
         place      row | block and place in it                     one a row, in the order of rows
Worked   rows 0 and 1 ask a=1 and b=2, row 2 asks a=1, b=2 and c<5; access predicate a=1

         predicate  a=1: 3 rows, clusters 1 -> 0         word  b b 0 1 | b c 2
         cluster 0  size 1, 2 rows, block 0 at word 0          ^ leaf, places
         cluster 1  size 2, 1 row, block 1 at word 4                     ^ leaf, leaf, place

Cost     a row takes 4 bytes a leaf that is checked and 12 more, and at most as much again where its
         block is half empty; an access predicate with one row 100. Arrays have a sixteenth of room,
         and words, numbers and places given back stay below an eighth: beyond it, words are
         compacted, and the others numbered again (index.algorithms.dynamic_clustering).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.cache_lines import zeros_in_lines
from index.hash_configuration import EQUALITIES_MAX
from index.kernels.access_tables import ATTRIBUTES_MAX, AccessTables, fill_slots, lost_access
from index.kernels.clusters import LINE_ROWS
from index.kernels.growing_clusters import (
    AT,
    BELOW,
    BLOCK_FIELDS,
    BLOCKS,
    CLUSTER,
    CLUSTER_FIELDS,
    CLUSTERS,
    COUNT,
    COUNTER_COUNT,
    FILED,
    FIRST,
    FREE,
    FREE_BLOCK,
    FREE_BLOCK_COUNT,
    FREE_CLUSTER,
    FREE_CLUSTER_COUNT,
    FREE_PREDICATE,
    FREE_PREDICATE_COUNT,
    FREE_WORDS,
    LAST,
    LEAF_FIELDS,
    LEAVES,
    LINE_BITS,
    LIVE,
    NEXT,
    NO_ACCESS,
    OWNER,
    PLACE_FIELDS,
    PLACES,
    PREDICATES,
    ROW,
    ROWS,
    SHARE_FIELDS,
    SINGLE,
    SIZE,
    SIZES_KEPT,
    START,
    USE,
    WORDS,
    GrowingColumns,
    RowMemory,
    compact_words,
    gather_leaves,
)

ROOM_SHARE = 16
"""Arrays grow by a sixteenth."""
ROOM_MIN = 64
WASTE_SHARE = 8
"""Up to an eighth of words, places and numbers may be given back and not used again."""
WASTE_MIN = 64


def new_columns(attribute_count: int) -> GrowingColumns:
    """No rows, and no table."""
    counter = np.zeros(COUNTER_COUNT, np.int64)
    counter[[FREE_PREDICATE, FREE_CLUSTER, FREE_BLOCK]] = -1
    counter[PREDICATES] = NO_ACCESS + 1
    predicate = np.array([[-1, 0]], np.int32)
    tables = AccessTables(
        np.empty((0, ATTRIBUTES_MAX), np.int32),
        np.empty(0, np.int32),
        np.zeros(2, np.uint64),
        np.full((1, ATTRIBUTES_MAX), -1, np.int32),
        np.full(1, -1, np.int32),
    )
    return GrowingColumns(
        np.empty((0, LEAF_FIELDS), np.int32),
        np.empty((0, SHARE_FIELDS), np.float32),
        tables,
        predicate,
        np.zeros(1, np.float32),
        np.empty((0, CLUSTER_FIELDS), np.int32),
        np.empty((0, BLOCK_FIELDS), np.int32),
        np.empty(0, np.int32),
        np.full((LINE_BITS + 1, SIZES_KEPT), -1, np.int32),
        np.empty((0, PLACE_FIELDS), np.int32),
        np.zeros(attribute_count, np.int32),
        counter,
        np.zeros(1),
    )


def new_row_memory(leaf_count: int) -> RowMemory:
    """Memory for rows of up to that many leaves."""
    return RowMemory(
        np.empty(leaf_count, np.int32),
        np.empty(leaf_count, np.float64),
        np.empty(EQUALITIES_MAX, np.int32),
        np.empty(EQUALITIES_MAX, np.int32),
        np.empty(EQUALITIES_MAX, np.float64),
        np.empty(ATTRIBUTES_MAX, np.int32),
        np.empty(ATTRIBUTES_MAX, np.int32),
    )


def with_room(columns: GrowingColumns, row_count: int, leaf_count: int) -> GrowingColumns:
    """Columns with places for so many rows more, and room to file a row of so many leaves."""
    counter, tables = columns.counter, columns.tables
    columns = columns._replace(place=_longer(columns.place, int(counter[PLACES]) + row_count))
    if counter[FREE_CLUSTER] < 0:
        columns = columns._replace(cluster=_longer(columns.cluster, int(counter[CLUSTERS]) + 1))
    if counter[FREE_BLOCK] < 0:
        columns = columns._replace(block=_longer(columns.block, int(counter[BLOCKS]) + 1))
    if counter[FREE_PREDICATE] < 0:
        count = int(counter[PREDICATES]) + 1
        columns = columns._replace(
            predicate=_longer(columns.predicate, count),
            satisfied=_longer(columns.satisfied, count),
        )
        tables = tables._replace(
            access=_longer(tables.access, count, -1), table_of=_longer(tables.table_of, count, -1)
        )
    if 2 * (counter[FILED] + 1) > tables.slot.size:
        tables = tables._replace(slot=np.zeros(2 * tables.slot.size, np.uint64))
        fill_slots(tables)
    columns = columns._replace(tables=tables)
    words = LINE_ROWS * (leaf_count + 1)
    if counter[WORDS] + words > columns.word.size:
        columns = _with_words(columns, words)
    return columns


def _with_words(columns: GrowingColumns, count: int) -> GrowingColumns:
    """Columns with so many words more; compacted if there is more to gain than to move."""
    counter = columns.counter
    if counter[FREE_WORDS] * WASTE_SHARE > counter[WORDS]:
        kept = int(counter[WORDS] - counter[FREE_WORDS])
        word = zeros_in_lines(kept + max(count, kept // ROOM_SHARE), np.int32)
        compact_words(columns, word)
        return columns._replace(word=word)
    return columns._replace(word=_longer(columns.word, int(counter[WORDS]) + count))


def with_leaves(
    columns: GrowingColumns, codes: NDArray[np.int32], attribute: NDArray[np.int32]
) -> GrowingColumns:
    """Columns with new leaves, whose numbers follow each other; `attribute` is -1 if no equality.

    Their shares are left to the caller.
    """
    counter, tables = columns.counter, columns.tables
    first, stop = int(counter[LEAVES]), int(counter[LEAVES]) + codes.size
    columns = columns._replace(
        leaf=_longer(columns.leaf, stop),
        share=_longer(columns.share, stop),
        tables=tables._replace(leaf_attribute=_longer(tables.leaf_attribute, stop, -1)),
    )
    columns.leaf[first:stop] = np.column_stack(
        (codes, np.zeros(codes.size, np.int32), np.full(codes.size, -1, np.int32))
    )
    columns.tables.leaf_attribute[first:stop] = attribute
    np.add.at(columns.value_count, attribute[attribute >= 0], 1)
    counter[LEAVES] = stop
    return columns


def with_attributes(columns: GrowingColumns, attribute_count: int) -> GrowingColumns:
    """Columns for a vocabulary that may have grown."""
    missing = max(attribute_count - columns.value_count.size, 0)
    return columns._replace(value_count=np.pad(columns.value_count, (0, missing)))


def is_wasteful(columns: GrowingColumns) -> bool:
    """Is so much given back, and not used again, that numbering all again is worth it?"""
    counter = columns.counter
    leaves = columns.leaf[: counter[LEAVES]]
    unused = [
        (counter[PLACES] - counter[LIVE], counter[LIVE]),
        (np.count_nonzero(leaves[:, USE] == 0), len(leaves)),
        (counter[FREE_PREDICATE_COUNT], counter[PREDICATES]),
        (counter[FREE_CLUSTER_COUNT], counter[CLUSTERS]),
        (counter[FREE_BLOCK_COUNT], counter[BLOCKS]),
        (counter[FREE_WORDS], counter[WORDS]),
    ]
    return any(waste * WASTE_SHARE > total + WASTE_MIN * WASTE_SHARE for waste, total in unused)


def _longer(array: NDArray[Any], length: int, fill: int = 0) -> NDArray[Any]:
    """An array of at least that length, with some room if it has to grow."""
    if len(array) >= length:
        return array
    capacity = max(length, len(array) + len(array) // ROOM_SHARE + ROOM_MIN)
    row_size = math.prod(array.shape[1:])
    longer = zeros_in_lines(capacity * row_size, array.dtype).reshape(capacity, *array.shape[1:])
    longer[: len(array)] = array
    if fill:
        longer[len(array) :] = fill
    return longer


def places_of(columns: GrowingColumns, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """The places of rows that are filed."""
    return np.searchsorted(columns.place[: columns.counter[PLACES], ROW], rows)


def cluster_of(columns: GrowingColumns, place: int) -> int:
    """The cluster of a row that is filed."""
    return int(columns.block[columns.place[place, AT] >> LINE_BITS, CLUSTER])


def leaves_max(columns: GrowingColumns) -> int:
    """No row has more leaves."""
    sizes = columns.cluster[: columns.counter[CLUSTERS], SIZE]
    return int(sizes.max(initial=0)) + ATTRIBUTES_MAX


def check_columns(columns: GrowingColumns, rows: NDArray[np.int32]) -> None:
    """Walk every list, block and place."""
    counter, tables = columns.counter, columns.tables
    place = columns.place[: counter[PLACES]]
    assert np.all(np.diff(place[:, ROW]) > 0), "rows do not ascend by place"
    alive = place[:, AT] >= 0
    assert np.array_equal(place[alive, ROW], rows), "other rows than were put in"
    assert counter[LIVE] == rows.size
    assert lost_access(tables, np.empty(ATTRIBUTES_MAX, np.int32)) < 0, "not to be found"
    seen = {"row": 0, "cluster": 0, "block": 0, "word": 0, "predicate": 0, "filed": 0}
    use = np.zeros(counter[LEAVES], np.int64)
    for number in range(counter[PREDICATES]):
        if columns.predicate[number, ROWS] == FREE:
            continue
        seen["predicate"] += 1
        _check_predicate(columns, number, seen, use)
    assert seen["row"] == rows.size, "a row is in no cluster, or in two"
    for name, used, free in (
        ("predicate", PREDICATES, FREE_PREDICATE_COUNT),
        ("cluster", CLUSTERS, FREE_CLUSTER_COUNT),
        ("block", BLOCKS, FREE_BLOCK_COUNT),
        ("word", WORDS, FREE_WORDS),
    ):
        assert seen[name] == counter[used] - counter[free], f"lost: {name}"
    assert seen["filed"] == counter[FILED] == np.count_nonzero(tables.slot), "lost slots"
    assert np.array_equal(use, columns.leaf[: counter[LEAVES], USE]), "leaves counted wrongly"
    attribute = tables.leaf_attribute[: counter[LEAVES]]
    counted = np.bincount(attribute[attribute >= 0], minlength=columns.value_count.size)
    assert np.array_equal(counted, columns.value_count), "values counted wrongly"


def _check_predicate(
    columns: GrowingColumns, number: int, seen: dict[str, int], use: NDArray[np.int64]
) -> None:
    """An access predicate is found by its leaves, and its clusters are of different sizes."""
    tables = columns.tables
    leaves = tables.access[number][tables.access[number] >= 0]
    table = int(tables.table_of[number])
    if number != NO_ACCESS:
        assert columns.predicate[number, ROWS] > 0, "an access predicate without rows"
        if table < 0:
            assert columns.leaf[leaves[0], SINGLE] == number, "a leaf has lost its clusters"
        else:
            seen["filed"] += 1
            schema = tables.schema[table][tables.schema[table] >= 0]
            assert np.array_equal(tables.leaf_attribute[leaves], schema), "of another schema"
    sizes, row_count = set(), 0
    cluster = int(columns.predicate[number, FIRST])
    while cluster >= 0:
        record = columns.cluster[cluster]
        assert record[OWNER] == number and record[COUNT] > 0, "a cluster of another, or empty"
        assert record[SIZE] not in sizes, "two clusters of one size"
        sizes.add(int(record[SIZE]))
        row_count += int(record[COUNT])
        _check_cluster(columns, cluster, seen, use)
        cluster = int(record[NEXT])
    assert row_count == columns.predicate[number, ROWS], "rows counted wrongly"
    seen["row"] += row_count
    seen["cluster"] += len(sizes)


def _check_cluster(
    columns: GrowingColumns, cluster: int, seen: dict[str, int], use: NDArray[np.int64]
) -> None:
    """Blocks of a cluster are full but for the last, and rows know where they are."""
    size, left = int(columns.cluster[cluster, SIZE]), int(columns.cluster[cluster, COUNT])
    memory = new_row_memory(size + ATTRIBUTES_MAX)
    block = int(columns.cluster[cluster, LAST])
    while block >= 0:
        assert columns.block[block, CLUSTER] == cluster, "a block of another cluster"
        count = (left - 1) % LINE_ROWS + 1
        room = 1 << (count - 1).bit_length()
        line = int(columns.block[block, START]) + size * room
        for within in range(count):
            place = int(columns.word[line + within])
            assert columns.place[place, AT] == block << LINE_BITS | within, "a row is elsewhere"
            leaf_count = int(gather_leaves(columns, place, memory))
            leaves = memory.leaf[:leaf_count]
            assert np.unique(leaves).size == leaf_count, "a leaf is checked twice"
            use[leaves] += 1
        left -= count
        seen["block"] += 1
        seen["word"] += (size + 1) * room
        block = int(columns.block[block, BELOW])
    assert left == 0, "a cluster has fewer or more rows than it says"
