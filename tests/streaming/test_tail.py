from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from store.base import Delete, Put
from store.errors import StoreUnavailable
from store.memory import MemoryStore
from streaming import bulk
from streaming.changes import ChangesReader, files_of
from streaming.metrics import Metrics
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.settings import StreamingSettings
from streaming.snapshot_files import KEPT, find_snapshots, remove_old
from streaming.snapshots import build_from_files, build_from_store
from streaming.tail import RETRY_SECONDS_MAX, Tail
from tests.streaming.records import Record, batch_of, equals, match, subscription

ALGORITHM = "psthash"
WAIT_S = 20.0


class Builder:
    """The snapshot process, run here: another process does not see a store in memory."""

    def __init__(self, store: MemoryStore, folder: Path, arguments: list[str]) -> None:
        options = IndexOptions(ALGORITHM, str(folder))
        if "--from-store" in arguments:
            built, lineage = build_from_store(options, store, "snapshot:test")
        else:
            given = dict(zip(arguments[::2], arguments[1::2], strict=True))
            lineage = given["--lineage"]
            built = build_from_files(options, int(given["--epoch"]), lineage)
        self.returncode = 0
        self._output = orjson.dumps({"epoch": built.epoch, "lineage": lineage})

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        return self._output, None

    def poll(self) -> int:
        return self.returncode

    def terminate(self) -> None:
        pass


class World:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.metrics = Metrics()
        self.pin: int | None = None
        self.tails: list[Tail] = []

        def spawn(tail: Tail, arguments: list[str]) -> Any:
            builder = Builder(self.store, folder, arguments)
            remove_old(folder, tail._oldest_asked() or 0)
            return builder

        monkeypatch.setattr(Tail, "_spawn", spawn)

    def start(self, **options: object) -> Tail:
        settings = StreamingSettings(
            snapshot_dir=self.folder,
            algorithm=ALGORITHM,
            **options,  # type: ignore[arg-type]
        )
        tail = Tail(self.connect, settings, self.metrics, lambda: self.pin)
        tail.start()
        self.tails.append(tail)
        return tail

    def connect(self) -> MemoryStore:
        """As the real one, it cannot be opened while it is away."""
        self.store.ping()
        return self.store

    def put(self, *names: str) -> int:
        operations = [Put(subscription(name, equals("a", 1))) for name in names]
        return self.store.write(operations).epoch

    def ids_at(self, tail: Tail) -> int:
        """How many subscriptions a worker has that goes to the head."""
        live = LiveIndex(IndexOptions(ALGORITHM, str(self.folder)))
        live.reach(*tail.head)
        return int(live.facts()["subscription_count"])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    for tail in made.tails:
        tail.stop()


def match_at(live: LiveIndex, tail: Tail) -> list[tuple[str, int]]:
    """Who is told of an event that every subscription here matches."""
    batch = batch_of(Record(b'{"a":1}'))
    return match(live, batch, epoch=tail.head.epoch, lineage=tail.head.lineage).told


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_a_snapshot_that_was_asked_for_is_built_with_the_next_change(world: World) -> None:
    tail = world.start()
    tail.ask_for_snapshot()
    time.sleep(0.05)
    assert find_snapshots(world.folder) == []
    epoch = world.put("s1")
    wait_for(lambda: [found.epoch for found in find_snapshots(world.folder)] == [epoch])
    epoch = world.put("s2")
    wait_for(lambda: tail.head.epoch == epoch)
    assert len(find_snapshots(world.folder)) == 1, "asked for once, built once"


def test_a_new_store_needs_no_snapshot(world: World) -> None:
    tail = world.start()
    assert tail.head == (0, "")
    assert find_snapshots(world.folder) == []
    world.put("x", "y")
    wait_for(lambda: tail.head.epoch == 1)
    assert world.ids_at(tail) == 2
    assert tail.head.lineage == world.store.lineage()[1]


def test_what_was_written_before_the_start_is_known_at_the_start(world: World) -> None:
    for name in "abc":
        world.put(name)
    assert world.start().head.epoch == 3


def test_the_reader_is_reported_at_once_and_holds_the_log_its_snapshot_needs(world: World) -> None:
    tail = world.start(snapshot_changes_min=2)
    world.put("x")
    wait_for(lambda: [reader.epoch for reader in world.store.readers()] == [1])
    world.put("y")
    wait_for(lambda: bool(find_snapshots(world.folder)))
    wait_for(lambda: tail._builder is None)
    world.put("z")
    wait_for(lambda: [reader.oldest_epoch for reader in world.store.readers()] == [2])
    assert world.store.readers()[0].name == "query:herald"
    wait_for(lambda: world.store.snapshots() == [2])
    assert world.ids_at(tail) == 3


def test_a_pin_that_may_be_replayed_holds_an_older_epoch(world: World) -> None:
    world.pin = 1
    world.start(snapshot_changes_min=2)
    world.put("x")
    world.put("y", "z")
    wait_for(lambda: [reader.epoch for reader in world.store.readers()] == [2])
    assert world.store.readers()[0].oldest_epoch == 0


def test_a_restart_goes_on_with_the_files_even_when_the_store_is_away(world: World) -> None:
    first = world.start()
    world.put("x")
    wait_for(lambda: first.head.epoch == 1)
    first.stop()
    world.store.fail(StoreUnavailable("away"))
    second = world.start()
    assert second.head.epoch == 1
    assert world.ids_at(second) == 1
    world.store.fail(None)
    world.put("y")
    wait_for(lambda: second.head.epoch == 2)
    assert world.ids_at(second) == 2


def test_a_restart_without_changes_goes_on_with_the_snapshot(world: World) -> None:
    world.put("x", "y")
    world.store.report_snapshot(1)
    world.store.trim()
    world.start().stop()
    assert [found.epoch for found in find_snapshots(world.folder)] == [1]
    before = find_snapshots(world.folder)[0].path.stat().st_ino
    world.store.fail(StoreUnavailable("away"))
    assert world.ids_at(world.start()) == 2
    assert find_snapshots(world.folder)[0].path.stat().st_ino == before


def test_a_bulk_load_takes_effect_by_a_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "WINDOW_S", 1.0)
    tail = world.start(bulk_changes_per_s=10)
    single = world.put("single")
    wait_for(lambda: tail.head.epoch == single)
    last = world.put(*(f"many-{number}" for number in range(50)))
    time.sleep(0.5)
    assert tail.head.epoch == single
    assert [reader.epoch for reader in world.store.readers()] == [single]
    wait_for(lambda: tail.head.epoch == last)
    assert [found.epoch for found in find_snapshots(world.folder)] == [last]
    assert world.ids_at(tail) == 51
    after = world.put("after")
    wait_for(lambda: tail.head.epoch == after)


def test_a_bulk_load_is_not_held_when_no_snapshot_can_be_built(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "WINDOW_S", 1.0)
    monkeypatch.setattr(Builder, "poll", lambda _: 1)
    tail = world.start(bulk_changes_per_s=10)
    last = world.put(*(f"many-{number}" for number in range(50)))
    wait_for(lambda: tail.head.epoch == last)


def test_what_comes_after_a_bulk_load_waits_for_no_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steady changes just below the limit, and snapshots that take longer than it allows for."""
    monkeypatch.setattr(Builder, "poll", lambda _: None)
    tail = world.start(bulk_changes_per_s=10)
    tail.stop()
    now = [100.0]
    tail._meter = bulk.BulkMeter(10, lambda: now[0])
    tail._held = bulk.HeldBack(10, lambda: now[0])
    newest = world.put(*(f"many-{number}" for number in range(60)))
    behind = []
    for step in range(40):
        tail.follow(0)
        assert tail.head.epoch <= newest
        behind.append(newest - tail.head.epoch)
        newest = world.put(*(f"steady-{step}-{number}" for number in range(8)))
        now[0] += 1.0
    assert max(behind[:5]) >= 5, "the load is held back, and what comes meanwhile"
    assert behind[-10:] == [0] * 10, "then each change is in effect with the next look"
    assert world.ids_at(tail) == 60 + 8 * 39


def test_epochs_held_back_follow_at_their_pace() -> None:
    now = [100.0]
    held = bulk.HeldBack(500, lambda: now[0])  # so a thousand a second
    for epoch in range(1, 21):
        held.add(epoch, f"line{epoch}", 150)
    assert held.release() is None
    now[0] += 0.4
    assert held.release() == (2, "line2")
    held.drop(5)
    now[0] += 100.0
    assert held.release() == (11, "line11"), "no more than a second's worth at once"
    held.wait()
    now[0] += 0.1
    assert held.release() is None
    now[0] += 2.0
    assert held.release() == (17, "line17") and held
    held.drop(20)
    assert not held
    held.add(21, "line21", 5_000)
    now[0] += 1.0
    assert held.release() == (21, "line21"), "a step larger than that comes, too"
    for epoch in range(22, 32):
        held.add(epoch, f"line{epoch}", 10)
    now[0] += 10.0
    assert held.release() == (31, "line31"), "small ones go together"
    assert not held


def test_the_meter_counts_the_last_seconds_only() -> None:
    now = [100.0]
    meter = bulk.BulkMeter(10, lambda: now[0])
    meter.add(int(meter.limit))
    assert not meter.is_bulk()
    meter.add(1)
    assert meter.is_bulk()
    now[0] += bulk.WINDOW_S + 0.1
    assert not meter.is_bulk()


def test_a_store_that_goes_away_stops_nothing_and_raises_an_alarm(world: World) -> None:
    tail = world.start()
    world.put("x")
    wait_for(lambda: tail.head.epoch == 1)
    world.store.fail(StoreUnavailable("away"))
    wait_for(lambda: world.metrics.registry.get_sample_value("herald_store_up") == 0)
    assert world.ids_at(tail) == 1
    world.store.fail(None)
    world.put("y")
    wait_for(lambda: tail.head.epoch == 2)
    wait_for(lambda: world.metrics.registry.get_sample_value("herald_store_up") == 1)


def test_a_log_trimmed_past_a_stopped_driver_means_a_new_snapshot(world: World) -> None:
    first = world.start()
    world.put("x")
    wait_for(lambda: first.head.epoch == 1)
    first.stop()
    world.put("y")
    world.put("z")
    world.store.forget_reader("query:herald")
    world.store.report_snapshot(3)
    assert world.store.trim().count == 3
    second = world.start()
    wait_for(lambda: second.head.epoch == 3)
    assert world.ids_at(second) == 3


def test_a_store_that_lost_its_tail_leaves_no_ghost(world: World) -> None:
    tail = world.start()
    world.put("kept")
    world.put("ghost")
    wait_for(lambda: tail.head.epoch == 2)
    before = tail.head
    world.store.lose_tail(1)
    world.put("other")
    wait_for(lambda: tail.head != before)
    assert tail.head == (2, world.store.lineage()[1])
    live = LiveIndex(IndexOptions(ALGORITHM, str(world.folder)))
    live.reach(*tail.head)
    assert sorted(name for name, _ in match_at(live, tail)) == ["kept", "other"]
    assert world.metrics.registry.get_sample_value("herald_epochs_lost_total") == 1


def test_batches_wait_while_a_lost_history_is_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are gone at once, and nothing leads to its head any more."""
    tail = world.start()
    world.put("kept")
    world.put("ghost")
    wait_for(lambda: tail.head.epoch == 2)
    begun, may_end, build = threading.Event(), threading.Event(), tail._build_from_store

    def slowly() -> tuple[int, str]:
        begun.set()
        assert may_end.wait(WAIT_S)
        return build()

    monkeypatch.setattr(tail, "_build_from_store", slowly)
    with ThreadPoolExecutor(1) as pool:
        world.store.lose_tail(1)
        assert begun.wait(WAIT_S)
        asked = pool.submit(tail.head_with_files)
        with pytest.raises(TimeoutError):
            asked.result(timeout=0.1)
        may_end.set()
        assert asked.result(timeout=WAIT_S) == world.store.lineage()
    assert world.ids_at(tail) == 1


def test_a_store_that_lost_its_tail_while_the_driver_was_down(world: World) -> None:
    first = world.start()
    world.put("kept")
    world.put("ghost")
    wait_for(lambda: first.head.epoch == 2)
    first.stop()
    world.store.lose_tail(1)
    world.put("other")
    second = world.start()
    wait_for(lambda: second.head == (2, world.store.lineage()[1]))
    assert world.ids_at(second) == 2


def test_old_changes_go_when_a_snapshot_makes_them_useless(world: World) -> None:
    tail = world.start(snapshot_changes_min=1)
    for number in range(6):
        epoch = world.put(f"s{number}")
        wait_for(lambda epoch=epoch: tail.head.epoch == epoch)  # type: ignore[misc]
        wait_for(lambda epoch=epoch: world.store.snapshots()[-1:] == [epoch])  # type: ignore[misc]
    assert files_of(world.folder)[0][0] > 0
    assert world.ids_at(tail) == 6
    assert world.store.write([Delete("acme", "s0")]).epoch == 7
    wait_for(lambda: tail.head.epoch == 7)
    assert world.ids_at(tail) == 5
    assert [entry.epoch for entry in ChangesReader(world.folder).read(6, 7)] == [7]


def test_a_head_that_is_kept_can_be_reached_until_it_is_not(world: World) -> None:
    """Workers may take minutes to start, before the first batch has a pin."""
    tail = world.start(snapshot_changes_min=1)
    build_some(world, tail, 2)
    with tail.kept_head() as head:
        build_some(world, tail, 2 * KEPT)
        live = LiveIndex(IndexOptions(ALGORITHM, str(world.folder)))
        live.reach(*head)
        assert live.epoch == head.epoch < tail.head.epoch
    build_some(world, tail, KEPT)
    with pytest.raises(RefreshError, match=f"epoch {head.epoch} cannot be reached"):
        LiveIndex(IndexOptions(ALGORITHM, str(world.folder))).reach(*head)


def build_some(world: World, tail: Tail, count: int) -> None:
    """Have so many snapshots built, each of one change more."""
    for _ in range(count):
        epoch = world.put("x")
        wait_for(lambda epoch=epoch: world.store.snapshots()[-1:] == [epoch])  # type: ignore[misc]
        wait_for(lambda: tail._builder is None)


def test_lost_snapshots_are_built_anew_at_the_start(world: World) -> None:
    first = world.start(snapshot_changes_min=1)
    world.put("x")
    wait_for(lambda: world.store.snapshots() == [1])
    world.put("y")
    wait_for(lambda: first.head.epoch == 2 and world.store.snapshots()[-1] == 2)
    first.stop()
    for path in world.folder.glob("snapshot-*"):
        path.unlink()
    second = world.start(snapshot_changes_min=1)
    wait_for(lambda: second.head.epoch == 2)
    assert world.ids_at(second) == 2


@pytest.mark.parametrize("kept_bytes", [0, 100, -1])
def test_a_damaged_snapshot_that_changes_do_not_lead_past_is_built_anew(
    world: World, kept_bytes: int
) -> None:
    world.pin = 2
    first = world.start(snapshot_changes_min=2)
    world.put("x")
    world.put("y")
    wait_for(lambda: [start for start, _ in files_of(world.folder)] == [2])
    world.put("z")
    wait_for(lambda: first.head.epoch == 3)
    first.stop()
    (damaged,) = find_snapshots(world.folder)
    damaged.path.write_bytes(damaged.path.read_bytes()[:kept_bytes])
    second = world.start(snapshot_changes_min=2)
    assert world.ids_at(second) == 3
    assert [found.epoch for found in find_snapshots(world.folder)] == [3]


def test_the_snapshot_process_is_a_module_that_can_be_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streaming.snapshots", "--help"], capture_output=True, text=True
    )
    assert "--keep-epoch" in done.stdout


def test_a_damaged_snapshot_that_all_depends_on_is_built_anew_at_the_start(world: World) -> None:
    """Else no worker would ever reach the head again, however often the driver starts."""
    first = world.start(snapshot_changes_min=1)
    world.put("x")
    wait_for(lambda: world.store.snapshots() == [1])
    wait_for(lambda: files_of(world.folder)[0][0] == 1)
    first.stop()
    (found,) = find_snapshots(world.folder)
    content = found.path.read_bytes()
    found.path.unlink()
    found.path.write_bytes(content[: len(content) // 2])
    assert world.ids_at(world.start(snapshot_changes_min=1)) == 1


def test_a_folder_that_is_lost_under_a_driver_is_made_anew(world: World) -> None:
    tail = world.start()
    world.put("x")
    wait_for(lambda: tail.head.epoch == 1)
    shutil.rmtree(world.folder)
    world.put("y")
    wait_for(lambda: tail.head.epoch == 2)
    assert world.ids_at(tail) == 2


def test_a_snapshot_that_is_lost_before_it_is_adopted_ends_nothing(world: World) -> None:
    tail = world.start()
    world.put("x")
    wait_for(lambda: tail.head.epoch == 1)
    tail.stop()
    tail._adopt_snapshot()
    assert tail.follow(0) == 0


def test_the_head_does_not_go_back_to_a_snapshot_older_than_it(world: World) -> None:
    """It was asked for before a bulk load began, and is ready in the middle of it."""
    tail = world.start()
    world.put("x")
    wait_for(lambda: tail.head.epoch == 1)
    build_from_files(IndexOptions("psthash", str(world.folder)), *tail.head)
    last = world.put("y")
    wait_for(lambda: tail.head.epoch == last)
    tail.stop()
    tail._holding = True
    tail._meter.add(int(tail._meter.limit) + 1)
    tail._adopt_snapshot()
    assert tail.head.epoch == last


def test_a_store_that_is_away_for_a_day_is_waited_for(world: World) -> None:
    tail = world.start()
    tail.stop()
    world.store.fail(StoreUnavailable("away"))
    assert tail.follow(0) < RETRY_SECONDS_MAX
    tail._failures = 20_000
    assert tail.follow(0) == RETRY_SECONDS_MAX
    world.store.fail(None)
    assert tail.follow(0) == 0
