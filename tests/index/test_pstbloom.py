"""PSTBloom: runs, filters, what rows ask for, and that `check` sees a broken layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numba import njit
from numpy.typing import NDArray

from index.algorithms.pstbloom import LeafNodes, PSTBloom
from index.algorithms.scan import Scan
from index.kernels import bloom, cover
from index.kernels.leaf_nodes import FILTER, PART, RUNS
from index.language import parse_text
from index.model import Filter, Subscription
from index.statistics import EventStatistics
from tests.crowds import Crowd, crowds
from tests.drawn import thoroughly
from tests.index.segments import matched


def subscriptions(nodes: Sequence[Filter]) -> list[Subscription]:
    return [Subscription(f"s{number}", node) for number, node in enumerate(nodes)]


def built(*texts: str, statistics: EventStatistics | None = None) -> PSTBloom:
    return PSTBloom.build(subscriptions([parse_text(text) for text in texts]), statistics)


def counted(index: PSTBloom, event: dict[str, Any]) -> tuple[list[str], dict[str, float]]:
    """The matches of an event, and what matching it added to the counts."""
    before = index.stats()
    found = matched(index, [event])[0]
    after = index.stats()
    return found, {
        name: after[f"{name}_count"] - before[f"{name}_count"]
        for name in ("skipped", "candidate", "verified")
    }


def leaf_nodes(index: PSTBloom) -> LeafNodes:
    segment = index._state.base_segment
    assert isinstance(segment, LeafNodes)
    return segment


@settings(max_examples=thoroughly(300))
@given(crowds())
def test_nothing_is_missed_in_a_crowd(crowd: Crowd) -> None:
    nodes, events = crowd
    index = PSTBloom.build(subscriptions(nodes))
    index.check()
    assert matched(index, events) == matched(Scan.build(subscriptions(nodes)), events)


def _enter_and_look_up(
    row_count: int, first_row: int, word_count: int, words: NDArray[np.uint64]
) -> tuple[int, int]:
    for row in range(first_row, first_row + row_count):
        value = bloom.row_hash(row)
        words[bloom.row_word(1, word_count, value)] |= bloom.row_bits(value)
    found = 0
    for row in range(first_row, first_row + row_count):
        found += bloom.may_contain(words, 1, word_count, bloom.row_hash(row))
    mistaken = 0
    for row in range(first_row + row_count, first_row + row_count + 10_000):
        mistaken += bloom.may_contain(words, 1, word_count, bloom.row_hash(row))
    return found, mistaken


enter_and_look_up: Any = njit(_enter_and_look_up)


@pytest.mark.parametrize("row_count", [1, 7, 8, 9, 64, 65, 700, 5_000])
def test_filters_lose_no_row_and_let_few_others_pass(row_count: int) -> None:
    size = int(bloom.filter_words(np.array([row_count]))[0])
    assert size & (size - 1) == 0
    bits = size * bloom.WORD_BITS / row_count
    assert bits >= bloom.BITS_PER_ROW
    assert size == 1 or bits < 2 * bloom.BITS_PER_ROW
    words = np.zeros(size + 2, np.uint64)
    found, mistaken = enter_and_look_up(row_count, 1_000_000, size, words)
    assert found == row_count
    assert mistaken < 500, "one in twenty"
    assert words[0] == words[-1] == 0, "a word of another filter"


def test_no_rows_need_no_filter() -> None:
    assert bloom.filter_words(np.array([0, 1, 8, 9])).tolist() == [0, 1, 1, 2]


def test_rows_of_a_space_stand_in_runs_by_what_they_ask_for_first() -> None:
    index = built(
        "a = 1 AND b IN (2, 3)",
        "a = 1 AND c IN (2, 3)",
        "a = 1 AND b IN (3, 4) AND c != 7",
        "a = 1",
        "a = 1 OR a = 2",
    )
    counts = index.stats()
    assert (counts["filing_count"], counts["run_count"]) == (6, 4)
    # Whoever asks for b is not looked at; s1 is, and is not in the filter of c = 4.
    assert counted(index, {"a": 1, "c": 2}) == (
        ["s1", "s3", "s4"],
        {"skipped": 2, "candidate": 3, "verified": 3},
    )
    # s0 is in no filter of b = 4, s2 is, but c is missing.
    assert counted(index, {"a": 1, "b": 4}) == (
        ["s3", "s4"],
        {"skipped": 1, "candidate": 4, "verified": 2},
    )
    assert counted(index, {"a": 1, "b": 4, "c": 0}) == (
        ["s2", "s3", "s4"],
        {"skipped": 1, "candidate": 4, "verified": 3},
    )


def test_the_rarest_other_predicate_is_asked_for_first() -> None:
    statistics = EventStatistics()
    for number in range(100):
        statistics.observe_event({"a": number, "b": number % 50, "c": 1})
    index = built("b = 1 AND c = 1 AND a = 1 AND d != 1", statistics=statistics)
    assert index.filing_of("s0") == "under a = 1, in filters of b, c, d"


@pytest.mark.parametrize("range_count", [2, 40, 300])
def test_ranges_are_ruled_out_by_the_cells_of_a_value(range_count: int) -> None:
    """With few cuts, and with more than are kept."""
    texts = [f"a = 1 AND b BETWEEN {10 * n} AND {10 * n + 9}" for n in range(range_count)]
    texts += [f"a = {n}" for n in range(2, 300)]  # so that it is `=` that rows are filed under
    index = built(*texts)
    index.check()
    top = 10 * range_count
    events: list[dict[str, Any]] = [{"a": 1, "b": b} for b in range(-1, top + 1, 3)]
    events += [{"a": 1, "b": [-1, 5, top]}, {"a": 1, "b": "5"}, {"a": 1}]
    scan = Scan.build(subscriptions([parse_text(text) for text in texts]))
    assert matched(index, events) == matched(scan, events)
    counts = index.stats()
    assert counts["skipped_count"] + counts["candidate_count"] >= range_count * len(events)
    assert 8 * counts["verified_count"] < range_count * len(events) or range_count == 2


def test_one_attribute_asks_once() -> None:
    """Different values of an array may satisfy the two predicates, and no value both."""
    others = [f"a = {n}" for n in range(2, 50)]  # so that it is `a = 1` that rows are filed under
    index = built("a = 1 AND b = 2 AND b = 3", "a = 1 AND b > 5 AND b < 3", *others)
    assert index.filing_of("s0") == "under a = 1, in filters of b"
    found = matched(index, [{"a": 1, "b": [2, 3]}, {"a": 1, "b": [1, 9]}, {"a": 1, "b": [3, 4]}])
    assert found == [["s0"], ["s1"], []]


def test_each_value_of_an_array_is_looked_up() -> None:
    texts = [
        f"a = 1 AND b = {n} AND c IN ({n}, {n + 20}) AND d BETWEEN {n} AND {n}" for n in range(20)
    ]
    index = built(*texts, *(f"a = {n}" for n in range(2, 90)))
    assert index.filing_of("s3").startswith("under a = 1, in filters of b")
    event = {"a": 1, "b": [3, 5, 7, 9], "c": [99, 25, 3, 9], "d": [9, 5, 3, 3, 0, -1]}
    assert matched(index, [event]) == [["s3", "s5", "s9"]]


def test_presence_is_asked_for_without_a_filter_of_rows() -> None:
    index = built(*(f"a = {n} AND b != 1 AND EXISTS c" for n in range(600)))
    assert index.stats()["signed_count"] == 1_200
    assert index.stats()["signature_bytes"] == 2 * 8
    assert counted(index, {"a": 5, "b": 2, "c": None})[0] == ["s5"]
    found, counts = counted(index, {"a": 5, "b": 2})
    assert not found and counts["skipped"] + counts["candidate"] == 1 and not counts["verified"]


def test_limits_bound_the_spaces_that_rows_ask_for() -> None:
    values = ", ".join(map(str, range(cover.SINGLE_KEYS_MAX + 1)))
    index = built(f"a = 1 AND b IN ({values})")
    assert index.stats()["signed_count"] == 1
    some = ", ".join(map(str, range(1_000)))
    within = cover.ROW_KEYS_MAX // 1_000
    index = built("a = 1 AND " + " AND ".join(f"b{n} IN ({some})" for n in range(within + 1)))
    assert index.stats()["signed_count"] == 1_000 * within
    every = {f"b{n}": 999 for n in range(within + 1)}
    events = [
        {"a": 1, **every},
        {"a": 1, **every, f"b{within}": 1_000},
        {"a": 1, **every, "b0": 1_000},
    ]
    assert matched(index, events) == [["s0"], [], []]


def test_room_for_hits_grows_and_counts_stay() -> None:
    """In the middle of a batch, with rows that are ruled out after they were met."""
    texts = [f"a{n % 40} = 1 AND b = {n % 3} AND c < {n} AND d != 2" for n in range(400)]
    index = built(*texts, "MISSING x")
    scan = Scan.build(subscriptions([parse_text(text) for text in [*texts, "MISSING x"]]))
    every: dict[str, Any] = {f"a{n}": 1 for n in range(40)}
    events = [
        {"a1": 1, "b": 1, "c": 0, "d": 1},
        *[{**every, "b": [1, 2], "c": -1, "d": 1}] * 5,
        {},
        {"a1": [1, 1], "b": 1, "c": -5, "d": 2},
    ]
    assert matched(index, events) == matched(scan, events)
    together = index.stats()
    for event in events:
        matched(index, [event])
    for name in ("candidate", "skipped", "verified", "hit"):
        assert index.stats()[f"{name}_count"] == 2 * together[f"{name}_count"], name


def test_segments_beside_the_base_have_nodes_of_their_own() -> None:
    index = built(*(f"a = {n} AND b > {n}" for n in range(10)))
    for number in range(10, 200):
        index.add(Subscription(f"s{number}", parse_text(f"a = {number % 20} AND b > {number}")))
    for number in range(0, 200, 3):
        index.remove(f"s{number}")
    index.check()
    assert index.stats()["segment_count"] > 1
    expected = sorted(f"s{n}" for n in range(200) if n % 20 == 7 and n < 150 and n % 3)
    assert matched(index, [{"a": 7, "b": 150}]) == [expected]


def test_check_sees_what_is_broken() -> None:
    texts = [f"a = {n % 5} AND b BETWEEN {n} AND {n + 3} AND c = {n % 7}" for n in range(80)]

    def broken(name: str, change: Any) -> None:
        segment = leaf_nodes(built(*texts))
        part = getattr(segment._columns, name).copy()
        segment._columns = segment._columns._replace(**{name: change(part)})
        segment.check(np.arange(80, dtype=np.int32))

    def with_value(place: Any, value: Any) -> Any:
        def change(part: NDArray[Any]) -> NDArray[Any]:
            part[place] = value
            return part

        return change

    broken("words", lambda part: part)
    with pytest.raises(AssertionError, match="in no filter"):
        broken("words", lambda part: np.zeros_like(part))
    with pytest.raises(AssertionError, match="cannot be found"):
        broken("nodes", lambda part: np.roll(part, 3, axis=0))
    with pytest.raises(AssertionError, match="share a run"):
        broken("nodes", lambda part: np.where(np.arange(4) == RUNS, np.uint64(1), part))
    with pytest.raises(AssertionError, match="filters overlap"):
        used = np.flatnonzero(leaf_nodes(built(*texts))._columns.nodes[:, PART])[0]
        broken("nodes", with_value((used, FILTER), np.uint64(5 << 32 | 2)))
    with pytest.raises(AssertionError, match="rows of a run do not ascend"):
        broken("run_row", lambda part: part[::-1].copy())
    with pytest.raises(AssertionError, match="asks for something else first"):
        broken("asked_slot", lambda part: part[::-1].copy())
    with pytest.raises(AssertionError, match="filed, too"):
        broken("residue", lambda part: np.array([3], np.int32))
