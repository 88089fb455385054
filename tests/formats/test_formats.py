"""Files that an older release wrote are read, or refused and built anew; later ones are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.checker import check
from deploy.environment import UserError
from deploy.history import Record as Kept
from deploy.history import read_history
from deploy.state import read_state
from index.registry import get
from index.snapshot import SnapshotError
from store.memory import MemoryStore
from streaming.changes import ChangesMissing, ChangesReader, ChangesWriter, decode_entry, files_of
from streaming.metrics import Metrics
from streaming.packing import Output
from streaming.pins import FOLDER as PINS
from streaming.pins import Pin, PinError, PinLog
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.settings import StreamingSettings
from streaming.snapshot_files import SnapshotFile, find_snapshots, open_index, updatable
from streaming.snapshots import build_from_files, build_from_store
from streaming.source import planned_offsets
from streaming.tail import Tail
from streaming.target import FORMAT_VERSION as TARGETS
from tests.formats.kept import (
    FORMER_SNAPSHOTS,
    V1,
    copy_deployment,
    entries_of,
    kept_history,
    read_dump,
    records_of,
    store_of,
    subscribed,
    told_by,
    unfinished,
)
from tests.streaming.records import Record, batch_of, match

ALGORITHM = "herald"
FORMER = {
    "1": FORMER_SNAPSHOTS / "format-1.herald",
    "2": FORMER_SNAPSHOTS / "format-2.herald",
    "3": V1 / "snapshots" / "snapshot-00000000000000000006.herald",
    "3-first": FORMER_SNAPSHOTS / "format-3-first.herald",
}
"""By version; of 3 there were two layouts, which is why there is a 4."""


@pytest.fixture
def deployment(tmp_path: Path) -> tuple[Path, Path]:
    return copy_deployment(tmp_path)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, MemoryStore], Tail]]:
    """A driver's tail on a folder, which builds snapshots in this process."""
    tails: list[Tail] = []

    def begin(folder: Path, store: MemoryStore) -> Tail:
        def spawn(tail: Tail, arguments: list[str]) -> Any:
            return _Built(*build_from_store(IndexOptions(ALGORITHM, str(folder)), store, "test"))

        monkeypatch.setattr(Tail, "_spawn", spawn)
        settings = StreamingSettings(snapshot_dir=folder, algorithm=ALGORITHM)
        tails.append(Tail(lambda: store, settings, Metrics(), lambda: None))
        tails[-1].begin()
        return tails[-1]

    yield begin
    for tail in tails:
        tail.stop()


class _Built:
    """A snapshot process that has ended."""

    returncode = 0

    def __init__(self, found: SnapshotFile, lineage: str) -> None:
        self._output = orjson.dumps({"epoch": found.epoch, "lineage": lineage})

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        return self._output, None


def told_at(snapshots: Path, pin: Pin) -> dict[str, object]:
    """What a worker of today tells of the unfinished batch, by the ids of notifications."""
    live = LiveIndex(IndexOptions(ALGORITHM, str(snapshots)))
    live.reach(pin.epoch, pin.lineage)
    whole = Output()
    for partition, end in pin.end["events"].items():
        first = pin.start["events"].get(partition, 0)
        records = [
            Record(event.value, event.headers, event.key, event.topic, event.partition)
            for event in kept_history().events
            if event.partition == partition and first <= event.offset < end
        ]
        found = match(
            live,
            batch_of(*records, first_offset=first),
            epoch=pin.epoch,
            lineage=pin.lineage,
            now=pin.now,
        )
        whole.notify(*(getattr(found.output, name) for name in ("keys", "values", "ids", "kinds")))
    return {
        name.decode(): (key, orjson.loads(value))
        for name, key, value in zip(whole.ids, whole.keys, whole.values, strict=True)
    }


def newest() -> tuple[int, str]:
    """The newest epoch of the kept log, and its lineage."""
    entry = entries_of(read_dump())[-1]
    return entry.epoch, entry.lineage


def told_then(pin: Pin) -> dict[str, object]:
    """What the former release told of it."""
    notifications = kept_history().notifications
    ids = told_by(pin, notifications)
    return {
        name: (one.key, orjson.loads(one.value or b""))
        for one in notifications
        if (name := str(one.header("ce_id"))) in ids
    }


class TestTheFirstRelease:
    """tests/formats/v1: a driver was killed between a batch's output and its commit.

    Its snapshot is of format 3; where a test is of the files beside it, one of today is there.
    """

    @pytest.fixture
    def snapshots(self, deployment: tuple[Path, Path]) -> Path:
        _, snapshots = deployment
        (kept,) = find_snapshots(snapshots)
        log = snapshots.with_name("log")
        entries = entries_of(read_dump())[: kept.epoch]
        ChangesWriter(log, 0, "").append(entries)
        options = IndexOptions(ALGORITHM, str(log))
        today = build_from_files(options, kept.epoch, entries[-1].lineage)
        shutil.copy(today.path, kept.path)
        return snapshots

    def test_the_pin_of_the_unfinished_batch(self, deployment: tuple[Path, Path]) -> None:
        checkpoint, _ = deployment
        pin = unfinished(checkpoint)
        assert not (checkpoint / "commits" / str(pin.batch)).exists(), "Spark replays it"
        assert planned_offsets(checkpoint, pin.batch) == pin.end
        assert planned_offsets(checkpoint, pin.batch - 1) == pin.start
        again = PinLog(checkpoint, 100).pin(Pin(pin.batch, 1, "", pin.now, {}, {}))
        assert again == pin
        lineages = {entry.epoch: entry.lineage for entry in entries_of(read_dump())}
        assert lineages[pin.epoch] == pin.lineage
        assert max(lineages) > pin.epoch, "subscriptions have changed since"

    def test_log_entries_become_subscriptions(self) -> None:
        dump = read_dump()
        entries = entries_of(dump)
        assert subscribed(entries) == records_of(dump)
        assert {tenant for tenant, _ in records_of(dump)} == {"acme", "globex"}

    def test_changes_lead_to_the_pinned_epoch(
        self, deployment: tuple[Path, Path], snapshots: Path
    ) -> None:
        pin = unfinished(deployment[0])
        assert find_snapshots(snapshots)[-1].epoch < pin.epoch
        told = told_at(snapshots, pin)
        assert told == told_then(pin)
        assert len(told) >= 6

    def test_the_driver_goes_on_where_the_files_end(
        self,
        deployment: tuple[Path, Path],
        snapshots: Path,
        start: Callable[[Path, MemoryStore], Tail],
    ) -> None:
        checkpoint, _ = deployment
        names = {path.name for path in snapshots.iterdir()}
        entries = entries_of(read_dump())
        tail = start(snapshots, store_of(entries))
        assert tail.head == (entries[-1].epoch, entries[-1].lineage)
        assert names <= {path.name for path in snapshots.iterdir()}, "nothing was thrown away"
        assert told_at(snapshots, unfinished(checkpoint)) == told_then(unfinished(checkpoint))

    def test_the_history_is_judged(self) -> None:
        verdict = check(kept_history())
        assert verdict.holds, verdict.to_json()
        assert verdict.notifications == len(kept_history().notifications) > 10
        assert verdict.batches >= 2

    def test_the_state_of_the_stack_is_known(self, tmp_path: Path) -> None:
        shutil.copy(V1 / "stack.json", tmp_path)
        state = read_state(tmp_path)
        assert state is not None
        assert set(state.services) == {"kafka", "valkey", "driver"}


@pytest.mark.parametrize("version", FORMER)
class TestAFormerSnapshot:
    """In the place of the kept one: the same subscriptions at the same epoch, in an older format"""

    @pytest.fixture
    def snapshots(self, deployment: tuple[Path, Path], version: str) -> Path:
        _, snapshots = deployment
        (found,) = find_snapshots(snapshots)
        found.path.write_bytes(FORMER[version].read_bytes())
        return snapshots

    def test_it_is_refused_by_its_version(self, snapshots: Path, version: str) -> None:
        (found,) = find_snapshots(snapshots)
        with pytest.raises(
            SnapshotError, match=f"format {version[0]}, but only .* delete the file"
        ):
            open_index(found, updatable(get(ALGORITHM)))

    def test_the_whole_log_leads_to_the_pinned_epoch(
        self,
        deployment: tuple[Path, Path],
        snapshots: Path,
        start: Callable[[Path, MemoryStore], Tail],
    ) -> None:
        pin = unfinished(deployment[0])
        start(snapshots, store_of(entries_of(read_dump())))
        assert find_snapshots(snapshots) == []
        assert told_at(snapshots, pin) == told_then(pin)

    def test_without_it_the_pinned_epoch_is_out_of_reach_and_never_guessed(
        self,
        deployment: tuple[Path, Path],
        snapshots: Path,
        start: Callable[[Path, MemoryStore], Tail],
    ) -> None:
        """The batch is then pinned anew; see test_batch.py."""
        pin = unfinished(deployment[0])
        entries = entries_of(read_dump())
        store = store_of(entries)
        store.report_snapshot(1)
        store.trim()
        tail = start(snapshots, store)
        newest = entries[-1]
        assert tail.head == (newest.epoch, newest.lineage)
        assert [found.epoch for found in find_snapshots(snapshots)] == [newest.epoch]
        live = LiveIndex(IndexOptions(ALGORITHM, str(snapshots)))
        with pytest.raises(RefreshError):
            live.reach(pin.epoch, pin.lineage)
        live.reach(*tail.head)
        enabled = [one for one in subscribed(entries).values() if one.enabled]
        assert live.facts()["subscription_count"] == len(enabled)


class TestALaterRelease:
    """What it wrote is refused with its version, or built anew where that is possible."""

    def test_a_pin(self, deployment: tuple[Path, Path]) -> None:
        checkpoint, _ = deployment
        pin = unfinished(checkpoint)
        path = checkpoint / PINS / f"{pin.batch}.json"
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"v": 2, "more": 1}))
        with pytest.raises(PinError, match=rf"{path.name} has format 2, but only 1 .* later"):
            unfinished(checkpoint)

    @pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
    def test_changes(
        self,
        deployment: tuple[Path, Path],
        start: Callable[[Path, MemoryStore], Tail],
        which: int,
    ) -> None:
        _, snapshots = deployment
        _, path = files_of(snapshots)[-1]
        lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        lines[which] |= {"v": 2, "more": 1}
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        with pytest.raises(ValueError, match="format 2"):
            decode_entry(orjson.dumps(lines[which]))
        with pytest.raises(ChangesMissing, match="format 2"):
            list(ChangesReader(snapshots).read(lines[0]["epoch"] - 1, lines[-1]["epoch"]))
        if which == -1:
            with pytest.raises(ChangesMissing, match="format 2"):
                ChangesWriter.resume(snapshots)
        entries = entries_of(read_dump())
        tail = start(snapshots, store_of(entries))
        live = LiveIndex(IndexOptions(ALGORITHM, str(snapshots)))
        live.reach(*tail.head)
        assert live.epoch == entries[-1].epoch

    def test_targets_in_a_snapshot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ChangesWriter(tmp_path, 0, "").append(entries_of(read_dump()))
        found = build_from_files(IndexOptions(ALGORITHM, str(tmp_path)), *newest())
        kind = updatable(get(ALGORITHM))
        assert open_index(found, kind)[0].meta["targets"] == TARGETS
        monkeypatch.setattr("streaming.snapshot_files.FORMAT_VERSION", TARGETS + 1)
        with pytest.raises(SnapshotError, match="targets of format 1, but only 2"):
            open_index(found, kind)

    def test_a_history(self, tmp_path: Path) -> None:
        path = tmp_path / "history.jsonl"
        run, *lines = (V1 / "history.jsonl").read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([run.replace(b'"v":1', b'"v":2'), *lines]))
        with pytest.raises(UserError, match="format 2, but only 1 is known"):
            read_history(path)

    def test_a_notification(self) -> None:
        history = kept_history()
        last = history.notifications[-1]
        headers = tuple(
            (name, b"herald.match.v2" if name == "ce_type" else value)
            for name, value in last.headers
        )
        history.notifications[-1] = Kept(*last[:4], headers, last.value)
        verdict = check(history)
        assert verdict.counts["false"] == 1
        assert "herald.match.v2" in verdict.examples["false"][0]
