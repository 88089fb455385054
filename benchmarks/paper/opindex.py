"""Zhang, Chan and Tan's figures: OpIndex, PVLDB 7(8), 2014, section 7; Table 3 the parameters."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.paper.sweep import Sweep
from benchmarks.workloads import Workload, sparse_table, words
from benchmarks.workloads.sparse_table import SparseTable

METHODS = ("opindex", "betree", "kindex", "psthash", "pstbloom")
ORDER = ("opindex", "betree", "kindex")
DEFAULT = SparseTable(subscriptions=100_000, events=1_024)
SCALED = "100,000 subscriptions (Figure 10(a): 30,000 to 300,000) for the paper's 1,000,000 to"
SCALED += " 40,000,000, 1,024 events."


def _sweep(name: str, title: str, parameter: str, values: tuple[float, ...], field: str) -> Sweep:
    def workload(value: float) -> Workload:
        at: object = value if field in ("equality_share", "zipf") else int(value)
        changed = replace(DEFAULT, **{field: at})  # type: ignore[arg-type]
        return sparse_table.generate(f"{parameter} {value:g}", changed)

    return Sweep(f"opindex-{name}", title, parameter, values, workload, METHODS, ORDER, SCALED)


CLAUSES = replace(DEFAULT, subscriptions=30_000)

SWEEPS = (
    _sweep(
        "subscriptions",
        "OpIndex paper, Figure 10(a): number of subscriptions",
        "subscriptions",
        (30_000, 100_000, 300_000),
        "subscriptions",
    ),
    _sweep(
        "size",
        "OpIndex paper, Figure 10(b): largest subscription",
        "predicates a subscription, at most",
        (4, 8, 12, 20),
        "subscription_size",
    ),
    _sweep(
        "event",
        "OpIndex paper, Figure 10(c): largest event",
        "attributes an event, at most",
        (20, 40, 80, 120),
        "event_size",
    ),
    _sweep(
        "equality",
        "OpIndex paper, Figure 10(d): share of equalities",
        "equalities / predicates",
        (0.2, 0.4, 0.8, 1.0),
        "equality_share",
    ),
    _sweep(
        "values",
        "OpIndex paper, Figure 10(e): value space",
        "values of an attribute",
        (50, 200, 800, 12_800),
        "value_space",
    ),
    _sweep(
        "zipf", "OpIndex paper, Figure 10(f): Zipf exponent", "exponent", (0, 0.4, 0.8, 1), "zipf"
    ),
    Sweep(
        "opindex-keywords",
        "OpIndex paper, Figure 11: keyword queries",
        "subscriptions",
        (10_000, 30_000, 100_000),
        lambda value: words.keywords(f"keywords {value:g}", int(value), 1_024),
        METHODS,
        ORDER,
        "Words of the Python reference for the AOL log and Wikipedia, 10,000 to 100,000 queries.",
    ),
    Sweep(
        "opindex-dnf",
        "OpIndex paper, Figure 13: clauses of DNF",
        "clauses, at most",
        (1, 3, 5, 8),
        lambda value: sparse_table.generate_clauses(f"DNF {value:g}", CLAUSES, int(value), True),
        ("opindex-dnf", "psthash", "atree"),
        (),
        "30,000 subscriptions for 1,000,000 to 20,000,000.",
    ),
    Sweep(
        "opindex-cnf",
        "OpIndex paper, Figure 13: clauses of CNF",
        "clauses, at most",
        (1, 3, 5, 8),
        lambda value: sparse_table.generate_clauses(f"CNF {value:g}", CLAUSES, int(value), False),
        ("opindex-cnf", "psthash", "atree"),
        (),
        "30,000 subscriptions for 1,000,000 to 20,000,000.",
    ),
    Sweep(
        "opindex-prefix",
        "OpIndex paper, Figure 14(a): share of prefixes",
        "prefixes / predicates",
        (0, 0.25, 0.5, 1.0),
        lambda value: sparse_table.generate_prefixes(
            f"prefixes {value:g}", replace(CLAUSES, dimensions=10_000), value, 3
        ),
        ("opindex", "psthash"),
        (),
        "30,000 subscriptions for 1,000,000.",
    ),
)
