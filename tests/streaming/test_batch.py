"""A batch whose epoch is lost under it: matched at another one, where that is safe and of use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from streaming.batch import BatchRunner
from streaming.drift import EventWatch
from streaming.metrics import Metrics
from streaming.packing import Output
from streaming.pins import Pin, PinLog
from streaming.sink import Sink
from streaming.tail import Head

PIN = Pin(7, 90, "lost", "2026-01-01T00:00:00Z", {}, {"events": {0: 5}})
FRAME = cast(DataFrame, None)


class Matching:
    """A runner whose workers reach some epochs only."""

    def __init__(self, folder: Path, head: Head, reachable: set[int]) -> None:
        self.pins = PinLog(folder, 10)
        self.pins.pin(PIN)
        watch = EventWatch(folder, Metrics(), lambda: None)
        sink = cast(Sink, None)
        self.runner = BatchRunner(lambda: head, self.pins, sink, Metrics(), watch, folder)
        self.asked: list[int] = []
        self._reachable = reachable
        cast(Any, self.runner)._match_at = self.match_at

    def match_at(self, frame: DataFrame, pin: Pin) -> list[Output]:
        self.asked.append(pin.epoch)
        if pin.epoch not in self._reachable:
            raise RuntimeError(f"RefreshError: epoch {pin.epoch} cannot be reached")
        return []

    def match(self, is_replay: bool) -> list[Output]:
        return self.runner._match(FRAME, PIN, is_replay)


@pytest.mark.parametrize("is_replay", [True, False])
def test_a_lost_epoch_is_pinned_anew(tmp_path: Path, is_replay: bool) -> None:
    matching = Matching(tmp_path, Head(66, "new"), {66})
    assert matching.match(is_replay) == []
    assert matching.asked == [90, 66]
    pinned = matching.pins.find(7)
    assert pinned is not None
    assert (pinned.epoch, pinned.lineage, pinned.end) == (66, "new", PIN.end)


def test_the_same_epoch_is_not_tried_again(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(90, "lost"), set())
    with pytest.raises(RuntimeError, match="cannot be reached"):
        matching.match(is_replay=False)
    assert matching.asked == [90]
    assert matching.pins.find(7) == PIN


def test_another_failure_ends_the_query(tmp_path: Path) -> None:
    matching = Matching(tmp_path, Head(66, "new"), {66})

    def fail(frame: DataFrame, pin: Pin) -> list[Output]:
        raise RuntimeError("out of memory")

    cast(Any, matching.runner)._match_at = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        matching.match(is_replay=True)
    assert matching.pins.find(7) == PIN
