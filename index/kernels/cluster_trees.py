"""Building trees that split profiles: keys, pieces of domains, and the rows found in each piece.

All is counted in elementary intervals. How many intervals of rows meet the run low..high of them is
a difference of two running counts: those that begin up to `high`, less those that end before `low`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels import inlined
from index.kernels.profile_vectors import BLOCK_ROWS, BLOCK_WORDS, WORD_BITS, Sets
from index.kernels.words import trailing_zeros

_NONE, _ONE = np.uint64(0), np.uint64(1)


class Runs(NamedTuple):
    """Running counts over the elementary intervals of t trees, e in all, and the m intervals."""

    point: NDArray[np.int32]  # [t+1] a tree's end points
    elementary: NDArray[np.int64]  # [t+1] its elementary intervals
    begun: NDArray[np.int64]  # [e+1] intervals that begin before elementary interval ...
    ended: NDArray[np.int64]  # [e+1] that end before it


class Placed(NamedTuple):
    """The m intervals of t trees, by tree and low end."""

    start: NDArray[np.int64]  # [t+1]
    place: NDArray[np.int32]  # [m]
    low: NDArray[np.int32]  # [m]
    high: NDArray[np.int32]  # [m]
    by_high: NDArray[np.int64]  # [m] intervals by tree and high end


class Split(NamedTuple):
    """The keys and leaves of t trees; leaves from left to right, tree after tree."""

    root: NDArray[np.int32]  # [t]
    key: NDArray[np.int32]
    child: NDArray[np.int32]
    leaf: NDArray[np.int64]  # [t+1] a tree's leaves
    first: NDArray[np.int32]  # elementary intervals of a leaf
    last: NDArray[np.int32]


@inlined
def _meeting(runs: Runs, tree: int, first: int, last: int) -> int:
    """How many intervals meet the elementary intervals first..last of a tree."""
    base = runs.elementary[tree]
    return int(runs.begun[base + last + 1] - runs.ended[base + first])


@njit(cache=True, nogil=True)
def split_clusters(runs: Runs, cluster_max: int) -> Split:
    """Split each tree's intervals by keys until clusters have `cluster_max` or none splits them."""
    tree_count = runs.point.size - 1
    key_room = int(runs.point[-1])
    leaf_room = key_room + tree_count
    split = Split(
        np.empty(tree_count, np.int32),
        np.empty(key_room, np.int32),
        np.empty(2 * key_room, np.int32),
        np.zeros(tree_count + 1, np.int64),
        np.empty(leaf_room, np.int32),
        np.empty(leaf_room, np.int32),
    )
    # A part of a tree yet to be split: its elementary intervals, and the child it is to be.
    todo = np.empty((key_room + 1, 3), np.int64)
    node = leaf = 0
    for tree in range(tree_count):
        todo[0, 0], todo[0, 1], todo[0, 2] = 0, 2 * (runs.point[tree + 1] - runs.point[tree]), -1
        count = 1
        while count:
            count -= 1
            first, last, child = todo[count, 0], todo[count, 1], todo[count, 2]
            key = _best_key(runs, tree, first, last, cluster_max)
            number = node if key >= 0 else ~leaf
            if child < 0:
                split.root[tree] = number
            else:
                split.child[child] = number
            if key < 0:
                split.first[leaf], split.last[leaf] = first, last
                leaf += 1
                continue
            split.key[node] = runs.point[tree] + key
            # The left part is taken up first.
            todo[count, 0], todo[count, 1], todo[count, 2] = 2 * key + 1, last, 2 * node + 1
            todo[count + 1, 0], todo[count + 1, 1], todo[count + 1, 2] = first, 2 * key, 2 * node
            count += 2
            node += 1
        split.leaf[tree + 1] = leaf
    return Split(
        split.root,
        split.key[:node].copy(),
        split.child[: 2 * node].copy(),
        split.leaf,
        split.first[:leaf].copy(),
        split.last[:leaf].copy(),
    )


@inlined
def _best_key(runs: Runs, tree: int, first: int, last: int, cluster_max: int) -> int:
    """The end point with the least score that halving towards the larger side meets, or -1.

    A key that leaves a side as large as the whole has the score of the whole, and splits nothing.
    """
    whole = _meeting(runs, tree, first, last)
    low, high = (first + 1) >> 1, (last + 1) >> 1
    best, key = whole, -1
    if whole <= cluster_max:
        return key
    while low < high:
        middle = (low + high - 1) >> 1
        left = _meeting(runs, tree, first, 2 * middle)
        right = _meeting(runs, tree, 2 * middle + 1, last)
        score = abs(left - right) + left + right - whole
        if score < best:
            best, key = score, middle
        if left > right:
            high = middle
        else:
            low = middle + 1
    return key


@njit(cache=True, nogil=True)
def cut_leaves(
    runs: Runs, split: Split, interval_min: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """(leaf_start, first, last): leaves that `interval_min` intervals meet become one piece for
    each elementary interval that some row asks for, all others are one piece; none if empty.
    """
    leaf_start = np.zeros(split.first.size + 1, np.int32)
    room = split.first.size
    for tree in range(split.root.size):
        for leaf in range(split.leaf[tree], split.leaf[tree + 1]):
            room += split.last[leaf] - split.first[leaf]
    first, last = np.empty(room, np.int32), np.empty(room, np.int32)
    count = 0
    for tree in range(split.root.size):
        for leaf in range(split.leaf[tree], split.leaf[tree + 1]):
            low, high = split.first[leaf], split.last[leaf]
            whole = _meeting(runs, tree, low, high)
            if whole >= interval_min:
                for at in range(low, high + 1):
                    if _meeting(runs, tree, at, at) > 0:
                        first[count] = last[count] = at
                        count += 1
            elif whole > 0:
                first[count], last[count] = low, high
                count += 1
            leaf_start[leaf + 1] = count
    return leaf_start, first[:count].copy(), last[:count].copy()


@njit(cache=True, nogil=True)
def fill_sets(
    placed: Placed,
    piece_start: NDArray[np.int64],
    pieces: tuple[NDArray[np.int32], NDArray[np.int32]],
    list_max: int,
) -> Sets:
    """The rows whose intervals meet each piece first..last; pieces ascend in each tree, and those
    of tree t are piece_start[t]..piece_start[t+1]. Up to `list_max` rows are kept as a list.

    A sweep from left to right takes intervals up when they have begun, and drops them when they
    have ended. A row may have several in one tree, so they are counted.
    """
    first, last = pieces
    size_of, at = np.empty(first.size, np.int32), np.empty(first.size, np.int64)
    member, vector = np.empty(1024, np.uint16), np.empty(16 * BLOCK_WORDS, np.uint64)
    member_count = vector_count = 0
    opened, bits = np.zeros(BLOCK_ROWS, np.int32), np.zeros(BLOCK_WORDS, np.uint64)
    for tree in range(placed.start.size - 1):
        opened[:] = 0
        bits[:] = _NONE
        begin = end = placed.start[tree]
        stop = placed.start[tree + 1]
        size = 0
        for piece in range(piece_start[tree], piece_start[tree + 1]):
            while begin < stop and placed.low[begin] <= last[piece]:
                size += _open(opened, bits, placed.place[begin], 1)
                begin += 1
            while end < stop and placed.high[placed.by_high[end]] < first[piece]:
                size -= _open(opened, bits, placed.place[placed.by_high[end]], -1)
                end += 1
            size_of[piece] = size if size <= list_max else -1
            if size <= list_max:
                if member_count + size > member.size:
                    member = np.append(member, np.empty(member.size + size, np.uint16))
                at[piece] = member_count
                member_count = _list_bits(bits, member, member_count)
            else:
                if vector_count == vector.size:
                    vector = np.append(vector, np.empty(vector.size, np.uint64))
                at[piece] = vector_count
                vector[vector_count : vector_count + BLOCK_WORDS] = bits
                vector_count += BLOCK_WORDS
    return Sets(size_of, at, member[:member_count].copy(), vector[:vector_count].copy())


@inlined
def _open(opened: NDArray[np.int32], bits: NDArray[np.uint64], place: int, step: int) -> int:
    """Let one interval more or less of a row be open; 1 if that makes or ends its being found."""
    local = place & (BLOCK_ROWS - 1)
    before = opened[local]
    opened[local] = before + step
    if (before == 0) == (before + step == 0):
        return 0
    bits[local >> WORD_BITS] ^= _ONE << np.uint64(local & 63)
    return 1


@inlined
def _list_bits(bits: NDArray[np.uint64], member: NDArray[np.uint16], count: int) -> int:
    """Append the places of the bits that are set; returns the members so far."""
    for word in range(BLOCK_WORDS):
        rest = bits[word]
        while rest != _NONE:
            member[count] = word << WORD_BITS | trailing_zeros(rest)
            rest &= rest - _ONE
            count += 1
    return count
