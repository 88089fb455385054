"""Ji and Jacobsen's figures: PVLDB 12(3), 2018, section 7; Table 1 has the parameters.

Its default is 1,000,000 subscriptions and, for dense workloads, 100 dimensions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.sweep import Sweep
from benchmarks.paper.table import PaperTable
from benchmarks.workloads import Workload, begen, intervals
from benchmarks.workloads.begen import ADS, BEGen
from index.access import Shares
from index.algorithms.betree import BETree, BETreeSegment
from index.algorithms.psthash import PSTHash
from index.companion import accompanied
from index.kernels.probe import Compiled
from index.model import Operator

METHODS = ("psthash", "pstbloom", "betree", "opindex", "propagation", "kindex", "sequential")
FIRST_TEST, NO_TEST = 1, -1
"""Where an entry of BE-Tree has the attribute of its first test, and what says that there is none.
"""
DENSE = BEGen(
    subscriptions=50_000,
    events=1_024,
    dimensions=100,
    cardinality=30,
    subscription_size=(7, 13),
    event_size=(30, 30),
    equality_share=0.4,
    match_probability=0.001,
    other_operators=(
        (Operator.IN, 1.0),
        (Operator.BETWEEN, 2.0),
        (Operator.LE, 1.0),
        (Operator.GE, 1.0),
    ),
)
SCALED = "50,000 subscriptions for the paper's 1,000,000 (Figure 6: 10,000 to 300,000 for 300,000"
SCALED += " to 100,000,000), 1,024 events."
DENSE_ORDER = ("psthash", "pstbloom", "opindex", "betree", "kindex", "propagation", "sequential")
ZIPF_ORDER = ("psthash", "betree", "opindex", "sequential", "kindex")


def _sweep(name: str, title: str, parameter: str, values: tuple[float, ...], field: str) -> Sweep:
    def workload(value: float) -> Workload:
        at: object = value
        if field in ("subscriptions", "dimensions", "cardinality"):
            at = int(value)
        elif field == "subscription_size":
            at = (max(1, int(value) - 3), int(value) + 3)
        elif field == "event_size":
            at = (int(value), int(value))
        changed = replace(DENSE, **{field: at})  # type: ignore[arg-type]
        if field == "subscription_size":
            changed = replace(changed, event_size=(40, 40))
        return begen.generate(f"{parameter} {value:g}", changed)

    order = ZIPF_ORDER if field == "zipf_attributes" else DENSE_ORDER
    return Sweep(f"pstree-{name}", title, parameter, values, workload, METHODS, order, SCALED)


SWEEPS = (
    replace(
        _sweep(
            "subscriptions",
            "PS-Tree paper, Figure 6(a): number of subscriptions, 100 dimensions",
            "subscriptions",
            (10_000, 30_000, 100_000, 300_000),
            "subscriptions",
        ),
        also={
            "build_s": "PS-Tree paper, Figure 5(a): construction",
            "bytes_per_subscription": "PS-Tree paper, Figure 14(a): memory",
        },
    ),
    _sweep(
        "zipf",
        "PS-Tree paper, Figure 7(a): Zipf exponent of the attributes",
        "exponent",
        (0, 1, 2, 3),
        "zipf_attributes",
    ),
    _sweep(
        "dimensions",
        "PS-Tree paper, Figure 8(a): number of dimensions",
        "dimensions",
        (100, 1_000, 10_000, 30_000),
        "dimensions",
    ),
    _sweep(
        "cardinality",
        "PS-Tree paper, Figure 9(a): dimension cardinality",
        "values of a dimension",
        (10, 30, 100, 1_000),
        "cardinality",
    ),
    _sweep(
        "size",
        "PS-Tree paper, Figure 10(a): subscription size",
        "predicates a subscription",
        (5, 10, 20, 30),
        "subscription_size",
    ),
    _sweep(
        "event",
        "PS-Tree paper, Figure 11(a): event size",
        "attributes an event",
        (30, 50, 70, 90),
        "event_size",
    ),
    _sweep(
        "match",
        "PS-Tree paper, Figure 12(a): matching probability",
        "matching probability",
        (0.001, 0.01, 0.1, 0.5),
        "match_probability",
    ),
    _sweep(
        "equality",
        "PS-Tree paper, Figure 13(a): ratio of equalities",
        "equalities / predicates",
        (0, 0.4, 0.8, 1.0),
        "equality_share",
    ),
    Sweep(
        "pstree-ads-match",
        "Beyond the PS-Tree paper: the ads-like set, by matching probability",
        "matching probability",
        (0.0001, 0.001, 0.01),
        lambda value: begen.generate(
            f"ads {value:g}",
            replace(ADS, subscriptions=300_000, events=1_024, match_probability=value),
        ),
        ("psthash", "pstbloom", "betree", "opindex"),
        (),
        "300,000 generated subscriptions for the paper's 3,000,000 real ones.",
    ),
)


class PlainLeaves(BETreeSegment):
    """BE-Tree with leaves as in its paper: lists of expressions, each of which is verified."""

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """The same tree, without tests beside the rows."""
        segment = super().build(compiled, rows, attribute_count, shares)
        segment._columns.entry[:, FIRST_TEST] = NO_TEST
        return segment


class PlainBETree(BETree):
    """An index of plain leaves."""

    segment_type = accompanied(PlainLeaves, PSTHash.segment_type)


ADS_SUBSCRIPTIONS = 1_000_000
TABLE2 = PaperTable(
    name="pstree-table2",
    title="PS-Tree paper, Table 2: the ads-like set",
    workload=lambda: begen.generate(
        "ads", replace(ADS, subscriptions=ADS_SUBSCRIPTIONS, events=1_024)
    ),
    methods=METHODS,
    order=("psthash", "pstbloom", "betree", "opindex", "propagation", "sequential", "kindex"),
    published={
        "sequential": 435_270,
        "kindex": 616_420,
        "propagation": 168_730,
        "opindex": 3_210,
        "betree": 2_260,
        "pstbloom": 820,
        "psthash": 240,
    },
    scaled="1,000,000 generated subscriptions for the paper's 3,000,000 real ones.",
    variants={"betree-plain-leaves": PlainBETree},
)
TABLE3 = PaperTable(
    name="pstree-table3",
    title="PS-Tree paper, Table 3: 100,000 intervals, 100,000 points",
    workload=lambda: intervals.generate(
        "intervals",
        intervals.Intervals(
            profiles=100_000, documents=100_000, attributes=1, size=10, domain=1_000_000
        ),
    ),
    methods=("pstree", "segment-tree", "interval-tree", "sequential"),
    order=("pstree", "segment-tree", "interval-tree", "sequential"),
    published={
        "sequential": 231.1,
        "interval-tree": 25.2,
        "segment-tree": 0.0627,
        "pstree": 0.0071,
    },
    scaled="As many intervals and points; the paper does not print the lengths, here they are 10 of"
    " 1,000,000.",
)
