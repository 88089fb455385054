"""Herald's own index beside the methods of the papers: one parameter at a time."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.pstree import DENSE
from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, begen, fixed_attributes, sparse_table
from benchmarks.workloads.begen import ADS, BEGen
from benchmarks.workloads.fixed_attributes import W0
from benchmarks.workloads.sparse_table import SparseTable

RIVALS = (
    "herald",
    "psthash",
    "psthash-1",
    "psthash-3",
    "pstbloom",
    "betree",
    "opindex",
    "sift",
    "interval-index",
    "static-clustering",
    "propagation",
    "gryphon",
    "atree",
)
LARGE_RIVALS = ("herald", "psthash", "psthash-1", "psthash-3", "pstbloom", "betree", "opindex")
LARGEST_RIVALS = ("herald", "psthash", "psthash-3", "static-clustering", "betree")
EVENTS = 1_024
SIZES = (10_000, 100_000, 1_000_000)
BATCHED_SUBSCRIPTIONS = 100_000


def _by_size(kind: str, title: str) -> Sweep:
    def workload(count: float) -> Workload:
        name, size = f"{kind} {count:g}", int(count)
        if kind == "ads":
            return begen.generate(name, replace(ADS, subscriptions=size, events=EVENTS))
        if kind == "begen":
            return begen.generate(name, BEGen(subscriptions=size, events=EVENTS))
        return sparse_table.generate(name, SparseTable(subscriptions=size, events=EVENTS))

    return Sweep(
        f"herald-{kind}",
        title,
        "subscriptions",
        SIZES,
        workload,
        LARGE_RIVALS,
        (),
        "10,000 to 1,000,000 subscriptions.",
        also={
            "bytes_per_subscription": f"{title}: memory of the structure",
            "build_s": f"{title}: building the structure",
        },
    )


def _dense(name: str, parameter: str, values: tuple[float, ...], field: str) -> Sweep:
    """One parameter of the PS-Tree paper's dense workload."""

    def workload(value: float) -> Workload:
        changed: object = value
        if field == "dimensions":
            changed = int(value)
        elif field == "subscription_size":
            changed = (int(value), int(value))
        return begen.generate(f"{parameter} {value:g}", replace(DENSE, **{field: changed}))  # type: ignore[arg-type]

    return Sweep(
        f"herald-{name}",
        f"Dense workload, by {parameter}",
        parameter,
        values,
        workload,
        RIVALS,
        (),
        "50,000 subscriptions, 1,024 events.",
    )


def _in_batches_of(count: float) -> Workload:
    parameters = replace(ADS, subscriptions=BATCHED_SUBSCRIPTIONS, events=4 * EVENTS)
    workload = begen.generate(f"batch {count:g}", parameters)
    return replace(workload, batch_events=int(count))


SWEEPS = (
    _by_size("ads", "Advertisements, by number of subscriptions"),
    _by_size("begen", "BE-Gen, by number of subscriptions"),
    _by_size("sparse", "Sparse table, by number of subscriptions"),
    Sweep(
        "herald-eq",
        "Five equalities, by number of subscriptions",
        "subscriptions",
        (10_000, 100_000, 1_000_000, 6_000_000),
        lambda count: fixed_attributes.generate(
            f"eq {count:g}", replace(W0, subscriptions=int(count), events=EVENTS)
        ),
        LARGEST_RIVALS,
        (),
        "10,000 to 6,000,000 subscriptions.",
        also={
            "bytes_per_subscription": "Five equalities: memory of the structure",
            "build_s": "Five equalities: building the structure",
        },
    ),
    _dense("match", "matching probability", (0.001, 0.01, 0.1, 0.5), "match_probability"),
    _dense("attributes", "number of attributes", (100, 1_000, 10_000), "dimensions"),
    _dense("predicates", "predicates a subscription", (3, 8, 16), "subscription_size"),
    _dense("equalities", "share of equalities", (0, 0.4, 0.8, 1.0), "equality_share"),
    _dense("skew", "Zipf exponent of the attributes", (0, 1, 2), "zipf_attributes"),
    Sweep(
        "herald-batch",
        "Advertisements, by events in one call",
        "events a call",
        (1, 8, 64, 512, 4_096),
        _in_batches_of,
        LARGE_RIVALS,
        (),
        "100,000 subscriptions.",
    ),
)
