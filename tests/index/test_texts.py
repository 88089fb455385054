"""What holds of strings: needles, patterns and expressions, alone and in the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import lanes, regexes, text_search
from index.algorithms.herald import Herald, RecordTable
from index.algorithms.scan import Scan
from index.evaluate import truth
from index.events import encode
from index.frozen import frozen
from index.kernels.cover import count_leaves
from index.kernels.lanes import Lookup
from index.lanes import build_lanes
from index.model import And, Filter, IsNotTrue, Not, Operator, Or, Predicate
from index.text_search import TextSearch
from tests.drawn import thoroughly
from tests.index.segments import Rows, matched, numbered, subscriptions
from tests.strategies import NOW

ALPHABET = "abAB\u00e9\u00c9\u20ac%_."
NEEDLE_OPERATORS = [Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS]

paths = st.sampled_from([("a",), ("b",)])
strings = st.text(ALPHABET, max_size=10)
needles = st.lists(st.text(ALPHABET, max_size=4), min_size=1, max_size=3).map(tuple)
patterns = st.text("abA%_\u00e9\u20ac", max_size=7)
expressions = st.sampled_from(["a+b", "^a", "b$", "", "[^a]", "a.b", "(?i)A", "\u00e9|\u20ac"])
text_predicates = (
    st.builds(Predicate, paths, st.sampled_from(NEEDLE_OPERATORS), needles, st.booleans())
    | st.builds(Predicate, paths, st.just(Operator.LIKE), patterns, st.booleans())
    | st.builds(Predicate, paths, st.just(Operator.REGEX), expressions, st.booleans())
)
values = strings | st.none() | st.integers(0, 1) | st.lists(strings, max_size=2)
events = st.lists(st.dictionaries(st.sampled_from("ab"), values), min_size=1, max_size=5)


def text_filters(leaves: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(leaves, min_size=2, max_size=5).map(tuple)
    return (
        st.builds(And, several)
        | st.builds(Or, several)
        | st.builds(Not, leaves)
        | st.builds(IsNotTrue, leaves)
    )


filters = st.recursive(text_predicates, text_filters, max_leaves=12)


def agree(index: Herald, scan: Scan, some: Sequence[dict[str, Any]]) -> None:
    assert matched(index, some) == matched(scan, some)
    for event in some:
        assert matched(index, [event]) == matched(scan, [event])


def looked_up(rows: Rows) -> tuple[Lookup, list[int]]:
    """The lanes of all rows, and the predicates that are in use."""
    programs, predicates = rows.compiled
    leaf_count, _ = count_leaves(programs, np.arange(len(rows.nodes), dtype=np.int32))
    used = np.flatnonzero(leaf_count)
    every = np.ones(used.size, np.bool_)
    lookup, _ = build_lanes(predicates, used, leaf_count[used], every, rows.attribute_count)
    frozen(lookup)  # as a segment has it, so that kernels are compiled once
    return lookup, used.tolist()


@settings(max_examples=thoroughly(300))
@given(
    st.lists(text_predicates, min_size=1, max_size=12), st.lists(strings, min_size=1, max_size=6)
)
def test_what_is_found_of_a_string_is_what_holds(nodes: list[Predicate], texts: list[str]) -> None:
    rows = Rows()
    rows.nodes = list(nodes)
    rows.store.append(numbered(nodes), 0)
    lookup, _ = looked_up(rows)
    search = TextSearch(lookup.texts)
    for text in texts:
        for name in "ab":
            event: dict[str, object] = {name: text}
            batch = encode([event], rows.vocabulary).columns
            found = search.found_in(rows.compiled.predicates, batch)
            start, stop = found.run[0].tolist() if len(found.run) else (0, 0)
            holding = found.found[start:stop].tolist() if start >= 0 else []
            assert len(holding) == len(set(holding))
            for node in (one for one in nodes if one.path == (name,)):
                number = rows.store.predicates.number(node)
                place = lookup.text[lookup.position[number]]
                assert place >= 0
                assert (place in holding) == (truth(node, event, NOW) is True), (node, text)


@settings(max_examples=thoroughly(300))
@given(st.lists(filters, min_size=1, max_size=10), events)
def test_matches_are_those_of_scan(nodes: list[Filter], some: list[dict[str, Any]]) -> None:
    index = Herald.build(numbered(nodes))
    index.check()
    agree(index, Scan.build(numbered(nodes)), some)


SUFFIXES = [f"{first}{second}.exe" for first in "abcdefgh" for second in "abcdefghij"]


def test_lists_of_many_texts_on_one_attribute() -> None:
    """More than the bits of a lane, negated and not; of which a program joins what it can."""
    suffixes = [f"image LIKE '%{one}'" for one in SUFFIXES]
    filters = [
        " OR ".join(suffixes[::2]),
        " AND ".join(f"NOT ({one})" for one in suffixes[::3]),
        "user = 'x' AND (" + " OR ".join(suffixes) + ")",
        "ATLEAST 2 OF (image LIKE 'a%', image LIKE '%ab.exe', image CONTAINS 'b', user = 'y')",
        "NOT (image CONTAINS 'a' AND image CONTAINS 'b')",
        "MISSING image OR NOT (image STARTS WITH 'a' OR image LIKE 'b%' OR image LIKE '%c.exe')",
        "(image CONTAINS 'A' NOCASE) IS NOT TRUE AND user = 'y'",
        *suffixes,
    ]
    index, scan = Herald.build(subscriptions(filters)), Scan.build(subscriptions(filters))
    some: list[dict[str, Any]] = [{"image": one, "user": user} for one in SUFFIXES for user in "xy"]
    some += [{"image": ["ab.exe", "ba.exe"], "user": "x"}, {"user": "y"}, {"image": 7}, {}]
    agree(index, scan, some)
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    texts, programs = segment._columns.texts, segment._columns.programs
    assert texts.default.size >= 3
    row = programs.start[0 - programs.first_row[0] : 2 - programs.first_row[0]]
    assert row[1] - row[0] < len(suffixes) // 4, "forty leaves are a few tests"


def test_texts_without_bits_are_left_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "TEXT_LANES_MAX", 1)
    filters = [
        f"{name} CONTAINS '{one}' AND user CONTAINS 'x'" for one in SUFFIXES for name in "ab"
    ]
    index, scan = Herald.build(subscriptions(filters)), Scan.build(subscriptions(filters))
    agree(index, scan, [{"a": one, "b": SUFFIXES[7], "user": "wxy"} for one in SUFFIXES[::5]])


def test_one_string_of_several_attributes() -> None:
    filters = [
        "a CONTAINS 'x' AND b CONTAINS 'y'",
        "a CONTAINS 'y'",
        "b STARTS WITH 'xy' OR a = 'q'",
    ]
    index, scan = Herald.build(subscriptions(filters)), Scan.build(subscriptions(filters))
    agree(index, scan, [{"a": "xy", "b": "xy"}, {"a": "xy", "b": "yx"}, {"b": "xy"}, {"a": "x"}])


def test_keys_are_made_of_texts() -> None:
    filters = [f"kind = 'start' AND image ENDS WITH '\\{one}' NOCASE" for one in SUFFIXES]
    index = Herald.build(subscriptions(filters))
    assert matched(index, [{"kind": "start", "image": "C:\\AB.EXE"}]) == [["s1"]]
    assert index.stats()["candidate_count"] == 1
    assert "image ENDS WITH" in index.filing_of("s1")


def test_more_is_found_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "FOUND_PER_STRING", 0)
    filters = [f"a CONTAINS '{'x' * size}'" for size in range(1, 40)]
    index = Herald.build(subscriptions(filters))
    some = [{"a": "x" * size} for size in (3, 39, 0, 20, 1, 38, 39)]
    assert [len(ids) for ids in matched(index, some)] == [3, 39, 0, 20, 1, 38, 39]


class Forgetful:
    """A set of expressions that runs out of memory, and so finds nothing."""

    def Match(self, text: str) -> list[int]:
        return []


def test_sets_that_run_out_of_memory_are_not_believed() -> None:
    filters = ["a MATCHES 'x+y'", "a MATCHES 'q' OR b MATCHES '^z'", "NOT a MATCHES 'x'"]
    index, scan = Herald.build(subscriptions(filters)), Scan.build(subscriptions(filters))
    agree(index, scan, [{"a": "xy"}])
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    sets = segment._search._regexes
    assert sets is not None
    sets._sets = [replace(one, together=Forgetful()) for one in sets._sets]
    agree(index, scan, [{"a": "xxy"}, {"b": "zz"}, {"a": "q"}, {"a": "", "b": "az"}])


def test_expressions_too_large_for_a_set_are_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "SET_BYTES_MAX", 1 << 12)
    filters = [f"a MATCHES '[a-z]{{{size}}}x.*[0-9]{{{size},{size + 9}}}'" for size in range(1, 30)]
    index, scan = Herald.build(subscriptions(filters)), Scan.build(subscriptions(filters))
    agree(index, scan, [{"a": "abcx" + "7" * 12}, {"a": "x"}, {"a": "zzzzx__123456"}])
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    assert segment._search._regexes is not None
    assert all(one.together is None for one in segment._search._regexes._sets)


def test_what_is_remembered_of_strings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "REMEMBERED_MAX", 3)
    index = Herald.build(subscriptions(["a MATCHES '7'"]))
    some = [{"a": str(number)} for number in range(20)] + [{"a": "7" * 2_000}]
    once = matched(index, some)
    assert sum(map(len, once)) == 3
    assert matched(index, some * 2) == once * 2
    segment = index._state.base_segment
    assert isinstance(segment, RecordTable)
    assert segment._search._regexes is not None
    assert len(segment._search._regexes._remembered) == 3
