"""PS-Trees in arrays: which lists of rows a value meets, and in which lists a range is kept.

A node stands for the values whose keys begin with its digits, its block. Its predicates' ends cut
the attribute before the block and after it, which is what makes predicate spaces. Below a node lies
nothing, or one node, or a fan of up to sixteen, one for each next digit. Digits that all nodes
below a node or link have in common are skipped and kept with the next node:

    20 c034..  30 c03e..  60 c04e..  80 c054..      the first digits of these numbers' keys

    root ── c0 ─┬─ 3 ─┬─ 4 ── 0..8000      20
                │     └─ e ── 0..8000      30
                ├─ 4 ── e0..8000           60
                └─ 5 ── 40..8000           80

A range is kept where it is not cut: in `e` of a node that it ends with; in `l` or `g` of nodes on
the way to its ends, for values below or above the digits that are skipped there (61 lies above
e0..8000 under link 4); and at a fan for the run of links that it covers wholly, as in a segment
tree over the sixteen links: list 1 is for all, list k is split into lists 2k and 2k + 1, list
16 + d is for the link of digit d. So a row is in each of its spaces by way of exactly one list, and
no list has to be copied when another row's ends come, but those beside skipped digits that an end
interrupts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.prefetch import prefetch
from index.kernels.tree_keys import DIGITS, digit, head_mask, window

NODE_FIELDS = 8
LOW, SAME, HIGH, BELOW, PARENT, LENGTH, BEFORE, AFTER = range(NODE_FIELDS)
"""The paper's l, e and g; a fan, or the negative of the only node below, or 0; the node above; the
number of skipped digits, -1 of a free node; how many predicates' ends cut before and after."""
FAN_WORDS = 3 * DIGITS
LISTS = DIGITS
"""The first sixteen words of a fan are links; list k, 2 <= k < 32, is word LISTS + k."""
CHILDREN, NEXT_FAN = DIGITS, DIGITS + 1
"""Where lists 0 and 1 would be: the number of links, -1 of a free fan; the next free fan."""
STATE_FIELDS = 13
NODES, FREE_NODE, NODE_HOLES, FANS, FREE_FAN, FAN_HOLES = range(6)
CUTS, DIGITS_MAX, ROWS, ROW_HOLES, NEED_NODES, NEED_FANS, NEED_WORDS = range(6, STATE_FIELDS)
"""Places in `state`: the ends of node and fan, the first free and how many are; cuts; the longest
key of an end so far; the end of row, and how many rows before it are no more; what must be free
before a change goes on."""
LISTS_PER_DIGIT = 5
"""At most so many lists for a digit of a key: four of a fan, and one of a node."""


class SpaceTrees(NamedTuple):
    """The trees of a attributes and of n rows; places of node, fan and pool count from 1."""

    root: NDArray[np.int32]  # [a * KINDS] node, or 0
    skip: NDArray[np.uint64]  # [nodes] LENGTH digits, then zeros
    node: NDArray[np.int32]  # [nodes, NODE_FIELDS]
    fan: NDArray[np.int32]  # [fans, FAN_WORDS]
    pool: NDArray[np.int32]  # blocks of lists, see kernels.row_lists
    blocks: NDArray[np.int64]  # [BLOCK_FIELDS]
    state: NDArray[np.int64]  # [STATE_FIELDS]
    row: NDArray[np.int32]  # [n] ascending
    leaf: NDArray[np.int32]  # [n] the leaf it is filed under, -1 of a row that is no more


class Pieces(NamedTuple):
    """q disjoint sets of values, each a block or a range, to be entered in trees."""

    entry: NDArray[np.int64]  # [q] row << 1 | 1 if the row must be tested
    tree: NDArray[np.int64]  # [q] attribute * KINDS + kind
    low: NDArray[np.int64]  # [q] key in `word`; a block is a range whose ends are one key
    low_digits: NDArray[np.int64]  # [q] -1 without lower end
    high: NDArray[np.int64]  # [q]
    high_digits: NDArray[np.int64]  # [q] -1 without upper end
    closed: NDArray[np.int64]  # [q] 1 if the upper end belongs to the range
    word: NDArray[np.uint64]


@leaf
def is_skip_least(trees: SpaceTrees, node: int) -> bool:
    """Does no value lie below the node's block and above its parent's or its link's begin?"""
    return bool(trees.skip[node] == np.uint64(0))


@leaf
def is_skip_greatest(trees: SpaceTrees, node: int) -> bool:
    """Does no value lie above the node's block and below the end of its parent's or its link's?"""
    return bool(trees.skip[node] == head_mask(int(trees.node[node, LENGTH])))


@inlined
def _push(trees: SpaceTrees, heads: NDArray[np.int32], count: int, head: int) -> int:
    if head == 0:
        return count
    if head > 0:
        prefetch(trees.pool, head)
    heads[count] = head
    return count + 1


@leaf
def stab(trees: SpaceTrees, root: int, key: NDArray[np.uint64], heads: NDArray[np.int32]) -> int:
    """Fill `heads` with the lists that a value's space has; returns their number.

    One step a node: the number of digits of a key bounds it, the number of rows does not.
    """
    node, depth = root, 0
    count = _push(trees, heads, 0, trees.node[node, SAME])
    while True:
        below = int(trees.node[node, BELOW])
        if below == 0:
            return count
        child = -below
        if below > 0:
            link = digit(key, 0, depth)
            depth += 1
            child = int(trees.fan[below, link])
            if child:
                prefetch(trees.skip, child)
                prefetch(trees.node, child * NODE_FIELDS)
            for level in range(4):
                head = trees.fan[below, LISTS + ((DIGITS + link) >> level)]
                count = _push(trees, heads, count, head)
            if child == 0:
                return count
        length = int(trees.node[child, LENGTH])
        digits = window(key, 0, depth) & head_mask(length)
        if digits != trees.skip[child]:
            side = LOW if digits < trees.skip[child] else HIGH
            return _push(trees, heads, count, trees.node[child, side])
        count = _push(trees, heads, count, trees.node[child, SAME])
        node = child
        depth += length


@inlined
def _push_run(refs: NDArray[np.int32], count: int, fan: int, first: int, last: int) -> int:
    """Append the lists of a fan that together are for the links first..last."""
    low, high = DIGITS + first, DIGITS + last + 1
    while low < high:
        if low & 1:
            refs[count] = ~(fan * FAN_WORDS + LISTS + low)
            count += 1
            low += 1
        if high & 1:
            high -= 1
            refs[count] = ~(fan * FAN_WORDS + LISTS + high)
            count += 1
        low >>= 1
        high >>= 1
    return count


@leaf
def cover(trees: SpaceTrees, pieces: Pieces, piece: int, refs: NDArray[np.int32]) -> int:
    """Fill `refs` with the lists that a piece is kept in, by place; returns their number.

    Its ends are nodes. A place is node * NODE_FIELDS + field, or the complement of
    fan * FAN_WORDS + word.
    """
    low, low_digits = pieces.low[piece], pieces.low_digits[piece]
    high, high_digits = pieces.high[piece], pieces.high_digits[piece]
    root = int(trees.root[pieces.tree[piece]])
    if low_digits < 0:
        return _cover_up_to(trees, pieces, piece, (root, 0), refs, 0)
    if high_digits < 0:
        return _cover_from(trees, pieces, piece, (root, 0), refs, 0)
    node, depth = root, 0
    while True:
        if low == high and depth == low_digits:
            refs[0] = node * NODE_FIELDS + SAME
            return 1
        below = int(trees.node[node, BELOW])
        child = -below
        if below > 0:
            first = digit(pieces.word, low, depth)
            last = digit(pieces.word, high, depth)
            depth += 1
            child = int(trees.fan[below, first])
            if first != last:
                break
        node = child
        depth += trees.node[child, LENGTH]
    count = _push_run(refs, 0, below, first + 1, last - 1)
    count = _enter_from(trees, refs, count, child)
    at = child, depth + trees.node[child, LENGTH]
    count = _cover_from(trees, pieces, piece, at, refs, count)
    child = int(trees.fan[below, last])
    count = _enter_up_to(trees, refs, count, child)
    at = child, depth + trees.node[child, LENGTH]
    return _cover_up_to(trees, pieces, piece, at, refs, count)


@inlined
def _enter_from(trees: SpaceTrees, refs: NDArray[np.int32], count: int, child: int) -> int:
    """Append the list of what lies above a node's block among the skipped digits' values."""
    if is_skip_greatest(trees, child):
        return count
    refs[count] = child * NODE_FIELDS + HIGH
    return count + 1


@inlined
def _enter_up_to(trees: SpaceTrees, refs: NDArray[np.int32], count: int, child: int) -> int:
    """Append the list of what lies below a node's block among the skipped digits' values."""
    if is_skip_least(trees, child):
        return count
    refs[count] = child * NODE_FIELDS + LOW
    return count + 1


@leaf
def _cover_from(
    trees: SpaceTrees,
    pieces: Pieces,
    piece: int,
    at: tuple[int, int],
    refs: NDArray[np.int32],
    count: int,
) -> int:
    """Append the lists of all from the lower end on within the block of a node on the way to it.

    at      the node, and the number of digits of its block
    """
    low, low_digits = pieces.low[piece], pieces.low_digits[piece]
    node, depth = at
    while depth < low_digits:
        below = int(trees.node[node, BELOW])
        node = -below
        if below > 0:
            link = digit(pieces.word, low, depth)
            count = _push_run(refs, count, below, link + 1, DIGITS - 1)
            node = int(trees.fan[below, link])
            depth += 1
        count = _enter_from(trees, refs, count, node)
        depth += trees.node[node, LENGTH]
    refs[count] = node * NODE_FIELDS + SAME
    return count + 1


@leaf
def _cover_up_to(
    trees: SpaceTrees,
    pieces: Pieces,
    piece: int,
    at: tuple[int, int],
    refs: NDArray[np.int32],
    count: int,
) -> int:
    """The same of all up to the upper end."""
    high, high_digits = pieces.high[piece], pieces.high_digits[piece]
    node, depth = at
    while depth < high_digits:
        below = int(trees.node[node, BELOW])
        node = -below
        if below > 0:
            link = digit(pieces.word, high, depth)
            count = _push_run(refs, count, below, 0, link - 1)
            node = int(trees.fan[below, link])
            depth += 1
        count = _enter_up_to(trees, refs, count, node)
        depth += trees.node[node, LENGTH]
    if pieces.closed[piece]:
        refs[count] = node * NODE_FIELDS + SAME
        count += 1
    return count


@leaf
def end_node(trees: SpaceTrees, tree: int, word: NDArray[np.uint64], at: int, digits: int) -> int:
    """The node of an end, which is in the tree."""
    node, depth = int(trees.root[tree]), 0
    while depth < digits:
        below = int(trees.node[node, BELOW])
        node = -below
        if below > 0:
            node = int(trees.fan[below, digit(word, at, depth)])
            depth += 1
        depth += trees.node[node, LENGTH]
    return node


@leaf
def list_cuts(
    trees: SpaceTrees, root: int, stack: NDArray[np.int64], cuts: NDArray[np.int64]
) -> int:
    """Fill `cuts` with those of a tree in the order of values, node << 1 | 1 if after it.

    On entry `stack` has room for all nodes twice. Returns the number of cuts.
    """
    stack[0] = root
    size, count = 1, 0
    while size:
        size -= 1
        node = stack[size]
        if node < 0:
            cuts[count] = ~node << 1 | 1
            count += 1
            continue
        if trees.node[node, BEFORE] and node != root:
            cuts[count] = node << 1
            count += 1
        if trees.node[node, AFTER] and node != root:
            stack[size] = ~node
            size += 1
        below = int(trees.node[node, BELOW])
        if below < 0:
            stack[size] = -below
            size += 1
        elif below > 0:
            for link in range(DIGITS - 1, -1, -1):
                child = trees.fan[below, link]
                if child:
                    stack[size] = child
                    size += 1
    return count
