"""Static clustering: the greedy choice against its definition, and tables against scan."""

from __future__ import annotations

from itertools import combinations
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from index import hash_configuration
from index.algorithms import static_clustering
from index.algorithms.static_clustering import StaticClusters
from index.hash_configuration import (
    CHECK_NS,
    LEAF_BYTES,
    PREDICATE_BYTES,
    TABLE_BYTES,
    table_overhead_ns,
)
from tests.index.segments import Rows

Row = dict[str, int]


def text_of(row: Row, *others: str) -> str:
    return " AND ".join([f"{path} = {value}" for path, value in row.items()] + list(others))


@pytest.fixture
def free_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables cost next to nothing, so that few rows are enough for many of them."""
    for name in ("RETRIEVAL_NS", "LOOKUP_NS", "ATTRIBUTE_NS"):
        monkeypatch.setattr(hash_configuration, name, 1e-3)


def drawn_rows(random: Random, count: int, paths: str, values: int) -> list[Row]:
    return [
        {path: random.randrange(values) for path in random.sample(paths, random.randint(1, 4))}
        for _ in range(count)
    ]


class Naive:
    """The greedy algorithm of section 3.2, word by word: costs and spaces are taken anew."""

    def __init__(self, rows: list[Row], bytes_per_row: int) -> None:
        self.rows = rows
        values: dict[str, set[int]] = {}
        for row in rows:
            for path, value in row.items():
                values.setdefault(path, set()).add(value)
        self.share = {path: 1 / (len(some) + 8) for path, some in values.items()}
        self.room = bytes_per_row * len(rows)

    def check_ns(self, schema: tuple[str, ...]) -> float:
        return CHECK_NS * prod(self.share[path] for path in schema)

    def best(self, schemas: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The schema of each row in the best clustering instance; of equal ones the first."""
        return [
            min(
                [(path,) for path in sorted(row)]
                + [schema for schema in schemas if set(schema) <= set(row)],
                key=lambda schema: round(self.check_ns(schema), 12),
            )
            for row in self.rows
        ]

    def cost(self, schemas: list[tuple[str, ...]]) -> float:
        checks = sum(self.check_ns(schema) for schema in self.best(schemas))
        return checks + sum(
            float(table_overhead_ns(np.ones(1), len(schema))[0]) for schema in schemas
        )

    def space(self, schemas: list[tuple[str, ...]]) -> int:
        best = self.best(schemas)
        predicates = {
            (schema, tuple(row[path] for path in schema))
            for schema, row in zip(best, self.rows, strict=True)
            if len(schema) > 1
        }
        checked = sum(len(schema) - 1 for schema in best)
        return TABLE_BYTES * len(schemas) + PREDICATE_BYTES * len(predicates) - LEAF_BYTES * checked

    def chosen(self) -> list[tuple[str, ...]]:
        groups = {
            group
            for row in self.rows
            for width in range(2, len(row) + 1)
            for group in combinations(sorted(row), width)
        }
        schemas: list[tuple[str, ...]] = []
        while self.space(schemas) < self.room:
            rates = {}
            for group in sorted(groups - set(schemas)):
                benefit = self.cost(schemas) - self.cost([*schemas, group])
                space = self.space([*schemas, group]) - self.space(schemas)
                if benefit > 1e-9 and self.space([*schemas, group]) <= self.room:
                    rates[group] = benefit / max(space, 1e-6)
            if not rates:
                break
            schemas.append(max(rates, key=lambda group: rates[group]))
        return schemas


@pytest.mark.parametrize("bytes_per_row", (0, 8, 32))
@pytest.mark.parametrize("seed", range(3))
def test_tables_are_those_of_the_greedy_algorithm(
    seed: int, bytes_per_row: int, free_tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_clustering, "TABLE_BYTES_PER_ROW", bytes_per_row)
    random = Random(seed)
    # Different numbers of values, so that no two schemas have the same share by chance.
    counts = dict(zip("abcde", random.sample((2, 3, 5, 6, 7, 9), 5), strict=True))
    rows = [
        {path: random.randrange(counts[path]) for path in random.sample("abcde", size)}
        for size in random.choices((1, 2, 3, 4), k=70)
    ]
    # Every value is named, so that the naive shares are those of the leaves.
    rows += [{path: value} for path, count in counts.items() for value in range(count)]
    world = Rows(*map(text_of, rows))
    segment = world.build(StaticClusters)
    naive = Naive(rows, bytes_per_row)
    schemas = naive.chosen()
    used = set(naive.best(schemas)) & set(schemas)
    paths = [".".join(world.vocabulary.path(at)) for at in range(world.attribute_count)]
    found = {
        tuple(sorted(paths[attribute] for attribute in schema if attribute >= 0))
        for schema in segment._columns.tables.schema
    }
    assert found == used
    assert bool(bytes_per_row) == bool(found)


@pytest.mark.parametrize("seed", range(6))
def test_many_tables_against_scan(seed: int, free_tables: None) -> None:
    random = Random(seed)
    others = ("e > 1", "e IS NULL", "f = 'X' NOCASE", "f = 'x'", "a = 1", "b != 2", "e = 3")
    texts = [
        text_of(row, *random.sample(others, random.randrange(3)))
        for row in drawn_rows(random, 300, "abcdef", 3)
    ]
    world = Rows(*texts, "e > 1", "e > 1 AND a != 2")
    segment = world.build(StaticClusters)
    segment.check(np.arange(len(texts) + 2, dtype=np.int32))
    assert segment.stats()["table_count"] >= 5
    assert segment.stats()["no_access_count"] == 2

    def value(path: str) -> Any:
        single = random.choice((0, 1, 2, 3, None) if path != "f" else ("x", "X", "y", 1))
        return [single, *random.choices((0, 1, 2), k=random.randrange(3))]

    events = [
        {
            path: value(path) if random.random() < 0.3 else value(path)[0]
            for path in "abcdef"
            if random.random() < 0.9
        }
        for _ in range(60)
    ]
    expected = world.expected(range(len(texts) + 2), events)
    assert world.matched(segment, events) == expected
    assert any(expected)
    read = StaticClusters.from_arrays(segment.to_arrays())
    read.check(np.arange(len(texts) + 2, dtype=np.int32))
    assert world.matched(read, events) == expected


def test_arrays_with_more_combinations_than_access_predicates(free_tables: None) -> None:
    """Then the access predicates are tested one by one: 60 * 60 * 60 lookups would be too many."""
    rows = [{"a": n % 60, "b": n * 7 % 60, "c": n * 11 % 60} for n in range(200)]
    world = Rows(*map(text_of, rows))
    segment = world.build(StaticClusters)
    assert segment.stats()["table_row_count"] > 100
    events: list[dict[str, Any]] = [
        {"a": list(range(60)), "b": list(range(60)), "c": list(range(60))},
        {"a": list(range(0, 60, 2)), "b": list(range(60)), "c": [3, 5, 7]},
        {"a": [1, 2], "b": [7, 14], "c": [11, 22]},
    ]
    assert world.matched(segment, events) == world.expected(range(200), events)


def test_one_equality_a_row_needs_no_table() -> None:
    world = Rows(*(f"a = {n % 7} AND b > {n}" for n in range(300)))
    assert world.build(StaticClusters).stats()["table_count"] == 0


def test_common_attributes_get_a_table_at_the_usual_costs() -> None:
    world = Rows(*(f"a = {n % 20} AND b = {n % 23} AND c > {n}" for n in range(4_000)))
    stats = world.build(StaticClusters).stats()
    assert (stats["table_count"], stats["table_predicate_count"]) == (1, 20 * 23)
    assert stats["table_row_count"] == 4_000


def test_rows_of_no_equality_and_of_none_at_all() -> None:
    world = Rows("a > 1", "b LIKE 'x%' AND c != 2")
    segment = world.build(StaticClusters)
    segment.check(np.arange(2, dtype=np.int32))
    assert segment.stats()["no_access_count"] == 2
    events: list[dict[str, Any]] = [{"a": 2}, {"b": "xy", "c": 1}, {"b": "xy", "c": 2}]
    assert world.matched(segment, events) == [[0], [1], []]
    empty = world.build(StaticClusters, np.zeros(0, np.int32))
    empty.check(np.zeros(0, np.int32))
    assert world.matched(empty, events) == [[], [], []]


def test_check_sees_a_broken_layout() -> None:
    world = Rows(*(f"a = {n % 20} AND b = {n % 23}" for n in range(4_000)))
    rows = np.arange(4_000, dtype=np.int32)

    def broken(message: str, part: str, name: str, change: Any) -> None:
        segment = world.build(StaticClusters)
        segment.check(rows)
        columns = getattr(segment._columns, part)
        array = getattr(columns, name).copy()
        change(array)
        replaced = {part: columns._replace(**{name: array})}
        segment._columns = segment._columns._replace(**replaced)
        with pytest.raises(AssertionError, match=message):
            segment.check(rows)

    def exchange_leaves(access: Any) -> None:
        access[0, :2] = access[0, 1::-1].copy()

    def lose_slot(slot: Any) -> None:
        slot[np.flatnonzero(slot)[0]] = 0

    def lose_row(row: Any) -> None:
        row[0] = row[1]

    broken("not to be found", "tables", "access", exchange_leaves)
    broken("lost access predicates", "tables", "slot", lose_slot)
    broken("other rows", "clusters", "row", lose_row)
