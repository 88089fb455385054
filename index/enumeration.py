"""Enumeration: the spaces of a segment numbered without gaps, and in which of them leaves hold.

Paper    Whang et al., PVLDB 2(1) 2009, and BE-Tree, SIGMOD 2011, section 7.2: a range or a set is
         every value that satisfies it, so that all that is left is equality.
Idea     a value lies in one space of each division of its attribute (see index.spaces). What a
         leaf says of a space is its role there: it holds in all of it, in some of it, or it fails.

    space   points | cells of numbers | cells of strings | presence and existence, two an attribute

    a < 5 with cuts 3, 5        COUNTS below 3, from 3 to 4
    a IN (1, 2)                 COUNTS at 1, at 2
    NOT a IN (1, 2)             COUNTS where a is present, KILLS at 1, at 2
    a CONTAINS 'x'              TESTED where a is present
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels.points import PointColumns
from index.points import names_points, numbered_points, operands_of
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.runs import begins_run, places_of_runs
from index.spaces import Covers, Facet, SpaceColumns, divide
from index.threshold import Polarity

ROLES = 3
KILLS, COUNTS, TESTED = range(ROLES)
"""What a leaf says of a space."""
NUMBER_CELLS, STRING_CELLS, PRESENCES = range(3)
"""Places in `Enumeration.first`."""


class Enumeration(NamedTuple):
    """In which lists the leaves stand, sorted by leaf."""

    points: PointColumns
    spaces: SpaceColumns
    first: NDArray[np.int64]  # [3] the first cell of numbers, of strings, and the first presence
    start: NDArray[np.int64]  # [l+1] leaf -> its run of `key`
    key: NDArray[np.int64]  # space * ROLES + role
    key_count: int


def enumerate_leaves(
    predicates: PredicateColumns, leaves: NDArray[np.int32], attribute_count: int
) -> Enumeration:
    """The lists of every leaf, of rows that are `plain_conjunctions`."""
    used, position = np.unique(leaves >> POLARITY_BITS, return_inverse=True)
    spaces, covers = divide(predicates, used.astype(np.int64), attribute_count)
    is_true = leaves & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE
    is_points = names_points(predicates, leaves)
    is_cells = is_true & (np.diff(covers.run_start)[position] > 0)
    operands = operands_of(predicates, leaves, np.flatnonzero(is_points))
    points, numbered = numbered_points(operands, attribute_count)
    first = np.cumsum(
        [
            points.number.size,
            spaces.number_cut_double.size + attribute_count,
            spaces.string_start.size - 1 + attribute_count,
        ]
    )
    owner, cell, is_exact = _cells(predicates, leaves, (spaces, covers), position, is_cells)
    record = predicates.record[leaves >> POLARITY_BITS]
    whole = np.flatnonzero(~is_cells & ~(is_points & is_true))
    exists = record["kind"][whole] == PredicateKind.EXISTS
    presence = first[PRESENCES] + 2 * record["attribute"][whole].astype(np.int64) + exists
    owners = np.concatenate((operands.owner, owner, whole))
    keys = ROLES * np.concatenate(
        (numbered.astype(np.int64), first[NUMBER_CELLS] + cell, presence)
    ) + np.concatenate(
        (
            np.where(is_true[operands.owner], COUNTS, KILLS),
            np.where(is_exact, COUNTS, TESTED),
            np.where(exists | is_points[whole], COUNTS, TESTED),
        )
    )
    # A text may have several prefixes that begin alike.
    order = np.lexsort((keys, owners))
    owners, keys = owners[order], keys[order]
    is_new = begins_run(owners, keys)
    owners, keys = owners[is_new], keys[is_new]
    start = np.searchsorted(owners, np.arange(leaves.size + 1))
    space_count = int(first[PRESENCES]) + 2 * attribute_count
    return Enumeration(points, spaces, first, start, keys, space_count * ROLES)


def _cells(
    predicates: PredicateColumns,
    leaves: NDArray[np.int32],
    divided: tuple[SpaceColumns, Covers],
    position: NDArray[np.int64],
    chosen: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """(leaf, cell, whether the leaf holds all over the cell) of the cells of the chosen leaves.

    Cells are numbered from the first one of numbers on.
    """
    spaces, covers = divided
    leaf_of = np.flatnonzero(chosen)
    run_start = covers.run_start[position[leaf_of]]
    run_count = covers.run_start[position[leaf_of] + 1] - run_start
    owner = np.repeat(leaf_of, run_count)
    run = places_of_runs(run_start, run_count)
    first, last = covers.first[run].astype(np.int64), covers.last[run].astype(np.int64)
    record = predicates.record[leaves[owner] >> POLARITY_BITS]
    attribute = record["attribute"].astype(np.int64)
    is_number = covers.facet[run] == Facet.NUMBER_CELL
    cut = spaces.number_cut_start[attribute].astype(np.int64)
    double = np.append(spaces.number_cut_double, np.nan)
    residual = np.append(spaces.number_cut_residual, 0)
    below, above = np.where(is_number, cut + first - 1, -1), np.where(is_number, cut + last, -1)
    is_low = (double[below] == record["low"]) & (residual[below] == record["low_residual"])
    is_high = (double[above] == record["high"]) & (residual[above] == record["high_residual"] + 1)
    # A cut of another attribute is none of this one's.
    is_low = is_number & (np.isneginf(record["low"]) | is_low & (first > 0))
    ends = above < spaces.number_cut_start[attribute + 1]
    is_high = is_number & (np.isposinf(record["high"]) | is_high & ends)
    width = np.maximum(last - first + 1, 0)
    at = np.repeat(np.arange(run.size), width)
    cell = places_of_runs(first, width)
    is_exact = ((cell > first[at]) | is_low[at]) & ((cell < last[at]) | is_high[at])
    is_exact &= record["kind"][at] != PredicateKind.LIKE
    string_cut = spaces.string_cut_start[attribute].astype(np.int64)
    string_cut += spaces.number_cut_double.size + spaces.number_cut_start.size - 1
    return owner[at], np.where(is_number, cut, string_cut)[at] + attribute[at] + cell, is_exact
