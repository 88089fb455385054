"""Tatbul's figures: Index Structures and Algorithms for Efficient Profile Matching, 2001, 4.1.6."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, intervals
from benchmarks.workloads.intervals import Intervals

METHODS = ("interval-index", "cluster-index", "hybrid-index", "segment-tree", "interval-tree")
COUNTED = replace(
    Sweep(
        "tatbul-profiles",
        "Tatbul, Figure 7: value comparisons, number of profiles",
        "profiles",
        (100, 250, 500, 1_000),
        lambda value: _profiles(int(value)),
        METHODS,
        ("interval-index", "segment-tree", "interval-tree"),
        "The paper's own sizes: 100 to 1,000 profiles, 50 documents.",
    ),
    figure="evaluation_count",
)
OVERLAPS = (10, 50, 200, 400)
"""Sizes of intervals; the paper's axis is the overlap that comes of them."""


def _profiles(count: int) -> Workload:
    return intervals.generate(f"profiles {count}", Intervals(profiles=count))


def _overlap(size: float) -> Workload:
    return intervals.generate(f"size {size:g}", Intervals(size=int(size)))


SWEEPS = (
    COUNTED,
    replace(
        COUNTED,
        name="tatbul-overlap",
        title="Tatbul, Figure 8: value comparisons, growing overlap of 100 profiles",
        parameter="interval size of a domain of 1,000",
        values=OVERLAPS,
        workload=_overlap,
        order=("interval-index", "cluster-index", "interval-tree"),
        scaled="The paper's own sizes: 100 profiles, 50 documents.",
    ),
    replace(
        COUNTED,
        name="tatbul-time",
        title="Tatbul's five indexes: time",
        figure="us_per_event",
        values=(100, 1_000, 10_000, 30_000),
        workload=lambda value: intervals.generate(
            f"profiles {value:g}",
            Intervals(profiles=int(value), documents=1_024, domain=100_000),
        ),
        order=(),
        scaled="Beyond the paper: up to 30,000 profiles over a domain of 100,000 values.",
    ),
)
