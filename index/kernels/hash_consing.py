"""Hash-consing: equal sub-expressions of all rows become one node.

    row 0   a = 1 AND (b = 2 OR c = 3)        nodes   0 a=1   1 b=2   2 c=3   3 d=4
    row 1   d = 4 AND (c = 3 OR b = 2)                4 need 1 of 1 2    5 need 2 of 0 4
                                                      6 need 2 of 3 4    roots 5 and 6

The leaves of a segment are its first nodes. A program is read from front to back, and a gate
becomes a node where it ends, so the children of a node come before it. Their order says nothing, so
they are sorted. In a conjunction or a disjunction neither does a repetition, so it is dropped, and
a gate that is left with one child is that child; ATLEAST counts a child as often as it names it.

A slot is a word as in `index.kernels.hashing`: upper half of the hash, and number + 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.batch import sort
from index.kernels.hashing import fold_product, insert
from index.program import GATE_DEPTH_MAX, GATE_WORDS, Programs

ALWAYS = -1
"""Root of a row that needs nothing."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)


class Gates(NamedTuple):
    """The distinct gates of some rows over l leaves; gate g is node l + g."""

    need: NDArray[np.int32]  # [g] children that must hold
    start: NDArray[np.int64]  # [g+1] children of gate g are child[start[g]:start[g+1]]
    child: NDArray[np.int32]  # nodes, ascending in each gate

    def trimmed(self, count: int) -> Gates:
        """The first `count` gates, without the room for more."""
        start = self.start[: count + 1].copy()
        return Gates(self.need[:count].copy(), start, self.child[: int(start[-1])].copy())


class Reading(NamedTuple):
    """Working memory of `share_rows`, for rows of up to w words."""

    slot: NDArray[np.uint64]  # a power of two of them, at most half full
    pending: NDArray[np.int64]  # [w] children of the gates that are open
    children: NDArray[np.int64]  # [w] of the gate that ends
    frame: NDArray[np.int64]  # [GATE_DEPTH_MAX, 3] need, stop and first child of gates around


def new_gates(gate_count: int, child_count: int, word_count: int) -> tuple[Gates, Reading]:
    """Room for so many gates and children, of rows of so many words at most."""
    slots = 1 << max(2 * gate_count, 2).bit_length()
    gates = Gates(
        np.empty(gate_count, np.int32),
        np.zeros(gate_count + 1, np.int64),
        np.empty(child_count, np.int32),
    )
    return gates, Reading(
        np.zeros(slots, np.uint64),
        np.empty(word_count, np.int64),
        np.empty(word_count, np.int64),
        np.empty((GATE_DEPTH_MAX, 3), np.int64),
    )


@njit(cache=True, nogil=True)
def mark_leaves(programs: Programs, rows: NDArray[np.int32]) -> tuple[NDArray[np.bool_], int, int]:
    """Which codes are leaves of these rows; how many words and how many gates they have in all,
    where a row that begins with a leaf counts as a gate.
    """
    highest, word_count, gate_count = -1, 0, 0
    for row in rows:
        at, stop = programs.start[row], programs.start[row + 1]
        word_count += stop - at
        gate_count += 1
        while at < stop:
            if programs.code[at] < 0:
                gate_count += 1
                at += GATE_WORDS
            else:
                highest = max(highest, programs.code[at])
                at += 1
    seen = np.zeros(highest + 1, np.bool_)
    for row in rows:
        at, stop = programs.start[row], programs.start[row + 1]
        while at < stop:
            if programs.code[at] < 0:
                at += GATE_WORDS
            else:
                seen[programs.code[at]] = True
                at += 1
    return seen, word_count, gate_count


@leaf
def share_rows(
    programs: Programs,
    rows: NDArray[np.int32],
    leaves: tuple[NDArray[np.int32], int],
    gates: Gates,
    reading: Reading,
    root: NDArray[np.int32],
) -> int:
    """Fill `gates`, and `root` with the node of each row; returns the number of gates.

    On entry leaves[0] leads from the code of a leaf to its node, leaves[1] is the number of leaves.
    """
    count = 0
    for place in range(rows.size):
        start, stop = programs.start[rows[place]], programs.start[rows[place] + 1]
        if start == stop:
            root[place] = ALWAYS
            continue
        root[place], count = _read(programs.code, (start, stop), leaves, gates, reading, count)
    return count


@leaf
def _read(
    code: NDArray[np.int32],
    bounds: tuple[int, int],
    leaves: tuple[NDArray[np.int32], int],
    gates: Gates,
    reading: Reading,
    count: int,
) -> tuple[int, int]:
    """The node of the program code[bounds[0]:bounds[1]], and how many gates there are now."""
    node_of, pending, frame = leaves[0], reading.pending, reading.frame
    at, stop = bounds
    need = stop - at
    if code[at] < 0:
        need, stop = -code[at], at + code[at + 2]
        at += GATE_WORDS
    depth, first, held = 0, 0, 0
    while True:
        if at < stop and code[at] >= 0:
            pending[held] = node_of[code[at]]
            held += 1
            at += 1
        elif at < stop:
            frame[depth, 0], frame[depth, 1], frame[depth, 2] = need, stop, first
            depth += 1
            need, stop, first = -code[at], at + code[at + 2], held
            at += GATE_WORDS
        else:
            for place in range(held - first):
                reading.children[place] = pending[first + place]
            node, count = _node_of(need, held - first, leaves[1], gates, reading, count)
            if depth == 0:
                return node, count
            pending[first] = node
            held = first + 1
            depth -= 1
            need, stop, first = frame[depth, 0], frame[depth, 1], frame[depth, 2]


@leaf
def _node_of(
    need: int, size: int, leaf_count: int, gates: Gates, reading: Reading, count: int
) -> tuple[int, int]:
    """The node that needs so many of reading.children[:size], and how many gates there are now."""
    children = reading.children
    sort(children, size)
    if need == 1 or need == size:
        is_conjunction = need == size
        kept = min(size, 1)
        for place in range(1, size):
            if children[place] != children[kept - 1]:
                children[kept] = children[place]
                kept += 1
        size = kept
        if is_conjunction:
            need = size
        if size == 1:
            return int(children[0]), count
    value = fold_product(np.uint64(need) ^ _MULTIPLIER, _MULTIPLIER)
    for place in range(size):
        value = fold_product(value ^ np.uint64(children[place]), _MULTIPLIER)
    mask = np.int64(reading.slot.size - 1)
    at = np.int64(value & np.uint64(mask))
    while reading.slot[at] != _EMPTY:
        slot = reading.slot[at]
        if slot >> _HALF == value >> _HALF:
            number = int(np.int64(slot & _LOW) - 1)
            if _is_gate(gates, number, need, children, size):
                return leaf_count + number, count
        at = (at + 1) & mask
    insert(reading.slot, value, count)
    gates.need[count] = need
    start = gates.start[count]
    for place in range(size):
        gates.child[start + place] = children[place]
    gates.start[count + 1] = start + size
    return leaf_count + count, count + 1


@leaf
def _is_gate(gates: Gates, number: int, need: int, children: NDArray[np.int64], size: int) -> bool:
    """Does this gate need as many of the same children?"""
    start = gates.start[number]
    if gates.need[number] != need or gates.start[number + 1] - start != size:
        return False
    for place in range(size):
        if gates.child[start + place] != children[place]:
            return False
    return True
