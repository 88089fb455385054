"""Needles: every literal text that patterns ask for, found in one pass over a string.

Paper    Aho and Corasick: Efficient string matching, CACM 18(6), 1975.
Idea     a trie of all needles. After each byte the pass stands at the longest end of what it has
         read that some needle begins with; where no needle goes on, it falls back to the next
         shorter one. So time is linear in the string, whatever the number of needles.
Layout   nodes by depth, and the children of one side by side, ascending by byte. The children of
         most nodes are searched; nodes of many children, and those that a pass stands at most, near
         the root, have a row of 256 that tells at once where a byte leads, falls included.
Worked   needles he, she, his        node 0   1 h   2 s   3 he*   4 hi   5 sh   6 his*   7 she*
         fall of 5 sh is 1 h, of 7 she is 3 he: after "she" both needles have been found

A pass reads BEGIN before a string and END behind it, which no UTF-8 text holds: a prefix is a
needle that begins with BEGIN, a suffix one that ends with END.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf

BEGIN, END = 0xFF, 0xFE
"""Bytes that a pass reads before and behind a string."""
DENSE_CHILDREN, DENSE_DEPTH = 8, 1
"""A node of more children, or no deeper than that, has a row of all bytes."""
_BYTES = 256


class NeedleTrie(NamedTuple):
    """The nodes of k needles; node 0 is the root, and stands for 'no node' as a child."""

    label: NDArray[np.uint8]  # [nodes] the byte that leads to a node
    child_start: NDArray[np.int32]  # [nodes + 1]
    fall: NDArray[np.int32]  # [nodes] the longest proper end of the node that is a node, too
    needle: NDArray[np.int32]  # [nodes] the needle that ends here, -1 for none
    next_end: NDArray[np.int32]  # [nodes] the nearest node down the falls where a needle ends, or 0
    dense_row: NDArray[np.int32]  # [nodes] row in `dense`, or -1
    dense: NDArray[np.int32]  # [rows * 256] node after a byte


@leaf
def count_nodes(start: NDArray[np.int64], text: NDArray[np.uint8]) -> int:
    """The nodes of distinct needles in ascending order: one for each prefix."""
    count = 1
    for needle in range(start.size - 1):
        size, shared = start[needle + 1] - start[needle], 0
        if needle > 0:
            before, most = start[needle - 1], min(size, start[needle] - start[needle - 1])
            while shared < most and text[before + shared] == text[start[needle] + shared]:
                shared += 1
        count += size - shared
    return int(count)


@leaf
def fill_nodes(
    start: NDArray[np.int64],
    text: NDArray[np.uint8],
    trie: NeedleTrie,
    first: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> int:
    """Fill the nodes of needles in ascending order, all but falls and rows; returns rows needed.

    `first` and `stop`, of one element for each node, are working memory: a node's needles.
    """
    trie.needle[0] = -1
    first[0], stop[0] = 0, start.size - 1
    nodes, depth, depth_stop, dense = 1, 0, 1, 0
    for node in range(trie.label.size):
        if node == depth_stop:
            depth, depth_stop = depth + 1, nodes
        trie.child_start[node] = nodes
        at = first[node]
        trie.needle[node] = -1
        if at < stop[node] and start[at + 1] - start[at] == depth:
            trie.needle[node] = at
            at += 1
        while at < stop[node]:
            label = text[start[at] + depth]
            trie.label[nodes], first[nodes] = label, at
            while at < stop[node] and text[start[at] + depth] == label:
                at += 1
            stop[nodes] = at
            nodes += 1
        trie.dense_row[node] = -1
        if depth <= DENSE_DEPTH or nodes - trie.child_start[node] > DENSE_CHILDREN:
            trie.dense_row[node] = dense
            dense += 1
    trie.child_start[trie.label.size] = nodes
    return dense


@leaf
def fill_falls(trie: NeedleTrie) -> None:
    """Fill the falls, and the rows of nodes that have one; nodes above before those below."""
    for node in range(trie.label.size):
        first, stop = trie.child_start[node], trie.child_start[node + 1]
        for child in range(first, stop):
            fall = 0 if node == 0 else after_byte(trie, trie.fall[node], trie.label[child])
            trie.fall[child] = fall
            trie.next_end[child] = fall if trie.needle[fall] >= 0 else trie.next_end[fall]
        row = trie.dense_row[node] * _BYTES
        if row < 0:
            continue
        for byte in range(_BYTES if node > 0 else 0):
            trie.dense[row + byte] = after_byte(trie, trie.fall[node], byte)
        for child in range(first, stop):
            trie.dense[row + trie.label[child]] = child


@inlined
def after_byte(trie: NeedleTrie, node: int, byte: int) -> int:
    """Where a pass stands after one byte more; the root, where all falls end, has a row."""
    while True:
        row = trie.dense_row[node]
        if row >= 0:
            return int(trie.dense[row * _BYTES + byte])
        for child in range(trie.child_start[node], trie.child_start[node + 1]):
            if trie.label[child] == byte:
                return int(child)
        node = int(trie.fall[node])
