"""Fabret et al.'s figures: SIGMOD 2001, section 6.2; Table 1 has the parameters."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.drift import Drift
from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, fixed_attributes
from benchmarks.workloads.fixed_attributes import W0, W1, W2, W3, W4, W5, W6, FixedAttributes
from index.algorithms.dynamic_clustering import DynamicClustering, DynamicClusters
from index.algorithms.propagation import PrefetchedPropagation
from index.algorithms.psthash import PSTHash
from index.companion import accompanied

METHODS = (
    "dynamic-clustering",
    "static-clustering",
    "propagation-prefetch",
    "propagation",
    "counting",
    "psthash",
)
ORDER = ("dynamic-clustering", "propagation-prefetch", "propagation", "counting")
SCALED = "30,000 to 1,000,000 subscriptions for the paper's 100,000 to 6,000,000."


def _workload(specification: FixedAttributes, count: float) -> Workload:
    return fixed_attributes.generate(
        f"subscriptions {count:g}",
        replace(specification, subscriptions=int(count), events=1_024),
    )


THROUGHPUT = Sweep(
    "fabret-throughput",
    "Fabret et al., Figure 3(a): number of subscriptions, W0",
    "subscriptions",
    (30_000, 100_000, 300_000, 1_000_000),
    lambda count: _workload(W0, count),
    METHODS,
    ORDER,
    SCALED,
    published={
        "counting": 1e6 / 1.1,
        "propagation": 1e6 / 124,
        "propagation-prefetch": 1e6 / 196,
        "dynamic-clustering": 1e6 / 602,
    },
    also={
        "bytes_per_subscription": "Fabret et al., Figure 3(c): memory, W0",
        "build_s": "Fabret et al., Figure 3(d): loading, W0",
    },
)
SWEEPS = (
    THROUGHPUT,
    replace(
        THROUGHPUT,
        name="fabret-operators",
        title="Fabret et al., Figure 3(b): W1 with 1 and W2 with 6 predicates that are not `=`",
        parameter="predicates that are not `=`",
        values=(1, 6),
        workload=lambda count: _workload(W1 if count == 1 else W2, 300_000),
        order=("dynamic-clustering", "propagation-prefetch", "propagation"),
        scaled="300,000 subscriptions for the paper's 3,000,000.",
        published={},
        also={},
    ),
)


class KeptClusters(DynamicClusters):
    """The paper's "no change": the tables of the first population stay, and no row moves."""

    def maintain(self) -> None:
        """Only until there are tables."""
        if not self._created_count:
            super().maintain()


class KeptClustering(DynamicClustering):
    """An index of kept clusters."""

    name = "no change"
    segment_type = accompanied(KeptClusters, PSTHash.segment_type)


DRIFTING_METHODS = {
    "dynamic-clustering": DynamicClustering,
    "no change": KeptClustering,
    "propagation-prefetch": PrefetchedPropagation,
    "psthash": PSTHash,
}


def _drift(name: str, title: str, before: FixedAttributes, after: FixedAttributes) -> Drift:
    return Drift(
        name,
        title,
        [lambda: _workload(before, 300_000), lambda: _workload(after, 300_000)],
        DRIFTING_METHODS,
        ("dynamic-clustering", "no change"),
        "300,000 subscriptions for the paper's 3,000,000, replaced in 8 steps for 16 hours.",
    )


DRIFTS = (
    _drift("fabret-schemas", "Fabret et al., Figure 4(a): other attributes, W3 to W4", W3, W4),
    _drift("fabret-skew", "Fabret et al., Figure 4(b): values become skewed, W5 to W6", W5, W6),
)
