"""The pools of a BE-Tree in Python: made, grown, copied without gaps, and walked by `check`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.cache_lines import zeros_in_lines
from index.kernels.betree_keys import (
    BOOLEAN_FIRST,
    INFINITY_KEY,
    KEY_FIRST,
    KEY_LAST,
    NULL_KEY,
    SHORT_ABSENT,
    STRING_FIRST,
    STRING_LAST,
    cell_around,
    middle_of,
    number_of_key,
)
from index.kernels.betree_pool import (
    CONTROL_SIZE,
    ENTRY_RUNS,
    ENTRY_WORDS,
    NODE,
    NODE_LIVE,
    NODE_STOP,
    PARTITION_RUNS,
    PARTITION_WORDS,
    RANKING_WORDS,
    ROOT,
    ROW_COUNT,
    ROWS,
    SIZE_CLASSES,
    TESTS,
    Tree,
    capacity_of,
    copy_tree,
    new_tree,
    number_nodes,
)
from index.kernels.betree_stab import COUNTS, Memory
from index.kernels.betree_work import (
    ENTRIES_NEEDED,
    JUDGED,
    NODES_NEEDED,
    PAIRS_NEEDED,
    PARTITIONS_NEEDED,
    PENDING,
    STATE_SIZE,
    Work,
)
from index.numbers import canonical_number, number_text
from index.vocabulary import Vocabulary

GROWTH_PART = 16
"""Pools grow by this part of theirs: growing is a copy, and unused room stays small."""
GARBAGE_PART = 12
"""When a larger part of a pool's extent is free, the tree is copied without gaps."""
ROOM_MIN = 64
PAIRS_MIN = 1_024

_CAPACITIES = np.array([capacity_of(size_class) for size_class in range(SIZE_CLASSES - 2)])
_STOP, _LIVE, _HEADS = range(3)


def empty_tree(leaf_max: int) -> Tree:
    """A root with an empty l-node."""
    tree = _pools(ROOM_MIN, ROOM_MIN, ROOM_MIN)
    new_tree(tree, leaf_max)
    return tree


def new_work(
    tree: Tree, added: NDArray[np.int32], attribute_count: int, share: NDArray[np.float64]
) -> Work:
    """Working memory for inserting `added`, ascending, and for deleting any rows."""
    pending = np.empty(int(tree.control[ROW_COUNT]) + added.size, np.int32)
    pending[: added.size] = added[::-1]
    state = np.zeros(STATE_SIZE, np.int64)
    state[PENDING], state[JUDGED] = added.size, -1
    used, seen, named, listed, touched = (np.zeros(attribute_count, np.int32) for _ in range(5))
    return Work(
        share,
        used,
        seen,
        named,
        listed,
        np.zeros(attribute_count, np.float64),
        np.empty((PAIRS_MIN, 2), np.int32),
        touched,
        np.empty(TESTS, np.float64),
        np.empty(TESTS, np.int32),
        np.empty(tree.node.size, np.int32),
        np.empty(tree.node.size, np.int32),
        pending,
        np.zeros(tree.node.size, np.int32),
        np.empty(len(tree.entry), np.int64),
        np.empty(len(tree.entry), np.int64),
        state,
    )


def with_room(tree: Tree, work: Work, growth_part: int = GROWTH_PART) -> tuple[Tree, Work]:
    """The same with as much room as the change at hand found wanting, and a part more."""
    needed = work.state[[NODES_NEEDED, PARTITIONS_NEEDED, ENTRIES_NEEDED]].tolist()
    sizes = tree.node.size, len(tree.partition), len(tree.entry)
    grown = _pools(
        *(
            size if size >= need else max(need, size + size // growth_part + ROOM_MIN)
            for size, need in zip(sizes, needed, strict=True)
        )
    )
    control = tree.control
    nodes, runs = control[NODE_STOP], control[PARTITION_RUNS + _STOP]
    grown.node[:nodes] = tree.node[:nodes]
    grown.partition[:runs] = tree.partition[:runs]
    grown.ranking[:runs] = tree.ranking[:runs]
    grown.entry[: control[ENTRY_RUNS + _STOP]] = tree.entry[: control[ENTRY_RUNS + _STOP]]
    grown.control[:] = control
    stack = np.empty(grown.node.size, np.int32)
    stack[: work.stack.size] = work.stack
    pairs = max(len(work.pair), int(work.state[PAIRS_NEEDED]))
    return grown, work._replace(
        pair=np.empty((pairs, 2), np.int32),
        stack=stack,
        walk=np.empty(grown.node.size, np.int32),
        filled=np.zeros(grown.node.size, np.int32),
        low=np.empty(len(grown.entry), np.int64),
        high=np.empty(len(grown.entry), np.int64),
    )


def without_gaps(tree: Tree) -> Tree:
    """A copy in which branches lie at a stretch, and nothing is free."""
    order = np.empty(int(tree.control[NODE_LIVE]), np.int32)
    number = np.empty(int(tree.control[NODE_STOP]), np.int32)
    number_nodes(tree, number, order)
    live = tree.node[order]
    copy = _pools(order.size, _capacity_sum(live["partition_count"]), _capacity_sum(live["size"]))
    copy_tree(tree, number, order, copy)
    return copy


def has_gaps(tree: Tree) -> bool:
    """Is so much of some pool free that copying pays?"""
    control = tree.control
    extents = (
        (control[NODE_STOP], control[NODE_LIVE]),
        (control[PARTITION_RUNS + _STOP], control[PARTITION_RUNS + _LIVE]),
        (control[ENTRY_RUNS + _STOP], control[ENTRY_RUNS + _LIVE]),
    )
    return any(stop - live > ROOM_MIN + stop // GARBAGE_PART for stop, live in extents)


def new_memory(tree: Tree, attribute_count: int, entry_count: int, key_count: int) -> Memory:
    """Working memory for events of so many attributes and intervals."""
    hull = np.full((attribute_count, 2), SHORT_ABSENT, np.int32)
    hull[:, 1] = -SHORT_ABSENT
    node_count = int(tree.control[NODE_STOP])
    return Memory(
        np.full(attribute_count, -1, np.int32),
        hull,
        np.empty(entry_count, np.int32),
        np.zeros(entry_count + 1, np.int32),
        np.empty(key_count, np.int64),
        np.empty(key_count, np.int64),
        np.empty(node_count, np.int32),
        np.empty(node_count, np.int32),
        np.empty(int(tree.control[ROW_COUNT]), np.int32),
        np.zeros(COUNTS, np.int64),
    )


def bytes_of(tree: Tree) -> int:
    """Bytes of all pools, room included."""
    return sum(pool.nbytes for pool in tree)


class Visit(NamedTuple):
    """A node, and the p-nodes above it."""

    node: int
    path: tuple[int, ...]  # attributes


def walk_tree(tree: Tree) -> Iterator[Visit]:
    """Every node, from the root down."""
    waiting = [Visit(ROOT, ())]
    while waiting:
        node, path = waiting.pop()
        yield Visit(node, path)
        record = tree.node[node]
        waiting += [
            Visit(int(child), path) for child in (record["left"], record["right"]) if child >= 0
        ]
        for attribute, top in directory_of(tree, node):
            waiting.append(Visit(top, (*path, attribute)))


def directory_of(tree: Tree, node: int) -> list[tuple[int, int]]:
    """(attribute, top bucket) of the p-nodes of a c-node."""
    start, count = int(tree.node[node]["partition"]), int(tree.node[node]["partition_count"])
    return [(int(one), int(top)) for one, top in tree.partition[start : start + count]]


def rows_of(tree: Tree, node: int) -> NDArray[np.int32]:
    """The rows of an l-node."""
    start, size = int(tree.node[node]["leaf"]), int(tree.node[node]["size"])
    return tree.entry[start : start + size, 0] if size else np.zeros(0, np.int32)


def cell_in_words(vocabulary: Vocabulary, attribute: int, low: int, high: int) -> str:
    """The values of a bucket."""
    path = ".".join(vocabulary.path(attribute))
    if low == KEY_FIRST and high == KEY_LAST:
        return f"{path} present"
    if low == high:
        return f"{path} = {_key_in_words(vocabulary, low)}"
    if STRING_FIRST <= low and high <= STRING_LAST:
        return f"{path} one of the strings {low - STRING_FIRST} to {high - STRING_FIRST}"
    first = _key_in_words(vocabulary, low) if low > KEY_FIRST else "any"
    if high < INFINITY_KEY:
        return f"{path} from {first} to below {_key_in_words(vocabulary, high + 1)}"
    return f"{path} from {first} on, numbers and all else"


def _key_in_words(vocabulary: Vocabulary, key: int) -> str:
    if key <= INFINITY_KEY:
        return number_text(canonical_number(number_of_key(key)))
    if STRING_FIRST <= key < STRING_LAST:
        return repr(vocabulary.text(key - STRING_FIRST).decode())
    if key < NULL_KEY:
        return "true" if key > BOOLEAN_FIRST else "false"
    return "null"


def check_tree(tree: Tree, rows: NDArray[np.int32]) -> None:
    """Assert every invariant that can be seen without the filters."""
    visits = list(walk_tree(tree))
    assert len({visit.node for visit in visits}) == len(visits) == tree.control[NODE_LIVE]
    found = np.concatenate([rows_of(tree, visit.node) for visit in visits])
    assert np.array_equal(np.sort(found), rows), "other rows than it has taken in"
    assert tree.control[ROW_COUNT] == rows.size, "rows are counted wrongly"
    below: dict[int, int] = {}
    for node, path in reversed(visits):
        below[node] = _check_node(tree, node, path, below)
    _check_runs(tree, [visit.node for visit in visits])


def _check_node(tree: Tree, node: int, path: tuple[int, ...], below: dict[int, int]) -> int:
    """Check a node whose descendants have been; returns the rows from it down."""
    record = tree.node[node]
    low, high = int(record["low"]), int(record["high"])
    assert cell_around(low, high) == (low, high), "a bucket is no cell of the grid"
    assert record["size"] <= record["capacity"], "an l-node overflows"
    middle = middle_of(low, high)
    count = int(record["size"])
    for child, first, last in (
        (int(record["left"]), low, middle),
        (int(record["right"]), middle + 1, high),
    ):
        if child < 0:
            continue
        lower = tree.node[child]
        assert lower["parent"] == node and lower["attribute"] == record["attribute"]
        assert first <= lower["low"] and lower["high"] <= last, "a bucket outside of its half"
        assert below[child], "a bucket with nothing in it"
        assert record["split"], "a leaf bucket with children"
        count += below[child]
    directory = directory_of(tree, node)
    if directory:
        forced = node == ROOT or record["split"] or low == high
        assert forced, "a leaf bucket that could be split is partitioned"
    attributes = [attribute for attribute, _ in directory]
    assert attributes == sorted(set(attributes)), "a directory does not ascend"
    assert not set(attributes) & set(path), "an attribute is used twice on a path"
    for place, (attribute, top) in enumerate(directory, int(record["partition"])):
        upper = tree.node[top]
        assert upper["parent"] == node and upper["attribute"] == attribute
        assert (upper["low"], upper["high"]) == (KEY_FIRST, KEY_LAST), "a top that is none"
        assert tree.ranking[place, ROWS] == below[top], "rows of a p-node are counted wrongly"
        count += below[top]
    return count


def _check_runs(tree: Tree, nodes: list[int]) -> None:
    """Runs in use and free runs fill the extent of each pool exactly."""
    records = tree.node[nodes]
    kinds: tuple[tuple[int, NDArray[np.int32], str, str, str], ...] = (
        (PARTITION_RUNS, tree.partition, "partition", "partition_count", "partition_class"),
        (ENTRY_RUNS, tree.entry, "leaf", "size", "leaf_class"),
    )
    for runs, pool, start, used, size_class in kinds:
        some = records[records[start] >= 0]
        capacity = _CAPACITIES[some[size_class]]
        assert np.all(some[used] <= capacity), "a run holds more than it has room for"
        assert np.all(records[used][records[start] < 0] == 0), "entries without a run"
        assert capacity.sum() == tree.control[runs + _LIVE], "runs in use are counted wrongly"
        taken = list(zip(some[start].tolist(), capacity.tolist(), strict=True))
        for number, free in enumerate(_CAPACITIES.tolist()):
            head = int(tree.control[runs + _HEADS + number])
            while head >= 0:
                taken.append((head, free))
                head = int(pool[head, 0])
        taken.sort()
        stop = 0
        for at, size in taken:
            assert at == stop, "runs overlap or are lost"
            stop = at + size
        assert stop == tree.control[runs + _STOP], "the extent is more than its runs"


def _capacity_sum(counts: NDArray[np.int32]) -> int:
    return int(_CAPACITIES[np.searchsorted(_CAPACITIES, counts[counts > 0])].sum())


def _pools(nodes: int, partitions: int, entries: int) -> Tree:
    return Tree(
        zeros_in_lines(nodes, NODE),
        np.zeros((partitions, PARTITION_WORDS), np.int32),
        np.zeros((partitions, RANKING_WORDS), np.int64),
        zeros_in_lines(entries * ENTRY_WORDS, np.int32).reshape(-1, ENTRY_WORDS),
        np.zeros(CONTROL_SIZE, np.int64),
    )
