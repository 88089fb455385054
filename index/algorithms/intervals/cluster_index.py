"""Cluster Index: split the intervals of each attribute by keys into clusters that may match.

Paper    Tatbul 2001, section 4.1.1.
Idea     a key, one of the end points, splits intervals: those with a part before it go left, those
         with a part from it on go right, and some do both. The score of a key is how far the two
         numbers differ, and how many intervals are repeated; the least is best, for it keeps trees
         shallow and small. A value descends to one cluster, and no other row can match. What is in
         all clusters of an event is tested predicate by predicate.
Layout   see index.profile_vectors. A leaf is one piece of its domain, a cluster. No sets are kept
         at keys, and none is made to score them: how many intervals meet a part of a domain is a
         difference of two running counts, see index.kernels.cluster_trees
Worked   Example 4, as far as the paper's text tells (tests/golden/cluster-index.json); of x ask
         0: <= 25    1: 10..50    2: 18..45    3: > 55
         4: 2..40    5: 65..70    6: 5..35     7: 30..60
         root: of 14 end points the middle one is 35, with 6 left and 7 right, 5 twice: score 6;
         then 55, 6 and 3, 1 twice: 4; then 45 and 40 on the larger side, 4 each. So 55 it is
         x = 20: before 55 and before 30, its cluster has 0 1 2 4 6, all of which may match
Cost     as interval-index, and O(leaves of the row) for each row that is left. Best where
         intervals overlap little, for clusters then have one row; poor where no key splits what
         overlaps: the attribute then rules out nothing.
Differs  Blocks, lists and the order of rows and attributes as in interval-index. IN is an interval
         for each value. A cluster of a single elementary interval does match, and rows that only
         such clusters leave are not tested.
"""

from __future__ import annotations

import numpy as np

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.cluster_trees import Runs, Split, split_clusters
from index.ordered_domains import INTERVAL_OPERATORS
from index.profile_vectors import VectorTrees
from index.updatable import Updatable

CLUSTER_MAX = 1
"""A cluster of so many intervals is not split further."""


class Clusters(VectorTrees):
    """The clusters of one segment."""

    @classmethod
    def cut(cls, runs: Runs) -> tuple[Split, int]:
        """Keys as long as one splits; no cluster is large enough to be cut otherwise."""
        return split_clusters(runs, CLUSTER_MAX), np.iinfo(np.int64).max


class ClusterIndex(Updatable):
    """Clusters of rows by keys; conjunctions of comparisons, `=` and IN."""

    name = "cluster-index"
    paper = "Tatbul: Index Structures and Algorithms for Efficient Profile Matching. 2001"
    summary = "splits the intervals of each attribute into clusters, and tests the rows in all"
    operators = INTERVAL_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Clusters, PSTHash.segment_type)
