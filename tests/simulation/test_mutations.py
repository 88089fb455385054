"""What the simulator would say if a safeguard were broken: it must find each of them missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from index import snapshot, updatable
from store.base import LogEntry
from store.errors import LogGapError
from store.memory import MemoryStore
from streaming.batch import BatchRunner
from streaming.pins import Offsets, Pin
from streaming.positions import Mark
from streaming.refresh import LiveIndex
from streaming.sink import TransactionalSink
from streaming.snapshot_files import SnapshotFile
from tests.simulation import steps
from tests.simulation.schedule import run_schedule, simulating
from tests.simulation.world import World

pytestmark = pytest.mark.large
SEEDS = 1_000
SOUND_SEEDS = 20


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with simulating() as made:
        yield made


def holds(folder: Path, faults: Collection[str]) -> bool:
    """Whether schedules with these faults alone keep all promises."""
    return not any(run_schedule(seed, folder, faults).found for seed in range(SOUND_SEEDS))


def finds(folder: Path, faults: Collection[str], *kinds: str, first: int = 0) -> bool:
    """Whether some schedule with these faults has a finding of one of these kinds.

    first   the seed to begin with: where it takes many, those before the first that had one.
    """
    for seed in range(first, first + SEEDS):
        outcome = run_schedule(seed, folder, faults)
        if outcome.counts.keys() & set(kinds):
            assert f"={seed} " in outcome.report(), "it says how to run it again"
            return True
    return False


def test_a_replay_at_the_newest_epoch_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pin_newest(self: BatchRunner, batch: int, end: Offsets) -> tuple[Pin, bool]:
        wanted = self._wanted(batch, end)
        return wanted, self._pins.pin(wanted) is not wanted

    assert holds(folder, {"kill"})
    monkeypatch.setattr(BatchRunner, "_pin", pin_newest)
    assert finds(folder, {"kill"}, "false", "lost")


def test_an_old_driver_that_may_commit_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    def unfenced(self: TransactionalSink) -> Any:
        name = f"{self._settings.query_name}-{next(numbers)}"
        options = self._producer_options() | {
            "transactional.id": name,
            "transaction.timeout.ms": self._settings.transaction_timeout_ms,
        }
        producer = self._around.producer(options)
        producer.init_transactions(1.0)
        return producer

    assert holds(folder, {"second driver"})
    monkeypatch.setattr(TransactionalSink, "_new_producer", unfenced)
    assert finds(folder, {"second driver"}, "duplicate")


def test_a_driver_that_forgets_how_far_an_event_was_told_of_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holds(folder, {"kill"})
    monkeypatch.setattr(Mark, "decode", lambda metadata: None)
    assert finds(folder, {"kill"}, "duplicate")


def test_a_pin_that_hides_what_was_told_of_before_it_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {"kill", "lost checkpoint"}
    assert holds(folder, faults)
    monkeypatch.setattr(BatchRunner, "_with_partly", lambda self, pin: pin)
    assert finds(folder, faults, "duplicate", "lost", first=110)


def test_a_gap_in_the_log_that_is_skipped_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_since = MemoryStore.read_since

    def skip_gaps(self: MemoryStore, epoch: int, *more: Any, **named: Any) -> list[LogEntry]:
        try:
            return read_since(self, epoch, *more, **named)
        except LogGapError as gap:
            return [
                LogEntry(missing, (), self._lineages[missing])
                for missing in range(gap.expected, gap.found)
            ]

    faults = {"trimmed log", "driver cut off"}
    assert holds(folder, faults)
    monkeypatch.setattr(MemoryStore, "read_since", skip_gaps)
    assert finds(folder, faults, "false", "lost")


def test_a_snapshot_with_a_wrong_bit_that_is_accepted_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_a_name(world: World, victim: SnapshotFile, content: bytes) -> int:
        """Where it does not lead a kernel out of its arrays; else in what is always checked."""
        return max(0, content.find(b'"subscription":"s') + len('"subscription":"'))

    def unchecked(path: Path, verify: bool) -> Any:
        return snapshot.open_snapshot(path, verify=False)

    faults = {"damaged snapshot", "kill"}
    monkeypatch.setattr(steps, "flipped_byte", in_a_name)
    assert holds(folder, faults)
    monkeypatch.setattr(updatable, "open_snapshot", unchecked)
    assert finds(folder, faults, "false", "lost", first=500)


def test_an_index_that_goes_on_from_a_lost_epoch_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = LiveIndex._advance

    def whatever_history(self: LiveIndex, epoch: int, lineage: str) -> bool:
        known, self.lineage = self.lineage, None  # type: ignore[assignment]
        reached = advance(self, epoch, lineage)
        self.lineage = self.lineage or known
        return reached

    assert holds(folder, {"lost tail"})
    monkeypatch.setattr(LiveIndex, "_advance", whatever_history)
    assert finds(folder, {"lost tail"}, "false", "lost")
