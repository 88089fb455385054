"""Hybrid Index: clusters first, and elementary intervals where clusters stay large.

Paper    Tatbul 2001, section 4.1.3 and its footnote on the minimum cluster size.
Idea     TODO
Layout   TODO
Worked   TODO
Cost     TODO
Differs  TODO
"""

from __future__ import annotations

from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.clusters import Runs, Split, split_clusters
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
    companion = PSTHash.name
    segment_type = accompanied(ClustersOfIntervals, PSTHash.segment_type)
