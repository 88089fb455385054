"""Interval Index: cut each attribute into elementary intervals, and keep who is found in each.

Paper    Tatbul 2001, section 4.1.2.
Idea     between two neighbouring end points no interval begins or ends, so all values there are in
         the same intervals. A value is searched among those pieces; the set of the piece it lies in
         are the rows that match as far as the attribute is concerned, without further tests.
Layout   see index.profile_vectors; a domain is one leaf, and each of its pieces one elementary
         interval. The pieces of a leaf ascend, and halving their number is the paper's tree: the
         root is the middle one, and a search ends as soon as it meets the piece of the value
Worked   Example 4, as far as the paper's text tells it (tests/golden/interval-index.json)
         x of profiles  0: <= 25   1: 10..50   2: 18..45   3: > 55   4: 2..40   5: 65..70
                        6: 5..35   7: 30..60
         x = 20: root (25, 30), left 7 pieces further [10], [18] and (18, 25), which holds 20 and
         leads to the rows 0, 1, 2, 4, 6
Cost     k attributes, b blocks of B rows: match O(k b (log B + B / 64)), and a sixth of the blocks
         or less where their rarest attributes are absent or fail. Build a sort, and O(pieces);
         memory O(n B) bits at worst, where all end points differ and intervals are long. Best
         where attributes have few values; poor where each row is met by a third of all values.
Differs  Vectors of n bits for each of up to 4 n pieces would need O(n * n) bits: rows are cut into
         blocks of 4,096 with trees of their own, so an event searches each attribute once a block.
         Small sets are lists. Rows are numbered by their rarest attribute and their interval there,
         and a block is left as soon as an attribute leaves no row. An attribute that an event lacks
         costs nothing: rows that name it are ruled out when they are all that is left. Sets of an
         array's values are united. Strings are points by their code, and ranges of them by text.
"""

from __future__ import annotations

import numpy as np

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.clusters import Runs, Split
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
    companion = PSTHash.name
    segment_type = accompanied(ElementaryIntervals, PSTHash.segment_type)
