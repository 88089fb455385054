"""What every index must hold: each check is run for each algorithm of the registry.

A new algorithm is tested by the line that puts it into the registry. The truth is scan's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from index.algorithms.scan import Scan
from index.base import MatchIndex
from index.events import decode_payloads, encode
from index.language import parse_text
from index.model import Filter, Instant, Operator, Predicate, Subscription
from index.registry import ALGORITHMS, DEFAULT, get
from index.statistics import EventStatistics
from index.updatable import Updatable
from tests.crowds import Crowd, crowds
from tests.drawn import Drawn
from tests.strategies import NOW, events_near, filters, payload_of

Algorithm = type[MatchIndex]
Check = Callable[[Algorithm], None]
World = tuple[list[Filter], list[dict[str, Any]]]

worlds: st.SearchStrategy[World] = st.lists(filters(), min_size=1, max_size=6).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(events_near(*nodes), min_size=1, max_size=4))
)

WORLDS = Drawn(worlds)
CROWDS = Drawn(crowds())
WORLDS_IN_PARTS = Drawn(st.tuples(worlds, st.integers(0, 6)))
WORLDS_IN_ORDER = Drawn(
    worlds.flatmap(lambda world: st.tuples(st.just(world), st.permutations(range(len(world[0])))))
)


UPDATABLE = {
    name: algorithm for name, algorithm in ALGORITHMS.items() if issubclass(algorithm, Updatable)
}


def subscriptions(nodes: Sequence[Filter]) -> list[Subscription]:
    return [Subscription(f"s{n}", node, b"%d" % n) for n, node in enumerate(nodes)]


def texts(*filters_written: str) -> list[Subscription]:
    return subscriptions([parse_text(text) for text in filters_written])


def matched(
    index: MatchIndex, events: Sequence[dict[str, Any]], now: Instant = NOW
) -> list[list[str]]:
    """Sorted ids for each event, whose columns are made from bytes as they are in the stream."""
    batch, rejected = decode_payloads([payload_of(event) for event in events], index.vocabulary)
    assert not rejected
    return [sorted(ids) for ids in index.ids_by_event(index.match(batch, now))]


def bytes_of(index: MatchIndex) -> float:
    """What an index says of its memory; 0 if nothing, as the oracle does."""
    stats = index.stats()
    return stats.get("row_bytes", 0) + stats.get("structure_bytes", 0)


def check_answers_are_those_of_scan(algorithm: Algorithm) -> None:
    def check(world: World) -> None:
        nodes, events = world
        index = algorithm.build(subscriptions(nodes))
        index.check()
        assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)

    WORLDS.check(check)


def check_nothing_is_missed_in_a_crowd(algorithm: Algorithm) -> None:
    def check(crowd: Crowd) -> None:
        nodes, events = crowd
        index = algorithm.build(subscriptions(nodes))
        index.check()
        assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)

    CROWDS.check(check)


def check_changes_in_a_crowd(algorithm: Algorithm) -> None:
    """Half is built; then one is added and one removed, or replaced, in turn."""

    def check(crowd: Crowd) -> None:
        nodes, events = crowd
        half = len(nodes) // 2
        index, scan = (kind.build(subscriptions(nodes)[:half]) for kind in (algorithm, Scan))
        for number, subscription in enumerate(subscriptions(nodes)[half:]):
            for changed in (index, scan):
                changed.add(subscription)
                if number % 3:
                    changed.remove(f"s{number}")
                else:
                    changed.add(Subscription(f"s{number}", nodes[-1 - number]))
        index.check()
        assert matched(index, events) == matched(scan, events)

    CROWDS.check(check)


def check_adding_is_building(algorithm: Algorithm) -> None:
    def check(drawn: tuple[World, int]) -> None:
        (nodes, events), built_count = drawn
        index = algorithm.build(subscriptions(nodes)[:built_count])
        for subscription in subscriptions(nodes)[built_count:]:
            index.add(subscription)
            index.check()
        assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)
        assert len(index) == len(nodes)

    WORLDS_IN_PARTS.check(check)


def check_removing_leaves_the_others(algorithm: Algorithm) -> None:
    def check(drawn: tuple[World, list[int]]) -> None:
        (nodes, events), order = drawn
        index, scan = (kind.build(subscriptions(nodes)) for kind in (algorithm, Scan))
        for subscription_id in [f"s{n}" for n in order]:
            assert index.remove(subscription_id)
            assert not index.remove(subscription_id)
            scan.remove(subscription_id)
            index.check()
            assert matched(index, events) == matched(scan, events)
        assert len(index) == 0

    WORLDS_IN_ORDER.check(check)


def check_replacing_leaves_nothing_of_the_old(algorithm: Algorithm) -> None:
    def check(world: World) -> None:
        nodes, events = world
        index = algorithm.build([Subscription("s", node) for node in nodes])
        expected = matched(Scan.build([Subscription("s", nodes[-1])]), events)
        assert matched(index, events) == expected
        for node in nodes:
            index.add(Subscription("s", node))
        assert matched(index, events) == expected
        assert len(index) == 1

    WORLDS.check(check)


def check_statistics_and_order_change_nothing(algorithm: Algorithm) -> None:
    def check(world: World) -> None:
        nodes, events = world
        statistics = EventStatistics()
        for event in events:
            statistics.observe_event(event)
        index = algorithm.build(reversed(subscriptions(nodes)), statistics)
        index.check()
        assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)

    WORLDS.check(check)


def check_the_plain_way_to_columns_gives_the_same(algorithm: Algorithm) -> None:
    def check(world: World) -> None:
        nodes, events = world
        index = algorithm.build(subscriptions(nodes))
        plain = index.match(encode(events, index.vocabulary), NOW)
        assert [sorted(ids) for ids in index.ids_by_event(plain)] == matched(index, events)

    WORLDS.check(check)


def check_rows_ascend_and_repeat_nothing(algorithm: Algorithm) -> None:
    def check(world: World) -> None:
        nodes, events = world
        index = algorithm.build(subscriptions(nodes))
        batch = encode(events, index.vocabulary)
        matches = index.match(batch, NOW)
        assert matches.start.dtype == np.int64 and matches.row.dtype == np.int32
        assert matches.start[0] == 0 and matches.start[-1] == matches.row.size
        for start, stop in zip(matches.start[:-1], matches.start[1:], strict=True):
            rows = matches.row[start:stop].tolist()
            assert rows == sorted(set(rows))
        again = index.match(batch, NOW)
        assert again.row.tolist() == matches.row.tolist()

    WORLDS.check(check)


def check_rows_keep_their_meaning(algorithm: Algorithm) -> None:
    index = algorithm.build(texts("a = 1", "a > 0", "a = 1 AND b = 2"))
    batch = encode([{"a": 1, "b": 2}], index.vocabulary)
    earlier = index.match(batch, NOW)
    assert sorted(index.ids_of(earlier.row)) == ["s0", "s1", "s2"]
    index.remove("s1")
    index.add(Subscription("s0", parse_text("a = 2"), b"new"))
    told = dict(zip(index.ids_of(earlier.row), index.attachments_of(earlier.row), strict=True))
    assert told == {"s0": b"0", "s1": b"1", "s2": b"2"}


def check_refused_events_match_nothing(algorithm: Algorithm) -> None:
    index = algorithm.build(texts("TRUE", "MISSING a", "(a = 1) IS NOT TRUE", "NOT FALSE"))
    payloads = [b"{", b"{}", b"", b'{"a": 1}', b'{"a": 1, "a": 1}']
    batch, rejected = decode_payloads(payloads, index.vocabulary)
    assert [row for row, _ in rejected] == [0, 2, 4]
    found = [sorted(ids) for ids in index.ids_by_event(index.match(batch, NOW))]
    assert found == [[], ["s0", "s1", "s2", "s3"], [], ["s0", "s3"], []]


def check_nothing_against_nothing(algorithm: Algorithm) -> None:
    assert matched(algorithm.build([]), [{}, {"a": 1}]) == [[], []]
    assert matched(algorithm.build(texts("TRUE")), []) == []
    assert matched(algorithm.build(texts("FALSE")), [{}]) == [[]]


def check_equal_in_python_is_not_equal_here(algorithm: Algorithm) -> None:
    """True == 1 == 1.0 in Python: predicates that share a dictionary must not share a truth."""
    index = algorithm.build(
        texts("v = 1", "v = TRUE", "v IN (0, 'x')", "v IN (FALSE, 'x')", "v = 1.0", "v != TRUE")
    )
    found = matched(index, [{"v": 1}, {"v": True}, {"v": 0}, {"v": False}, {"v": 1.0}])
    assert found == [
        ["s0", "s4", "s5"],
        ["s1"],
        ["s2", "s5"],
        ["s3", "s5"],
        ["s0", "s4", "s5"],
    ]


def check_now_is_the_time_given(algorithm: Algorithm) -> None:
    index = algorithm.build(texts("t > NOW()", "t > NOW() - 1h"))
    event = {"t": "1970-01-01T00:30:00Z"}
    assert matched(index, [event], Instant(0, 0)) == [["s0", "s1"]]
    assert matched(index, [event], Instant(3_600, 0)) == [["s1"]]
    assert matched(index, [event], Instant(7_200, 0)) == [[]]


def check_later_subscriptions_meet_events_decoded_before(algorithm: Algorithm) -> None:
    index = algorithm.build(texts("a = 1"))
    batch, _ = decode_payloads([b'{"a": 1, "new": "word"}'], index.vocabulary)
    index.add(Subscription("later", parse_text("new = 'WORD' NOCASE")))
    assert sorted(index.ids_by_event(index.match(batch, NOW))[0]) == ["later", "s0"]


def check_a_large_fan_out(algorithm: Algorithm) -> None:
    index = algorithm.build(texts(*("a >= 1" for _ in range(3_000)), "a = 2"))
    found = matched(index, [{"a": 1}, {"a": 0}, {"a": 2}])
    assert [len(ids) for ids in found] == [3_000, 0, 3_001]


def check_many_events_in_one_batch(algorithm: Algorithm) -> None:
    index = algorithm.build(texts(*(f"n = {n}" for n in range(50)), "n >= 25 AND s = 'x'"))
    events: list[dict[str, Any]] = [{"n": n % 60, "s": "x" if n % 2 else "y"} for n in range(2_500)]
    expected = [
        sorted(
            ([f"s{event['n']}"] if event["n"] < 50 else [])
            + (["s50"] if event["n"] >= 25 and event["s"] == "x" else [])
        )
        for event in events
    ]
    assert matched(index, events) == expected


def check_it_describes_itself(algorithm: Algorithm) -> None:
    index = algorithm.build(texts("a = 1", "b LIKE '%x'"))
    assert algorithm.name and algorithm.summary and algorithm.summary == algorithm.summary.strip()
    assert algorithm.companion is None or algorithm.companion in ALGORITHMS
    assert index.stats()["subscription_count"] == len(index) == 2
    assert all(isinstance(count, int | float) for count in index.stats().values())
    assert "2 subscriptions" in repr(index)
    assert isinstance(index.filing_of("s1"), str) and index.filing_of("s1")


def check_memory_returns_after_churn(algorithm: Algorithm) -> None:
    """Ten times the population comes and goes; then the index is as large as a new one."""
    kept = [f"a = {n} AND b BETWEEN {n} AND {2 * n} AND c = 'x{n % 7}'" for n in range(200)]
    index = algorithm.build(texts(*kept))
    for turn in range(10):
        passing = texts(*(f"a = {n} AND b > {n + turn} AND d = 'y{n}'" for n in range(200)))
        for one in passing:
            index.add(Subscription(f"passing {one.id}", one.filter))
        for one in passing:
            index.remove(f"passing {one.id}")
    if isinstance(index, Updatable):
        index.merge()
    index.check()
    fresh = algorithm.build(texts(*kept))
    assert bytes_of(index) <= 1.2 * bytes_of(fresh)


def check_it_declares_its_operators(algorithm: Algorithm) -> None:
    """A predicate of an operator that it does not declare is with the companion, and no other."""
    operands: dict[Operator, Any] = {
        **dict.fromkeys((Operator.IN, Operator.NOT_IN), (1, 2)),
        **dict.fromkeys((Operator.BETWEEN, Operator.NOT_BETWEEN), (1, 2)),
        **dict.fromkeys((Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS), ("x",)),
        **dict.fromkeys((Operator.EXISTS, Operator.MISSING, Operator.IS_NULL), None),
        Operator.LIKE: "x%y",
        Operator.REGEX: "x",
        Operator.CIDR: "10.0.0.0/8",
    }
    index = algorithm.build(
        Subscription(operator, Predicate(("a",), operator, operands.get(operator, 1)))
        for operator in Operator
    )
    own = {
        operator
        for operator in Operator
        if not index.filing_of(operator).startswith("with the companion")
    }
    assert own == algorithm.operators
    assert (algorithm.companion is None) == (own == set(Operator))


LARGE: set[Check] = {
    check_a_large_fan_out,
    check_many_events_in_one_batch,
    check_memory_returns_after_churn,
}
CHECKS = [
    pytest.param(check, id=name, marks=[pytest.mark.large] if check in LARGE else [])
    for name, check in list(globals().items())
    if name.startswith("check_")
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_contract(name: str, check: Check) -> None:
    check(ALGORITHMS[name])


@pytest.mark.parametrize("name", sorted(UPDATABLE))
def test_a_snapshot_answers_the_same(name: str, tmp_path: Path) -> None:
    """And goes on changing as what it was written from."""
    paths = (tmp_path / f"{number}.snapshot" for number in count())

    def check(crowd: Crowd) -> None:
        nodes, events = crowd
        path = next(paths)
        scan = Scan.build(subscriptions(nodes))
        UPDATABLE[name].build(subscriptions(nodes)).save(path)
        opened = UPDATABLE[name].open(path)
        assert matched(opened, events) == matched(scan, events)
        changing: tuple[MatchIndex, MatchIndex] = (opened, scan)
        for changed in changing:
            changed.remove("s0")
            changed.add(Subscription("s1", nodes[0]))
            changed.add(Subscription("new", nodes[-1]))
        opened.check()
        assert matched(opened, events) == matched(scan, events)

    CROWDS.check(check)


def test_the_registry_names_what_it_has() -> None:
    assert all(algorithm.name == name for name, algorithm in ALGORITHMS.items())
    assert get(DEFAULT).name == DEFAULT
    with pytest.raises(LookupError, match=r"no algorithm is called 'quick'; choose one of: .*scan"):
        get("quick")
