"""PS-Trees seen from Python: room for them, their spaces in order, and what must hold of them.

    arrays   [ in use, some of it free | room to grow ]

Kernels take what is free first, then from the room, and stop where there is too little. Arrays grow
by an eighth then, and are packed when more than an eighth of what is in use is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.kernels.row_lists import BLOCK_FIELDS, WORD_HOLES, WORDS, block_words, repacked
from index.kernels.space_tree import (
    AFTER,
    BEFORE,
    BELOW,
    CHILDREN,
    CUTS,
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
    NODE_FIELDS,
    NODE_HOLES,
    NODES,
    PARENT,
    ROW_HOLES,
    ROWS,
    SAME,
    STATE_FIELDS,
    Pieces,
    SpaceTrees,
    end_node,
    is_skip_greatest,
    is_skip_least,
    list_cuts,
)
from index.kernels.tree_keys import DIGITS, KINDS

GROWTH = 8
"""Arrays grow by this part of what they hold, and that part may be free."""
FREE_BYTES_MAX = 4_096
"""So much may be free in any case."""
WORDS_RESERVED = 4
"""Words at the begin of the pool that no block takes, so that blocks of four lie in one line."""
ROWS_MAX = 2**30
"""An entry of a list is twice a row, and an int32."""
_ROOM = 64

Cut = tuple[int, int]
"""A node, and 0 before it or 1 after it."""
Region = frozenset[int] | int
"""Rows of values that follow each other, or how many predicates end between two of these."""


def new_trees(attribute_count: int) -> SpaceTrees:
    """No trees, and no room."""
    state, blocks = np.zeros(STATE_FIELDS, np.int64), np.zeros(BLOCK_FIELDS, np.int64)
    state[NODES] = state[FANS] = 1
    blocks[WORDS] = WORDS_RESERVED
    return SpaceTrees(
        np.zeros(attribute_count * KINDS, np.int32),
        np.zeros(1, np.uint64),
        np.zeros((1, NODE_FIELDS), np.int32),
        np.zeros((1, FAN_WORDS), np.int32),
        np.zeros(WORDS_RESERVED, np.int32),
        blocks,
        state,
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
    )


def with_roots(trees: SpaceTrees, attribute_count: int) -> SpaceTrees:
    """Room for the trees of so many attributes."""
    missing = attribute_count * KINDS - trees.root.size
    if missing <= 0:
        return trees
    return trees._replace(root=np.concatenate((trees.root, np.zeros(missing, np.int32))))


def filed_rows(trees: SpaceTrees) -> NDArray[np.int32]:
    """The rows that are in trees, ascending."""
    count = int(trees.state[ROWS])
    return trees.row[:count][trees.leaf[:count] >= 0]


def file_rows(trees: SpaceTrees, rows: NDArray[np.int32], leaves: NDArray[np.int32]) -> SpaceTrees:
    """Note under which leaf each of some rows is, all greater than those before."""
    count = int(trees.state[ROWS])
    assert not rows.size or rows[-1] < ROWS_MAX, "too many rows for the entries of lists"
    filed = trees._replace(
        row=_grown(trees.row, count, rows.size), leaf=_grown(trees.leaf, count, rows.size)
    )
    filed.row[count : count + rows.size] = rows
    filed.leaf[count : count + rows.size] = leaves
    trees.state[ROWS] += rows.size
    return filed


def forget_rows(trees: SpaceTrees, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Take rows from those that are filed; returns their leaves."""
    count = int(trees.state[ROWS])
    at = np.searchsorted(trees.row[:count], rows)
    leaves = trees.leaf[at]
    assert np.array_equal(trees.row[at], rows) and np.all(leaves >= 0), "a row that is not filed"
    trees.leaf[at] = -1
    trees.state[ROW_HOLES] += rows.size
    return leaves


def with_room(trees: SpaceTrees) -> SpaceTrees:
    """The room that the last change did not find."""
    state = trees.state
    nodes, node_need = int(state[NODES]), int(state[NEED_NODES])
    return trees._replace(
        skip=_grown(trees.skip, nodes, node_need),
        node=_grown(trees.node, nodes, node_need),
        fan=_grown(trees.fan, int(state[FANS]), int(state[NEED_FANS])),
        pool=_grown(trees.pool, int(trees.blocks[WORDS]), int(state[NEED_WORDS])),
    )


def _grown(array: NDArray[Any], used: int, need: int) -> NDArray[Any]:
    if used + need <= len(array):
        return array
    room = max(need, used // GROWTH, _ROOM)
    grown = np.zeros((used + room, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


def trimmed(trees: SpaceTrees) -> SpaceTrees:
    """The same without room to grow."""
    nodes, fans, rows = (int(trees.state[field]) for field in (NODES, FANS, ROWS))
    return trees._replace(
        row=trees.row[:rows],
        leaf=trees.leaf[:rows],
        skip=trees.skip[:nodes],
        node=trees.node[:nodes],
        fan=trees.fan[:fans],
        pool=trees.pool[: int(trees.blocks[WORDS])],
    )


def compacted(trees: SpaceTrees) -> SpaceTrees:
    """The same, with everything in new places if too much of the old ones is free."""
    state, blocks = trees.state, trees.blocks
    node_bytes, fan_bytes = trees.skip.itemsize + trees.node[0].nbytes, trees.fan[0].nbytes
    free = int(state[NODE_HOLES]) * node_bytes + int(state[FAN_HOLES]) * fan_bytes
    row_bytes = trees.row.itemsize + trees.leaf.itemsize
    free += int(blocks[WORD_HOLES]) * trees.pool.itemsize + int(state[ROW_HOLES]) * row_bytes
    used = int(state[NODES]) * node_bytes + int(state[FANS]) * fan_bytes
    used += int(blocks[WORDS]) * trees.pool.itemsize + int(state[ROWS]) * row_bytes
    if free <= used // GROWTH + FREE_BYTES_MAX:
        return trees
    return _packed(trimmed(trees))


def _packed(trees: SpaceTrees) -> SpaceTrees:
    live, live_fan = trees.node[:, LENGTH] >= 0, trees.fan[:, CHILDREN] >= 0
    number = (np.cumsum(live) - 1).astype(np.int32)
    fan_number = (np.cumsum(live_fan) - 1).astype(np.int32)
    node, fan = trees.node[live], trees.fan[live_fan]
    below = node[:, BELOW]
    has_fan = below > 0
    node[has_fan, BELOW] = fan_number[below[has_fan]]
    node[~has_fan, BELOW] = -number[-below[~has_fan]]
    node[:, PARENT] = number[node[:, PARENT]]
    fan[:, :DIGITS] = number[fan[:, :DIGITS]]
    state, blocks = trees.state.copy(), np.zeros(BLOCK_FIELDS, np.int64)
    state[NODES], state[FANS] = len(node), len(fan)
    state[[FREE_NODE, NODE_HOLES, FREE_FAN, FAN_HOLES, ROW_HOLES]] = 0
    filed = trees.leaf >= 0
    state[ROWS] = np.count_nonzero(filed)
    pool = np.zeros(int(trees.blocks[WORDS] - trees.blocks[WORD_HOLES]), np.int32)
    words = WORDS_RESERVED
    for lists in (node[:, LOW : HIGH + 1], fan[:, LISTS + 2 :]):
        heads = lists.reshape(-1)  # a copy, for these are columns
        words = repacked(trees.pool, heads, pool, words)
        lists[:] = heads.reshape(lists.shape)
    blocks[WORDS] = words
    return trees._replace(
        root=number[trees.root],
        skip=trees.skip[live],
        node=node,
        fan=fan,
        pool=pool,
        blocks=blocks,
        state=state,
        row=trees.row[filed],
        leaf=trees.leaf[filed],
    )


def cuts_of(trees: SpaceTrees, tree: int) -> list[Cut]:
    """The cuts between a tree's spaces, ascending."""
    root = int(trees.root[tree])
    if root == 0:
        return []
    size = 2 * int(trees.state[NODES])
    cuts = np.empty(size, np.int64)
    count = list_cuts(trees, root, np.empty(size, np.int64), cuts)
    return [(cut >> 1, cut & 1) for cut in cuts[:count].tolist()]


def spaces_covered(trees: SpaceTrees, pieces: Pieces) -> tuple[int, int]:
    """How many spaces these pieces cover, and how many their trees have."""
    cuts = {tree: cuts_of(trees, tree) for tree in set(pieces.tree.tolist())}
    covered = 0
    for piece, tree in enumerate(pieces.tree.tolist()):
        first, last = 0, len(cuts[tree])
        if pieces.low_digits[piece] > 0:
            low = int(pieces.low[piece]), int(pieces.low_digits[piece])
            first = cuts[tree].index((end_node(trees, tree, pieces.word, *low), 0)) + 1
        if pieces.high_digits[piece] > 0:
            high = int(pieces.high[piece]), int(pieces.high_digits[piece])
            side = int(pieces.closed[piece])
            last = cuts[tree].index((end_node(trees, tree, pieces.word, *high), side))
        covered += last - first + 1
    return covered, sum(len(found) + 1 for found in cuts.values())


def check_spaces(trees: SpaceTrees) -> None:
    """Assert that each space has one set of rows, which changes only by rows that end there."""
    _check_nodes(trees)
    filed: set[int] = set()
    cut_count = 0
    for root in trees.root[trees.root > 0].tolist():
        assert trees.node[root, PARENT] == 0, "a root below a node"
        regions = _regions(trees, root, frozenset())
        before = next(regions)
        assert not isinstance(before, int), "predicates end before all values"
        filed |= before
        cuts: list[int] = []
        for region in regions:
            if isinstance(region, int):
                cuts.append(region)
                continue
            more = sum(cuts) - len(before ^ region)
            # Where no value lies between two cuts, a row of IN (5, 6) ends and begins unseen.
            unseen = len(cuts) > 1 and more % 2 == 0 and 0 <= more <= 2 * len(before & region)
            assert more == 0 or unseen, (
                f"rows {sorted(before ^ region)} change where {sum(cuts)} predicates end"
            )
            filed |= region
            cut_count += len(cuts)
            before, cuts = region, []
        cut_count += len(cuts)
    assert cut_count == trees.state[CUTS], "cuts are counted wrongly"
    assert filed <= set(filed_rows(trees).tolist()), "a list has a row that is not filed"


def _regions(trees: SpaceTrees, node: int, held: frozenset[int]) -> Iterator[Region]:
    """Values in a node's block, ascending; `held` are rows that cover all of it."""
    fields = trees.node[node].tolist()
    if fields[PARENT] and fields[BEFORE]:
        yield int(fields[BEFORE])
    held = held | _rows(trees, fields[SAME], held)
    below = fields[BELOW]
    if below == 0:
        yield held
    elif below < 0:
        yield from _beside(trees, -below, held)
    else:
        for link, child in enumerate(trees.fan[below, :DIGITS].tolist()):
            there = held
            for level in range(4):
                head = int(trees.fan[below, LISTS + (DIGITS + link >> level)])
                there = there | _rows(trees, head, there)
            if child:
                yield from _beside(trees, child, there)
            else:
                yield there
    if fields[PARENT] and fields[AFTER]:
        yield int(fields[AFTER])


def _beside(trees: SpaceTrees, child: int, held: frozenset[int]) -> Iterator[Region]:
    """The same of a node with what the digits that it skips leave out below and above it."""
    low, high = int(trees.node[child, LOW]), int(trees.node[child, HIGH])
    if is_skip_least(trees, child):
        assert low == 0, "rows below the least digits"
    else:
        yield held | _rows(trees, low, held)
    yield from _regions(trees, child, held)
    if is_skip_greatest(trees, child):
        assert high == 0, "rows above the greatest digits"
    else:
        yield held | _rows(trees, high, held)


def _rows(trees: SpaceTrees, head: int, held: frozenset[int]) -> frozenset[int]:
    """The rows of a list, none of which the space has already."""
    if head <= 0:
        entries = [~head] if head else []
    else:
        size = int(trees.pool[head])
        assert size > 1, "a block of one row"
        entries = trees.pool[head + 1 : head + 1 + size].tolist()
        assert all(one < other for one, other in pairwise(entries)), "a list does not ascend"
    rows = frozenset(entry >> 1 for entry in entries)
    assert not rows & held, "a row twice in one space"
    return rows


def _check_nodes(trees: SpaceTrees) -> None:
    """Every node and fan is below a root or free, and every word in a list or free."""
    state = trees.state
    assert state[NODES] <= len(trees.skip) == len(trees.node), "nodes beyond their room"
    assert state[FANS] <= len(trees.fan), "fans beyond their room"
    assert trees.blocks[WORDS] <= trees.pool.size, "lists beyond their room"
    found, fans, words = 1, 1, WORDS_RESERVED
    stack = trees.root[trees.root > 0].tolist()
    while stack:
        node = stack.pop()
        found += 1
        fields = trees.node[node].tolist()
        heads, below = fields[LOW : HIGH + 1], fields[BELOW]
        children = [-below] if below < 0 else []
        if below > 0:
            fans += 1
            links = trees.fan[below, :DIGITS].tolist()
            children = [child for child in links if child]
            assert len(children) == trees.fan[below, CHILDREN] > 0, "links are counted wrongly"
            heads += trees.fan[below, LISTS + 2 :].tolist()
        needed = fields[BEFORE] or fields[AFTER] or len(children) > 1
        assert needed or children, "a node that nothing ends with"
        assert all(trees.node[child, PARENT] == node for child in children), "a foreign parent"
        words += sum(block_words(trees.pool, head) for head in heads)
        stack += children
    assert found == state[NODES] - state[NODE_HOLES], "a node is lost"
    assert fans == state[FANS] - state[FAN_HOLES], "a fan is lost"
    assert words == trees.blocks[WORDS] - trees.blocks[WORD_HOLES], "words are lost"
