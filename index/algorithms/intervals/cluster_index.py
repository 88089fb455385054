"""Cluster Index: split the intervals of each attribute by keys into clusters that may match.

Paper    Tatbul 2001, section 4.1.1.
Idea     a key, one of the end points, splits intervals into those that have a part before it and
         those that have one from it on; an interval that has both is in both. The score of a key is
         the difference of the two numbers and the number of repetitions, so that trees are shallow
         and small. A value descends to one cluster, whose rows are all that can match.
Layout   see index.profile_vectors; each leaf is one piece of the domain, its cluster. No sets are
         kept at keys, and none of intervals: how many meet a part of a domain is a difference of
         two running counts, see index.kernels.clusters
Worked   TODO
Cost     TODO
Differs  TODO
"""

from __future__ import annotations

import numpy as np

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.clusters import Runs, Split, split_clusters
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
    companion = PSTHash.name
    segment_type = accompanied(Clusters, PSTHash.segment_type)
