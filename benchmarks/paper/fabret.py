"""Fabret et al.'s figures: SIGMOD 2001, section 6.2; Table 1 has the parameters."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, fixed_attributes
from benchmarks.workloads.fixed_attributes import W0, W1, W2, FixedAttributes

METHODS = (
    "propagation-prefetch",
    "propagation",
    "counting",
    "psthash",
)
ORDER = ("propagation-prefetch", "propagation", "counting")
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
        order=("propagation-prefetch", "propagation"),
        scaled="300,000 subscriptions for the paper's 3,000,000.",
        published={},
        also={},
    ),
)
