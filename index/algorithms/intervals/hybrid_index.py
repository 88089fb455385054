"""Hybrid Index: clusters, and elementary intervals where clusters stay large.

Paper    Tatbul 2001, section 4.1.3, and the footnote on the minimum cluster size.
Idea     where many intervals overlap, a Cluster Index ends with large clusters, whose rows must all
         be tested. So splitting ends at a minimum size, and a cluster of that size, or of more that
         no key splits, is cut into elementary intervals as an Interval Index is. What is smaller
         stays a cluster.
Layout   see index.profile_vectors. A leaf is either one piece, a cluster that may match, or a piece
         for each elementary interval of its part of the domain
Worked   Example 4, as far as the paper's text tells (tests/golden/hybrid-index.json); of x ask
         0: <= 25    1: 10..50    2: 18..45    3: > 55
         4: 2..40    5: 65..70    6: 5..35     7: 30..60
         keys 55 and 30; the 3 intervals from 55 on stay a cluster, the 5 before 30 are cut
         x = 20: before 55, before 30, not in the middle piece [10], but in (18, 25): 0 1 2 4 6
         x = 80: from 55 on, so 3 5 7 may match; tested, 3 does
Cost     as interval-index, but a search first passes keys, and rows of small clusters are tested.
         Best and poor where interval-index is; fewer sets where intervals overlap little.
Differs  As interval-index. The minimum size is 4, for the paper names none: 2 and 4 are equally
         fast, 16 and 32 slower (measured).
"""

from __future__ import annotations

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.cluster_trees import Runs, Split, split_clusters
from index.ordered_domains import INTERVAL_OPERATORS
from index.profile_vectors import VectorTrees
from index.updatable import Updatable

CLUSTER_MIN = 4
"""The paper's minimum cluster size: splitting ends at it, and cutting begins (chosen here)."""


class ClustersOfIntervals(VectorTrees):
    """The clusters of one segment, the larger of them in elementary intervals."""

    @classmethod
    def cut(cls, runs: Runs) -> tuple[Split, int]:
        """Keys down to the minimum cluster size, and from there on elementary intervals."""
        return split_clusters(runs, CLUSTER_MIN), CLUSTER_MIN


class HybridIndex(Updatable):
    """Clusters, and elementary intervals of clusters; conjunctions of comparisons, `=` and IN."""

    name = "hybrid-index"
    paper = "Tatbul: Index Structures and Algorithms for Efficient Profile Matching. 2001"
    summary = "splits the intervals of each attribute into clusters, and these where they are large"
    operators = INTERVAL_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(ClustersOfIntervals, PSTHash.segment_type)
