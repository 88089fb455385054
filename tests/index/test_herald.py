"""Herald's own index against scan, and its parts against what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.access import Shares
from index.algorithms.herald import Herald, RecordTable
from index.algorithms.scan import Scan
from index.columns import EventBatch
from index.events import encode
from index.frozen import frozen
from index.kernels import leaf, record_memory
from index.kernels.cover import count_leaves
from index.kernels.event_memory import new_event_memory
from index.kernels.event_texts import enter_texts
from index.kernels.event_words import enter_words
from index.kernels.lanes import (
    EXACT,
    NO_TEST,
    UNTESTED,
    WIDE,
    Lookup,
    passes_wide,
    set_of_codes,
)
from index.kernels.leaf_tests import leaf_test
from index.kernels.scratch import OPAQUE, new_scratch
from index.kernels.text_runs import TextMemory
from index.kernels.verify import YES, enter_event, leaf_holds, leave_event
from index.lanes import build_lanes
from index.language import parse_text
from index.model import Filter, Subscription
from index.statistics import EventStatistics
from index.text_search import TextSearch
from tests.crowds import crowds
from tests.drawn import thoroughly
from tests.index.segments import Rows, built, matched, numbered, subscriptions
from tests.strategies import events_near, filters

World = tuple[list[Filter], list[dict[str, Any]]]

worlds: st.SearchStrategy[World] = st.lists(filters(), min_size=1, max_size=8).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(events_near(*nodes), min_size=1, max_size=5))
)


def agree(index: Herald, scan: Scan, events: Sequence[dict[str, Any]]) -> None:
    assert matched(index, events) == matched(scan, events)


def agree_on(texts: Sequence[str], events: Sequence[dict[str, Any]]) -> Herald:
    """An index of these filters, that matches these events as scan does, one by one, too."""
    index, scan = Herald.build(subscriptions(texts)), Scan.build(subscriptions(texts))
    index.check()
    agree(index, scan, events)
    for event in events:
        agree(index, scan, [event])
    return index


@settings(max_examples=thoroughly(300))
@given(crowds() | worlds)
def test_matches_are_those_of_scan(world: World) -> None:
    nodes, events = world
    index = Herald.build(numbered(nodes))
    index.check()
    agree(index, Scan.build(numbered(nodes)), events)


@settings(max_examples=thoroughly(200))
@given(crowds(), st.integers(0, 25), st.randoms(use_true_random=False))
def test_adds_and_removes_in_between(world: World, built_count: int, order: Random) -> None:
    nodes, events = world
    every = numbered(nodes)
    index, scan = Herald.build(every[:built_count]), Scan.build(every[:built_count])
    steps: list[Subscription | str] = [*every, *(one.id for one in every[::2])]
    order.shuffle(steps)
    for step in steps:
        if isinstance(step, Subscription):
            index.add(step)
            scan.add(step)
        else:
            assert index.remove(step) == scan.remove(step)
    agree(index, scan, events)
    index.merge()
    index.check()
    agree(index, scan, events)


@settings(max_examples=thoroughly(200))
@given(crowds() | worlds)
def test_a_test_of_a_leaf_tells_what_it_says(world: World) -> None:
    check_leaf_tests(*world)


def test_a_test_on_a_wide_lane_tells_what_it_says() -> None:
    nodes = [parse_text(text) for text in WIDE_TEXTS]
    values = [*range(0, 101, 7), 50, 0.5, 10**20, "7", True, None]
    events = [{"n": n, "m": m} for n in values for m in (7, 98, None, "x", 31)]
    assert check_leaf_tests(nodes, [*events, {"n": 7}, {"m": 7}, {}]) > 1_000


def check_leaf_tests(nodes: list[Filter], events: list[dict[str, Any]]) -> int:
    """EXACT is the truth of the leaf; NECESSARY fails only where the leaf does.

    Returns how many tests were made on wide lanes.
    """
    wide = 0
    rows = Rows()
    rows.nodes = nodes
    rows.store.append(numbered(nodes), 0)
    programs, predicates = rows.compiled
    asked = np.arange(len(nodes), dtype=np.int32)
    leaf_count, _ = count_leaves(programs, asked)
    used = np.flatnonzero(leaf_count)
    every = np.ones(used.size, np.bool_)
    lookup, _ = build_lanes(predicates, used, leaf_count[used], every, rows.attribute_count)
    frozen(lookup)  # as a segment has it, so that kernels are compiled once
    search = TextSearch(lookup.texts)
    batch = encode(events, rows.vocabulary).columns
    scratch = new_scratch(rows.attribute_count)
    for event in range(len(events)):
        words, unsure = words_of(lookup, search.found_in(predicates, batch), batch, event)
        enter_event(batch, event, scratch.entry_of)
        for number in used.tolist():
            for polarity in range(4):
                code = number << 2 | polarity
                lane, operand, told = leaf_test(predicates, lookup, code)
                holds = leaf_holds(predicates, code, batch, scratch)
                if told == NO_TEST or unsure or holds == OPAQUE:
                    continue
                passed = passes(lookup, words, lane, operand)
                wide += lane >= lookup.lanes.first[WIDE]
                assert passed or holds != YES, (code, "a leaf holds and its test fails")
                if told == EXACT:
                    assert passed == (holds == YES), code
        leave_event(batch, event, scratch.entry_of)
    return wide


def words_of(lookup: Lookup, found: TextMemory, batch: EventBatch, event: int) -> tuple[Any, bool]:
    lanes, no_parts = lookup.lanes, np.zeros(1 << 10, np.uint64)
    memory = new_event_memory(lanes, batch, 0, 1)
    enter_words(lanes, no_parts, batch, event, 0, memory)
    enter_texts(lanes, (lookup.texts, found), no_parts, batch, event, 0, memory)
    return memory.word, bool(memory.unsure[0])


def passes(lookup: Lookup, words: Any, lane: int, operand: np.uint64) -> bool:
    if lane < lookup.lanes.first[WIDE]:
        return bool(words[lane] & operand)
    return passes_run(words[lane], np.uint64(operand))  # compiled kernels return plain integers


@leaf
def passes_run(word: np.uint64, operand: np.uint64) -> bool:
    return passes_wide(word, operand, False)


WIDE_TEXTS = [
    *(f"n = {number} AND m >= {2 * number}" for number in range(100)),
    *(f"n IN ({number}, {number + 50}) AND m != {number}" for number in range(50)),
    *(f"NOT n = {number} AND m BETWEEN {number} AND {3 * number}" for number in range(50)),
    *(f"NOT n IN ({number}, {number + 1}) AND NOT m < {number}" for number in range(50)),
    *(f"n IN ({number}, {number + 30}, {number + 60}) AND m = 7" for number in range(30)),
    *(f"m NOT IN (1, 7, {number}, 98) AND n = {number}" for number in range(30)),
    "n IN (1, 7, 50, 98, 99) AND m NOT IN (7, 8, 9, 31, 98)",
    "n IN (1, 2, 3, 7, 50, 98, 99) AND m = 7",
    "n NOT IN (1, 2, 3, 7, 50, 98, 99) AND m = 7",
    "n = 5 OR (m > 40) IS NOT TRUE",
    "MISSING m AND NOT n = 7",
]


def test_attributes_of_more_codes_than_a_word_has_bits() -> None:
    values: list[Any] = [0, 7, 49, 50, 99, 100, 0.5, 10**20, "7", True, None, [7, 49], [], {"x": 1}]
    events = [{"n": n, "m": m} for n in values for m in (values[:3], 7, 98, None, "x", 31.5)]
    index = agree_on(WIDE_TEXTS, [*events, {"n": 7}, {"m": 7}, {}])
    assert index.stats()["open_count"] > 0


@given(
    st.sampled_from([(5, 4_095), (3, 2**20 - 1)]).flatmap(
        lambda room: st.tuples(
            st.just(room[0]),
            st.lists(st.integers(0, room[1] - 1) | st.integers(0, 3), min_size=1, max_size=room[0]),
            st.integers(0, room[1] - 1) | st.integers(0, 3),
        )
    )
)
def test_a_set_of_codes_is_tested_exactly(drawn: tuple[int, list[int], int]) -> None:
    most, codes, code = drawn
    operand = np.uint64(0)
    for at, one in enumerate(codes):
        operand = np.uint64(one_more(operand, one, at, most))
    assert passes_run(np.uint64(code + 1), operand) == (code in codes)
    assert not passes_run(np.uint64(0), operand)


@leaf
def one_more(operand: np.uint64, code: int, at: int, most: int) -> np.uint64:
    return set_of_codes(operand, code, at, most)


def test_more_points_than_short_words_can_tell() -> None:
    texts = [f"n = {number} AND m = {number % 3}" for number in range(4_200)]
    texts += [f"n IN ({number}, 4100, 77) AND m = 1" for number in range(50)]
    texts += ["n NOT IN (9, 4100) AND m = 2", "n IN (4096, 4097, 0, 1) AND m = 0"]
    values = (0, 1, 9, 40, 77, 4_095, 4_096, 4_100, 5_000, None, "x")
    agree_on(texts, [{"n": n, "m": m} for n in values for m in (0, 1, 2)])


def test_many_lanes_of_which_events_show_few() -> None:
    texts = [f"a{at} = 1 AND a{(at + 7) % 300} > {at % 5}" for at in range(300)]
    texts += [f"a{at} = 2 AND a{at + 1} != 4 AND MISSING a{at + 2}" for at in range(290)]
    events = [{f"a{at + each}": 1 + each for each in (0, 7, 14)} for at in range(0, 280, 9)]
    events += [{f"a{at}": 2, f"a{at + 1}": 3} for at in range(0, 280, 9)]
    agree_on(texts, [*events, {}, {"a7": [1, 2]}, *events])


def out_of_memory(*_: object) -> NoReturn:
    raise MemoryError


def test_sets_of_points_on_a_wide_lane() -> None:
    """Hashes rule out; the program of what is left knows the codes."""
    values = [f"v{number}" for number in range(90)]
    texts = [f"name = '{value}' AND n > {number}" for number, value in enumerate(values)]
    texts += [
        f"name IN ('{values[at]}', '{values[at + 7]}', 'v{at}9') AND n = {at % 3}"
        for at in range(60)
    ]
    texts += [
        "name IN ('v1', 7, TRUE) OR n = 80",
        "NOT name IN ('v1', 'v2') AND n = 2",
        "name NOT IN ('v1', 'v2') OR MISSING n",
        "(name IN ('v3', 'v4')) IS NOT TRUE AND n = 1",
        "name IN ('V5', 'v6') NOCASE AND n < 3",
        "name IN (" + ", ".join(f"'{value}'" for value in values) + ") AND n = 1",
        "ATLEAST 2 OF (name IN ('v8', 'v9'), n = 1, m = 2)",
    ]
    events: list[dict[str, Any]] = [
        {"name": one, "n": n} for one in values[::4] for n in (0, 1, 80)
    ]
    events += [{"name": "V5", "n": 2}, {"name": ["v1", "v8"], "n": 2}, {"name": 7}, {"n": 1}]
    events += [{"name": "v8", "n": 1}, {"name": "v8", "m": 2}, {"name": True, "n": 2}, {}]
    agree_on(texts, events)


def dense(count: int) -> list[str]:
    """Rows that are all filed under one key, of tests of all kinds on few lanes."""
    drawn = Random(7)
    texts = []
    for number in range(count):
        low = drawn.randrange(20)
        tests = [
            f"x BETWEEN {low} AND {low + drawn.randrange(9)}",
            f"y = {drawn.randrange(4)}",
            f"z != {drawn.randrange(4)}",
            f"NOT w IN ({drawn.randrange(5)}, {drawn.randrange(5)})",
            "MISSING v",
            f"ALL u > {drawn.randrange(3)}",  # is left to a program
        ]
        chosen = drawn.sample(tests, drawn.randrange(4))
        texts.append(" AND ".join([f"k = 'key{number % 3}'", *chosen]))
    return texts


def test_dense_buckets_are_tested_in_blocks() -> None:
    """More rows than a block has, in buckets that several events meet, and arrays among these."""
    drawn = Random(3)
    events: list[dict[str, Any]] = [
        {
            "k": f"key{drawn.randrange(4)}",
            **{name: drawn.randrange(6) for name in drawn.sample("xyzwvu", drawn.randrange(6))},
        }
        for _ in range(60)
    ]
    events += [{"k": "key0", "x": [3, 25], "y": 1}, {"k": ["key0", "key1"], "y": 2}, {"k": "key2"}]
    events += [{"k": "key1", "x": None, "y": "1", "u": [1, 2]}, {"k": "key1", "u": []}]
    index = agree_on(dense(600), events)
    stats = index.stats()
    assert stats["block_count"] > 3, "more than one a bucket"
    assert stats["block_bytes"] < 600 * 300
    few = agree_on(dense(90), events[::3])
    assert few.stats()["block_count"] == 0, "thirty rows are tested one by one"


def test_rows_of_texts_or_of_too_many_attributes_are_no_blocks() -> None:
    texts = [f"k = 1 AND name CONTAINS '{number}'" for number in range(100)]
    spread = [f"k = 2 AND a{number} != {number % 60}" for number in range(100)]
    spread += [f"a{number} = {code}" for number in range(100) for code in range(60)]
    events: list[dict[str, Any]] = [{"k": 1, "name": "17"}, {"k": 2, "a7": 3}, {"k": 2, "a7": 7}]
    index = agree_on(texts + spread, events)
    assert index.stats()["block_count"] == 0


def test_memory_of_earlier_calls_is_as_good_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was matched before: fewer or larger events, none, or a call that failed."""
    index, scan = Herald.build(subscriptions(WIDE_TEXTS)), Scan.build(subscriptions(WIDE_TEXTS))
    small: list[dict[str, Any]] = [{"n": 7}, {}, {"m": 60}]
    large = [{f"x{at}": at for at in range(200)} | {"n": n, "m": [n, 2 * n]} for n in range(40)]
    many = [{"n": n % 100, "m": 200} for n in range(700)]
    for events in (small, large, small, many, [], small, large, many):
        agree(index, scan, events)
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    assert len(segment._spare) == 1
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr("index.algorithms.herald.match_groups", out_of_memory)
        matched(index, small)
    assert segment._spare == []
    agree(index, scan, large)


def test_room_for_hits_follows_what_was_needed_and_no_more() -> None:
    index = Herald.build(subscriptions(["v >= 1"] * 200))
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    assert matched(index, [{"v": 0}] * 9) == [[]] * 9
    assert segment._room_for(1_000) == 16_001
    for _ in range(50):
        assert len(matched(index, [{"v": 1}])[0]) == 200
    after = segment._room_for(1)
    assert 200 < after < 1_000
    assert segment._room_for(1_000) == 16_001, "a few events say little of many"
    assert len(matched(index, [{"v": 1}] * 100)) == 100
    assert 200 < segment._room_for(1) <= after
    assert segment._room_for(100) > 20_000


def test_ranges_between_more_integers_than_half_a_word_has_bits() -> None:
    """Then cells tell integers apart alone, and numbers between are left to programs."""
    texts = [f"n > {low} AND n <= {low + size}" for low in range(45) for size in (1, 2, 9)]
    texts += [f"NOT n <= {low} AND NOT n >= {low + 4}" for low in range(45)]
    texts += ["n > 7 AND n < 8", "NOT (n > 7 AND n < 8)", "n > 7 AND n < 8 AND m = 1"]
    numbers = [-1, 0, 7, 7.5, 8, 30, 30.25, 44, 53.5, 54, 2**60, 2.0**70, [3, 7.5], "x", None]
    index = agree_on(texts, [{"n": number, "m": m} for number in numbers for m in (0, 1)])
    whole = agree_on([text for text in texts if "m" not in text][:-2], [{"n": 5}, {"n": 5.5}])
    assert whole.stats()["open_count"] == 0 < index.stats()["open_count"]


def test_rows_of_many_tests() -> None:
    names = [f"a{number}" for number in range(80)]
    texts = [
        " AND ".join(f"{name} < {5 + number}" for name in names[:size])
        for number, size in enumerate((6, 7, 8, 9, 11, 12, 13, 20, 64))
    ]
    too_many = " AND ".join(f"{name} = {number % 5}" for number, name in enumerate(names))
    event = dict.fromkeys(names, 4)
    events: list[dict[str, Any]] = [event, *({**event, name: 9} for name in names)]
    events += [{**event, name: None} for name in names]
    assert agree_on(texts, events).stats()["open_count"] == 0
    event = {name: number % 5 for number, name in enumerate(names)}
    events = [event, *({**event, name: 9} for name in names)]
    assert agree_on([*texts, too_many], events).stats()["open_count"] > 0


def test_all_there_is_room_for_is_found_when_room_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_memory, "KEYS_AT_FIRST", 1)
    monkeypatch.setattr("index.algorithms.herald.HITS_PER_EVENT", 0)
    names = "abcdefgh"
    texts = [f"{one} = 1 AND {other} = 1" for one in names for other in names if one < other] * 5
    agree_on(texts, [dict.fromkeys(names[:size], 1) for size in range(9)])


def test_rows_under_no_key_and_rows_that_never_hold() -> None:
    texts = ["MISSING a", "TRUE", "FALSE", "a > 5 AND a < 1", "a = 1 AND b > 3 AND b < 3", "a = 1"]
    index = agree_on(texts, [{}, {"a": 1}, {"a": 3, "b": 3}])
    assert index.stats()["residue_count"] == 2


def test_two_attributes_that_all_subscriptions_name_are_part_of_all_keys() -> None:
    """Fabret et al., section 5: then a third one, by itself rare, tells subscriptions apart."""
    drawn = Random(1)
    texts = []
    for _ in range(2_000):
        others = drawn.sample(range(30), 3)
        named = [("f0", drawn.randrange(35)), ("f1", drawn.randrange(35))]
        named += [(f"x{other}", drawn.randrange(35)) for other in others]
        texts.append(" AND ".join(f"{name} = {value}" for name, value in named))
    rows = Rows(*texts)
    few = rows.build(RecordTable)
    assert few.stats()["schema_count"] == 1
    assert few.filing_of(rows.compiled, rows.vocabulary, 0).count(" with ") == 1


def test_what_is_common_among_subscriptions_is_not_filed_under() -> None:
    texts = [f"common = 1 AND rare = {number}" for number in range(200)]
    segment, _ = built(RecordTable, texts)
    rows = Rows(*texts)
    filed = rows.build(RecordTable, shares=Shares.unknown())
    words = filed.filing_of(rows.compiled, rows.vocabulary, 7)
    assert "rare = 7" in words
    assert segment.stats()["filing_count"] == 200


def test_the_worked_example() -> None:
    texts = ["a = 1 AND b = 2 AND c < 3", "a = 1 AND b = 2 AND c > 5", "a = 1 OR d = 4"]
    index = Herald.build(subscriptions(texts))
    assert matched(index, [{"a": 1, "b": 2, "c": 7}, {"d": 4}]) == [["s1", "s2"], ["s2"]]
    assert index.filing_of("s2").startswith("under a = 1, or d = 4;")
    assert index.stats()["open_count"] == 2  # s2, under both of its keys


def test_explain_tells_how_many_events_are_expected_to_meet_a_subscription() -> None:
    index = Herald.build(subscriptions(["a = 1 OR d = 4", "MISSING a AND d != 4"]))
    statistics = EventStatistics()
    statistics.observe(
        encode([{"a": 1}, *[{"a": 2, "d": 4}] * 2, *[{"d": 5}] * 5], index.vocabulary)
    )
    index.merge(statistics=statistics)
    either = "under a = 1, or d = 4; 375,000 of 1,000,000 events are expected to meet it"
    assert index.filing_of("s0") == either


def test_lanes_without_tests_make_keys_only() -> None:
    rows = Rows("a = 1 AND b = 2")
    programs, predicates = rows.compiled
    leaf_count, _ = count_leaves(programs, np.zeros(1, np.int32))
    used = np.flatnonzero(leaf_count)
    none = np.zeros(used.size, np.bool_)
    lookup, _ = build_lanes(predicates, used, leaf_count[used], none, rows.attribute_count)
    assert lookup.lanes.first[UNTESTED] == 3  # one for the points of a and b each, and lane 0
    assert parse_text("a = 1") == rows.nodes[0].children[0]  # type: ignore[union-attr]
