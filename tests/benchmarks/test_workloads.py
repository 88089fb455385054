"""The papers' workloads: the same for the same seed, and as their parameters say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from benchmarks.workloads import (
    Workload,
    begen,
    draws,
    fixed_attributes,
    intervals,
    sparse_table,
    words,
)
from benchmarks.workloads.begen import ADS, BEGen
from benchmarks.workloads.fixed_attributes import W0, W2, W4, W6
from benchmarks.workloads.sparse_table import SparseTable
from index.algorithms.psthash import PSTHash
from index.events import decode_payloads
from index.model import And, Filter, Instant, Operator, Or, Predicate

SMALL_BEGEN = BEGen(subscriptions=2_000, events=40, match_probability=0.05)
SMALL_TABLE = SparseTable(subscriptions=300, events=20)
SMALL_W0 = replace(W0, subscriptions=300, events=20)

GENERATED: dict[str, Callable[[int], Workload]] = {
    "begen": lambda seed: begen.generate("w", SMALL_BEGEN, seed),
    "ads": lambda seed: begen.generate("w", replace(ADS, subscriptions=300, events=20), seed),
    "sparse": lambda seed: sparse_table.generate("w", SMALL_TABLE, seed),
    "dnf": lambda seed: sparse_table.generate_clauses("w", SMALL_TABLE, 5, True, seed),
    "cnf": lambda seed: sparse_table.generate_clauses("w", SMALL_TABLE, 5, False, seed),
    "prefixes": lambda seed: sparse_table.generate_prefixes("w", SMALL_TABLE, 0.5, 3, seed),
    "fixed": lambda seed: fixed_attributes.generate("w", SMALL_W0, seed),
    "intervals": lambda seed: intervals.generate("w", intervals.Intervals(), seed),
    "keywords": lambda seed: words.keywords("w", 300, 20, seed),
    "grams": lambda seed: words.grams("w", 300, 20, seed),
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_seed_says_it_all(name: str) -> None:
    generate = GENERATED[name]
    assert generate(1) == generate(1)
    assert generate(1).subscriptions != generate(2).subscriptions
    assert generate(1).payloads != generate(2).payloads
    ids = [one.id for one in generate(1).subscriptions]
    assert len(ids) == len(set(ids))
    assert all(isinstance(json.loads(payload), dict) for payload in generate(1).payloads)


def predicates_of(node: Filter) -> Iterator[Predicate]:
    if isinstance(node, And | Or):
        for child in node.children:
            yield from predicates_of(child)
    else:
        assert isinstance(node, Predicate)
        yield node


def operator_shares(workload: Workload) -> dict[Operator, float]:
    found = Counter(
        predicate.operator
        for one in workload.subscriptions
        for predicate in predicates_of(one.filter)
    )
    return {operator: count / found.total() for operator, count in found.items()}


def test_how_much_is_drawn_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = begen.generate("w", SMALL_BEGEN)
    monkeypatch.setattr(draws, "ROWS_AT_ONCE", 3)
    parts = begen.generate("w", SMALL_BEGEN)
    assert parts.payloads == whole.payloads
    assert list(parts.subscriptions) == list(whole.subscriptions)


def matches_per_event(workload: Workload) -> float:
    index = PSTHash.build(workload.subscriptions)
    events = decode_payloads(workload.payloads, index.vocabulary).events
    return index.match(events, Instant(0, 0)).row.size / len(workload.payloads)


def test_begen_keeps_its_parameters() -> None:
    workload = begen.generate("w", replace(SMALL_BEGEN, noise=0.0))
    sizes = [len(list(predicates_of(one.filter))) for one in workload.subscriptions]
    assert min(sizes) == 5 and max(sizes) == 9
    assert operator_shares(workload)[Operator.EQ] == pytest.approx(0.3, abs=0.02)
    assert all(13 <= len(json.loads(payload)) <= 17 for payload in workload.payloads)
    # Every subscription accepts its base, and events are the bases.
    assert matches_per_event(workload) == pytest.approx(0.05 * 2_000, rel=0.2)


def test_the_sparse_table_keeps_its_parameters() -> None:
    workload = sparse_table.generate("w", replace(SMALL_TABLE, subscriptions=2_000))
    shares = operator_shares(workload)
    assert shares[Operator.EQ] == pytest.approx(0.4, abs=0.03)
    assert shares[Operator.LE] == pytest.approx(0.3, abs=0.03)
    assert shares[Operator.GE] == pytest.approx(0.3, abs=0.03)


def test_fixed_attributes_keep_their_parameters() -> None:
    for one in fixed_attributes.generate("w", SMALL_W0).subscriptions:
        names = [predicate.path[0] for predicate in predicates_of(one.filter)]
        assert names[:2] == ["a0", "a1"] and len(set(names)) == 5
    shares = operator_shares(fixed_attributes.generate("w", replace(W2, subscriptions=300)))
    assert shares[Operator.EQ] == pytest.approx(3 / 9)
    moved = fixed_attributes.generate("w", replace(W4, subscriptions=300, events=1))
    used = {p.path[0] for one in moved.subscriptions for p in predicates_of(one.filter)}
    assert used == {f"a{number}" for number in range(16, 32)}
    skewed = fixed_attributes.generate("w", replace(W6, subscriptions=300, events=20))
    assert {json.loads(payload)["a0"] for payload in skewed.payloads} == {1, 2}


def test_overlap_grows_with_the_size_of_intervals() -> None:
    overlaps = [intervals.overlap(intervals.Intervals(size=size)) for size in (10, 100, 400)]
    assert overlaps == sorted(overlaps) and overlaps[0] < 0.1 < 0.5 < overlaps[-1]


def test_titles_are_found_by_their_grams() -> None:
    assert matches_per_event(words.grams("w", 300, 20)) >= 0.5
    assert matches_per_event(words.keywords("w", 3_000, 20)) > 0
