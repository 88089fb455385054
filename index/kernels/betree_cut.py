"""How an l-node of a BE-Tree that overflows is cut.

    overflow of the root, a split or an atomic bucket     space partitioning: a p-node for the best
                                                          attribute takes all rows that name it
    overflow of any other bucket                          space clustering: the bucket is halved

The rows that name an attribute are listed, so that what stays is not read for each new p-node.
"""

from __future__ import annotations

import numpy as np

from index.kernels import leaf
from index.kernels.betree_keys import KEY_FIRST, KEY_LAST, cell_around, leaf_share, middle_of
from index.kernels.betree_pool import (
    LEAF_MAX,
    ROOT,
    Tree,
    add_partition,
    append_entry,
    capacity_of,
    class_of,
    copy_entry,
    fit_leaf,
    link_child,
    new_half,
    new_node,
    resize_leaf,
)
from index.kernels.betree_work import (
    NEXT,
    PAIRS_NEEDED,
    PARTITION_ROWS_MIN,
    PLACE,
    ROW_STAMP,
    SETTLING,
    STACK,
    STAMP,
    TOUCHED,
    Work,
    has_room,
    mark_path,
    row_interval,
    write_entry,
)
from index.kernels.probe import Compiled
from index.program import POLARITY_BITS

_TIE = 1e-6
_GONE = -1
"""The row of an entry whose row has moved to another l-node."""


@leaf
def settle(tree: Tree, compiled: Compiled, work: Work) -> bool:
    """Cut overflowing l-nodes until there is none (algorithms 5 and 6); False if room is short."""
    state = work.state
    state[SETTLING] += 1
    while state[STACK] > 0:
        node = work.stack[state[STACK] - 1]
        record = tree.node[node]
        if record["size"] <= record["capacity"]:
            state[STACK] -= 1
        elif node == ROOT or record["split"] or record["low"] == record["high"]:
            if not _partition(tree, compiled, work, node):
                return False
        elif not _cluster(tree, compiled, work, node):
            return False
    return True


@leaf
def _partition(tree: Tree, compiled: Compiled, work: Work, node: int) -> bool:
    """Create p-nodes until the l-node, which is on top of the stack, is small enough; if no
    attribute is left, let it be larger. False if room is short.
    """
    mark_path(tree, work, node)
    if not _list_rows(tree, compiled, work, node):
        return False
    work.state[TOUCHED] = 0
    record, leaf_max = tree.node[node], tree.control[LEAF_MAX]
    start = record["leaf"]
    for at in range(start, start + record["size"]):
        _weigh(compiled, work, tree.entry[at, 0], 1)
    size, fits = record["size"], True
    place = work.state[STACK] - 1
    work.state[STACK] = place
    while record["size"] > record["capacity"]:
        attribute = _best_attribute(work, record["avoided"])
        if attribute < 0:
            break
        rows = work.named[attribute]
        entries = capacity_of(class_of(rows)) + capacity_of(class_of(record["size"]))
        partitions = capacity_of(class_of(record["partition_count"] + 1))
        fits = has_room(tree, work, 1, partitions, entries)
        if not fits:
            break
        top = add_partition(tree, node, attribute, rows)
        _move_rows(tree, compiled, work, node, top)
        work.stack[work.state[STACK]] = top
        work.state[STACK] += 1
    _close_up(tree, start, start + size)
    for at in range(start, start + record["size"]):
        _weigh(compiled, work, tree.entry[at, 0], -1)
    for at in range(work.state[TOUCHED]):
        work.listed[work.touched[at]] = 0
    fit_leaf(tree, node)
    if not fits:
        work.stack[work.state[STACK]] = node
        work.state[STACK] += 1
        return False
    record["capacity"] = max((record["size"] + leaf_max - 1) // leaf_max, 1) * leaf_max
    return True


@leaf
def _list_rows(tree: Tree, compiled: Compiled, work: Work, node: int) -> bool:
    """List the rows of an l-node by the attributes that they name and the path does not, in
    ascending order; False if there is no room for so many pairs.
    """
    programs, entry, pair = compiled.programs, tree.entry, work.pair
    record, count = tree.node[node], 0
    start = record["leaf"]
    for at in range(start, start + record["size"]):
        count += programs.start[entry[at, 0] + 1] - programs.start[entry[at, 0]]
    work.state[PAIRS_NEEDED] = count
    if count > pair.shape[0]:
        return False
    count = 0
    for place in range(record["size"] - 1, -1, -1):
        row = entry[start + place, 0]
        for word in range(programs.start[row], programs.start[row + 1]):
            number = programs.code[word] >> POLARITY_BITS
            attribute = compiled.predicates.record[number]["attribute"]
            first = work.listed[attribute]
            known = first > 0 and pair[first - 1, PLACE] == place
            if work.used[attribute] != work.state[STAMP] and not known:
                pair[count, PLACE], pair[count, NEXT] = place, first
                count += 1
                work.listed[attribute] = count
    return True


@leaf
def _weigh(compiled: Compiled, work: Work, row: int, sign: int) -> None:
    """Let a row count, or count no more, for the attributes it names and the path does not."""
    programs, predicates = compiled.programs, compiled.predicates
    work.state[ROW_STAMP] += 1
    for word in range(programs.start[row], programs.start[row + 1]):
        code = programs.code[word]
        attribute = predicates.record[code >> POLARITY_BITS]["attribute"]
        if work.used[attribute] == work.state[STAMP]:
            continue
        if work.seen[attribute] == work.state[ROW_STAMP]:
            continue
        work.seen[attribute] = work.state[ROW_STAMP]
        if work.named[attribute] == 0:
            work.touched[work.state[TOUCHED]], work.score[attribute] = attribute, 0.0
            work.state[TOUCHED] += 1
        work.named[attribute] += sign
        work.score[attribute] += sign * (1.0 - leaf_share(predicates, work.share, code))


@leaf
def _best_attribute(work: Work, avoided: int) -> int:
    """The attribute of the highest rank that enough rows name, the avoided one last; or -1."""
    best, best_score = -1, -np.inf
    for at in range(work.state[TOUCHED]):
        attribute = work.touched[at]
        if work.named[attribute] < PARTITION_ROWS_MIN:
            continue
        score = work.score[attribute] if attribute != avoided else -1.0
        # What several orders of adding up make of one sum is one score.
        if score > best_score + _TIE or (score > best_score - _TIE and attribute < best):
            best, best_score = attribute, score
    return best


@leaf
def _move_rows(tree: Tree, compiled: Compiled, work: Work, node: int, top: int) -> None:
    """Move the rows that name the attribute of a new p-node into its top bucket; there is room.
    Their entries stay behind without a row.
    """
    attribute = tree.node[top]["attribute"]
    resize_leaf(tree, top, class_of(work.named[attribute]))
    record = tree.node[node]
    pair = work.listed[attribute]
    while pair > 0:
        at = record["leaf"] + work.pair[pair - 1, PLACE]
        row = tree.entry[at, 0]
        if row != _GONE:
            _, low, high = row_interval(compiled, row, attribute)
            target = append_entry(tree, top)
            work.low[target], work.high[target] = low, high
            work.used[attribute] = work.state[STAMP]
            write_entry(tree, compiled, work, target, row)
            work.used[attribute] = 0
            _weigh(compiled, work, row, -1)
            tree.entry[at, 0] = _GONE
            record["size"] -= 1
        pair = work.pair[pair - 1, NEXT]
    work.filled[top] = work.state[SETTLING]


@leaf
def _close_up(tree: Tree, start: int, stop: int) -> None:
    """Let the entries that have rows follow each other from `start` on."""
    kept = start
    for at in range(start, stop):
        if tree.entry[at, 0] != _GONE:
            copy_entry(tree.entry, at, kept)
            kept += 1


@leaf
def _cluster(tree: Tree, compiled: Compiled, work: Work, node: int) -> bool:
    """Split the bucket on top of the stack, and move rows that a half encloses; False if room is
    short.

    Halvings that would put all rows into one half are passed over: that cell is the only child.
    """
    record = tree.node[node]
    start, stop = record["leaf"], record["leaf"] + record["size"]
    middle = middle_of(record["low"], record["high"])
    first, last, lefts, rights = KEY_LAST, KEY_FIRST, 0, 0
    if work.filled[node] != work.state[SETTLING]:
        for at in range(start, stop):
            _, low, high = row_interval(compiled, tree.entry[at, 0], record["attribute"])
            work.low[at], work.high[at] = low, high
    for at in range(start, stop):
        first, last = min(first, work.low[at]), max(last, work.high[at])
        lefts += work.high[at] <= middle
        rights += work.low[at] > middle
    first, last = cell_around(first, last)
    if first != record["low"] or last != record["high"]:
        if not has_room(tree, work, 1, 0, 0):
            return False
        child = new_node(tree, node, record["attribute"], first, last)
        link_child(tree, node, child, last <= middle)
        below = tree.node[child]
        below["leaf"], below["leaf_class"] = start, record["leaf_class"]
        below["size"] = record["size"]
        record["leaf"], record["size"], record["split"] = -1, 0, 1
        work.stack[work.state[STACK] - 1] = child
        work.filled[child] = work.state[SETTLING]
        return True
    entries = capacity_of(class_of(lefts)) + capacity_of(class_of(rights))
    if not has_room(tree, work, 2, 0, entries):
        return False
    record["split"] = 1
    for rows, is_left in ((lefts, True), (rights, False)):
        if rows:
            child = new_half(tree, node, is_left)
            resize_leaf(tree, child, class_of(rows))
            work.stack[work.state[STACK]] = child
            work.state[STACK] += 1
            work.filled[child] = work.state[SETTLING]
    kept = 0
    for at in range(start, stop):
        low, high = work.low[at], work.high[at]
        if low <= middle < high:
            copy_entry(tree.entry, at, start + kept)
            kept += 1
        else:
            target = append_entry(tree, record["left"] if high <= middle else record["right"])
            work.low[target], work.high[target] = low, high
            copy_entry(tree.entry, at, target)
    record["size"] = kept
    fit_leaf(tree, node)
    return True
