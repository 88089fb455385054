"""Sadoghi and Jacobsen's figures: BE-Tree, SIGMOD 2011, section 7.3; Table 3 has the parameters."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.drift import Drift
from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, begen, words
from benchmarks.workloads.begen import BEGen
from index.algorithms.betree import BETree
from index.algorithms.opindex import OpIndex
from index.algorithms.psthash import PSTHash

METHODS = ("betree", "propagation", "kindex", "sift", "gryphon", "sequential", "psthash")
ORDER = ("betree", "kindex", "propagation", "sift", "sequential")
EQUALITY_METHODS = ("betree", "gryphon", "propagation", "kindex", "sift", "psthash")
EQUALITY_ORDER = ("betree", "gryphon", "propagation", "kindex")
DEFAULT = BEGen(subscriptions=50_000, events=1_024)
SCALED = "50,000 subscriptions for the paper's 100,000 to 1,000,000, 1,024 events."


def _sweep(name: str, title: str, parameter: str, values: tuple[float, ...], field: str) -> Sweep:
    def workload(value: float) -> Workload:
        at: object = value
        if field in ("subscriptions", "dimensions", "cardinality"):
            at = int(value)
        changed = replace(DEFAULT, **{field: at})  # type: ignore[arg-type]
        return begen.generate(f"{parameter} {value:g}", changed)

    return Sweep(f"betree-{name}", title, parameter, values, workload, METHODS, ORDER, SCALED)


def _sizes(value: float) -> Workload:
    low = int(value)
    return begen.generate(
        f"size {low}",
        replace(DEFAULT, subscription_size=(low, low + 4), event_size=(2 * low, 2 * low + 4)),
    )


SWEEPS = (
    _sweep(
        "subscriptions",
        "BE-Tree paper, Figure 5(a): number of subscriptions, uniform",
        "subscriptions",
        (10_000, 30_000, 100_000, 300_000),
        "subscriptions",
    ),
    replace(
        _sweep(
            "zipf",
            "BE-Tree paper, Figures 5-11 right: attributes by Zipf",
            "exponent",
            (0, 0.5, 1, 1.5),
            "zipf_attributes",
        ),
        order=("betree", "propagation", "kindex", "sift"),
    ),
    _sweep(
        "dimensions",
        "BE-Tree paper, Figure 6(a): number of dimensions",
        "dimensions",
        (50, 200, 400, 1_400),
        "dimensions",
    ),
    Sweep(
        "betree-size",
        "BE-Tree paper, Figure 7(a): size of subscriptions and events",
        "predicates a subscription",
        (5, 14, 28),
        _sizes,
        METHODS,
        ORDER,
        SCALED,
    ),
    _sweep(
        "cardinality",
        "BE-Tree paper, Figure 8(a): dimension cardinality",
        "values of a dimension",
        (48, 150, 1_500, 6_000),
        "cardinality",
    ),
    _sweep(
        "range",
        "BE-Tree paper, Figure 8(c): predicate selectivity",
        "range / domain",
        (0.06, 0.12, 0.25, 0.5),
        "range_share",
    ),
    _sweep(
        "equality",
        "BE-Tree paper, Figure 10(a): share of equalities",
        "equalities / predicates",
        (0.2, 0.5, 0.8, 1.0),
        "equality_share",
    ),
    _sweep(
        "match",
        "BE-Tree paper, Figure 11(a): matching probability",
        "matching probability",
        (0.0001, 0.001, 0.01, 0.09),
        "match_probability",
    ),
    Sweep(
        "betree-grams",
        "BE-Tree paper, Figure 12: titles as 3-grams, equalities only",
        "subscriptions",
        (10_000, 30_000, 100_000),
        lambda value: words.grams(f"titles {value:g}", int(value), 1_024),
        EQUALITY_METHODS,
        EQUALITY_ORDER,
        "Runs of the Python reference for DBLP titles, 10,000 to 100,000 for 50,000 to 760,000.",
    ),
)

UNIFORM = replace(DEFAULT, match_probability=0.001)
ZIPF = replace(UNIFORM, zipf_attributes=1.0)


def _half(parameters: BEGen) -> Workload:
    return begen.generate("half", replace(parameters, events=DEFAULT.events // 2))


def _under_both(parameters: BEGen) -> Workload:
    """One population; half of the events are uniform, the other half not, whatever it is."""
    own = _half(parameters)
    return replace(own, payloads=_half(UNIFORM).payloads + _half(ZIPF).payloads)


def _there_and_back(name: str, title: str, first: BEGen, second: BEGen) -> Drift:
    return Drift(
        name,
        title,
        [lambda: _under_both(first), lambda: _under_both(second), lambda: _under_both(first)],
        {"betree": BETree, "opindex": OpIndex, "psthash": PSTHash},
        ("betree",),
        "50,000 subscriptions, replaced twice in 8 steps each; the paper does not say how many.",
        recovers=("betree",),
    )


DRIFTS = (
    _there_and_back(
        "betree-uniform", "BE-Tree paper, Figure 13(a): uniform, Zipf, uniform", UNIFORM, ZIPF
    ),
    _there_and_back(
        "betree-skewed", "BE-Tree paper, Figure 13(b): Zipf, uniform, Zipf", ZIPF, UNIFORM
    ),
)
