"""Interval Index: cut each attribute into elementary intervals, and keep who is found in each.

Paper    Tatbul 2001, section 4.1.2.
Idea     between two neighbouring end points no interval begins or ends, so all values there are in
         the same intervals. A value is searched for among those pieces; the set of the piece that
         it lies in are the rows that match as far as the attribute is concerned.
Layout   see index.profile_vectors. A domain is one leaf without keys, and a piece one elementary
         interval that some row asks for. Halving the run of pieces is the paper's search tree: its
         root is the middle piece, and a search ends at the piece that has the value
Worked   Example 4, as far as the paper's text tells (tests/golden/interval-index.json); of x ask
         0: <= 25    1: 10..50    2: 18..45    3: > 55
         4: 2..40    5: 65..70    6: 5..35     7: 30..60
         29 pieces (any, 2) [2] (2, 5) ... [70] (70, any)
         x = 20: not in the middle one, (35, 40), nor in (10, 18), nor in (25, 30), but in (18, 25),
         the fourth; its set is 0 1 2 4 6
Cost     b blocks of B rows, k attributes of an event: match up to O(b k (log B + B / 64)), less
         where blocks are left early. Build a sort and a sweep; up to O(n B) bits, reached where all
         end points differ and intervals are long. Best where attributes have few values, or rows
         few attributes in common with events; poor where each attribute lets most rows pass.
Differs  Vectors of n bits at up to 4 n nodes are O(n * n) bits. So rows are cut into blocks of
         4,096 with trees of their own: an event searches an attribute once a block, and memory
         grows with n. Sets of few rows are lists. Rows are numbered by their rarest attribute and
         by where their interval there begins; a block is left when an attribute leaves no row, so
         evaluations are fewer than the paper's. Attributes that an event lacks are not looked at:
         the rows that are left at the end are asked whether the event has all that they name. Sets
         of the values of an array are united. A string is a point by its operand code, and lies in
         ranges by its text.
"""

from __future__ import annotations

import numpy as np

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.cluster_trees import Runs, Split
from index.ordered_domains import INTERVAL_OPERATORS
from index.profile_vectors import VectorTrees
from index.updatable import Updatable


class ElementaryIntervals(VectorTrees):
    """The elementary intervals of one segment."""

    @classmethod
    def cut(cls, runs: Runs) -> tuple[Split, int]:
        """A domain is one leaf without keys, all of it cut into elementary intervals."""
        tree_count = runs.point.size - 1
        none = np.zeros(0, np.int32)
        first = np.zeros(tree_count, np.int32)
        last = (2 * np.diff(runs.point)).astype(np.int32)
        root = ~np.arange(tree_count, dtype=np.int32)
        return Split(root, none, none, np.arange(tree_count + 1), first, last), 1


class IntervalIndex(Updatable):
    """Sets of rows by elementary interval; conjunctions of comparisons, `=` and IN."""

    name = "interval-index"
    paper = "Tatbul: Index Structures and Algorithms for Efficient Profile Matching. 2001"
    summary = "finds for each attribute the rows of the elementary interval that its value lies in"
    operators = INTERVAL_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(ElementaryIntervals, PSTHash.segment_type)
