"""Pools of a BE-Tree: nodes, partition directories and leaf entries, with free lists.

    node        one cache line: a bucket of a cluster directory with its c-node and its l-node
    partition   runs of (attribute, top bucket), ascending: the p-nodes of one c-node
    entry       runs of one cache line a row: the row and its first tests; the l-nodes

A run has room for 1, 2, 3, 4, 6, 8, 12, ... Those that became too small wait in a list of their
size, linked through their first word, until one of the size is wanted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.betree_keys import KEY_FIRST, KEY_LAST, cell_around, middle_of

NODE = np.dtype(
    [
        ("low", np.int64),  # the keys of the bucket, low..high
        ("high", np.int64),
        ("left", np.int32),  # buckets below it, -1 for none
        ("right", np.int32),
        ("parent", np.int32),  # the bucket above it; of a top bucket the c-node of its p-node
        ("attribute", np.int32),  # of the cluster directory; -1 of the root
        ("leaf", np.int32),  # the l-node: entry[leaf : leaf + size], -1 for no run
        ("size", np.int32),
        ("capacity", np.int32),  # above it the l-node overflows
        ("partition", np.int32),  # partition[partition : partition + partition_count], or -1
        ("partition_count", np.int32),
        ("discarded", np.int32),  # tests of rows that failed, since the window began
        ("avoided", np.int32),  # the attribute recycled last here
        ("leaf_class", np.uint8),  # sizes of the two runs
        ("partition_class", np.uint8),
        ("split", np.uint8),  # rows that one half encloses lie below
        ("", np.uint8),
    ]
)
assert NODE.itemsize == 64

TESTS = 5
TEST_WORDS = 3
"""An attribute and the short keys of an interval."""
ENTRY_WORDS = 1 + TESTS * TEST_WORDS
PARTITION_WORDS = 2
ATTRIBUTE, TOP = range(PARTITION_WORDS)
RANKING_WORDS = 4
ROWS, SCORE, CHANGES, SINCE = range(RANKING_WORDS)
"""Of a p-node: rows below it, its rank, changes below it in this window, events before it."""

ROOT = 0
SIZE_CLASSES = 64

# Places in `Tree.control`: counts, then for each kind of run its extent, what is in use, and the
# heads of the free lists.
NODE_STOP, NODE_LIVE, NODE_FREE, ROW_COUNT, LEAF_MAX, EVENTS, RECYCLED = range(7)
PARTITION_RUNS = 7
ENTRY_RUNS = PARTITION_RUNS + 2 + SIZE_CLASSES
CONTROL_SIZE = ENTRY_RUNS + 2 + SIZE_CLASSES
_STOP, _LIVE, _HEADS = range(3)


class Tree(NamedTuple):
    """The pools; what lies beyond their extents in `control` is room."""

    node: NDArray[Any]  # [n] of NODE; node 0 is the root
    partition: NDArray[np.int32]  # [p, PARTITION_WORDS]
    ranking: NDArray[np.int64]  # [p, RANKING_WORDS] of the same p-nodes
    entry: NDArray[np.int32]  # [e, ENTRY_WORDS]
    control: NDArray[np.int64]  # [CONTROL_SIZE]


@leaf
def capacity_of(size_class: int) -> int:
    """How many a run of this class holds."""
    if size_class == 0:
        return 1
    half = int(size_class) >> 1
    return 2 << half if size_class & 1 else 3 << (half - 1)


@leaf
def class_of(count: int) -> int:
    """The smallest class that holds so many."""
    size_class = 0
    while capacity_of(size_class) < count:
        size_class += 1
    return size_class


@leaf
def take_run(
    pool: NDArray[np.int32], control: NDArray[np.int64], runs: int, size_class: int
) -> int:
    """The begin of a free run; there is room for it."""
    head = control[runs + _HEADS + size_class]
    if head >= 0:
        control[runs + _HEADS + size_class] = pool[head, 0]
    else:
        head = control[runs + _STOP]
        control[runs + _STOP] = head + capacity_of(size_class)
    control[runs + _LIVE] += capacity_of(size_class)
    return int(head)


@leaf
def give_run(
    pool: NDArray[np.int32], control: NDArray[np.int64], runs: int, start: int, size_class: int
) -> None:
    """Let a run wait for the next that wants one of its size."""
    pool[start, 0] = control[runs + _HEADS + size_class]
    control[runs + _HEADS + size_class] = start
    control[runs + _LIVE] -= capacity_of(size_class)


@leaf
def new_node(tree: Tree, parent: int, attribute: int, low: int, high: int) -> int:
    """An empty bucket; there is room for it, and the caller links it to its parent."""
    node = tree.control[NODE_FREE]
    if node >= 0:
        tree.control[NODE_FREE] = tree.node[node]["left"]
    else:
        node = tree.control[NODE_STOP]
        tree.control[NODE_STOP] += 1
    tree.control[NODE_LIVE] += 1
    record = tree.node[node]
    record["low"], record["high"] = low, high
    record["left"] = record["right"] = record["leaf"] = record["partition"] = -1
    record["parent"], record["attribute"], record["avoided"] = parent, attribute, -1
    record["size"] = record["partition_count"] = record["discarded"] = 0
    record["leaf_class"] = record["partition_class"] = record["split"] = 0
    record["capacity"] = tree.control[LEAF_MAX]
    return int(node)


@leaf
def free_node(tree: Tree, node: int) -> None:
    """Give back a node and its runs; nothing links to it any more."""
    record = tree.node[node]
    if record["leaf"] >= 0:
        give_run(tree.entry, tree.control, ENTRY_RUNS, record["leaf"], record["leaf_class"])
    if record["partition"] >= 0:
        start, size_class = record["partition"], record["partition_class"]
        give_run(tree.partition, tree.control, PARTITION_RUNS, start, size_class)
    record["left"] = tree.control[NODE_FREE]
    record["parent"] = -2
    tree.control[NODE_FREE] = node
    tree.control[NODE_LIVE] -= 1


@leaf
def new_tree(tree: Tree, leaf_max: int) -> None:
    """An empty tree in pools with room for one node."""
    for place in range(CONTROL_SIZE):
        tree.control[place] = 0
    _forget_free(tree)
    tree.control[NODE_FREE] = -1
    tree.control[LEAF_MAX] = leaf_max
    new_node(tree, -1, -1, KEY_FIRST, KEY_LAST)


@leaf
def _forget_free(tree: Tree) -> None:
    """No run is free."""
    for size_class in range(SIZE_CLASSES):
        tree.control[PARTITION_RUNS + _HEADS + size_class] = -1
        tree.control[ENTRY_RUNS + _HEADS + size_class] = -1


@leaf
def resize_leaf(tree: Tree, node: int, size_class: int) -> None:
    """Move an l-node to a run of another class, which has room for it."""
    record = tree.node[node]
    start, pool = take_run(tree.entry, tree.control, ENTRY_RUNS, size_class), tree.entry
    if record["leaf"] >= 0:
        for at in range(record["size"]):
            copy_entry(pool, record["leaf"] + at, start + at)
        give_run(pool, tree.control, ENTRY_RUNS, record["leaf"], record["leaf_class"])
    record["leaf"], record["leaf_class"] = start, size_class


@leaf
def append_entry(tree: Tree, node: int) -> int:
    """The place of a new last entry of an l-node, to be filled; there is room for it."""
    record = tree.node[node]
    size = record["size"]
    if record["leaf"] < 0:
        resize_leaf(tree, node, 0)
    elif size == capacity_of(record["leaf_class"]):
        resize_leaf(tree, node, record["leaf_class"] + 1)
    record["size"] = size + 1
    return int(record["leaf"] + size)


@leaf
def fit_leaf(tree: Tree, node: int) -> None:
    """Give up a run, or move to a smaller one, after entries have left."""
    record = tree.node[node]
    if record["leaf"] < 0:
        return
    size_class = class_of(record["size"])
    if record["size"] == 0:
        give_run(tree.entry, tree.control, ENTRY_RUNS, record["leaf"], record["leaf_class"])
        record["leaf"] = -1
    elif size_class < record["leaf_class"] and has_runs(tree, ENTRY_RUNS, size_class):
        resize_leaf(tree, node, size_class)


@inlined
def has_runs(tree: Tree, runs: int, size_class: int) -> bool:
    """Can a run of entries or partitions of this class be taken?"""
    if tree.control[runs + _HEADS + size_class] >= 0:
        return True
    size = tree.entry.shape[0] if runs == ENTRY_RUNS else tree.partition.shape[0]
    return bool(tree.control[runs + _STOP] + capacity_of(size_class) <= size)


@inlined
def copy_entry(pool: NDArray[np.int32], source: int, target: int) -> None:
    """Copy one cache line."""
    for word in range(ENTRY_WORDS):
        pool[target, word] = pool[source, word]


@leaf
def find_partition(tree: Tree, node: int, attribute: int) -> int:
    """Where the p-node of an attribute stands in the directory of a c-node, or -1."""
    start = tree.node[node]["partition"]
    low, high = start, start + tree.node[node]["partition_count"]
    while low < high:
        middle = (low + high) >> 1
        if tree.partition[middle, ATTRIBUTE] < attribute:
            low = middle + 1
        else:
            high = middle
    if low < start + tree.node[node]["partition_count"]:
        if tree.partition[low, ATTRIBUTE] == attribute:
            return int(low)
    return -1


@leaf
def add_partition(tree: Tree, node: int, attribute: int, rows: int) -> int:
    """A new p-node with an empty top bucket, which is returned; there is room for all of it."""
    record = tree.node[node]
    count, start, size_class = record["partition_count"], record["partition"], 0
    if start < 0 or count == capacity_of(record["partition_class"]):
        size_class = record["partition_class"] + 1 if start >= 0 else 0
        moved = take_run(tree.partition, tree.control, PARTITION_RUNS, size_class)
        for at in range(count):
            _copy_partition(tree, start + at, moved + at)
        if start >= 0:
            old = record["partition_class"]
            give_run(tree.partition, tree.control, PARTITION_RUNS, start, old)
        record["partition"], record["partition_class"] = moved, size_class
        start = moved
    at = start + count
    while at > start and tree.partition[at - 1, ATTRIBUTE] > attribute:
        _copy_partition(tree, at - 1, at)
        at -= 1
    top = new_node(tree, node, attribute, KEY_FIRST, KEY_LAST)
    tree.partition[at, ATTRIBUTE], tree.partition[at, TOP] = attribute, top
    tree.ranking[at, ROWS] = tree.ranking[at, SCORE] = rows
    tree.ranking[at, CHANGES], tree.ranking[at, SINCE] = 0, tree.control[EVENTS]
    record["partition_count"] = count + 1
    return top


@leaf
def remove_partition(tree: Tree, node: int, at: int) -> None:
    """Take a p-node, whose buckets are freed by the caller, out of a directory."""
    record = tree.node[node]
    last = record["partition"] + record["partition_count"] - 1
    for place in range(at, last):
        _copy_partition(tree, place + 1, place)
    record["partition_count"] -= 1
    if record["partition_count"] == 0:
        start, size_class = record["partition"], record["partition_class"]
        give_run(tree.partition, tree.control, PARTITION_RUNS, start, size_class)
        record["partition"] = -1


@inlined
def _copy_partition(tree: Tree, source: int, target: int) -> None:
    for word in range(PARTITION_WORDS):
        tree.partition[target, word] = tree.partition[source, word]
    for word in range(RANKING_WORDS):
        tree.ranking[target, word] = tree.ranking[source, word]


@leaf
def home_of(tree: Tree, top: int, low: int, high: int, create: bool) -> int:
    """The smallest bucket of a directory that encloses low..high (algorithm 4).

    Halves of a split bucket come to be when a row wants them, and cells with nothing but one cell
    below them not at all: then `create` makes what is missing, and without it -1 is returned.
    """
    node = top
    while tree.node[node]["split"]:
        record = tree.node[node]
        middle = middle_of(record["low"], record["high"])
        if low <= middle < high:
            break
        is_left = high <= middle
        child = record["left"] if is_left else record["right"]
        if child >= 0 and tree.node[child]["low"] <= low and high <= tree.node[child]["high"]:
            node = child
            continue
        if not create:
            return -1
        if child < 0:
            return new_half(tree, node, is_left)
        below = tree.node[child]
        first, last = cell_around(min(low, below["low"]), max(high, below["high"]))
        made = new_node(tree, node, record["attribute"], first, last)
        tree.node[made]["split"] = 1
        link_child(tree, node, made, is_left)
        link_child(tree, made, child, below["high"] <= middle_of(first, last))
        node = made
    return node


@leaf
def new_half(tree: Tree, node: int, is_left: bool) -> int:
    """Create one half of a bucket; there is room for it."""
    record = tree.node[node]
    middle = middle_of(record["low"], record["high"])
    first = record["low"] if is_left else middle + 1
    last = middle if is_left else record["high"]
    child = new_node(tree, node, record["attribute"], first, last)
    link_child(tree, node, child, is_left)
    return child


@inlined
def link_child(tree: Tree, node: int, child: int, is_left: bool) -> None:
    """Hang a bucket below another."""
    if is_left:
        tree.node[node]["left"] = child
    else:
        tree.node[node]["right"] = child
    tree.node[child]["parent"] = node


@inlined
def is_top(tree: Tree, node: int) -> bool:
    """Is this the top bucket of a p-node? No attribute has two p-nodes on one path."""
    parent = tree.node[node]["parent"]
    return bool(tree.node[parent]["attribute"] != tree.node[node]["attribute"])


@leaf
def number_nodes(tree: Tree, number: NDArray[np.int32], order: NDArray[np.int32]) -> None:
    """Fill `order` with the nodes from the root down, each branch at a stretch, and `number` with
    the place of each in it.

    `order` serves as the stack of nodes to visit, too: those wait at its end.
    """
    count, waiting = 0, order.size - 1
    order[waiting] = ROOT
    while waiting < order.size:
        node = order[waiting]
        waiting += 1
        order[count], number[node] = node, count
        count += 1
        record = tree.node[node]
        start = record["partition"]
        for at in range(start + record["partition_count"] - 1, start - 1, -1):
            waiting -= 1
            order[waiting] = tree.partition[at, TOP]
        for child in (record["right"], record["left"]):
            if child >= 0:
                waiting -= 1
                order[waiting] = child


@leaf
def copy_tree(tree: Tree, number: NDArray[np.int32], order: NDArray[np.int32], copy: Tree) -> None:
    """Fill `copy`, which is large enough, with the same tree, branches at a stretch and no gaps."""
    for place in range(CONTROL_SIZE):
        copy.control[place] = tree.control[place]
    for runs in (PARTITION_RUNS, ENTRY_RUNS):
        copy.control[runs + _STOP] = copy.control[runs + _LIVE] = 0
    _forget_free(copy)
    copy.control[NODE_STOP], copy.control[NODE_FREE] = tree.control[NODE_LIVE], -1
    for place in range(tree.control[NODE_LIVE]):
        copy.node[place] = tree.node[order[place]]
        record = copy.node[place]
        left, right = record["left"], record["right"]
        record["left"] = number[left] if left >= 0 else -1
        record["right"] = number[right] if right >= 0 else -1
        if place != ROOT:
            record["parent"] = number[record["parent"]]
        if record["size"] > 0:
            size_class = class_of(record["size"])
            start = take_run(copy.entry, copy.control, ENTRY_RUNS, size_class)
            for at in range(record["size"]):
                for word in range(ENTRY_WORDS):
                    copy.entry[start + at, word] = tree.entry[record["leaf"] + at, word]
            record["leaf"], record["leaf_class"] = start, size_class
        else:
            record["leaf"] = -1
        if record["partition_count"] > 0:
            size_class = class_of(record["partition_count"])
            start = take_run(copy.partition, copy.control, PARTITION_RUNS, size_class)
            for at in range(record["partition_count"]):
                source = record["partition"] + at
                attribute, top = tree.partition[source, ATTRIBUTE], tree.partition[source, TOP]
                copy.partition[start + at, ATTRIBUTE] = attribute
                copy.partition[start + at, TOP] = number[top]
                for word in range(RANKING_WORDS):
                    copy.ranking[start + at, word] = tree.ranking[source, word]
            record["partition"], record["partition_class"] = start, size_class
