"""How rows enter a BE-Tree: down one path into an l-node, which is cut if it overflows."""

from __future__ import annotations

from index.kernels import leaf
from index.kernels.betree_cut import settle
from index.kernels.betree_pool import (
    ATTRIBUTE,
    CHANGES,
    ROOT,
    ROW_COUNT,
    ROWS,
    SCORE,
    TOP,
    Tree,
    append_entry,
    capacity_of,
    class_of,
    find_partition,
    home_of,
    is_top,
)
from index.kernels.betree_work import (
    JUDGED,
    JUDGED_ATTRIBUTE,
    PENDING,
    STACK,
    Work,
    has_room,
    mark_path,
    row_interval,
    write_entry,
)
from index.kernels.probe import Compiled
from index.program import POLARITY_BITS

WINDOW_PART, WINDOW_MIN = 10, 64
"""Section 7: a window is a tenth of the rows below a p-node, and here at least so many changes."""


@leaf
def insert_pending(tree: Tree, compiled: Compiled, work: Work) -> bool:
    """Insert all pending rows and cut what overflows; False if room is short."""
    state = work.state
    while True:
        if not settle(tree, compiled, work):
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
    mark_path(tree, work, node)
    write_entry(tree, compiled, work, append_entry(tree, node), row)
    tree.control[ROW_COUNT] += 1
    note_rows(tree, work, node, 1, 1)
    work.stack[work.state[STACK]] = node
    work.state[STACK] += 1
    return True


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
