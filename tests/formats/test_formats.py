"""Files that an older release wrote are read, or refused and built anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from deploy.checker import check
from deploy.state import read_state
from index.registry import get
from index.snapshot import SnapshotError
from store.memory import MemoryStore
from streaming.offset_log import planned_offsets
from streaming.packing import Output
from streaming.pins import Pin, PinLog
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.snapshot_files import find_snapshots, open_index, updatable
from streaming.tail import Tail
from tests.formats.kept import (
    ALGORITHM,
    FORMER_SNAPSHOTS,
    V1,
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

FORMER = {
    "1": FORMER_SNAPSHOTS / "format-1.herald",
    "2": FORMER_SNAPSHOTS / "format-2.herald",
    "3": V1 / "snapshots" / "snapshot-00000000000000000006.herald",
    "3-first": FORMER_SNAPSHOTS / "format-3-first.herald",
    "4": FORMER_SNAPSHOTS / "format-4.herald",
}
"""By version; of 3 there were two layouts, which is why there is a 4."""


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
        self, deployment: tuple[Path, Path], renewed: Path
    ) -> None:
        pin = unfinished(deployment[0])
        assert find_snapshots(renewed)[-1].epoch < pin.epoch
        told = told_at(renewed, pin)
        assert told == told_then(pin)
        assert len(told) >= 6

    def test_the_driver_goes_on_where_the_files_end(
        self,
        deployment: tuple[Path, Path],
        renewed: Path,
        start: Callable[[Path, MemoryStore], Tail],
    ) -> None:
        checkpoint, _ = deployment
        names = {path.name for path in renewed.iterdir()}
        entries = entries_of(read_dump())
        tail = start(renewed, store_of(entries))
        assert tail.head == (entries[-1].epoch, entries[-1].lineage)
        assert names <= {path.name for path in renewed.iterdir()}, "nothing was thrown away"
        assert told_at(renewed, unfinished(checkpoint)) == told_then(unfinished(checkpoint))

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
