"""Clusters: rows of one access predicate and one size, stored by columns and built at once.

Paper    Fabret et al., SIGMOD 2001, section 2.2 and 2.3.
Layout   start   int32[g+1]   clusters of list g are start[g]..start[g+1], ascending by size
         size    int32[c]     leaves to check, besides those of the access predicate
         first   int64[c+1]   rows of cluster c are row[first[c]:first[c+1]]
         column  int64[c]     where its columns begin: leaf k of its i-th row stands at
         leaf    int32[...]   leaf[column[c] + k * rows of c + i]
         row     int32[n]
Worked   access a=1:  s0 asks b=2    s1 asks c<5    s2 asks b=2 and c<5
             size 1   leaf [b=2, c<5]  row [s0, s1]          size 2   leaf [b=2] [c<5]  row [s2]

What a list stands for (an access predicate, or none) is the algorithm's. The rarest leaf of a row
is in the first column, because most rows then fail there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, leaf_shares
from index.kernels import inlined
from index.kernels.clusters import Lines, visit_cluster
from index.kernels.event_parts import CANDIDATES
from index.kernels.probe import Compiled, Hits
from index.predicate_phase import leaves_of_rows
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.threshold import Polarity


class RowLeaves(NamedTuple):
    """The m distinct leaves of n rows, the rarest of each row first."""

    start: NDArray[np.int64]  # [n+1] leaves of the i-th row are leaf[start[i]:start[i+1]]
    leaf: NDArray[np.int64]  # [m] places in the predicate phase
    owner: NDArray[np.int64]  # [m] i


class ClusterColumns(NamedTuple):
    """c clusters of n rows in g lists."""

    start: NDArray[np.int32]  # [g+1]
    size: NDArray[np.int32]  # [c]
    first: NDArray[np.int64]  # [c+1]
    column: NDArray[np.int64]  # [c]
    leaf: NDArray[np.int32]  # places of leaves
    row: NDArray[np.int32]  # [n]


def leaves_by_share(
    owner: NDArray[np.int32],
    leaf: NDArray[np.int64],
    share: NDArray[np.float64],
    row_count: int,
) -> RowLeaves:
    """Sort pairs of rows and leaves, and drop what a row names twice; `share` is by leaf."""
    by_rank = np.argsort(share, kind="stable")
    rank = np.empty(share.size, np.int64)
    rank[by_rank] = np.arange(share.size)
    keys = np.unique(owner.astype(np.int64) << 32 | rank[leaf])
    owners = keys >> 32
    start = np.searchsorted(owners, np.arange(row_count + 1))
    return RowLeaves(start, by_rank[keys & 0xFFFFFFFF], owners)


def ranked_leaves(
    compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
) -> tuple[NDArray[np.int32], NDArray[np.float64], RowLeaves]:
    """The distinct leaves of rows, ascending, their shares, and those of each row by share."""
    owner, code = leaves_of_rows(compiled.programs, rows)
    leaves, place = np.unique(code, return_inverse=True)
    share = leaf_shares(compiled.predicates, leaves, attribute_count, shares)
    return leaves, share, leaves_by_share(owner, place, share, rows.size)


def are_equalities(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which leaves are `=` that must be TRUE: what an access predicate is made of."""
    kind = predicates.record["kind"][leaves >> POLARITY_BITS]
    polarity = leaves & ((1 << POLARITY_BITS) - 1)
    equal: NDArray[np.bool_] = (kind == PredicateKind.EQUAL) & (polarity == Polarity.IS_TRUE)
    return equal


def build_clusters(
    leaves: RowLeaves,
    taken: NDArray[np.bool_],
    list_of: NDArray[np.int64],
    list_count: int,
    rows: NDArray[np.int32],
) -> ClusterColumns:
    """File `rows` in lists; `taken` are the leaves that the access predicates have checked."""
    size = np.bincount(leaves.owner[~taken], minlength=rows.size)
    order = np.lexsort((size, list_of))
    is_first = np.ones(rows.size, np.bool_)
    for part in (list_of[order], size[order]):
        is_first[1:] &= part[1:] == part[:-1]
    is_first[1:] = ~is_first[1:]
    first = np.append(np.flatnonzero(is_first), rows.size)
    sizes, counts = size[order][first[:-1]], np.diff(first)
    column = np.cumsum(sizes * counts) - sizes * counts
    columns = ClusterColumns(
        np.searchsorted(list_of[order][first[:-1]], np.arange(list_count + 1)).astype(np.int32),
        sizes.astype(np.int32),
        first.astype(np.int64),
        column.astype(np.int64),
        np.empty(int((sizes * counts).sum()), np.int32),
        rows[order].astype(np.int32),
    )
    _fill_columns(columns, leaves, taken, order)
    return columns


@njit(cache=True, nogil=True)
def _fill_columns(
    columns: ClusterColumns,
    leaves: RowLeaves,
    taken: NDArray[np.bool_],
    order: NDArray[np.int64],
) -> None:
    """Fill `columns.leaf`; order[i] is the row, by its place, that stands at columns.row[i]."""
    for cluster in range(columns.size.size):
        first, stop = columns.first[cluster], columns.first[cluster + 1]
        for at in range(first, stop):
            place = order[at]
            target = columns.column[cluster] + at - first
            for number in range(leaves.start[place], leaves.start[place + 1]):
                if not taken[number]:
                    columns.leaf[target] = leaves.leaf[number]
                    target += stop - first


def check_clusters(columns: ClusterColumns, rows: NDArray[np.int32], leaf_count: int) -> None:
    """Every row is in one cluster, and its columns name leaves."""
    assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
    assert columns.start[0] == 0 and columns.start[-1] == columns.size.size
    assert np.all(np.diff(columns.start) >= 0), "clusters of lists overlap"
    counts = np.diff(columns.first)
    assert np.all(counts > 0), "a cluster without rows"
    ends = columns.column + counts * columns.size
    assert np.array_equal(columns.column[1:], ends[:-1]), "columns overlap or leave gaps"
    assert np.all((columns.leaf >= 0) & (columns.leaf < leaf_count))


def list_and_size_of(columns: ClusterColumns, row: int) -> tuple[int, int]:
    """The list that a row is in, and how many leaves of it are checked there."""
    at = int(np.flatnonzero(columns.row == row)[0])
    cluster = int(np.searchsorted(columns.first, at, "right")) - 1
    number = int(np.searchsorted(columns.start, cluster, "right")) - 1
    return number, int(columns.size[cluster])


@inlined
def visit_list(
    columns: ClusterColumns,
    number: int,
    held: NDArray[np.uint8],
    hits: Hits,
    so_far: tuple[int, int],
    counts: NDArray[np.int64],
) -> int:
    """Append the hits among the clusters of a list; so_far: hits, and rows to ask for ahead."""
    hit_count, ahead = so_far
    lines = Lines(columns.leaf, columns.row)
    for cluster in range(columns.start[number], columns.start[number + 1]):
        first = columns.first[cluster]
        count = columns.first[cluster + 1] - first
        counts[CANDIDATES] += count
        at = columns.column[cluster], count, first, count, columns.size[cluster]
        hit_count = visit_cluster(lines, at, held, hits, hit_count, ahead)
    return hit_count
