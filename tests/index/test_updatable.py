"""Updatable: after any changes, merges and snapshots each version answers as the oracle does."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from numpy.typing import NDArray

from index import recent_rows
from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.evaluate import truth
from index.events import decode_payloads, encode
from index.growing_segment import GrowingSegment
from index.in_place import InPlace
from index.kernels.probe import Compiled, Hits
from index.language import parse_text
from index.model import Filter, Subscription
from index.predicate_phase import plain_conjunctions
from index.recent_rows import RecentRows
from index.registry import ALGORITHMS
from index.segment import under_prefix
from index.snapshot import SnapshotError, open_snapshot
from index.updatable import Updatable
from index.versions import Change
from index.vocabulary import Vocabulary
from tests.drawn import thoroughly
from tests.strategies import NOW, events_near, filters

STEPS = st.sampled_from([0, 1, 2])
IDS = tuple(f"s{number}" for number in range(8))


def subscription(name: str, text: str) -> Subscription:
    return Subscription(name, parse_text(text), name.encode())


def numbered(count: int, first: int = 0) -> list[Subscription]:
    """Subscriptions to one value each."""
    return [subscription(f"n{one}", f"v = {one}") for one in range(first, first + count)]


def matched(index: Updatable, event: dict[str, Any], version: int | None = None) -> list[str]:
    matches = index.match(encode([event], index.vocabulary), NOW, version)
    ids = index.ids_of(matches.row.tolist())
    attachments = index.attachments_of(matches.row.tolist())
    assert np.all(np.diff(matches.row) > 0)
    assert all(one.decode() == name for one, name in zip(attachments, ids, strict=True))
    return sorted(ids)


class PlainRows(GrowingSegment):
    """Rows tried one by one: a growing segment that keeps nothing but their numbers."""

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._rows = rows

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        return plain_conjunctions(compiled.programs, compiled.predicates, rows)

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        return cls(rows)

    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        assert rows.size and self.takes(compiled, rows).all()
        self._rows = np.concatenate((self._rows, rows))
        assert np.all(np.diff(self._rows) > 0)

    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        assert np.isin(rows, self._rows).all()
        self._rows = np.setdiff1d(self._rows, rows)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        if not self._rows.size:
            return Hits(np.zeros(batch.entry_start.size, np.int64), np.zeros(0, np.int64))
        tail = RecentRows((), self._rows)
        (hits,) = tail.hits(compiled, batch, attribute_count)
        return hits

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"rows": self._rows}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays["rows"])

    def stats(self) -> dict[str, int]:
        return {"candidate_count": self._rows.size}

    def check(self, rows: NDArray[np.int32]) -> None:
        assert self._rows.tolist() == rows.tolist()

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        assert row in self._rows
        return "among the plain rows"


class PlainInPlace(InPlace):
    """Plain conjunctions change in place, the rest is the companion's."""

    name = "plain"
    paper = ""
    summary = "tries plain conjunctions one by one"
    companion = PSTHash.name
    segment_type = accompanied(PlainRows, PSTHash.segment_type)


class Changes(RuleBasedStateMachine):
    """Each version's subscriptions are kept beside the index, and asked of the oracle."""

    folder: Path
    index_type: type[Updatable]

    @initialize(nodes=st.lists(filters(4), max_size=6))
    def build(self, nodes: list[Filter]) -> None:
        base = [Subscription(name, node, name.encode()) for name, node in zip(IDS, nodes)]  # noqa: B905
        self.index = self.index_type.build(base)
        self.versions = {0: {one.id: one.filter for one in base}}

    def change(self, living: dict[str, Filter]) -> None:
        self.versions[self.index.version] = living
        self.forget(self.index.oldest_version)

    @property
    def living(self) -> dict[str, Filter]:
        return dict(self.versions[self.index.version])

    @rule(
        nodes=st.dictionaries(st.sampled_from(IDS), filters(4), min_size=1, max_size=3),
        step=STEPS,
    )
    def add(self, nodes: dict[str, Filter], step: int) -> None:
        living = self.living | nodes
        self.index.add_all(
            [Subscription(name, node, name.encode()) for name, node in nodes.items()],
            self.after(step),
        )
        self.change(living)

    @rule(name=st.sampled_from(IDS), step=STEPS)
    def remove(self, name: str, step: int) -> None:
        living = self.living
        assert self.index.remove(name, self.after(step)) == (living.pop(name, None) is not None)
        self.change(living)

    def after(self, step: int) -> int | None:
        """A version to give to a change; None leaves it to the index."""
        return self.index.version + step if step else None

    @rule(
        steps=st.lists(
            st.tuples(
                st.dictionaries(st.sampled_from(IDS), filters(4), max_size=2),
                st.sets(st.sampled_from(IDS), max_size=2),
                STEPS,
            ),
            max_size=4,
        )
    )
    def change_together(self, steps: list[tuple[dict[str, Filter], set[str], int]]) -> None:
        living, version, changes, seen = self.living, self.index.version, list[Change](), {}
        for nodes, gone, step in steps:
            version += step
            added = [Subscription(name, node, name.encode()) for name, node in nodes.items()]
            changes.append(Change(version, added, gone))
            kept = {name: node for name, node in living.items() if name not in gone}
            living = seen[version] = kept | nodes
        self.index.change_all(changes)
        self.versions |= seen

    @rule()
    def advance(self) -> None:
        living = self.living
        self.index.advance(self.index.version + 2)
        self.change(living)

    @rule(back=st.integers(0, 2))
    def merge(self, back: int) -> None:
        oldest = max(self.index.version - back, self.index.oldest_version)
        self.index.merge(oldest)
        self.forget(oldest)

    @rule()
    def reopen(self) -> None:
        path = self.folder / "index.snapshot"
        self.index.save(path, {"epoch": self.index.version})
        self.index = self.index_type.open(path)
        assert self.index.meta == {"epoch": self.index.version}
        self.forget(self.index.version)

    def forget(self, oldest: int) -> None:
        known = max(version for version in self.versions if version <= oldest)
        self.versions = {
            max(version, oldest): living
            for version, living in self.versions.items()
            if version >= known
        }

    @precondition(lambda self: any(self.versions.values()))
    @rule(data=st.data())
    def match(self, data: st.DataObject) -> None:
        nodes = [node for living in self.versions.values() for node in living.values()]
        event = data.draw(events_near(*nodes[-6:]))
        for version, living in self.versions.items():
            expected = [name for name, node in living.items() if truth(node, event, NOW) is True]
            assert matched(self.index, event, version) == sorted(expected), version

    @invariant()
    def holds_together(self) -> None:
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.living)


@pytest.mark.parametrize(("tail_rows", "tests"), [(0, 10**6), (2, 10**6), (64, 10**6), (64, 3)])
@pytest.mark.parametrize("updatable", [PSTHash, PlainInPlace])
def test_any_order_of_changes(
    updatable: type[Updatable],
    tail_rows: int,
    tests: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_rows, "TAIL_ROWS_MAX", tail_rows)
    monkeypatch.setattr(recent_rows, "TESTS_A_BUILD", tests)
    monkeypatch.setattr(recent_rows, "TESTS_A_ROW", 0)
    monkeypatch.setattr(recent_rows, "RATIO", 2)

    class Machine(Changes):
        folder = tmp_path
        index_type = updatable

    Machine.TestCase.settings = settings(max_examples=thoroughly(25), stateful_step_count=12)
    Machine.TestCase().runTest()


def test_a_change_in_place_without_version_ends_the_older_ones() -> None:
    index = PlainInPlace.build([subscription("s1", "v = 1"), subscription("s2", "v = 1")])
    index.add(subscription("s3", "v = 1"), 1)
    index.remove("s1", 2)
    assert [matched(index, {"v": 1}, version) for version in range(3)] == [
        ["s1", "s2"],
        ["s1", "s2", "s3"],
        ["s2", "s3"],
    ]
    assert index.stats()["own_row_count"] == 3
    index.remove("s3")
    assert index.oldest_version == index.version == 3
    assert index.stats()["own_row_count"] == 1
    with pytest.raises(ValueError, match="version 2 is not known, only 3 to 3"):
        index.match(encode([{"v": 1}], index.vocabulary), NOW, 2)


def test_own_rows_lie_between_those_of_the_companion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_rows, "TAIL_ROWS_MAX", 1)
    index = PlainInPlace.build([])
    for number in range(6):
        index.add(subscription(f"s{number}", "v = 1 OR w = 1" if number % 2 else "v = 1"))
    assert matched(index, {"v": 1}) == [f"s{number}" for number in range(6)]


def test_what_dies_at_the_oldest_version_is_deleted_at_once() -> None:
    index = PlainInPlace.build([subscription("s1", "v = 1"), subscription("s2", "v = 1")])
    index.change_all([Change(index.oldest_version, [subscription("s1", "v = 2")], {"s2"})])
    assert index.stats()["own_row_count"] == 1
    index.check()


def test_filing_in_place_and_with_the_companion() -> None:
    index = PlainInPlace.build([subscription("s1", "v = 1"), subscription("s2", "v = 1 OR w = 1")])
    index.add(subscription("s3", "v = 1"))
    index.add(subscription("s4", "v = 1 OR w = 1"))
    assert [index.filing_of(name) for name in ("s1", "s2", "s3", "s4")] == [
        "among the plain rows",
        "with the companion, under v = 1, or w = 1",
        "among the plain rows",
        "among the newest: it is tried on every event, until there are many of them",
    ]


def test_versions_of_the_module_docstring() -> None:
    index = PSTHash.build([])
    index.add(subscription("s1", "v = 1"))
    index.add(subscription("s2", "v = 1"))
    index.add(subscription("s1", "v = 1 AND w = 2"))
    index.remove("s2")
    event = {"v": 1, "w": 2}
    found = [index.match(encode([event], index.vocabulary), NOW, version) for version in range(5)]
    assert [one.row.tolist() for one in found] == [[], [0], [0, 1], [1, 2], [2]]


def test_a_batch_of_changes_may_share_one_version() -> None:
    index = PSTHash.build(numbered(2), version=7)
    index.add(subscription("a", "v = 0"), version=9)
    index.add(subscription("b", "v = 0"), version=9)
    assert index.remove("n0", version=9)
    assert matched(index, {"v": 0}, 7) == matched(index, {"v": 0}, 8) == ["n0"]
    assert matched(index, {"v": 0}, 9) == ["a", "b"]


def test_what_lives_and_dies_at_one_version_is_never_seen() -> None:
    index = PSTHash.build([])
    index.add(subscription("a", "v = 0"), version=3)
    index.remove("a", version=3)
    assert [matched(index, {"v": 0}, version) for version in range(4)] == [[]] * 4


def test_unknown_versions_are_refused() -> None:
    index = PSTHash.build(numbered(1), version=5)
    index.add(subscription("a", "v = 0"))
    with pytest.raises(ValueError, match="version 7 is not known, only 5 to 6"):
        matched(index, {"v": 0}, 7)
    with pytest.raises(ValueError, match="version 4 is not known"):
        matched(index, {"v": 0}, 4)
    with pytest.raises(ValueError, match="version 5 is older than the newest, 6"):
        index.add(subscription("b", "v = 0"), version=5)
    index.merge()
    with pytest.raises(ValueError, match="only 6 to 6"):
        matched(index, {"v": 0}, 5)


def test_recent_segments_stay_few_and_the_base_is_left_alone() -> None:
    index = PSTHash.build(numbered(1_000))
    base = index._state.base_segment
    for one in numbered(3_000, first=1_000):
        index.add(one)
    stats = index.stats()
    assert stats["segment_count"] <= 5
    assert stats["tail_row_count"] <= recent_rows.TAIL_ROWS_MAX
    assert index._state.base_segment is base
    assert matched(index, {"v": [1, 999, 1_000, 3_999]}) == ["n1", "n1000", "n3999", "n999"]
    index.check()
    index.merge()
    assert index.stats()["segment_count"] == 1
    assert matched(index, {"v": [1, 999, 1_000, 3_999]}) == ["n1", "n1000", "n3999", "n999"]
    index.check()


@pytest.mark.parametrize("updatable", [PSTHash, PlainInPlace])
def test_a_tail_that_many_events_have_met_becomes_a_segment(
    updatable: type[Updatable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_rows, "TAIL_ROWS_MAX", 2_048)
    index = updatable.build([])
    index.add_all([subscription(f"n{number}", f"v = {number} OR w = 1") for number in range(100)])
    few = encode([{"v": number} for number in range(100)], index.vocabulary)
    assert index.match(few, NOW).row.size == 100
    assert index.stats()["tail_row_count"] == 100, "few events do not pay for a segment"
    many = recent_rows.TESTS_A_BUILD // 100 + recent_rows.TESTS_A_ROW + 1
    batch = encode([{"v": number % 100} for number in range(many)], index.vocabulary)
    assert index.match(batch, NOW).row.size == many
    assert index.stats()["tail_row_count"] == 0
    assert matched(index, {"v": 7}) == ["n7"]
    index.check()
    index.remove("n7")
    assert matched(index, {"v": 7}) == []


def test_rows_that_died_long_ago_leave_their_segments() -> None:
    index = PSTHash.build([])
    for round_ in range(5):
        index.add_all(numbered(100))
        index.oldest_version = index.version
        assert len(index) == 100, round_
    assert index.stats()["filing_count"] <= 200
    index.check()


def test_a_row_keeps_its_meaning_while_others_come_and_go() -> None:
    index = PSTHash.build(numbered(3))
    before = index.match(encode([{"v": [1, 2]}], index.vocabulary), NOW)
    index.add_all(numbered(200, first=10))
    index.remove("n1")
    assert index.ids_of(before.row.tolist()) == ["n1", "n2"]


def test_a_filter_that_cannot_be_compiled_changes_nothing() -> None:
    index = PSTHash.build(numbered(1))
    index.add(subscription("fine", "v = 0"))

    class Broken:
        id, attachment = "broken", b""

        @property
        def filter(self) -> Filter:
            raise ValueError("no such filter")

    with pytest.raises(ValueError, match="no such filter"):
        index.add_all([subscription("n9", "v = 0"), Broken()])  # type: ignore[list-item]
    assert matched(index, {"v": 0}) == ["fine", "n0"]
    index.add_all(numbered(100, first=100))
    index.check()
    assert matched(index, {"v": 0}) == ["fine", "n0"]
    index.merge()
    assert matched(index, {"v": 0}) == ["fine", "n0"]


def test_events_decoded_before_a_change_are_decoded_again() -> None:
    index = PSTHash.build([])
    events = encode([{"a": "x"}], index.vocabulary)
    index.add(subscription("s", "a = 'x'"))
    assert index.ids_by_event(index.match(events, NOW)) == [["s"]]


def test_a_refused_event_matches_nothing() -> None:
    index = PSTHash.build([subscription("s", "MISSING a"), subscription("r", "NOT a MATCHES 'x'")])
    index.add(subscription("t", "MISSING b"))
    payloads = [b'{"a": 1}', b"[", b"{}"]
    events, rejected = decode_payloads(payloads, index.vocabulary)
    assert [row for row, _ in rejected] == [1]
    assert index.ids_by_event(index.match(events, NOW)) == [["t"], [], ["s", "t"]]


def test_opaque_filters_survive_a_snapshot(tmp_path: Path) -> None:
    texts = {
        "regex": "a MATCHES '^x+$' AND b = 1",
        "cidr": "a IN CIDR '10.0.0.0/8'",
        "now": "a > NOW() - 5m",
        "element": "items[sku = 'k' AND count > 2]",
    }
    index = PSTHash.build([subscription(*one) for one in texts.items()])
    index.save(tmp_path / "s")
    opened = PSTHash.open(tmp_path / "s")
    event = {"a": ["xx", "10.1.2.3", "2023-11-14T22:13:20Z"], "b": 1}
    assert matched(opened, event) == ["cidr", "now", "regex"]
    assert matched(opened, {"items": [{"sku": "k", "count": 1}, {"sku": "k", "count": 3}]}) == [
        "element"
    ]
    assert matched(opened, {"items": [{"sku": "k"}, {"count": 3}]}) == []


def test_merging_keeps_one_of_equal_predicates() -> None:
    texts = [
        "v = 1 AND w IN (1, 'x')",
        "w IN (1, 'x', 'y') AND t LIKE 'a%b'",
        "t LIKE 'a%b' AND v = 1",
        "NOT (w IN (1, 'x') OR t LIKE 'a%c')",
    ]
    index = PSTHash.build(subscription(f"old{at}", text) for at, text in enumerate(texts))
    predicate_count = len(index._state.base.predicates)
    for at, text in enumerate(texts):
        index.add(subscription(f"new{at}", f"({text}) AND EXISTS v"))
    index.merge()
    index.check()
    assert len(index._state.base.predicates) == predicate_count + 1
    event = {"v": 1, "w": "x", "t": "ab"}
    assert matched(index, event) == ["new0", "new1", "new2", "old0", "old1", "old2"]
    assert matched(index, {"v": 2, "w": "z", "t": "b"}) == ["new3", "old3"]


def test_saving_neither_merges_nor_renumbers(tmp_path: Path) -> None:
    index = PSTHash.build(numbered(5))
    index.add(subscription("a", "v = 1"))
    index.remove("n0")
    rows = index.match(encode([{"v": 1}], index.vocabulary), NOW).row.tolist()
    index.save(tmp_path / "s")
    assert index.ids_of(rows) == ["n1", "a"]
    assert matched(index, {"v": 0}, 0) == ["n0"]
    opened = PSTHash.open(tmp_path / "s")
    assert (len(opened), opened.version) == (5, index.version)
    assert matched(opened, {"v": [0, 1]}) == ["a", "n1"]


def test_an_opened_index_changes_as_any_other_and_never_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    PSTHash.build(numbered(300)).save(path)
    content = path.read_bytes()
    opened = PSTHash.open(path)
    assert opened.remove("n7")
    assert not opened.remove("n7")
    opened.add(subscription("n8", "v = 7"))
    opened.add(subscription("other", "new.name = 'a new word' OR v < 1"))
    opened.check()
    assert matched(opened, {"v": [7, 8], "new": {"name": "a new word"}}) == ["n8", "other"]
    assert path.read_bytes() == content


UPDATABLE = [kind for kind in ALGORITHMS.values() if issubclass(kind, Updatable)]
VARIED = (
    "a = 1 AND b IN (1, 2, 3)",
    "s LIKE 'x%' OR s LIKE '%y' OR s LIKE '%z%'",
    "s IN ('one', 'two') AND NOT t = 'three'",
    "a BETWEEN 1 AND 9 OR MISSING u.v.w",
    "s MATCHES 'ab+c' AND a > 2.5",
    "s > 'm' AND s < 'q' AND a != 7",
    "TRUE",
)


@pytest.mark.parametrize("algorithm", UPDATABLE, ids=lambda kind: kind.name)
def test_equal_subscriptions_give_equal_files(tmp_path: Path, algorithm: type[Updatable]) -> None:
    """Whatever seeds the processes that built them have drawn."""
    rows = [subscription(f"s{at}", VARIED[at % len(VARIED)]) for at in range(200)]
    contents = []
    for number in range(2):
        index = algorithm.build(rows[:150])
        index.add_all(rows[100:])
        index.remove("s3")
        index.save(tmp_path / str(number), {"lineage": "one"})
        contents.append((tmp_path / str(number)).read_bytes())
        opened = algorithm.open(tmp_path / str(number))
        opened.save(tmp_path / "again", {"lineage": "one"})
        contents.append((tmp_path / "again").read_bytes())
    assert len(set(contents)) == 1
    index.save(tmp_path / "other", {"lineage": "two"})
    seeds = [Vocabulary.from_arrays(vocabulary_in(tmp_path / name)) for name in ("0", "other")]
    assert seeds[0].columns().seed != seeds[1].columns().seed, (
        "a lineage keeps its hashes to itself"
    )


def vocabulary_in(path: Path) -> Mapping[str, NDArray[Any]]:
    return under_prefix("vocabulary/", open_snapshot(path)[1])


def test_a_snapshot_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    class Other(PSTHash):
        name = "other"

    Other.build([]).save(tmp_path / "s")
    with pytest.raises(SnapshotError, match="written by other, not by psthash"):
        PSTHash.open(tmp_path / "s")


def test_filings_in_words() -> None:
    index = PSTHash.build([subscription("s", "a = 1 AND b > 2")])
    assert index.filing_of("s") == "under a = 1 with b from 3 up to any"
    index.add(subscription("t", "c = 'x'"))
    assert "tried on every event" in index.filing_of("t")
    with pytest.raises(KeyError, match="no subscription 'u'"):
        index.filing_of("u")


def test_readers_see_whole_versions_while_a_writer_writes() -> None:
    """At every version exactly one of n subscriptions to the same value is alive."""
    index = PSTHash.build([subscription("s", "v = 1 AND w = 0")])
    events = encode([{"v": 1, "w": list(range(400))}], index.vocabulary)
    problems: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            matches = index.match(events, NOW)
            if matches.row.size != 1:
                problems.append(matches)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for value in range(1, 300):
        index.add(subscription("s", f"v = 1 AND w = {value}"))
    done.set()
    for reader in readers:
        reader.join()
    assert not problems


def test_what_comes_before_a_change_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_rows, "TAIL_ROWS_MAX", 0)
    for kind in (PSTHash, PlainInPlace):
        index = kind.build(numbered(1))
        good = Change(2, [subscription("a", "v = 0")], ["n0"])
        too_old = Change(1, [subscription("b", "v = 0")])
        with pytest.raises(ValueError, match="version 1 is older than the newest, 2"):
            index.change_all([good, too_old])
        index.change_all([Change(3, [subscription("c", "v = 0")])])
        assert [matched(index, {"v": 0}, version) for version in range(4)] == [
            ["n0"],
            ["n0"],
            ["a"],
            ["a", "c"],
        ]
        index.check()
