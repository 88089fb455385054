"""A batch whose epoch is lost under it: matched at another one, where that is safe and of use."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from streaming.batch import BatchRunner, Stopped, Told
from streaming.drift import EventWatch
from streaming.limit import BatchLimit
from streaming.metrics import Metrics
from streaming.offset_log import planned_offsets
from streaming.pace import Pace, Replanned
from streaming.packing import Output, pack
from streaming.pins import Offsets, Pin, PinLog
from streaming.positions import Mark, Positions
from streaming.sink import Sink
from streaming.tail import Head

PIN = Pin(7, 90, "lost", "2026-01-01T00:00:00Z", {}, {"events": {0: 5, 1: 9}})
FRAME = cast(DataFrame, None)


class Matching:
    """A runner whose workers reach some epochs only, and whose sink takes everything."""

    def __init__(self, folder: Path, head: Head, reachable: set[int]) -> None:
        self.pins = PinLog(folder, 10)
        self.pins.pin(PIN)
        watch = EventWatch(folder, Metrics(), lambda: None)
        self.sink = SimpleNamespace(positions=Positions({}), write=self.write, bytes_max=1)
        sink, pace = cast(Sink, self.sink), SimpleNamespace(note=self.note)
        self.runner = BatchRunner(
            lambda: head, self.pins, sink, Metrics(), watch, folder, cast(Pace, pace)
        )
        self.asked: list[int] = []
        self.noted_s: list[float] = []
        self.steps = [Positions(PIN.end)]
        self._reachable = reachable
        cast(Any, self.runner)._match_at = self.match_at

    def write(self, outputs: list[Output], reached: Positions) -> None:
        self.sink.positions = self.sink.positions.with_later(reached)

    def note(self, batch: int, end: Offsets, seconds: float) -> None:
        """Keeps what it is told: the limit of batches is another test's."""
        self.noted_s.append(seconds)

    def match_at(self, frame: DataFrame, pin: Pin) -> Told:
        self.asked.append(pin.epoch)
        if pin.epoch not in self._reachable:
            raise RuntimeError(f"RefreshError: epoch {pin.epoch} cannot be reached")
        return Told([], self.steps.pop(0))

    def match(self, is_replay: bool) -> Pin:
        return self.runner._match(FRAME, PIN, is_replay)[0]

    def run(self, frame: DataFrame = FRAME) -> None:
        (planned := self.runner._checkpoint / "offsets").mkdir()
        (planned / "7").write_text('v1\n{}\n{"events":{"0":5,"1":9}}')
        self.runner(frame, 7)


@pytest.mark.parametrize("is_replay", [True, False])
def test_a_lost_epoch_is_pinned_anew(tmp_path: Path, is_replay: bool) -> None:
    matching = Matching(tmp_path, Head(66, "new"), {66})
    pinned = matching.match(is_replay)
    assert matching.asked == [90, 66]
    assert matching.pins.find(7) == pinned
    assert (pinned.epoch, pinned.lineage, pinned.end) == (66, "new", PIN.end)
    assert not pinned.partly


def test_a_pin_says_which_event_was_told_of_in_part_before_it(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(66, "new"), {66})
    marks = {1: Mark(3, 40, 90, "lost", PIN.now), 0: Mark(1, 2, 90, "lost", PIN.now)}
    matching.sink.positions = Positions({"events": {0: 5, 1: 8}}, {"events": marks})
    pinned = matching.match(is_replay=True)
    assert pinned.partly == {"events": {1: (8, 3, 40)}}, "event 5 is of a later batch"
    assert matching.pins.find(7) == pinned


@pytest.mark.parametrize("is_own", [True, False])
def test_a_replay_notes_what_was_told_of_at_another_pin(tmp_path: Path, is_own: bool) -> None:
    """As after an older checkpoint was restored."""
    matching = Matching(tmp_path, Head(90, "lost"), {90})
    now = PIN.now if is_own else "2025-01-01T00:00:00Z"
    mark = Mark(3, 40, 90, "lost", now)
    matching.sink.positions = Positions({"events": {0: 5, 1: 8}}, {"events": {1: mark}})
    matching.run()
    pinned = matching.pins.find(7)
    assert pinned is not None
    assert pinned.partly == ({} if is_own else {"events": {1: (8, 3, 40)}})


def test_a_batch_takes_as_many_passes_as_it_needs(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(90, "lost"), {90})
    mark = Mark(1, 2, 90, "lost", PIN.now)
    matching.steps = [
        Positions({"events": {0: 5, 1: 3}}),
        Positions({"events": {0: 5, 1: 3}}, {"events": {1: mark}}),
        Positions(PIN.end),
    ]
    matching.run()
    assert matching.asked == [90, 90, 90]
    assert not matching.steps
    matching.runner(FRAME, 7)
    assert matching.asked == [90, 90, 90], "what is covered is not matched again"


def test_what_workers_take_to_reach_the_epoch_is_no_cost_of_events(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(90, "lost"), {90})
    del matching.runner.__dict__["_match_at"]  # the real one
    rows = [{"rows": 1, "refresh_s": seconds} for seconds in (50.0, 100.0)]
    packed = pa.Table.from_batches([pack(Output(), row) for row in rows])
    context = SimpleNamespace(setLocalProperty=lambda name, value: None)
    session = SimpleNamespace(sparkContext=context)
    frame = SimpleNamespace(sparkSession=session, toArrow=lambda: packed)
    matching.run(cast(DataFrame, frame))
    (noted_s,) = matching.noted_s
    assert -100.0 < noted_s < -50.0, "both waited at once"


def test_a_query_that_is_told_to_stop_ends_between_two_passes(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(90, "lost"), {90})
    matching.steps = [Positions({"events": {0: 5, 1: 3}}), Positions(PIN.end)]
    write = matching.write

    def write_and_stop(outputs: list[Output], reached: Positions) -> None:
        write(outputs, reached)
        matching.runner._stopping = True

    matching.sink.write = write_and_stop
    with pytest.raises(Stopped):
        matching.run()
    assert matching.runner.parked.is_set()
    assert len(matching.steps) == 1


def test_the_same_epoch_is_not_tried_again(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(90, "lost"), set())
    with pytest.raises(RuntimeError, match="cannot be reached"):
        matching.match(is_replay=False)
    assert matching.asked == [90]
    assert matching.pins.find(7) == PIN


def test_another_failure_ends_the_query(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(66, "new"), {66})

    def fail(frame: DataFrame, pin: Pin) -> Told:
        raise RuntimeError("out of memory")

    cast(Any, matching.runner)._match_at = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        matching.match(is_replay=True)
    assert matching.pins.find(7) == PIN


def test_a_plan_that_differs_from_its_pin_is_exchanged(tmp_path: Path) -> None:
    """As a crash leaves it between the two, or a second driver that pinned the batch first."""
    log = tmp_path / "offsets"
    log.mkdir()
    (log / str(PIN.batch)).write_text('v1\n{}\n{"events":{"0":9}}')
    metrics = Metrics()
    pins = PinLog(tmp_path, 10)
    pins.pin(PIN)
    pace = Pace(BatchLimit(10, 10, 1.0), dict, tmp_path, metrics)
    watch = EventWatch(tmp_path, metrics, lambda: None)
    sink = cast(Sink, SimpleNamespace(positions=Positions({})))
    runner = BatchRunner(lambda: Head(90, "lost"), pins, sink, metrics, watch, tmp_path, pace)
    with pytest.raises(Replanned):
        runner(FRAME, PIN.batch)
    assert planned_offsets(tmp_path, PIN.batch) == PIN.end
    assert isinstance(runner.failure, Replanned)
