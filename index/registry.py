"""The algorithms by name: a new one is one file in `index/algorithms/` and one line here.

A process that matches needs one of them; importing all takes longer than all else it imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from index.base import MatchIndex

_PLACES = {
    "herald": "herald:Herald",
    "scan": "scan:Scan",
    "sequential": "sequential:Sequential",
    "psthash": "psthash:PSTHash",
    "psthash-1": "psthash:PSTHash1",
    "psthash-3": "psthash:PSTHash3",
    "pstbloom": "pstbloom:PSTBloom",
    "counting": "counting:Counting",
    "propagation": "propagation:Propagation",
    "propagation-prefetch": "propagation:PrefetchedPropagation",
    "static-clustering": "static_clustering:StaticClustering",
    "dynamic-clustering": "dynamic_clustering:DynamicClustering",
    "kindex": "kindex:KIndex",
    "opindex": "opindex:OpIndex",
    "opindex-dnf": "opindex_dnf:OpIndexDNF",
    "opindex-cnf": "opindex_cnf:OpIndexCNF",
    "pstree": "pstree:PSTree",
    "cluster-index": "intervals.cluster_index:ClusterIndex",
    "interval-index": "intervals.interval_index:IntervalIndex",
    "hybrid-index": "intervals.hybrid_index:HybridIndex",
    "segment-tree": "intervals.segment_tree:SegmentTree",
    "interval-tree": "intervals.interval_tree:IntervalTree",
    "atree": "atree:ATree",
    "betree": "betree:BETree",
    "sift": "sift:Sift",
    "gryphon": "gryphon:Gryphon",
    "rein": "rein:Rein",
}
"""Module below `index.algorithms` and class, by name."""

DEFAULT = "herald"
"""What commands and the service use unless told otherwise."""


class _Algorithms(Mapping[str, type[MatchIndex]]):
    """Imports an algorithm when it is asked for; names are known without."""

    def __getitem__(self, name: str) -> type[MatchIndex]:
        module, kind = _PLACES[name].split(":")
        algorithm: type[MatchIndex] = getattr(import_module(f"index.algorithms.{module}"), kind)
        return algorithm

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


ALGORITHMS: Mapping[str, type[MatchIndex]] = _Algorithms()


def get(name: str) -> type[MatchIndex]:
    """The algorithm of this name; an unknown name is a LookupError that lists the known ones."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = ", ".join(sorted(ALGORITHMS))
        raise LookupError(f"no algorithm is called {name!r}; choose one of: {known}") from None
