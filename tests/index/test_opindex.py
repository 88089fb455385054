"""OpIndex against scan: pivots from statistics, and lists that are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from index.algorithms.opindex import OpIndex
from index.algorithms.scan import Scan
from index.events import encode
from index.language import parse_text
from index.model import Subscription
from index.statistics import EventStatistics
from tests.strategies import NOW


def matched(index: OpIndex | Scan, events: Sequence[dict[str, Any]]) -> list[list[str]]:
    matches = index.match(encode(events, index.vocabulary), NOW)
    return [sorted(ids) for ids in index.ids_by_event(matches)]


def test_pivots_are_rare_among_events_where_that_is_known() -> None:
    statistics = EventStatistics()
    for number in range(20):
        statistics.observe_event({"b": 1} if number else {"a": 1, "b": 1})
    texts = [f"a = {number} AND b = 1" for number in range(3)] + ["b = 1 AND c = 1"]
    subscriptions = [Subscription(f"s{at}", parse_text(text)) for at, text in enumerate(texts)]
    index = OpIndex.build(subscriptions, statistics)
    assert index.filing_of("s0").startswith("with pivot a")
    assert matched(index, [{"b": 1}, {"a": 2, "b": 1}]) == [[], ["s2"]]


def test_long_lists_are_cut_and_skipped() -> None:
    """All under one pivot, so that its list of `=` has many attributes and its ranges, too."""
    rng = np.random.default_rng(7)
    texts = {}
    for number in range(600):
        first, second = rng.choice(np.arange(40), 2, replace=False)
        texts[f"s{number}"] = (
            f"p IN (1, {number % 3}) AND x{first} = {rng.integers(4)}"
            f" AND x{second} {'<=' if number % 2 else '>'} {rng.integers(4)}"
        )
    statistics = EventStatistics()
    for number in range(20):
        common: dict[str, object] = {f"x{at}": 0 for at in range(40)}
        statistics.observe_event(common if number else {**common, "p": 1})
    given_all = [Subscription(name, parse_text(text)) for name, text in texts.items()]
    index, scan = OpIndex.build(given_all, statistics), Scan.build(given_all)
    index.check()
    assert index.stats()["pivot_count"] == 1
    assert index.stats()["predicate_list_count"] == 3
    assert index.stats()["list_segment_count"] > 3 * 8
    events: list[dict[str, Any]] = [
        {"p": int(rng.integers(4))} | {f"x{at}": int(rng.integers(5)) for at in range(40)}
        for _ in range(30)
    ]
    found = matched(index, events)
    assert found == matched(scan, events) and any(found)
    assert index.stats()["skipped_list_segment_count"] > 0
    searched = index.stats()["searched_list_segment_count"]
    assert matched(index, [{f"x{at}": 0 for at in range(40)}]) == [[]]
    assert index.stats()["searched_list_segment_count"] == searched
