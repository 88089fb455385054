"""Changes of PS-Trees: ends of predicates divide spaces as they come, and merge them as they go.

A change needs room in the arrays. Each step looks for it first, and returns with nothing changed if
there is too little; what was done before stands, and is found when the piece is tried again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.row_lists import (
    WORDS,
    append,
    block_words,
    copied,
    drop,
    remove,
    words_to_append,
)
from index.kernels.space_tree import (
    AFTER,
    BEFORE,
    BELOW,
    CHILDREN,
    CUTS,
    DIGITS_MAX,
    FAN_HOLES,
    FAN_WORDS,
    FANS,
    FREE_FAN,
    FREE_NODE,
    HIGH,
    LENGTH,
    LISTS,
    LOW,
    NEED_FANS,
    NEED_NODES,
    NEED_WORDS,
    NEXT_FAN,
    NODE_FIELDS,
    NODE_HOLES,
    NODES,
    PARENT,
    Pieces,
    SpaceTrees,
    cover,
    end_node,
    is_skip_greatest,
    is_skip_least,
)
from index.kernels.tree_keys import (
    DIGITS,
    WORD_DIGITS,
    common_digits,
    digit,
    first_digit,
    head_mask,
    joined,
    shifted,
    window,
)

_COPIES = 5
"""A list is copied to at most so many others when its node gets a fan or a node above it."""


@leaf
def insert_pieces(trees: SpaceTrees, pieces: Pieces, first: int, refs: NDArray[np.int32]) -> int:
    """Enter pieces from `first` on; returns their number, or the piece that must be tried again
    with more room. `refs` has room for the lists of any piece.
    """
    for piece in range(first, pieces.entry.size):
        tree = pieces.tree[piece]
        low_node, high_node = 0, 0
        if trees.root[tree] == 0:
            if not _has_room(trees, 1, 0, 0):
                return piece
            trees.root[tree] = _new_node(trees, 0)
        if pieces.low_digits[piece] >= 0:
            low_node = _reach(trees, pieces, piece, pieces.low[piece], pieces.low_digits[piece])
            if low_node == 0:
                return piece
        if pieces.high_digits[piece] >= 0:
            high_node = _reach(trees, pieces, piece, pieces.high[piece], pieces.high_digits[piece])
            if high_node == 0:
                return piece
        count = cover(trees, pieces, piece, refs)
        words = 0
        for at in range(count):
            words += words_to_append(trees.pool, _head(trees, refs[at]))
        if not _has_room(trees, 0, 0, words):
            return piece
        for at in range(count):
            head = append(trees.pool, trees.blocks, _head(trees, refs[at]), pieces.entry[piece])
            _set_head(trees, refs[at], head)
        _count_ends(trees, (low_node, high_node), pieces.closed[piece], 1)
    return int(pieces.entry.size)


@leaf
def remove_pieces(trees: SpaceTrees, pieces: Pieces, refs: NDArray[np.int32]) -> None:
    """Take out pieces that were entered."""
    for piece in range(pieces.entry.size):
        tree = pieces.tree[piece]
        low_node, high_node = 0, 0
        if pieces.low_digits[piece] >= 0:
            low_node = end_node(
                trees, tree, pieces.word, pieces.low[piece], pieces.low_digits[piece]
            )
        if pieces.high_digits[piece] >= 0:
            high_node = end_node(
                trees, tree, pieces.word, pieces.high[piece], pieces.high_digits[piece]
            )
        for at in range(cover(trees, pieces, piece, refs)):
            head = remove(trees.pool, trees.blocks, _head(trees, refs[at]), pieces.entry[piece])
            _set_head(trees, refs[at], head)
        _count_ends(trees, (low_node, 0), 0, -1)
        if low_node and low_node != high_node:
            _prune(trees, tree, low_node)
        _count_ends(trees, (0, high_node), pieces.closed[piece], -1)
        if high_node:
            _prune(trees, tree, high_node)


@inlined
def _head(trees: SpaceTrees, ref: int) -> int:
    """The head of the list at a place as `cover` names it."""
    if ref < 0:
        return int(trees.fan[(~ref) // FAN_WORDS, (~ref) % FAN_WORDS])
    return int(trees.node[ref // NODE_FIELDS, ref % NODE_FIELDS])


@inlined
def _set_head(trees: SpaceTrees, ref: int, head: int) -> None:
    if ref < 0:
        trees.fan[(~ref) // FAN_WORDS, (~ref) % FAN_WORDS] = head
    else:
        trees.node[ref // NODE_FIELDS, ref % NODE_FIELDS] = head


@inlined
def _count_ends(trees: SpaceTrees, ends: tuple[int, int], closed: int, change: int) -> None:
    """Count the cuts of a range with these end nodes, 0 for none, once more or once less."""
    low_node, high_node = ends
    if low_node:
        _count_cut(trees, low_node, BEFORE, change)
    if high_node:
        _count_cut(trees, high_node, AFTER if closed else BEFORE, change)


@inlined
def _count_cut(trees: SpaceTrees, node: int, side: int, change: int) -> None:
    before = int(trees.node[node, side])
    trees.node[node, side] = before + change
    if trees.node[node, PARENT] == 0:
        return  # nothing lies before or after all values
    trees.state[CUTS] += (before + change > 0) - (before > 0)


@inlined
def _has_room(trees: SpaceTrees, nodes: int, fans: int, words: int) -> bool:
    """Is there so much room at the ends of the arrays? What is missing is noted."""
    state = trees.state
    if (
        state[NODES] + nodes <= trees.skip.size
        and state[FANS] + fans <= trees.fan.shape[0]
        and trees.blocks[WORDS] + words <= trees.pool.size
    ):
        return True
    state[NEED_NODES], state[NEED_FANS], state[NEED_WORDS] = nodes, fans, words
    return False


@leaf
def _new_node(trees: SpaceTrees, parent: int) -> int:
    node = trees.state[FREE_NODE]
    if node:
        trees.state[FREE_NODE] = trees.node[node, BELOW]
        trees.state[NODE_HOLES] -= 1
    else:
        node = trees.state[NODES]
        trees.state[NODES] += 1
    for field in range(NODE_FIELDS):
        trees.node[node, field] = 0
    trees.node[node, PARENT] = parent
    trees.skip[node] = np.uint64(0)
    return int(node)


@leaf
def _free_node(trees: SpaceTrees, node: int) -> None:
    trees.node[node, BELOW] = trees.state[FREE_NODE]
    trees.node[node, LENGTH] = -1
    trees.state[FREE_NODE] = node
    trees.state[NODE_HOLES] += 1


@leaf
def _new_fan(trees: SpaceTrees) -> int:
    fan = trees.state[FREE_FAN]
    if fan:
        trees.state[FREE_FAN] = trees.fan[fan, NEXT_FAN]
        trees.state[FAN_HOLES] -= 1
    else:
        fan = trees.state[FANS]
        trees.state[FANS] += 1
    for word in range(FAN_WORDS):
        trees.fan[fan, word] = 0
    return int(fan)


@leaf
def _free_fan(trees: SpaceTrees, fan: int) -> None:
    trees.fan[fan, CHILDREN] = -1
    trees.fan[fan, NEXT_FAN] = trees.state[FREE_FAN]
    trees.state[FREE_FAN] = fan
    trees.state[FAN_HOLES] += 1


@leaf
def _reach(trees: SpaceTrees, pieces: Pieces, piece: int, at: int, digits: int) -> int:
    """The node of the key at word[at], made if there is none; 0 if there is too little room."""
    word = pieces.word
    trees.state[DIGITS_MAX] = max(trees.state[DIGITS_MAX], digits)
    node, depth = int(trees.root[pieces.tree[piece]]), 0
    while depth < digits:
        below = int(trees.node[node, BELOW])
        child, link = -below, -1
        if below > 0:
            link = digit(word, at, depth)
            child = int(trees.fan[below, link])
        start = depth + (below > 0)
        if child == 0:
            if not _has_room(trees, 1, 0, 0):
                return 0
            child = _new_node(trees, node)
            length = min(digits - start, WORD_DIGITS)
            trees.node[child, LENGTH] = length
            trees.skip[child] = window(word, at, start) & head_mask(length)
            _link(trees, node, link, child)
            node, depth = child, start + length
            continue
        length = int(trees.node[child, LENGTH])
        common = common_digits(window(word, at, start), trees.skip[child])
        common = min(common, length, digits - start)
        if common < length:
            lists = block_words(trees.pool, int(trees.node[child, LOW]))
            lists += block_words(trees.pool, int(trees.node[child, HIGH]))
            if not _has_room(trees, 1, 1, _COPIES * lists):
                return 0
            if below < 0 and common == 0:
                _spread(trees, node)
                continue
            child = _divide(trees, node, link, common)
        node, depth = child, start + common
    return node


@leaf
def _link(trees: SpaceTrees, node: int, link: int, child: int) -> None:
    """Let a node without links have its only child, or its fan one more."""
    if link < 0:
        trees.node[node, BELOW] = -child
    else:
        fan = trees.node[node, BELOW]
        trees.fan[fan, link] = child
        trees.fan[fan, CHILDREN] += 1


@leaf
def _divide(trees: SpaceTrees, node: int, link: int, common: int) -> int:
    """Put a node after the first `common` digits that a child skips, and return it.

    What lay beside the child's block lies partly beside the new node's, and partly within it.
    """
    below = int(trees.node[node, BELOW])
    child = int(trees.fan[below, link]) if link >= 0 else -below
    length = int(trees.node[child, LENGTH])
    above = _new_node(trees, node)
    trees.node[above, BELOW] = -child
    trees.node[above, LENGTH] = common
    trees.skip[above] = trees.skip[child] & head_mask(common)
    trees.node[child, PARENT] = above
    trees.node[child, LENGTH] = length - common
    trees.skip[child] = shifted(trees.skip[child], common)
    if link >= 0:
        trees.fan[below, link] = above
    else:
        trees.node[node, BELOW] = -above
    if not is_skip_least(trees, above):
        _share(trees, above, child, LOW, is_skip_least(trees, child))
    if not is_skip_greatest(trees, above):
        _share(trees, above, child, HIGH, is_skip_greatest(trees, child))
    return above


@leaf
def _share(trees: SpaceTrees, above: int, child: int, side: int, wholly: bool) -> None:
    """Give a new node the list of the node below it, which keeps a copy unless `wholly`."""
    head = int(trees.node[child, side])
    if wholly:
        trees.node[child, side] = 0
    else:
        head = copied(trees.pool, trees.blocks, head)
    trees.node[above, side] = head


@leaf
def _spread(trees: SpaceTrees, node: int) -> None:
    """Replace the only child of a node by a fan with that child."""
    child = -int(trees.node[node, BELOW])
    fan = _new_fan(trees)
    link = first_digit(trees.skip[child])
    trees.node[node, BELOW] = fan
    trees.fan[fan, CHILDREN] = 1
    trees.fan[fan, link] = child
    trees.skip[child] = shifted(trees.skip[child], 1)
    trees.node[child, LENGTH] -= 1
    _share_run(trees, fan, child, LOW, (0, link - 1))
    _share_run(trees, fan, child, HIGH, (link + 1, DIGITS - 1))


@leaf
def _share_run(trees: SpaceTrees, fan: int, child: int, side: int, run: tuple[int, int]) -> None:
    """Give a run of links the list of a child, which keeps it if any value still lies there."""
    head = int(trees.node[child, side])
    low, high = DIGITS + run[0], DIGITS + run[1] + 1
    while low < high:
        if low & 1:
            trees.fan[fan, LISTS + low] = copied(trees.pool, trees.blocks, head)
            low += 1
        if high & 1:
            high -= 1
            trees.fan[fan, LISTS + high] = copied(trees.pool, trees.blocks, head)
        low >>= 1
        high >>= 1
    empty = is_skip_least(trees, child) if side == LOW else is_skip_greatest(trees, child)
    if empty:
        drop(trees.pool, trees.blocks, head)
        trees.node[child, side] = 0


@leaf
def _prune(trees: SpaceTrees, tree: int, node: int) -> None:
    """Remove a node that no predicate ends with any more, and what is of no use without it."""
    while trees.node[node, BEFORE] == 0 and trees.node[node, AFTER] == 0:
        below, parent = int(trees.node[node, BELOW]), int(trees.node[node, PARENT])
        if below > 0 or (below < 0 and parent == 0):
            return
        if below < 0:
            _unite(trees, node, -below)
            return
        _free_node(trees, node)
        if parent == 0:
            trees.root[tree] = 0
            return
        _unlink(trees, parent, node)
        node = parent


@leaf
def _replace(trees: SpaceTrees, parent: int, node: int, other: int) -> int:
    """Let a parent link to another node, or to none, 0; returns the parent's fan, or 0."""
    fan = int(trees.node[parent, BELOW])
    if fan < 0:
        trees.node[parent, BELOW] = -other
        return 0
    link = 0
    while trees.fan[fan, link] != node:
        link += 1
    trees.fan[fan, link] = other
    return fan


@leaf
def _unite(trees: SpaceTrees, node: int, child: int) -> None:
    """Remove a node with one child, which skips the digits of both, if they are a word at most."""
    length, child_length = int(trees.node[node, LENGTH]), int(trees.node[child, LENGTH])
    if length + child_length > WORD_DIGITS:
        return
    parent = int(trees.node[node, PARENT])
    _replace(trees, parent, node, child)
    trees.node[child, PARENT] = parent
    _take_back(trees, node, child, LOW, is_skip_least(trees, child))
    _take_back(trees, node, child, HIGH, is_skip_greatest(trees, child))
    trees.skip[child] = joined(trees.skip[node], length, trees.skip[child])
    trees.node[child, LENGTH] = length + child_length
    _free_node(trees, node)


@leaf
def _take_back(trees: SpaceTrees, node: int, child: int, side: int, empty: bool) -> None:
    """Of the same list at a node and its only child keep one, at the child."""
    head = int(trees.node[node, side])
    if empty:
        trees.node[child, side] = head
    else:
        drop(trees.pool, trees.blocks, head)


@leaf
def _unlink(trees: SpaceTrees, parent: int, node: int) -> None:
    """Take a child from its parent, and a fan that is not needed for it any more."""
    fan = _replace(trees, parent, node, 0)
    if fan == 0:
        return
    trees.fan[fan, CHILDREN] -= 1
    if trees.fan[fan, CHILDREN] == 0:
        trees.node[parent, BELOW] = 0
        _free_fan(trees, fan)
        return
    if trees.fan[fan, CHILDREN] > 1:
        return
    link = 0
    while trees.fan[fan, link] == 0:
        link += 1
    child = int(trees.fan[fan, link])
    if trees.node[child, LENGTH] < WORD_DIGITS:
        _gather(trees, parent, fan, link)


@leaf
def _gather(trees: SpaceTrees, parent: int, fan: int, link: int) -> None:
    """Replace a fan with one child by that child: the inverse of `_spread`.

    The fan's lists are of rows that end with nodes below, all on one side of the child; so are the
    child's own.
    """
    child = int(trees.fan[fan, link])
    low, high = int(trees.node[child, LOW]), int(trees.node[child, HIGH])
    for number in range(2, 2 * DIGITS):
        head = int(trees.fan[fan, LISTS + number])
        first = number
        while first < DIGITS:
            first *= 2
        if first - DIGITS < link:
            low, head = (head, 0) if low == 0 else (low, head)
        elif high == 0:
            high, head = head, 0
        drop(trees.pool, trees.blocks, head)
    trees.node[child, LOW], trees.node[child, HIGH] = low, high
    trees.skip[child] = joined(np.uint64(link) << np.uint64(60), 1, trees.skip[child])
    trees.node[child, LENGTH] += 1
    trees.node[parent, BELOW] = -child
    _free_fan(trees, fan)
