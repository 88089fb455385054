"""Tries: all needles that a string begins with, or ends with, found by one walk (OpIndex, 6.2).

    needles  a  ab  abcd  x        node 0  ''    -> 1 2
                                        1  'a'   ends   -> 3          a label is a run of bytes, so
                                        2  'x'   ends                 a node has two children or a
                                        3  'b'   ends   -> 4          needle that ends there
                                        4  'cd'  ends

Labels are not copied: they lie among the needles of the predicates. Ends of strings are walked
backwards, and so are the labels then. The nodes are in the order of their distance from the roots,
so that the children of a node follow each other, as do those of the next node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels import inlined

_BYTES = 256


class Tries(NamedTuple):
    """t nodes of tries of k kinds, one for each of the first d attributes that has needles."""

    root: NDArray[np.int32]  # [k, d] a node, or -1
    child: NDArray[np.int32]  # [t+1] children of node v are child[v]:child[v+1], by first byte
    byte: NDArray[np.uint8]  # [t] the first byte of the label; 0 at a root
    label: NDArray[np.int64]  # [t] where in `PredicateColumns.needle` that byte lies
    size: NDArray[np.int32]  # [t] bytes of the label; 0 only at a root
    ends: NDArray[np.bool_]  # [t] a needle ends with the label


class Needles(NamedTuple):
    """Needles to grow tries of, those of one trie after each other."""

    trie: NDArray[np.int64]  # [n] number of the trie, ascending
    begin: NDArray[np.int64]  # [n] place of the byte that is walked first
    step: NDArray[np.int64]  # [n] 1, or -1 where strings are walked from their ends
    size: NDArray[np.int64]  # [n]


@njit(cache=True, nogil=True)
def grow_tries(
    needles: Needles, text: NDArray[np.uint8], node_of: NDArray[np.int32]
) -> tuple[
    NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]
]:
    """The columns of `Tries` but for the roots, which are the first nodes, one a trie.

    On exit `node_of` has the node at which each needle ends; equal ones end at the same.
    """
    count = needles.size.size
    room = 3 * count + 1
    child, byte = np.zeros(room + 1, np.int32), np.zeros(room, np.uint8)
    label, size = np.zeros(room, np.int64), np.zeros(room, np.int32)
    ends = np.zeros(room, np.bool_)
    # The needles below a node are order[first:last], and agree on the bytes before depth.
    first, last, depth = (
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )
    order, spare, places = np.arange(count), np.zeros(count, np.int64), np.zeros(_BYTES, np.int64)
    nodes = 0
    for at in range(count):
        if at == 0 or needles.trie[at] != needles.trie[at - 1]:
            first[nodes] = at
            nodes += 1
        last[nodes - 1] = at + 1
    node = 0
    while node < nodes:
        start, stop = first[node], last[node]
        head = order[start]
        end = _common_size(needles, text, order[start:stop], depth[node])
        label[node] = needles.begin[head] + needles.step[head] * depth[node]
        size[node] = end - depth[node]
        start = _split_off_ended(needles, order, start, stop, end)
        for at in range(first[node], start):
            node_of[order[at]] = node
            ends[node] = True
        child[node] = nodes
        _sort_by_byte(needles, text, (order[start:stop], spare, places), end)
        for at in range(start, stop):
            value = text[needles.begin[order[at]] + needles.step[order[at]] * end]
            if at == start or value != byte[nodes - 1]:
                byte[nodes], first[nodes], depth[nodes] = value, at, end
                nodes += 1
            last[nodes - 1] = at + 1
        node += 1
    child[nodes] = nodes
    return (
        child[: nodes + 1].copy(),
        byte[:nodes].copy(),
        label[:nodes].copy(),
        size[:nodes].copy(),
        ends[:nodes].copy(),
    )


@njit(cache=True, nogil=True)
def _common_size(
    needles: Needles, text: NDArray[np.uint8], order: NDArray[np.int64], depth: int
) -> int:
    """How many bytes all needles of `order` share, who are known to share `depth`."""
    head = order[0]
    begin, step, common = needles.begin[head], needles.step[head], needles.size[head]
    for other in order[1:]:
        common = min(common, needles.size[other])
        at = depth
        while at < common and text[begin + step * at] == text[needles.begin[other] + step * at]:
            at += 1
        common = at
    return int(common)


@njit(cache=True, nogil=True)
def _split_off_ended(
    needles: Needles, order: NDArray[np.int64], start: int, stop: int, size: int
) -> int:
    """Move the needles of that size to the front of order[start:stop]; returns the first other."""
    for at in range(start, stop):
        if needles.size[order[at]] == size:
            order[start], order[at] = order[at], order[start]
            start += 1
    return start


@njit(cache=True, nogil=True)
def _sort_by_byte(
    needles: Needles,
    text: NDArray[np.uint8],
    orders: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    depth: int,
) -> None:
    """Sort orders[0], longer needles all, by their byte at `depth`; the others are memory."""
    order, spare, places = orders
    if order.size < 2:
        return
    places[:] = 0
    for at in range(order.size):
        needle = order[at]
        spare[at] = needle
        places[text[needles.begin[needle] + needles.step[needle] * depth]] += 1
    place = 0
    for value in range(_BYTES):
        places[value], place = place, place + places[value]
    for at in range(order.size):
        needle = spare[at]
        value = text[needles.begin[needle] + needles.step[needle] * depth]
        order[places[value]] = needle
        places[value] += 1


@inlined
def fits(
    tries: Tries, node: int, needle: NDArray[np.uint8], text: NDArray[np.uint8], at: int, step: int
) -> bool:
    """Is the label of a node what the text has from `at` on? There are as many bytes left."""
    label = tries.label[node]
    for offset in range(tries.size[node]):
        if needle[label + step * offset] != text[at + step * offset]:
            return False
    return True


@inlined
def child_by_byte(tries: Tries, node: int, byte: int) -> int:
    """The child of a node whose label begins with a byte, or -1."""
    start, stop = tries.child[node], tries.child[node + 1]
    while start < stop:
        middle = (start + stop) >> 1
        if tries.byte[middle] < byte:
            start = middle + 1
        else:
            stop = middle
    if start < tries.child[node + 1] and tries.byte[start] == byte:
        return int(start)
    return -1
