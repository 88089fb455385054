"""PS-Tree: rows come and go, spaces divide and merge, and the answers stay those of scan."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.access import Shares
from index.algorithms.pstree import PSTree, PSTreeSegment
from index.algorithms.scan import Scan
from index.events import encode
from index.kernels import row_lists, space_tree
from index.kernels.probe import VERDICT_BITS
from index.language import parse_text
from index.model import And, Filter, Operator, Predicate, Subscription
from index.row_store import RowStore
from index.space_trees import FREE_BYTES_MAX
from index.tree_pieces import TEXT_BYTES_MAX
from index.vocabulary import Vocabulary
from tests.strategies import NOW, near_values, predicates

CUTS = (3, 1_000, 2**53 + 1)
"""Numbers that ends lie near, so that keys have many digits in common, or few."""


class World:
    """A segment and the rows that it should have; each row's filter is its subscription's."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.store = RowStore(self.vocabulary)
        self.segment = PSTreeSegment.build(*self.arguments(np.zeros(0, np.int32)))
        self.filters: dict[int, Filter] = {}

    def arguments(self, rows: Any) -> tuple[Any, Any, int, Shares]:
        count = self.vocabulary.attribute_count
        return self.store.compiled(), np.array(rows, np.int32), count, Shares.unknown()

    def insert(self, nodes: Sequence[Filter]) -> None:
        """Those that the segment takes."""
        first = len(self.store)
        self.store.append([Subscription(str(first + n), one) for n, one in enumerate(nodes)], 0)
        rows = np.arange(first, len(self.store), dtype=np.int32)
        rows = rows[PSTreeSegment.takes(self.store.compiled(), rows)]
        self.segment.insert(*self.arguments(rows))
        self.filters.update((row, nodes[row - first]) for row in rows.tolist())

    def delete(self, rows: Sequence[int]) -> None:
        self.segment.delete(self.store.compiled(), np.array(sorted(rows), np.int32))
        for row in rows:
            del self.filters[row]

    def check(self) -> None:
        self.segment.check(np.array(sorted(self.filters), np.int32))

    def matched(self, events: Sequence[dict[str, Any]]) -> list[list[int]]:
        batch = encode(events, self.vocabulary).columns
        hits = self.segment.match(self.store.compiled(), batch, self.vocabulary.attribute_count)
        rows = (hits.hit >> VERDICT_BITS).tolist()
        return [
            sorted(rows[start:stop])
            for start, stop in zip(hits.start[:-1], hits.start[1:], strict=True)
        ]

    def expected(self, events: Sequence[dict[str, Any]]) -> list[list[int]]:
        scan = Scan.build(Subscription(str(row), node) for row, node in self.filters.items())
        found = scan.ids_by_event(scan.match(encode(events, scan.vocabulary), NOW))
        return [sorted(map(int, ids)) for ids in found]


def parsed(*texts: str) -> list[Filter]:
    return [parse_text(text) for text in texts]


ends = st.builds(
    lambda cut, offset, scale: cut + offset * scale,
    st.sampled_from(CUTS),
    st.integers(-9, 9),
    st.sampled_from((1, 1, 0.25, 16, 4_096)),
)
words = st.builds(
    lambda stem, letters: stem + letters,
    st.sampled_from(("", "a", "stem-of-more-than-sixteen-digits-", "é")),
    st.text("ab\x00~", max_size=3),
)
bounds = st.lists(ends, min_size=2, max_size=2) | st.lists(words, min_size=2, max_size=2)
paths = st.sampled_from((("a",), ("b",)))
leaves = st.one_of(
    st.builds(Predicate, paths, st.just(Operator.BETWEEN), bounds.map(sorted).map(tuple)),
    st.builds(
        Predicate,
        paths,
        st.sampled_from((Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ)),
        ends | words,
    ),
    st.builds(
        Predicate,
        paths,
        st.just(Operator.IN),
        st.lists(ends | words | st.booleans(), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(
        Predicate,
        paths,
        st.just(Operator.PREFIX),
        st.lists(words, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    predicates(),
)
conjunctions = st.lists(leaves, min_size=1, max_size=2).map(lambda some: And(tuple(some)))


@given(st.data())
def test_rows_come_and_go(data: st.DataObject) -> None:
    world = World()
    near: dict[str, list[Any]] = {"a": [0, None], "b": [True]}
    for _ in range(data.draw(st.integers(1, 4))):
        nodes = data.draw(st.lists(conjunctions, max_size=8))
        world.insert(nodes)
        for leaf in (leaf for node in nodes for leaf in node.children):
            assert isinstance(leaf, Predicate)
            near.setdefault(".".join(leaf.path), [0]).extend(near_values(leaf))
        world.check()
        kept = st.sampled_from(sorted(world.filters))
        if world.filters:
            world.delete(data.draw(st.lists(kept, unique=True)))
        world.check()
        event = st.fixed_dictionaries(
            {
                path: st.sampled_from(values) | st.lists(st.sampled_from(values), max_size=3)
                for path, values in near.items()
                if "." not in path
            }
        )
        events = data.draw(st.lists(event, min_size=1, max_size=6))
        assert world.matched(events) == world.expected(events)
    world.delete(list(world.filters))
    world.check()
    stats, empty = world.segment.stats(), World().segment.stats()
    assert stats["space_count"] == stats["tree_count"] == empty["tree_count"] == 0


def test_spaces_divide_and_merge_as_in_section_4_4() -> None:
    world = World()
    world.insert(parsed("age BETWEEN 20 AND 60"))
    assert world.segment.stats()["space_count"] == 3
    world.insert(parsed("age BETWEEN 30 AND 80"))
    assert world.segment.stats()["space_count"] == 5
    assert "2 of 5 spaces" in world.segment.filing_of(world.store.compiled(), world.vocabulary, 0)
    world.delete([1])
    assert world.segment.stats()["space_count"] == 3
    assert "1 of 3 spaces" in world.segment.filing_of(world.store.compiled(), world.vocabulary, 0)
    assert world.matched([{"age": 50}, {"age": 70}]) == [[0], []]


def ranges(random: Random, count: int) -> list[Filter]:
    nodes = []
    for _ in range(count):
        low, high = sorted(random.randrange(1_000_000) for _ in range(2))
        nodes.append(f"a BETWEEN {low} AND {high}")
    return parsed(*nodes)


def sizes(segment: PSTreeSegment) -> tuple[int, int]:
    stats = segment.stats()
    return stats["tree_bytes"], stats["space_count"]


def test_bytes_come_back_after_churn() -> None:
    random = Random(5)
    world = World()
    world.insert(ranges(random, 400))
    for _ in range(100):
        world.delete(random.sample(sorted(world.filters), 40))
        world.insert(ranges(random, 40))
    world.check()
    fresh = World()
    fresh.insert(list(world.filters.values()))
    (bytes_used, spaces), (fresh_bytes, fresh_spaces) = map(sizes, (world.segment, fresh.segment))
    assert bytes_used <= 1.2 * fresh_bytes
    assert spaces == fresh_spaces
    events = [{"a": random.randrange(1_000_000)} for _ in range(20)]
    assert world.matched(events) == world.expected(events)
    world.delete(list(world.filters))
    world.check()
    assert sizes(world.segment)[0] <= sizes(World().segment)[0] + 2 * FREE_BYTES_MAX


def test_wide_ranges_stand_in_few_lists() -> None:
    """The paper's lists would have a third of all spaces for each of them."""
    count = 3_000
    world = World()
    world.insert(ranges(Random(1), count))
    words = world.segment.to_arrays()["blocks"][0]
    assert world.segment.stats()["space_count"] > 1.9 * count
    assert words < 24 * count


@pytest.mark.parametrize("size", [1, TEXT_BYTES_MAX, TEXT_BYTES_MAX + 1, TEXT_BYTES_MAX + 9])
def test_long_texts_are_rounded_and_tested(size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    assert len(text.encode()) == size
    world = World()
    world.insert(
        parsed(
            f"a STARTS WITH '{text}'",
            f"a >= '{text}'",
            f"a <= '{text}'",
            f"a BETWEEN '{text}a' AND '{text}b'",
            f"a < '{text}'",
            f"a > '{text}'",
            f"a LIKE '{text}_'",
        )
    )
    world.check()
    near = [text, text[:-1], text + "a", text + "b", text + "aa", text + "c", text[:-1] + "y"]
    events = [{"a": one} for one in near]
    assert world.matched(events) == world.expected(events)
    assert all(world.expected(events))


def test_a_row_alone_in_an_exact_space_is_not_tested() -> None:
    world = World()
    world.insert(parsed("a > 3", "a = 5 AND b = 1", "a LIKE '5_'", "a IN (5, 6)"))
    assert world.matched([{"a": [5, 6, "56"], "b": 2}]) == [[0, 2, 3]]
    stats = world.segment.stats()
    assert (stats["candidate_count"], stats["verified_count"], stats["hit_count"]) == (4, 2, 3)


def test_snapshots_have_no_room_to_grow_and_can_grow() -> None:
    world = World()
    world.insert(ranges(Random(3), 50))
    arrays = {name: part.copy() for name, part in world.segment.to_arrays().items()}
    assert arrays["node"].shape[0] == arrays["state"][0]
    world.segment = PSTreeSegment.from_arrays(arrays)
    world.insert(ranges(Random(4), 50))
    world.check()
    events = [{"a": one} for one in range(0, 1_000_000, 50_000)]
    assert world.matched(events) == world.expected(events)


def broken(name: str, at: Any, value: int) -> PSTreeSegment:
    world = World()
    world.insert(parsed(*(f"a BETWEEN {low} AND {low + 2}" for low in range(20)), "a > 1"))
    arrays = {part: array.copy() for part, array in world.segment.to_arrays().items()}
    assert arrays[name][at] != value
    arrays[name][at] = value
    return PSTreeSegment.from_arrays(arrays)


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        ("row", 0, 77, "other rows"),
        ("node", (3, space_tree.BEFORE), 9, "predicates end"),
        ("node", (3, space_tree.PARENT), 0, "parent|root"),
        ("node", (3, space_tree.SAME), ~(55 << 1), "change|end|lost"),
        ("state", space_tree.CUTS, 1, "cuts"),
        ("state", space_tree.NODES, 5, "lost"),
        ("blocks", row_lists.WORDS, 8, "lost"),
    ],
)
def test_check_finds_what_is_broken(name: str, at: Any, value: int, problem: str) -> None:
    segment = broken(name, at, value)
    with pytest.raises(AssertionError, match=problem):
        segment.check(np.arange(21, dtype=np.int32))


def test_only_rows_with_a_set_of_values_are_taken() -> None:
    index = PSTree.build(
        Subscription(text, parse_text(text))
        for text in ("a != 3", "a CONTAINS 'x'", "a LIKE '_x'", "ALL a > 3", "a = 3 AND b != 4")
    )
    assert index.stats()["own_row_count"] == 1
    assert index.filing_of("a = 3 AND b != 4") == "under a = 3, 1 of 3 spaces"
