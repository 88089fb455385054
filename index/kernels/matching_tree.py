"""Matching trees: rows that share their first tests share a path; flat arrays of nodes and edges.

    rows     0: t1 t2      1: t1 t2 t5      2: t3 t4      3: t2        sorted by their tests
    node 0   edges t1 -> node 1, t2 -> row 3, t3 -> row 2 with t4 left
    node 1   chain t2, row 0 ends, edge t5 -> row 1

A node has two rows or more below it; what all of these test before they part is its chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.hashing import hash_under
from index.kernels.points import PointColumns
from index.predicates import PredicateColumns
from index.program import POLARITY_BITS
from index.runs import places_of_runs

DEPTH_MAX = 16
"""Tests that the tree branches on; rows that share as many lie at one node."""
EDGES_SCANNED_MAX = 16
"""A node with more equality edges has them in the table: two cache lines of edges are scanned."""
NODE_FIELDS = 8
CHAIN, CHAIN_STOP, ROW, ROW_STOP, EDGE, OTHER, EDGE_STOP, DEPTH = range(NODE_FIELDS)
"""Fields of a node: tests that must hold, rows that end, edges of equality and from OTHER on."""
EDGE_FIELDS = 4
TEST, CHILD, ATTRIBUTE, STAR = range(EDGE_FIELDS)
"""Fields of an edge. STAR: the node's next edge of another attribute, to which its star leads."""


class TreeColumns(NamedTuple):
    """A tree of k nodes and g edges over the a tests of n rows."""

    points: PointColumns
    leaf: NDArray[np.int32]  # [l] code
    test: NDArray[np.int32]  # [a] place of a leaf
    start: NDArray[np.int64]  # [n+1]
    rest: NDArray[np.int64]  # [n]
    row: NDArray[np.int32]  # [n]
    node: NDArray[np.int32]  # [k * NODE_FIELDS]
    edge: NDArray[np.int32]  # [g * EDGE_FIELDS]
    table: NDArray[np.int32]  # a power of two, at most half of it used


def sorted_rows(test: NDArray[np.int32], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of rows by their first DEPTH_MAX tests; a row stands before those it begins."""
    size = np.diff(start)
    padded = np.append(test, np.int32(-1))
    order = np.arange(size.size)
    for depth in range(min(int(size.max(initial=0)), DEPTH_MAX) - 1, -1, -1):
        keys = padded[np.where(depth < size, start[:-1] + depth, test.size)]
        order = order[np.argsort(keys[order], kind="stable")]
    return order


def reordered(
    test: NDArray[np.int32], start: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The tests of the rows in another order."""
    size = np.diff(start)[order]
    at = places_of_runs(start[order], size)
    return test[at], np.concatenate(([0], np.cumsum(size)))


@leaf
def grow(
    columns: TreeColumns, predicates: PredicateColumns, bounds: NDArray[np.int32]
) -> tuple[int, int]:
    """Fill `node`, `edge` and `rest`; returns how many nodes and edges there are.

    On entry rows are sorted by their tests; `bounds` is working memory for the rows below a node.
    """
    test, start, node, edge = columns.test, columns.start, columns.node, columns.edge
    equality_count = columns.points.number.size
    node_count, edge_count = min(1, columns.row.size), 0
    bounds[0, 0], bounds[0, 1] = 0, columns.row.size
    at = 0
    while at < node_count:
        low, high = bounds[at, 0], bounds[at, 1]
        fields = at * NODE_FIELDS
        depth = node[fields + DEPTH]
        shared = depth
        size = min(start[low + 1] - start[low], start[high] - start[high - 1], DEPTH_MAX)
        while shared < size and test[start[low] + shared] == test[start[high - 1] + shared]:
            shared += 1
        node[fields + CHAIN], node[fields + CHAIN_STOP] = start[low] + depth, start[low] + shared
        node[fields + ROW] = low
        while low < high and (shared == DEPTH_MAX or start[low + 1] - start[low] == shared):
            columns.rest[low] = start[low] + shared
            low += 1
        node[fields + ROW_STOP] = low
        node[fields + EDGE], node[fields + OTHER] = edge_count, edge_count
        while low < high:
            tested = test[start[low] + shared]
            stop = low + 1
            while stop < high and test[start[stop] + shared] == tested:
                stop += 1
            edge[edge_count * EDGE_FIELDS + TEST] = tested
            if stop - low == 1:
                columns.rest[low] = start[low] + shared + 1
                edge[edge_count * EDGE_FIELDS + CHILD] = -1 - low
            else:
                bounds[node_count, 0], bounds[node_count, 1] = low, stop
                node[node_count * NODE_FIELDS + DEPTH] = shared + 1
                edge[edge_count * EDGE_FIELDS + CHILD] = node_count
                node_count += 1
            edge_count += 1
            if tested < equality_count:
                node[fields + OTHER] = edge_count
            low = stop
        node[fields + EDGE_STOP] = edge_count
        star = edge_count
        for number in range(edge_count - 1, node[fields + EDGE] - 1, -1):
            tested = edge[number * EDGE_FIELDS + TEST]
            attribute = predicates.record[columns.leaf[tested] >> POLARITY_BITS]["attribute"]
            if (
                number + 1 < edge_count
                and edge[(number + 1) * EDGE_FIELDS + ATTRIBUTE] != attribute
            ):
                star = number + 1
            edge[number * EDGE_FIELDS + ATTRIBUTE] = attribute
            edge[number * EDGE_FIELDS + STAR] = star
        at += 1
    return node_count, edge_count


@leaf
def file_edges(columns: TreeColumns) -> None:
    """Put the equality edges of nodes that have many into the table, empty on entry."""
    mask = columns.table.size - 1
    for node in range(columns.node.size // NODE_FIELDS):
        first, stop = (
            columns.node[node * NODE_FIELDS + EDGE],
            columns.node[node * NODE_FIELDS + OTHER],
        )
        if stop - first <= EDGES_SCANNED_MAX:
            continue
        for edge in range(first, stop):
            place = _first_slot(columns, node, columns.edge[edge * EDGE_FIELDS + TEST])
            while columns.table[place] != 0:
                place = (place + 1) & mask
            columns.table[place] = edge + 1


@inlined
def _first_slot(columns: TreeColumns, node: int, test: int) -> int:
    """Where the search for an edge of a node begins."""
    hashed = hash_under(np.uint64(test), node)
    return int(np.int64(hashed & np.uint64(columns.table.size - 1)))


@leaf
def find_edge(columns: TreeColumns, node: int, test: int) -> int:
    """The child of a node with many edges by an equality; -1 - the number of rows if none."""
    fields = node * NODE_FIELDS
    first, stop = columns.node[fields + EDGE], columns.node[fields + OTHER]
    place = _first_slot(columns, node, test)
    while columns.table[place] != 0:
        edge = columns.table[place] - 1
        if first <= edge < stop and columns.edge[edge * EDGE_FIELDS + TEST] == test:
            return int(columns.edge[edge * EDGE_FIELDS + CHILD])
        place = (place + 1) & (columns.table.size - 1)
    return -1 - columns.row.size
