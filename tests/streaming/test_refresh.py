from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from store.base import Change, DeleteChange, LogEntry, PutChange
from streaming import refresh
from streaming.aside import Aside, in_a_thread
from streaming.changes import ChangesWriter
from streaming.reachable import is_reachable
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.snapshot_files import KEPT, find_snapshots, remove_old, snapshot_path
from streaming.snapshots import build_from_files
from tests.streaming.records import Record, batch_of, equals, match, subscription

EVENT = batch_of(Record(b'{"a":1}'))


def put(epoch: int, name: str, value: int = 1) -> LogEntry:
    record = subscription(name, equals("a", value), revision=epoch)
    return LogEntry(epoch, (PutChange(record),), f"line{epoch}")


def gone(epoch: int, name: str) -> LogEntry:
    return LogEntry(epoch, (DeleteChange("acme", name),), f"line{epoch}")


def options_of(folder: Path) -> IndexOptions:
    return IndexOptions("psthash", str(folder))


def told(live: LiveIndex, epoch: int, lineage: str | None = None) -> list[str]:
    lineage = f"line{epoch}" if lineage is None else lineage
    return sorted(name for name, _ in match(live, EVENT, epoch=epoch, lineage=lineage).told)


def test_one_index_serves_every_epoch_it_has_passed(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y"), gone(3, "x"), put(4, "y", 9), put(5, "x")])
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 5) == ["x"]
    assert [told(live, epoch) for epoch in (4, 3, 2, 1)] == [[], ["y"], ["x", "y"], ["x"]]
    assert told(live, 0, "") == []
    assert live.reload_count == 1


def test_a_snapshot_and_the_changes_after_it_give_the_same(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y")])
    assert build_from_files(options_of(tmp_path), 2, "line2").epoch == 2
    writer.append([put(3, "z"), gone(4, "x")])
    writer.rotate(oldest_needed=2)
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 4) == ["y", "z"]
    assert live.base_epoch == 2
    assert [told(live, epoch) for epoch in (3, 2)] == [["x", "y", "z"], ["x", "y"]]


def test_a_replay_older_than_the_newest_snapshot_finds_an_older_one(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y"), put(3, "z")])
    for epoch in (1, 3):
        build_from_files(options_of(tmp_path), epoch, f"line{epoch}")
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 3) == ["x", "y", "z"]
    assert told(live, 2) == ["x", "y"]
    assert live.base_epoch == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "no snapshot"])
def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, damage: str) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y")])
    build_from_files(options_of(tmp_path), 1, "line1")
    path = build_from_files(options_of(tmp_path), 2, "line2").path
    assert told(LiveIndex(options_of(tmp_path)), 2) == ["x", "y"]  # it is marked as checked now
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    for place in range(middle, middle + 128):  # more than the gap between two arrays
        content[place] ^= 1
    path.unlink()
    path.write_bytes(
        {
            "truncated": bytes(content[:middle]),
            "flipped": bytes(content),
            "empty": b"",
            "no snapshot": b"x" * 4_096,
        }[damage]
    )
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 2) == ["x", "y"]
    assert live.base_epoch == 1


def test_a_snapshot_of_another_history_is_not_used(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "ghost")])
    build_from_files(options_of(tmp_path), 1, "line1")
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 1) == ["ghost"]
    for path in tmp_path.glob("changes-*"):
        path.unlink()
    after = ChangesWriter(tmp_path, 0, "")
    after.append([LogEntry(1, put(1, "real").changes, "other")])
    for reader in (live, LiveIndex(options_of(tmp_path))):
        assert told(reader, 1, "other") == ["real"]


def test_an_epoch_that_nothing_leads_to_is_an_error_and_never_a_guess(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x")])
    live = LiveIndex(options_of(tmp_path))
    with pytest.raises(RefreshError, match="epoch 2"):
        live.reach(2, "line2")
    with pytest.raises(RefreshError):
        live.reach(1, "another history")
    assert told(live, 1) == ["x"]
    with pytest.raises(RefreshError):
        LiveIndex(options_of(tmp_path / "nothing")).reach(1, "line1")


class Beside:
    """Successors that are prepared when it is asked for."""

    def __init__(self) -> None:
        self.begun: list[tuple[Callable[[], LiveIndex], Future[LiveIndex]]] = []

    def __call__(self, work: Callable[[], LiveIndex]) -> Future[LiveIndex]:
        future: Future[LiveIndex] = Future()
        self.begun.append((work, future))
        return future

    def finish(self) -> None:
        work, future = self.begun.pop()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)


def carrying(folder: Path, aside: Aside[LiveIndex]) -> tuple[LiveIndex, ChangesWriter]:
    """An index at epoch 3 that carries three changes, where a snapshot of epoch 2 lies."""
    writer = ChangesWriter(folder, 0, "")
    writer.append([put(1, "x"), put(2, "y"), put(3, "z")])
    live = LiveIndex(options_of(folder), aside)
    assert told(live, 2) == ["x", "y"]
    build_from_files(options_of(folder), 2, "line2")
    assert told(live, 3) == ["x", "y", "z"]
    return live, writer


@pytest.fixture
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "CHANGES_MAX", 3)


@pytest.mark.usefixtures("few_changes")
def test_a_successor_takes_over_where_many_changes_are_carried(tmp_path: Path) -> None:
    aside = Beside()
    live, writer = carrying(tmp_path, aside)
    writer.append([gone(4, "x")])
    assert told(live, 4) == ["y", "z"]
    assert (live.base_epoch, live.reload_count) == (0, 1), "it does not wait for the successor"
    aside.finish()
    writer.append([put(5, "v")])
    assert told(live, 2) == ["x", "y"], "a replay at an epoch that the successor has passed"
    assert live.base_epoch == 0
    assert told(live, 5) == ["v", "y", "z"]
    assert (live.base_epoch, live.reload_count) == (2, 2)
    assert [told(live, epoch) for epoch in (4, 3, 2)] == [["y", "z"], ["x", "y", "z"], ["x", "y"]]
    assert not aside.begun


@pytest.mark.usefixtures("few_changes")
def test_a_snapshot_that_is_far_behind_is_not_worth_a_successor(tmp_path: Path) -> None:
    aside = Beside()
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y"), put(3, "z")])
    live = LiveIndex(options_of(tmp_path), aside)
    assert told(live, 1) == ["x"]
    build_from_files(options_of(tmp_path), 1, "line1")
    assert told(live, 3) == ["x", "y", "z"]
    assert not aside.begun, "two changes would be applied again to be rid of one"
    build_from_files(options_of(tmp_path), 2, "line2")
    assert told(live, 3) == ["x", "y", "z"]
    aside.finish()
    assert told(live, 3) == ["x", "y", "z"]
    assert live.base_epoch == 2


@pytest.mark.usefixtures("few_changes")
def test_a_successor_that_cannot_be_prepared_is_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    aside = Beside()
    live, writer = carrying(tmp_path, aside)
    snapshot_path(tmp_path, 2).unlink()
    (changes,) = tmp_path.glob("changes-*")
    away = changes.rename(tmp_path / "away")
    aside.finish()
    away.rename(changes)
    writer.append([put(4, "v")])
    assert told(live, 4) == ["v", "x", "y", "z"]
    assert "stays on the snapshot of epoch 0" in caplog.text
    assert live.reload_count == 1
    assert not aside.begun


@pytest.mark.usefixtures("few_changes")
def test_a_successor_of_another_history_is_given_up(tmp_path: Path) -> None:
    aside = Beside()
    live, _ = carrying(tmp_path, aside)
    aside.finish()
    for path in tmp_path.glob("changes-*"):
        path.unlink()
    changes = (*put(3, "real").changes, *put(3, "w").changes)
    after = ChangesWriter(tmp_path, 2, "line2")
    after.append([LogEntry(3, changes, "other")])
    assert told(live, 3, "other") == ["real", "w", "x", "y"]


@pytest.mark.usefixtures("few_changes")
def test_a_successor_is_prepared_in_a_thread(tmp_path: Path) -> None:
    live, _ = carrying(tmp_path, in_a_thread)
    deadline = time.monotonic() + 60
    while live.base_epoch == 0:
        assert told(live, 3) == ["x", "y", "z"]
        assert time.monotonic() < deadline
    assert live.base_epoch == 2


def test_a_worker_that_slept_opens_the_snapshot_made_meanwhile(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x")])
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 1) == ["x"]
    writer.append([put(2, "y"), put(3, "z")])
    build_from_files(options_of(tmp_path), 2, "line2")
    assert told(live, 3) == ["x", "y", "z"]
    assert live.base_epoch == 2
    assert told(live, 1) == ["x"], "a replay of an older batch finds its way back"


def test_random_histories_against_a_dictionary(tmp_path: Path) -> None:
    """At every epoch, from whatever snapshot, exactly what the log says."""
    random_of = random.Random(11)
    expected: dict[str, int] = {}
    history: list[list[str]] = [[]]
    writer = ChangesWriter(tmp_path, 0, "")
    lives = [LiveIndex(options_of(tmp_path)) for _ in range(2)]
    for epoch in range(1, 61):
        changes: dict[str, Change] = {}
        for _ in range(random_of.randint(1, 4)):
            name = f"s{random_of.randrange(12)}"
            value = random_of.choice([1, 2])
            entry = put(epoch, name, value) if random_of.random() < 0.7 else gone(epoch, name)
            changes[name] = entry.changes[0]
        for name, change in changes.items():
            if isinstance(change, PutChange):
                expected[name] = 1 if change.record.filters == (equals("a", 1),) else 2
            else:
                expected.pop(name, None)
        writer.append([LogEntry(epoch, tuple(changes.values()), f"line{epoch}")])
        history.append(sorted(name for name, value in expected.items() if value == 1))
        if epoch % 20 == 0:
            build_from_files(options_of(tmp_path), epoch, f"line{epoch}")
            writer.rotate(oldest_needed=0)
        if epoch % 7 == 0:
            lives[1] = LiveIndex(options_of(tmp_path))
        assert told(lives[random_of.randrange(2)], epoch) == history[epoch]
        past = random_of.randrange(1, epoch + 1)
        assert told(lives[random_of.randrange(2)], past) == history[past]


def test_the_newest_snapshots_are_kept_and_the_one_a_replay_needs(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    for epoch in range(1, 8):
        writer.append([put(epoch, "x")])
        build_from_files(options_of(tmp_path), epoch, f"line{epoch}")
    remove_old(tmp_path, oldest_needed=2)
    assert [found.epoch for found in find_snapshots(tmp_path)] == [2, 5, 6, 7]
    remove_old(tmp_path, oldest_needed=7)
    assert [found.epoch for found in find_snapshots(tmp_path)] == [5, 6, 7]
    assert KEPT == 3


def test_checksums_are_computed_once_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ChangesWriter(tmp_path, 0, "").append([put(1, "x")])
    build_from_files(options_of(tmp_path), 1, "line1")
    assert told(LiveIndex(options_of(tmp_path)), 1) == ["x"]
    marks = list(tmp_path.glob("*.checked"))
    assert len(marks) == 1
    before = os.stat(marks[0]).st_mtime_ns
    assert told(LiveIndex(options_of(tmp_path)), 1) == ["x"]
    assert os.stat(marks[0]).st_mtime_ns == before
    os.utime(snapshot_path(tmp_path, 1))
    assert told(LiveIndex(options_of(tmp_path)), 1) == ["x"]
    assert os.stat(marks[0]).st_mtime_ns > before


def other(entry: LogEntry) -> LogEntry:
    """The same at its epoch in another history."""
    return LogEntry(entry.epoch, entry.changes, f"other{entry.epoch}")


def test_a_worker_does_not_go_on_from_an_epoch_that_the_store_lost(tmp_path: Path) -> None:
    """Epoch 2 was given out again before the worker looked: it must not keep the ghost."""
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "kept"), put(2, "ghost")])
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 2) == ["ghost", "kept"]
    for path in tmp_path.glob("changes-*"):
        path.unlink()
    after = ChangesWriter(tmp_path, 0, "")
    after.append([put(1, "kept"), other(put(2, "real")), other(put(3, "next"))])
    assert told(live, 3, "other3") == ["kept", "next", "real"]


def test_a_worker_has_no_older_epoch_of_another_history(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "kept"), put(2, "ghost"), put(3, "ghost too")])
    live = LiveIndex(options_of(tmp_path))
    assert told(live, 3) == ["ghost", "ghost too", "kept"]
    for path in tmp_path.glob("changes-*"):
        path.unlink()
    ChangesWriter(tmp_path, 0, "").append([put(1, "kept"), other(put(2, "real"))])
    assert told(live, 2, "other2") == ["kept", "real"]


def test_an_epoch_is_reachable_or_not_without_an_index(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([put(1, "x"), put(2, "y")])
    options = options_of(tmp_path)
    assert is_reachable(options, 2, "line2")
    assert not is_reachable(options, 2, "other2")
    assert not is_reachable(options, 3, "line3")
    path = build_from_files(options, 2, "line2").path
    writer.rotate(oldest_needed=2)
    writer.append([put(3, "z")])
    assert is_reachable(options, 3, "line3")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])
    assert not is_reachable(options, 3, "line3")
