"""Dynamic clustering: rows that come and go against the oracle, and tables that do so, too."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from index.access import Shares
from index.algorithms.dynamic_clustering import CHANGES_MIN, DynamicClusters
from index.growing_phase import LOOSE_MAX, RATIO
from index.kernels.clusters import LINE_ROWS
from index.kernels.growing_clusters import AT, COUNT, NEXT, ROWS, USE, WORDS
from tests.drawn import thoroughly
from tests.index.segments import Rows

UNKNOWN = Shares.unknown()


class EagerClusters(DynamicClusters):
    """Creates and deletes tables for a handful of rows."""

    margin_max = 0.005
    benefit_create = 0.1
    benefit_delete = 0.09


PATHS = "abcd"
LEAVES = [
    *(f"{path} = {value}" for path in PATHS for value in (0, 1, 2)),
    *(f"{path} = {value}" for path in PATHS for value in (0, 1)),
    *("a = 'x'", "a = 'X' NOCASE", "b = TRUE", "c IS NULL", "EXISTS d"),
    *("a > 0", "b <= 1", "c != 1", "d IN (1, 2)", "a LIKE 'x%'"),
]
conjunctions = st.lists(st.sampled_from(LEAVES), min_size=1, max_size=5).map(" AND ".join)
values = st.sampled_from((0, 1, 2, "x", "X", True, None))
events = st.dictionaries(st.sampled_from(PATHS), values | st.lists(values, max_size=3), min_size=2)


class Changes(RuleBasedStateMachine):
    """Rows are put in and taken out; the oracle is asked after each step."""

    @initialize(texts=st.lists(conjunctions, max_size=60))
    def build(self, texts: list[str]) -> None:
        self.world = Rows(*texts)
        self.rows = list(range(len(texts)))
        self.segment = self.world.build(EagerClusters)

    @rule(texts=st.lists(conjunctions, min_size=1, max_size=30))
    def insert(self, texts: list[str]) -> None:
        rows = self.world.add(*texts)
        world = self.world
        self.segment.insert(world.compiled, rows, world.attribute_count, UNKNOWN)
        self.rows += rows.tolist()

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        rows = data.draw(
            st.lists(st.sampled_from(self.rows), unique=True) if self.rows else st.just([])
        )
        self.segment.delete(self.world.compiled, np.array(sorted(rows), np.int32))
        self.rows = [row for row in self.rows if row not in rows]

    @rule(left=st.integers(1, 6))
    def delete_most(self, left: int) -> None:
        gone, self.rows = self.rows[:-left], self.rows[-left:]
        self.segment.delete(self.world.compiled, np.array(gone, np.int32))
        self.segment.maintain()

    @rule()
    def maintain(self) -> None:
        self.segment.maintain()

    @rule(some=st.lists(events, min_size=1, max_size=5))
    def match(self, some: list[dict[str, Any]]) -> None:
        assert self.world.matched(self.segment, some) == self.world.expected(self.rows, some)

    @rule()
    def write_and_read(self) -> None:
        self.segment = EagerClusters.from_arrays(self.segment.to_arrays())

    @invariant()
    def is_sound(self) -> None:
        if hasattr(self, "segment"):
            self.segment.check(np.array(self.rows, np.int32))


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=thoroughly(40), stateful_step_count=12, deadline=None)


def of_schema(random: Random, paths: str, count: int, values: int = 30) -> list[str]:
    """Rows with equalities on all of these paths, and a range."""
    return [
        " AND ".join(f"{path} = {random.randrange(values)}" for path in paths)
        + f" AND z > {random.randrange(9)}"
        for _ in range(count)
    ]


def some_events(random: Random, paths: str, count: int, values: int = 30) -> list[dict[str, Any]]:
    return [
        {path: random.randrange(values) for path in paths} | {"z": random.randrange(10)}
        for _ in range(count)
    ]


def schemas_of(world: Rows, segment: DynamicClusters) -> set[str]:
    """The schemas of all tables, with paths of one letter each."""
    schemas = segment._columns.tables.schema
    return {
        "".join(
            sorted(world.vocabulary.path(attribute)[0] for attribute in schema if attribute >= 0)
        )
        for schema in schemas
        if schema[0] >= 0
    }


def test_schemas_drift_and_tables_follow() -> None:
    """As in figure 4 (a): subscriptions about a and b give way to others about c and d."""
    random = Random(1)
    world = Rows(*of_schema(random, "ab", 1_500))
    segment = world.build(DynamicClusters)
    assert schemas_of(world, segment) == {"ab"}
    rows, seen = list(range(1_500)), []
    for _ in range(12):
        new = world.add(*of_schema(random, "cd", 125))
        segment.insert(world.compiled, new, world.attribute_count, UNKNOWN)
        old, rows = rows[:125], [*rows[125:], *new.tolist()]
        segment.delete(world.compiled, np.array(old, np.int32))
        segment.check(np.array(rows, np.int32))
        seen.append(schemas_of(world, segment))
        asked = some_events(random, "abcd", 2)
        assert world.matched(segment, asked) == world.expected(rows, asked)
    assert {"ab", "cd"} in seen
    assert seen[-1] == {"cd"}
    assert segment.stats()["deleted_table_count"] == 1
    assert segment.stats()["table_row_count"] == 1_500


def test_events_drift_and_tables_follow() -> None:
    """What events have decides: no row comes or goes."""
    random = Random(2)
    world = Rows(*of_schema(random, "ab", 150, 4))
    segment = world.build(DynamicClusters)
    nothing, tables, candidates = np.empty(0, np.int32), [schemas_of(world, segment)], []
    asked = some_events(random, "ab", 5_000, 4)
    others = [{"a": 9, "b": event["b"]} for event in asked]
    for some in (asked, asked, others, others, others, others):
        before = segment.stats()["candidate_count"]
        found = world.matched(segment, some)
        candidates.append((segment.stats()["candidate_count"] - before) / len(some))
        assert found[:100] == world.expected(range(150), some[:100])
        segment.insert(world.compiled, nothing, world.attribute_count, UNKNOWN)
        segment.check(np.arange(150))
        tables.append(schemas_of(world, segment))
    # Rows of one value in four are checked, and of two values with a table.
    assert tables[:3] == [set(), {"ab"}, {"ab"}]
    assert 30 < candidates[0] < 45
    assert 8 < candidates[1] < 11
    # Then no event has an `a` that rows ask for: they are filed there, and need no table.
    assert tables[-1] == set()
    assert candidates[-1] == 0


@pytest.mark.large
def test_bytes_return_after_churn() -> None:
    random = Random(3)
    world = Rows(*of_schema(random, "ab", 700), *of_schema(random, "cde", 700))
    segment = world.build(DynamicClusters)
    rows = list(range(1_400))
    for step in range(56):
        paths = random.choice(("ab", "cde", "bd", "a", "e"))
        new = world.add(*of_schema(random, paths, 250, 30 + step))
        segment.insert(world.compiled, new, world.attribute_count, UNKNOWN)
        rows += new.tolist()
        random.shuffle(rows)
        gone, rows = sorted(rows[:250]), rows[250:]
        segment.delete(world.compiled, np.array(gone, np.int32))
    left = np.array(sorted(rows), np.int32)
    segment.check(left)
    fresh = world.build(DynamicClusters, left)

    def size(one: DynamicClusters) -> int:
        stats = one.stats()
        return stats["cluster_bytes"] + stats["phase_bytes"]

    assert size(segment) <= 1.2 * size(fresh)
    segment.delete(world.compiled, left[200:])
    segment.check(left[:200])
    few = world.build(DynamicClusters, left[:200])
    assert size(segment) <= 1.2 * size(few) + 4_096
    asked = some_events(random, "abcde", 20)
    assert world.matched(segment, asked) == world.expected(left[:200], asked)


@pytest.mark.parametrize("count", (1, LINE_ROWS - 1, LINE_ROWS, LINE_ROWS + 1, 3 * LINE_ROWS + 5))
def test_blocks_of_every_size_fill_and_empty(count: int) -> None:
    world = Rows(*(f"a = 1 AND b > {n % 3} AND c < {n % 4}" for n in range(count)))
    segment = world.build(DynamicClusters, np.empty(0, np.int32))
    for row in range(count):
        segment.insert(world.compiled, np.array([row], np.int32), world.attribute_count, UNKNOWN)
        segment.check(np.arange(row + 1))
    asked: list[dict[str, Any]] = [{"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 9, "c": 0}, {"a": 2}]
    rows = list(range(count))
    while rows:
        assert world.matched(segment, asked) == world.expected(rows, asked)
        rows.pop(len(rows) // 2)
        gone = np.setdiff1d(
            segment._columns.place[:count, 0][segment._columns.place[:count, AT] >= 0], rows
        )
        segment.delete(world.compiled, gone.astype(np.int32))
        segment.check(np.array(rows, np.int32))
    assert world.matched(segment, asked) == [[], [], []]


def test_new_leaves_are_loose_then_parts() -> None:
    world = Rows(*(f"a = {n}" for n in range(1_000)))
    segment = world.build(DynamicClusters, np.empty(0, np.int32))
    parts = []
    stop = 0
    for count in (LOOSE_MAX * RATIO, LOOSE_MAX, 1, LOOSE_MAX + 1):
        rows = np.arange(stop, stop + count, dtype=np.int32)
        segment.insert(world.compiled, rows, world.attribute_count, UNKNOWN)
        stop += count
        segment.check(np.arange(stop))
        parts.append((segment.stats()["phase_part_count"], segment._phase._loose[0].size))
        asked: list[dict[str, Any]] = [
            {"a": n} for n in (0, 511, 512, 575, 576, 577, stop - 1, stop)
        ]
        assert world.matched(segment, asked) == world.expected(range(stop), asked)
    assert parts == [(1, 0), (1, LOOSE_MAX), (1, 0), (2, 0)]


def test_statistics_choose_the_equality() -> None:
    world = Rows(*(f"a = {n % 3} AND b = {n}" for n in range(CHANGES_MIN)))
    attribute = world.store.predicates.columns().record["attribute"]
    share = np.where(attribute == world.vocabulary.attribute(("a",)), 0.001, 0.9)
    segment = world.build(DynamicClusters, shares=Shares(share, np.ones(world.attribute_count)))
    assert "a = 0," in segment.filing_of(world.compiled, world.vocabulary, 0)


def test_check_sees_a_broken_layout() -> None:
    world = Rows(*of_schema(Random(4), "ab", 1_500))
    rows = np.arange(1_500, dtype=np.int32)

    def broken(message: str, change: Any) -> None:
        segment = world.build(DynamicClusters)
        segment.check(rows)
        change(segment._columns)
        with pytest.raises(AssertionError, match=message):
            segment.check(rows)

    def lose_leaf(columns: Any) -> None:
        columns.leaf[5, USE] += 1

    def lose_row(columns: Any) -> None:
        columns.place[7, AT] = columns.place[8, AT]

    def lose_cluster(columns: Any) -> None:
        first = columns.predicate[np.argmax(columns.predicate[:, ROWS]), 0]
        columns.cluster[first, NEXT] = -1
        columns.cluster[first, COUNT] -= 1

    def lose_slot(columns: Any) -> None:
        columns.tables.slot[np.flatnonzero(columns.tables.slot)[0]] = 0

    def lose_words(columns: Any) -> None:
        columns.counter[WORDS] += 1

    broken("leaves counted wrongly", lose_leaf)
    broken("a row is elsewhere", lose_row)
    broken("rows counted wrongly|is elsewhere", lose_cluster)
    broken("not to be found", lose_slot)
    broken("lost: word", lose_words)
