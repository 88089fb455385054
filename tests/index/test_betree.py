"""BE-Tree: what the contract does not see: its grid, its changes in place, ranks and its memory."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.betree import BETree, BETreeSegment
from index.algorithms.scan import Scan
from index.betree_tree import bytes_of, check_tree, directory_of, rows_of, walk_tree
from index.columns import EventBatch
from index.events import encode
from index.kernels.betree_keys import (
    KEY_FIRST,
    KEY_LAST,
    SHORT_ABSENT,
    STRING_FIRST,
    cell_around,
    middle_of,
    number_key,
    short_key,
)
from index.kernels.betree_pool import EVENTS, LEAF_MAX, RECYCLED, capacity_of, class_of
from index.kernels.betree_work import row_interval
from index.kernels.probe import VERDICT_BITS, Compiled
from index.language import parse_text
from index.model import Filter, Subscription
from index.predicate_phase import leaves_of_rows
from index.program import POLARITY_BITS
from index.row_store import RowStore
from index.vocabulary import Vocabulary
from tests.crowds import crowds
from tests.drawn import thoroughly
from tests.strategies import NOW

UNKNOWN = Shares.unknown()


class SmallLeaves(BETreeSegment):
    """Leaves of three, so that few rows make a deep tree."""

    leaf_max_by_share = ((1.0, 3),)


class World:
    """A store, a tree of some of its rows, and which these are."""

    def __init__(self, nodes: Sequence[Filter], segment: type[BETreeSegment] = SmallLeaves) -> None:
        self.vocabulary = Vocabulary()
        self.store = RowStore(self.vocabulary)
        self.store.append([Subscription(f"s{at}", node) for at, node in enumerate(nodes)], 0)
        every = np.arange(len(nodes), dtype=np.int32)
        self.every = every[segment.takes(self.compiled, every)]
        self.segment_type = segment
        self.segment = segment.build(self.compiled, self.every[:0], self.attribute_count, UNKNOWN)
        self.rows: set[int] = set()

    @property
    def compiled(self) -> Compiled:
        return self.store.compiled()

    @property
    def attribute_count(self) -> int:
        return self.vocabulary.attribute_count

    def build(self, rows: NDArray[np.int32]) -> BETreeSegment:
        return self.segment_type.build(self.compiled, rows, self.attribute_count, UNKNOWN)

    def insert(self, rows: NDArray[np.int32]) -> None:
        self.segment.insert(self.compiled, rows, self.attribute_count, UNKNOWN)
        self.rows |= set(rows.tolist())

    def delete(self, rows: NDArray[np.int32]) -> None:
        self.segment.delete(self.compiled, rows)
        self.rows -= set(rows.tolist())

    def batch(self, events: Sequence[dict[str, Any]]) -> EventBatch:
        return encode(events, self.vocabulary).columns

    def check(self) -> None:
        self.segment.check(np.array(sorted(self.rows), np.int32))
        assert not misplaced(self.segment, self.compiled)


def found(world: World, segment: BETreeSegment, batch: EventBatch) -> list[list[int]]:
    hits = segment.match(world.compiled, batch, world.attribute_count)
    return [
        sorted((hits.hit[start:stop] >> VERDICT_BITS).tolist())
        for start, stop in zip(hits.start[:-1], hits.start[1:], strict=True)
    ]


def misplaced(segment: BETreeSegment, compiled: Compiled) -> list[int]:
    """Rows that are not in the smallest bucket that encloses them, or could be in a p-node."""
    tree, wrong = segment._columns, []
    for node, path in walk_tree(tree):
        record = tree.node[node]
        used = {attribute for attribute, _ in directory_of(tree, node)}
        middle = middle_of(int(record["low"]), int(record["high"]))
        for row in rows_of(tree, node).tolist():
            _, codes = leaves_of_rows(compiled.programs, np.array([row], np.int32))
            named = set(compiled.predicates.record["attribute"][codes >> POLARITY_BITS].tolist())
            wrong += [row] if named & used or not set(path) <= named else []
            if path:
                _, low, high = row_interval(compiled, row, path[-1])
                wrong += [row] if low < record["low"] or high > record["high"] else []
                if record["split"]:
                    wrong += [row] if high <= middle or low > middle else []
    return wrong


def conjunctions(count: int, seed: int = 1, attributes: int = 8) -> list[Filter]:
    random = Random(seed)

    def leaf() -> str:
        attribute = f"a{min(random.randrange(attributes), random.randrange(attributes))}"
        value = random.randrange(40)
        return f"{attribute} " + random.choice(
            (
                *(f"= {value}", f"= 's{value}'", f"BETWEEN {value} AND {value + 9}"),
                *(f"> {value}", f"IN ({value}, {value + 2})", f"!= {value}"),
                *(f"<= -{value}.5", f"= {value}"),
            )
        )

    return [
        parse_text(" AND ".join(leaf() for _ in range(random.choice((1, 2, 3, 4, 5, 6)))))
        for _ in range(count)
    ]


def events_of(count: int, seed: int = 2, attributes: int = 8) -> list[dict[str, Any]]:
    random = Random(seed)
    values: list[Any] = [*range(45), *(f"s{value}" for value in range(40)), -3, None, True, [], 0.5]
    return [
        {
            f"a{at}": [random.choice(values), 7] if random.random() < 0.1 else random.choice(values)
            for at in range(attributes)
            if random.random() < 0.8
        }
        for _ in range(count)
    ]


@settings(max_examples=thoroughly(40))
@given(crowds(), st.data())
def test_changes_in_place_are_as_good_as_building(
    crowd: tuple[list[Filter], list[dict[str, Any]]], data: st.DataObject
) -> None:
    nodes, events = crowd
    world, batch_of = World(nodes), events
    scan = Scan.build([Subscription(f"s{at}", node) for at, node in enumerate(nodes)])
    matches = scan.match(encode(batch_of, scan.vocabulary), NOW)
    truth = [
        set(matches.row[start:stop].tolist())
        for start, stop in zip(matches.start[:-1], matches.start[1:], strict=True)
    ]
    batch = world.batch(events)
    waiting = world.every.tolist()
    while waiting or world.rows:
        if waiting and (not world.rows or data.draw(st.booleans())):
            size = data.draw(st.integers(1, len(waiting)))
            world.insert(np.array(waiting[:size], np.int32))
            del waiting[:size]
        else:
            some = data.draw(st.lists(st.sampled_from(sorted(world.rows)), unique=True, min_size=1))
            world.delete(np.array(some, np.int32))
        world.check()
        rows = np.array(sorted(world.rows), np.int32)
        expected = [sorted(one & world.rows) for one in truth]
        assert found(world, world.segment, batch) == expected
        assert found(world, world.build(rows), batch) == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_deep_tree_finds_what_scan_finds(seed: int) -> None:
    nodes, events = conjunctions(1_200, seed), events_of(40, seed + 10)
    world = World(nodes)
    world.insert(world.every)
    built = world.build(world.every)
    scan = Scan.build([Subscription(f"s{at}", node) for at, node in enumerate(nodes)])
    matches = scan.match(encode(events, scan.vocabulary), NOW)
    expected = [
        matches.row[start:stop].tolist()
        for start, stop in zip(matches.start[:-1], matches.start[1:], strict=True)
    ]
    world.check()
    built.check(world.every)
    assert not misplaced(built, world.compiled)
    assert max(len(visit.path) for visit in walk_tree(built._columns)) >= 3
    batch = world.batch(events)
    assert found(world, world.segment, batch) == found(world, built, batch) == expected
    assert sum(map(len, expected)) > 100
    assert built.stats()["candidate_count"] < 1_200 * 40 / 2


def test_a_large_directory_is_searched_for_the_attributes_of_an_event() -> None:
    nodes = [parse_text(f"a{at} = {value}") for at in range(60) for value in range(4)]
    world = World(nodes)
    tree = world.build(world.every)
    assert len(directory_of(tree._columns, 0)) > 50
    events = [{"a7": 3, "a59": 0, "a0": 1, "b": 1}, {"a60": 0}, {f"a{at}": 2 for at in range(60)}]
    assert found(world, tree, world.batch(events)) == [
        [1, 31, 236],
        [],
        [4 * at + 2 for at in range(60)],
    ]


@pytest.mark.large
def test_bytes_return_after_churn() -> None:
    """Ten times the population comes and goes, one row and several at a time."""
    nodes, random = conjunctions(4_000, 5), Random(3)
    world = World(nodes, BETreeSegment)
    population = 1_500
    world.insert(world.every[:population])
    world.segment = world.build(world.every[:population])
    waiting = world.every[population:].tolist()
    turned = 0
    while turned < 10 * population:
        size = random.choice((1, 7, 50, 400))
        leaving = random.sample(sorted(world.rows), size)
        world.delete(np.array(leaving, np.int32))
        coming, waiting = sorted(waiting[:size]), waiting[size:] + leaving
        world.insert(np.array(coming, np.int32))
        turned += size
    world.check()
    fresh = world.build(np.array(sorted(world.rows), np.int32))
    assert len(world.rows) == population
    assert bytes_of(world.segment._columns) <= 1.2 * bytes_of(fresh._columns)
    world.delete(np.array(sorted(world.rows), np.int32))
    world.check()
    stats = world.segment.stats()
    assert (stats["node_count"], stats["partition_node_count"]) == (1, 0)
    assert stats["tree_bytes"] < 0.1 * bytes_of(fresh._columns)


def test_the_running_example_of_section_6() -> None:
    """Leaves of three go through the steps of the paper's example, one row after the other."""
    texts = ["a = 1 AND b = 2", "a = 2 AND b = 1", "d = 3", "a = 7", "d = 4 AND e = 1", "d = 5"]
    texts += ["e = 2", "a BETWEEN 0 AND 9 AND b = 3"]
    texts += [f"a BETWEEN 1 AND 9 AND b = {value}" for value in (4, 5, 6)]
    world = World([parse_text(text) for text in texts])

    def insert_up_to(last: int) -> dict[int, str]:
        for row in range(len(world.rows), last + 1):
            world.insert(np.array([row], np.int32))
            world.check()
        return {
            row: world.segment.filing_of(world.compiled, world.vocabulary, row)
            for row in range(last + 1)
        }

    assert set(insert_up_to(2).values()) == {"in a leaf of 3 under the root"}
    filed = insert_up_to(3)  # the root overflows, and a is named by most
    assert filed[2] == "in a leaf of 1 under the root"
    assert filed[0] == filed[1] == filed[3] == "in a leaf of 3 under a present"
    filed = insert_up_to(6)  # it does so again, and now d is
    assert filed[6] == "in a leaf of 1 under the root"
    assert filed[2] == filed[4] == filed[5] == "in a leaf of 3 under d present"
    filed = insert_up_to(7)  # the leaf of a overflows: clustering. The new row lies on both sides
    positive = "a from 0 on, numbers and all else"
    assert filed[0] == "in a leaf of 1 under a from 0 to below 2"
    assert filed[1] == filed[3] == "in a leaf of 2 under a from 2 on, numbers and all else"
    assert filed[7] == f"in a leaf of 1 under {positive}"
    filed = insert_up_to(10)  # a bucket that is split overflows: partitioning again, by b
    assert filed[7] == f"in a leaf of 1 under {positive}, b from 2 to below 4"
    assert filed[10] == f"in a leaf of 3 under {positive}, b from 4 to below 8"


def test_under_full_buckets_merge_and_p_nodes_are_dissolved() -> None:
    world = World([parse_text(f"a = {value} AND b = 1") for value in range(4)])
    world.insert(world.every)
    assert world.segment.stats()["leaf_node_count"] > 1
    world.delete(world.every[3:])
    world.check()  # three rows make a p-node still
    assert world.segment.stats()["partition_node_count"] == 1
    world.delete(world.every[2:3])
    world.check()
    stats = world.segment.stats()
    assert (stats["node_count"], stats["partition_node_count"]) == (1, 0)


def test_a_p_node_that_rules_nothing_out_is_recycled() -> None:
    """Every event has a, so a row below its p-node costs two tests, and the path covers only one.

    Of all other attributes two rows with a have one, and two without: none is enough for a p-node
    until all of them are in the root again.
    """
    with_a = [f"b{at % 40} = 1 AND c{at % 40} = 5 AND a != 1" for at in range(80)]
    without = [f"b{at % 40} = 1 AND c{at % 40} = 5" for at in range(80)]
    world = World([parse_text(text) for text in with_a[:8] + without + with_a[8:]])
    event = {"a": 95} | {f"b{at}": 1 for at in range(40)} | {f"c{at}": 7 for at in range(40)}
    batch = world.batch([event] * 20)
    a = world.vocabulary.attribute(("a",))
    recycled = 0
    for at in range(0, 160, 4):
        world.insert(np.arange(at, at + 4, dtype=np.int32))
        world.check()
        if at >= 120:
            assert found(world, world.segment, batch) == [[]] * 20
        tree = world.segment._columns
        recycled = int(tree.control[RECYCLED])
        has_a = any(attribute == a for attribute, _ in directory_of(tree, 0))
        assert has_a == (not recycled)
    assert recycled == 1


def test_a_recycled_attribute_is_the_last_choice() -> None:
    """a and b tell the same; a comes first until it is recycled, with the p-node of b below it."""
    world = World([parse_text(f"a != 1 AND b != 1 AND c{at} = 1") for at in range(80)])
    a, b = (world.vocabulary.attribute((name,)) for name in "ab")
    world.insert(world.every[:10])
    tree = world.segment._columns
    assert [attribute for attribute, _ in directory_of(tree, 0)] == [a]
    assert [visit.path for visit in walk_tree(tree)][-1] == (a, b)
    tree.node["discarded"] = 1_000
    changes = world.every[10:], world.every[:0]
    tree = world.segment._changed(world.compiled, changes, world.attribute_count, UNKNOWN, 1)
    check_tree(tree, world.every)  # before a copy without gaps would hide a run that is lost
    assert tree.control[RECYCLED] == 1
    assert [attribute for attribute, _ in directory_of(tree, 0)] == [b]


def test_leaves_grow_where_many_rows_match() -> None:
    world = World([parse_text(f"a > {value}") for value in range(20)], BETreeSegment)
    world.insert(world.every)
    control = world.segment._columns.control
    assert control[LEAF_MAX] == 16
    found(world, world.segment, world.batch([{"a": 1}] * 99))
    assert control[LEAF_MAX] == 16, "too few events to tell"
    found(world, world.segment, world.batch([{"a": 1}] * 100))
    assert (control[EVENTS], control[LEAF_MAX]) == (199, 40)
    found(world, world.segment, world.batch([{"a": 100}] * 200))
    assert control[LEAF_MAX] == 160


def test_the_grid_is_one_of_halves() -> None:
    assert cell_around(KEY_FIRST, KEY_LAST) == (KEY_FIRST, KEY_LAST)
    assert middle_of(KEY_FIRST, KEY_LAST) == -1
    assert cell_around(5, 5) == (5, 5) and cell_around(4, 5) == (4, 5)
    assert cell_around(3, 4) == (0, 7) and cell_around(-1, 0) == (KEY_FIRST, KEY_LAST)
    assert cell_around(-7, -5) == (-8, -5) and middle_of(-8, -5) == -7
    sizes = [capacity_of(size_class) for size_class in range(8)]
    assert sizes == [1, 2, 3, 4, 6, 8, 12, 16]
    assert [class_of(count) for count in (1, 2, 5, 6, 7, 16)] == [0, 1, 4, 4, 5, 7]


@given(st.lists(st.floats(allow_nan=False) | st.integers(0, 2**24).map(float), min_size=2))
def test_short_keys_keep_the_order(numbers: list[float]) -> None:
    plain = getattr(number_key, "py_func", number_key)  # inlined kernels have no other way in
    keys = sorted(int(plain(np.float64(number))) for number in numbers)
    keys = [KEY_FIRST, *keys, STRING_FIRST, STRING_FIRST + 2**30, KEY_LAST]
    short = [short_key(key) for key in keys]
    assert short == sorted(short)
    assert -SHORT_ABSENT < short[0] and short[-1] < SHORT_ABSENT
    assert [int(plain(np.float64(number))) for number in sorted(numbers)] == keys[1:-3]


def test_check_finds_what_is_broken() -> None:
    nodes = conjunctions(300, 6)
    world = World(nodes)

    def broken(breaking: Any, words: str) -> None:
        world.segment = world.build(world.every)
        world.segment.check(world.every)
        breaking(world.segment._columns)
        with pytest.raises(AssertionError, match=words):
            world.segment.check(world.every)

    def first(tree: Any, name: str, least: int) -> int:
        return next(
            visit.node
            for visit in walk_tree(tree)
            if visit.node and tree.node[visit.node][name] >= least
        )

    def lose_row(tree: Any) -> None:
        tree.node[first(tree, "size", 1)]["size"] -= 1

    def move_bucket(tree: Any) -> None:
        node = tree.node[first(tree, "left", 0)]
        node["left"], node["right"] = node["right"], node["left"]

    def turn_directory(tree: Any) -> None:
        start = tree.node[0]["partition"]
        tree.partition[[start, start + 1]] = tree.partition[[start + 1, start]]
        tree.ranking[[start, start + 1]] = tree.ranking[[start + 1, start]]

    def overflow(tree: Any) -> None:
        tree.node[first(tree, "size", 2)]["capacity"] = 1

    def miscount(tree: Any) -> None:
        tree.ranking[tree.node[0]["partition"], 0] += 1

    def overlap(tree: Any) -> None:
        one, other = [v.node for v in walk_tree(tree) if tree.node[v.node]["size"] == 3][:2]
        tree.node[one]["leaf"], tree.node[other]["leaf"] = (
            tree.node[other]["leaf"],
            tree.node[one]["leaf"],
        )
        tree.node[one]["leaf_class"] += 1

    broken(lose_row, "other rows")
    broken(move_bucket, "outside of its half")
    broken(turn_directory, "does not ascend")
    broken(overflow, "overflows")
    broken(miscount, "counted wrongly")
    broken(overlap, "runs in use are counted wrongly")


def test_the_narrower_of_two_leaves_files_a_row() -> None:
    """And an array may satisfy each by another value."""
    nodes: list[Filter] = [parse_text(f"a > {at} AND a < {at + 2}") for at in range(8)]
    world = World(nodes)
    world.insert(world.every)
    world.check()
    assert found(world, world.segment, world.batch([{"a": [0, 9]}]))[0] == list(range(8))
    points = World([parse_text("a > 0 AND a BETWEEN 3 AND 3 AND a < 9")] * 4)
    points.insert(points.every)
    assert points.segment.filing_of(points.compiled, points.vocabulary, 0).endswith("a = 3")


def test_the_index_takes_filters_of_any_kind() -> None:
    texts = ["a = 1", "a = 1 OR b = 2", "MISSING c", "a = 1 AND b LIKE 'x%'"]
    index = BETree.build(Subscription(f"s{at}", parse_text(text)) for at, text in enumerate(texts))
    index.check()
    assert index.stats()["own_row_count"] == 2
    assert index.filing_of("s0") == "in a leaf of 2 under the root"
    assert index.filing_of("s1").startswith("with the companion")
