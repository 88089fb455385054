"""The algorithms by name: a new one is one file in `index/algorithms/` and one line here."""

from __future__ import annotations

from index.algorithms.atree import ATree
from index.algorithms.betree import BETree
from index.algorithms.counting import Counting
from index.algorithms.dynamic_clustering import DynamicClustering
from index.algorithms.gryphon import Gryphon
from index.algorithms.herald import Herald
from index.algorithms.intervals.cluster_index import ClusterIndex
from index.algorithms.intervals.hybrid_index import HybridIndex
from index.algorithms.intervals.interval_index import IntervalIndex
from index.algorithms.intervals.interval_tree import IntervalTree
from index.algorithms.intervals.segment_tree import SegmentTree
from index.algorithms.kindex import KIndex
from index.algorithms.opindex import OpIndex
from index.algorithms.opindex_cnf import OpIndexCNF
from index.algorithms.opindex_dnf import OpIndexDNF
from index.algorithms.propagation import PrefetchedPropagation, Propagation
from index.algorithms.pstbloom import PSTBloom
from index.algorithms.psthash import PSTHash, PSTHash1, PSTHash3
from index.algorithms.pstree import PSTree
from index.algorithms.rein import Rein
from index.algorithms.scan import Scan
from index.algorithms.sequential import Sequential
from index.algorithms.sift import Sift
from index.algorithms.static_clustering import StaticClustering
from index.base import MatchIndex

ALGORITHMS: dict[str, type[MatchIndex]] = {
    Herald.name: Herald,
    Scan.name: Scan,
    Sequential.name: Sequential,
    PSTHash.name: PSTHash,
    PSTHash1.name: PSTHash1,
    PSTHash3.name: PSTHash3,
    PSTBloom.name: PSTBloom,
    Counting.name: Counting,
    Propagation.name: Propagation,
    PrefetchedPropagation.name: PrefetchedPropagation,
    StaticClustering.name: StaticClustering,
    DynamicClustering.name: DynamicClustering,
    KIndex.name: KIndex,
    OpIndex.name: OpIndex,
    OpIndexDNF.name: OpIndexDNF,
    OpIndexCNF.name: OpIndexCNF,
    PSTree.name: PSTree,
    ClusterIndex.name: ClusterIndex,
    IntervalIndex.name: IntervalIndex,
    HybridIndex.name: HybridIndex,
    SegmentTree.name: SegmentTree,
    IntervalTree.name: IntervalTree,
    ATree.name: ATree,
    BETree.name: BETree,
    Sift.name: Sift,
    Gryphon.name: Gryphon,
    Rein.name: Rein,
}

DEFAULT = Herald.name
"""What commands and the service use unless told otherwise."""


def get(name: str) -> type[MatchIndex]:
    """The algorithm of this name; an unknown name is a LookupError that lists the known ones."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = ", ".join(sorted(ALGORITHMS))
        raise LookupError(f"no algorithm is called {name!r}; choose one of: {known}") from None
