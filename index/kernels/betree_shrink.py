"""How rows leave a BE-Tree, and how what does not pay is taken apart and inserted again.

a leaf bucket and its parent, if that is open, fit half a leaf   the bucket is merged (4.3)
fewer rows below a p-node than make one                          its rows are inserted again
the rank of a p-node falls below zero                            the same: it is recycled (5)
a node with nothing in it                                        it is freed
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.betree_change import insert_pending, note_rows
from index.kernels.betree_pool import (
    CHANGES,
    ENTRY_RUNS,
    EVENTS,
    RECYCLED,
    ROOT,
    ROW_COUNT,
    ROWS,
    SCORE,
    SINCE,
    TOP,
    Tree,
    append_entry,
    class_of,
    copy_entry,
    find_partition,
    fit_leaf,
    free_node,
    has_runs,
    home_of,
    is_top,
    link_child,
    remove_partition,
    resize_leaf,
)
from index.kernels.betree_work import (
    JUDGED,
    JUDGED_ATTRIBUTE,
    PARTITION_ROWS_MIN,
    PENDING,
    REMOVED,
    ROW_STAMP,
    Work,
    row_interval,
)
from index.kernels.probe import Compiled
from index.program import POLARITY_BITS


@leaf
def change_rows(tree: Tree, compiled: Compiled, work: Work, removed: NDArray[np.int32]) -> bool:
    """Insert all pending rows and delete `removed`, which are in the tree; False if room is short:
    then it is called again with more.
    """
    state = work.state
    while True:
        if not insert_pending(tree, compiled, work):
            return False
        if state[JUDGED] >= 0:
            _judge(tree, work, state[JUDGED], state[JUDGED_ATTRIBUTE])
        elif state[REMOVED] < removed.size:
            _remove_row(tree, compiled, work, removed[state[REMOVED]])
            state[REMOVED] += 1
        else:
            return True


@leaf
def find_row(tree: Tree, compiled: Compiled, work: Work, row: int) -> tuple[int, int]:
    """The node of a row and its entry, or (-1, -1): it is in a home of one of its attributes."""
    programs, walk = compiled.programs, work.walk
    waiting = 1
    walk[0] = ROOT
    while waiting > 0:
        waiting -= 1
        node = walk[waiting]
        start = tree.node[node]["leaf"]
        for at in range(start, start + tree.node[node]["size"]):
            if tree.entry[at, 0] == row:
                return node, at
        if tree.node[node]["partition_count"] == 0:
            continue
        work.state[ROW_STAMP] += 1
        for word in range(programs.start[row], programs.start[row + 1]):
            number = programs.code[word] >> POLARITY_BITS
            attribute = compiled.predicates.record[number]["attribute"]
            place = find_partition(tree, node, attribute)
            if place < 0 or work.seen[attribute] == work.state[ROW_STAMP]:
                continue
            work.seen[attribute] = work.state[ROW_STAMP]
            _, low, high = row_interval(compiled, row, attribute)
            home = home_of(tree, tree.partition[place, TOP], low, high, False)
            if home >= 0:
                walk[waiting] = home
                waiting += 1
    return -1, -1


@leaf
def _remove_row(tree: Tree, compiled: Compiled, work: Work, row: int) -> None:
    """Delete a row, and take apart the outermost p-node that has too few rows now."""
    node, at = find_row(tree, compiled, work, row)
    if node < 0:
        return
    record = tree.node[node]
    last = record["leaf"] + record["size"] - 1
    copy_entry(tree.entry, last, at)
    record["size"] -= 1
    fit_leaf(tree, node)
    tree.control[ROW_COUNT] -= 1
    note_rows(tree, work, node, -1, 1)
    _take_apart(tree, work, node)


@leaf
def _take_apart(tree: Tree, work: Work, node: int) -> None:
    """Dissolve the p-nodes above a node that have too few rows, the outermost first, and prune."""
    while True:
        parent, attribute, below = -1, -1, node
        while below != ROOT:
            above = tree.node[below]["parent"]
            if is_top(tree, below):
                at = find_partition(tree, above, tree.node[below]["attribute"])
                if tree.ranking[at, ROWS] < PARTITION_ROWS_MIN:
                    parent, attribute = above, tree.node[below]["attribute"]
            below = above
        if parent < 0:
            break
        _dissolve(tree, work, parent, attribute)
        node = parent
    _prune(tree, node)


@leaf
def _dissolve(tree: Tree, work: Work, parent: int, attribute: int) -> None:
    """Free a p-node and all below it; its rows are pending."""
    place = find_partition(tree, parent, attribute)
    top, rows = tree.partition[place, TOP], tree.ranking[place, ROWS]
    remove_partition(tree, parent, place)
    work.state[JUDGED] = -1
    waiting = 1
    work.walk[0] = top
    while waiting > 0:
        waiting -= 1
        node = work.walk[waiting]
        record = tree.node[node]
        for at in range(record["leaf"], record["leaf"] + record["size"]):
            work.pending[work.state[PENDING]] = tree.entry[at, 0]
            work.state[PENDING] += 1
        waiting = _push_below(tree, work, node, waiting)
        free_node(tree, node)
    tree.control[ROW_COUNT] -= rows
    note_rows(tree, work, parent, -rows, 0)


@inlined
def _push_below(tree: Tree, work: Work, node: int, waiting: int) -> int:
    """Let all nodes right below one wait in `walk`; returns how many wait."""
    record = tree.node[node]
    for child in (record["left"], record["right"]):
        if child >= 0:
            work.walk[waiting] = child
            waiting += 1
    start = record["partition"]
    for at in range(start, start + record["partition_count"]):
        work.walk[waiting] = tree.partition[at, TOP]
        waiting += 1
    return waiting


@leaf
def _prune(tree: Tree, node: int) -> None:
    """Merge buckets, and free nodes with nothing in them, from a node up to its top bucket."""
    while node != ROOT:
        _merge_children(tree, node)
        if is_top(tree, node):
            return
        record = tree.node[node]
        parent = record["parent"]
        is_left = tree.node[parent]["left"] == node
        left, right = record["left"], record["right"]
        if record["size"] == 0 and record["partition_count"] == 0 and (left < 0 or right < 0):
            child = max(left, right)
            if child >= 0:
                link_child(tree, parent, child, is_left)
            elif is_left:
                tree.node[parent]["left"] = -1
            else:
                tree.node[parent]["right"] = -1
            free_node(tree, node)
        node = parent


@leaf
def _merge_children(tree: Tree, node: int) -> None:
    """Make a leaf of an open bucket whose children are leaves, if all rows fill half of one."""
    record = tree.node[node]
    if record["split"] == 0 or record["partition_count"] > 0:
        return
    total = record["size"]
    for child in (record["left"], record["right"]):
        if child >= 0:
            below = tree.node[child]
            if below["split"] or below["partition_count"] > 0:
                return
            total += below["size"]
    if 2 * total > record["capacity"]:
        return
    if total > record["size"]:
        if not has_runs(tree, ENTRY_RUNS, class_of(total)):
            return
        resize_leaf(tree, node, class_of(total))
    for child in (record["left"], record["right"]):
        if child >= 0:
            start = tree.node[child]["leaf"]
            for at in range(start, start + tree.node[child]["size"]):
                copy_entry(tree.entry, at, append_entry(tree, node))
            free_node(tree, child)
    record["left"] = record["right"] = -1
    record["split"] = 0


@leaf
def _judge(tree: Tree, work: Work, parent: int, attribute: int) -> None:
    """At the end of its window, rank a p-node, and recycle it if its loss exceeds its gain.

    The gain is one for each predicate that the path covers, of each row; the loss is the tests of
    rows that failed, an event (section 5, with all weights 1).
    """
    work.state[JUDGED] = -1
    place = find_partition(tree, parent, attribute)
    if place < 0:
        return
    depth, above = 1, parent
    while above != ROOT:
        depth += is_top(tree, above)
        above = tree.node[above]["parent"]
    gain, discarded = _gain_and_loss(tree, work, tree.partition[place, TOP], depth)
    ranking = tree.ranking
    event_count = max(tree.control[EVENTS] - ranking[place, SINCE], 1)
    rank = gain - discarded // event_count
    ranking[place, SCORE], ranking[place, CHANGES] = rank, 0
    ranking[place, SINCE] = tree.control[EVENTS]
    if rank < 0:
        tree.node[parent]["avoided"] = attribute
        tree.control[RECYCLED] += 1
        _dissolve(tree, work, parent, attribute)
        _take_apart(tree, work, parent)


@leaf
def _gain_and_loss(tree: Tree, work: Work, top: int, depth: int) -> tuple[int, int]:
    """Covered predicates and failed tests below a top bucket; their windows begin again."""
    gain, discarded = 0, 0
    waiting = 1
    work.walk[0] = top
    while waiting > 0:
        waiting -= 1
        node = work.walk[waiting]
        record = tree.node[node]
        # Every row below a deeper p-node covers one predicate more.
        if node == top:
            gain += depth * _rows_below(tree, top)
        elif is_top(tree, node):
            gain += _rows_below(tree, node)
        discarded += record["discarded"]
        record["discarded"] = 0
        for at in range(record["partition"], record["partition"] + record["partition_count"]):
            tree.ranking[at, SINCE], tree.ranking[at, CHANGES] = tree.control[EVENTS], 0
        waiting = _push_below(tree, work, node, waiting)
    return gain, discarded


@leaf
def _rows_below(tree: Tree, top: int) -> int:
    """The rows of the p-node of a top bucket."""
    record = tree.node[top]
    return int(tree.ranking[find_partition(tree, record["parent"], record["attribute"]), ROWS])
