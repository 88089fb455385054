"""How rows enter a BE-Tree: down one path into an l-node, which is cut if it overflows.

    overflow of the root, a split or an atomic bucket     space partitioning: a p-node for the best
                                                          attribute takes all rows that name it
    overflow of any other bucket                          space clustering: the bucket is halved

Every step asks for room before it changes anything. Where room is short the caller makes some and
calls again; what is left to do stands in `Work`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.betree_keys import (
    KEY_FIRST,
    KEY_LAST,
    cell_around,
    leaf_interval,
    leaf_share,
    middle_of,
    short_key,
)
from index.kernels.betree_pool import (
    ATTRIBUTE,
    CHANGES,
    ENTRY_RUNS,
    LEAF_MAX,
    NODE_STOP,
    PARTITION_RUNS,
    ROOT,
    ROW_COUNT,
    ROWS,
    SCORE,
    TEST_WORDS,
    TESTS,
    TOP,
    Tree,
    add_partition,
    append_entry,
    capacity_of,
    class_of,
    copy_entry,
    find_partition,
    fit_leaf,
    home_of,
    is_top,
    link_child,
    new_half,
    new_node,
    resize_leaf,
)
from index.kernels.probe import Compiled
from index.program import POLARITY_BITS

PARTITION_ROWS_MIN = 3
"""Section 7: an attribute that fewer rows name is no partition."""
WINDOW_PART, WINDOW_MIN = 10, 64
"""Section 7: a window is a tenth of the rows below a p-node, and here at least so many changes."""

STATE_SIZE = 12
STACK, PENDING, TOUCHED, STAMP, ROW_STAMP, SETTLING, JUDGED, JUDGED_ATTRIBUTE, REMOVED = range(9)
NODES_NEEDED, PARTITIONS_NEEDED, ENTRIES_NEEDED = range(9, STATE_SIZE)
"""Places in `Work.state`: sizes of the stacks, the last stamps, the c-node and the attribute of a
p-node whose window is over, rows removed so far, and the extents that pools must have."""

_STOP = 0
_TIE = 1e-6


class Work(NamedTuple):
    """Working memory of a change, and what is left to do."""

    share: NDArray[np.float64]  # of predicates, from statistics
    used: NDArray[np.int32]  # [attributes] stamp of the path that has a p-node of the attribute
    seen: NDArray[np.int32]  # [attributes] stamp of the row that names it
    named: NDArray[np.int32]  # [attributes] rows of an overflowing l-node that name it
    score: NDArray[np.float64]  # [attributes] its gain less its loss
    touched: NDArray[np.int32]  # [attributes] those that such rows name
    cost: NDArray[np.float64]  # [TESTS] of the tests chosen so far
    chosen: NDArray[np.int32]  # [TESTS]
    stack: NDArray[np.int32]  # nodes whose l-node may overflow
    walk: NDArray[np.int32]  # nodes to visit
    pending: NDArray[np.int32]  # rows to insert, the last first
    filled: NDArray[np.int32]  # [nodes] stamp of the settling that knows the intervals of its rows
    low: NDArray[np.int64]  # [entries] the keys that the row of an entry covers, in its directory
    high: NDArray[np.int64]
    state: NDArray[np.int64]  # [STATE_SIZE]


@leaf
def has_room(tree: Tree, work: Work, nodes: int, partitions: int, entries: int) -> bool:
    """Is there room for so many more? If not, `Work.state` says what extents are needed."""
    state = work.state
    state[NODES_NEEDED] = tree.control[NODE_STOP] + nodes
    state[PARTITIONS_NEEDED] = tree.control[PARTITION_RUNS + _STOP] + partitions
    state[ENTRIES_NEEDED] = tree.control[ENTRY_RUNS + _STOP] + entries
    return bool(
        state[NODES_NEEDED] <= tree.node.size
        and state[PARTITIONS_NEEDED] <= tree.partition.shape[0]
        and state[ENTRIES_NEEDED] <= tree.entry.shape[0]
    )


@leaf
def insert_pending(tree: Tree, compiled: Compiled, work: Work) -> bool:
    """Insert all pending rows and cut what overflows; False if room is short."""
    state = work.state
    while True:
        if not _settle(tree, compiled, work):
            return False
        if state[PENDING] == 0 or state[JUDGED] >= 0:
            return True
        row = work.pending[state[PENDING] - 1]
        if not _place_row(tree, compiled, work, row):
            return False
        state[PENDING] -= 1


@leaf
def _place_row(tree: Tree, compiled: Compiled, work: Work, row: int) -> bool:
    """Insert a row into the l-node of its home (algorithm 3); False if room is short."""
    programs = compiled.programs
    length = programs.start[row + 1] - programs.start[row]
    if not has_room(tree, work, 2 * length, 0, 0):
        return False
    node = ROOT
    while True:
        best, best_score = -1, -(2**62)
        for word in range(programs.start[row], programs.start[row + 1]):
            number = programs.code[word] >> POLARITY_BITS
            attribute = compiled.predicates.record[number]["attribute"]
            at = find_partition(tree, node, attribute)
            if at >= 0 and tree.ranking[at, SCORE] > best_score:
                best, best_score = at, tree.ranking[at, SCORE]
        if best < 0:
            break
        _, low, high = row_interval(compiled, row, tree.partition[best, ATTRIBUTE])
        node = home_of(tree, tree.partition[best, TOP], low, high, True)
    if not has_room(tree, work, 0, 0, capacity_of(class_of(tree.node[node]["size"] + 1))):
        return False
    _mark_path(tree, work, node)
    _write_entry(tree, compiled, work, append_entry(tree, node), row)
    tree.control[ROW_COUNT] += 1
    note_rows(tree, work, node, 1, 1)
    work.stack[work.state[STACK]] = node
    work.state[STACK] += 1
    return True


@leaf
def row_interval(compiled: Compiled, row: int, attribute: int) -> tuple[bool, int, int]:
    """Does a row name an attribute, and the keys it covers there: of several leaves the one that
    covers least, because of an array each may be satisfied by another value.
    """
    found, low, high = False, KEY_FIRST, KEY_LAST
    for word in range(compiled.programs.start[row], compiled.programs.start[row + 1]):
        code = compiled.programs.code[word]
        if compiled.predicates.record[code >> POLARITY_BITS]["attribute"] != attribute:
            continue
        first, last = leaf_interval(compiled.predicates, code)
        if not found or float(last) - float(first) < float(high) - float(low):
            low, high = first, last
        found = True
    return found, low, high


@leaf
def _mark_path(tree: Tree, work: Work, node: int) -> None:
    """Stamp the attributes that have a p-node above a node."""
    work.state[STAMP] += 1
    while node != ROOT:
        work.used[tree.node[node]["attribute"]] = work.state[STAMP]
        node = tree.node[node]["parent"]


@leaf
def note_rows(tree: Tree, work: Work, node: int, rows: int, changes: int) -> None:
    """Count rows into, or out of, all p-nodes above a node; note one whose window is over."""
    while node != ROOT:
        parent = tree.node[node]["parent"]
        if is_top(tree, node):
            attribute = tree.node[node]["attribute"]
            at = find_partition(tree, parent, attribute)
            ranking = tree.ranking
            ranking[at, ROWS] += rows
            ranking[at, SCORE] += rows
            ranking[at, CHANGES] += changes
            if ranking[at, CHANGES] >= max(ranking[at, ROWS] // WINDOW_PART, WINDOW_MIN):
                work.state[JUDGED], work.state[JUDGED_ATTRIBUTE] = parent, attribute
        node = parent


@leaf
def _write_entry(tree: Tree, compiled: Compiled, work: Work, at: int, row: int) -> None:
    """Fill an entry with the row's most selective tests; those of the path are satisfied mostly."""
    count, programs, predicates = 0, compiled.programs, compiled.predicates
    for word in range(programs.start[row], programs.start[row + 1]):
        code = programs.code[word]
        cost = leaf_share(predicates, work.share, code)
        if work.used[predicates.record[code >> POLARITY_BITS]["attribute"]] == work.state[STAMP]:
            cost += 1.0
        place = min(count, TESTS - 1)
        if count == TESTS and cost >= work.cost[place]:
            continue
        count = min(count + 1, TESTS)
        while place > 0 and work.cost[place - 1] > cost:
            work.cost[place], work.chosen[place] = work.cost[place - 1], work.chosen[place - 1]
            place -= 1
        work.cost[place], work.chosen[place] = cost, code
    entry = tree.entry
    entry[at, 0] = row
    for place in range(TESTS):
        word = 1 + TEST_WORDS * place
        entry[at, word] = -1
        if place < count:
            low, high = leaf_interval(predicates, work.chosen[place])
            number = work.chosen[place] >> POLARITY_BITS
            entry[at, word] = predicates.record[number]["attribute"]
            entry[at, word + 1], entry[at, word + 2] = short_key(low), short_key(high)


@leaf
def _settle(tree: Tree, compiled: Compiled, work: Work) -> bool:
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
    _mark_path(tree, work, node)
    work.state[TOUCHED] = 0
    record, leaf_max = tree.node[node], tree.control[LEAF_MAX]
    start = record["leaf"]
    for at in range(start, start + record["size"]):
        _weigh(compiled, work, tree.entry[at, 0], 1)
    fits = True
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
    for at in range(record["leaf"], record["leaf"] + record["size"]):
        _weigh(compiled, work, tree.entry[at, 0], -1)
    fit_leaf(tree, node)
    if not fits:
        work.stack[work.state[STACK]] = node
        work.state[STACK] += 1
        return False
    record["capacity"] = max((record["size"] + leaf_max - 1) // leaf_max, 1) * leaf_max
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
    """Move the rows that name the attribute of a new p-node into its top bucket; there is room."""
    attribute = tree.node[top]["attribute"]
    resize_leaf(tree, top, class_of(work.named[attribute]))
    work.used[attribute] = work.state[STAMP]
    record, kept = tree.node[node], 0
    start = record["leaf"]
    for at in range(start, start + record["size"]):
        row = tree.entry[at, 0]
        named, low, high = row_interval(compiled, row, attribute)
        if named:
            target = append_entry(tree, top)
            work.low[target], work.high[target] = low, high
            _write_entry(tree, compiled, work, target, row)
            work.used[attribute] = 0
            _weigh(compiled, work, row, -1)
            work.used[attribute] = work.state[STAMP]
        else:
            copy_entry(tree.entry, at, start + kept)
            kept += 1
    record["size"] = kept
    work.used[attribute] = 0
    work.filled[top] = work.state[SETTLING]


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
