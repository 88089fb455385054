"""The recorder: pins as they come and are replaced, and a log that goes back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deploy.recorder import Addresses, Recorder
from store.base import Put
from store.memory import MemoryStore
from streaming.pins import Pin, PinLog
from tests.streaming.records import equals, subscription

ADDRESSES = Addresses("127.0.0.1:1", "memory://", "events", "notifications", "dead-letters")
PINS = [
    Pin(batch, batch + 10, "one", "2026-01-01T00:00:00Z", {}, {"events": {0: batch + 1}})
    for batch in range(4)
]


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_pins_are_recorded_in_their_order_and_once(tmp_path: Path) -> None:
    first, second, copy = tmp_path / "first", tmp_path / "second", tmp_path / "copy"
    log = PinLog(first, 2)
    with Recorder(ADDRESSES, [first]) as recorder:
        for pin in PINS:
            log.pin(pin)
            await_true(lambda: recorder.pins[-1:] == [pin])  # noqa: B023
        newer = replace(PINS[-1], epoch=99)
        log.replace(newer)
        await_true(lambda: recorder.pins == [*PINS, newer])
        shutil.copytree(first, copy)
        recorder.follow(second)
        PinLog(second, 2).pin(replace(PINS[0], epoch=50))
        await_true(lambda: len(recorder.pins) == 6)
        shutil.rmtree(first)
        shutil.copytree(copy, first)
    assert recorder.pins == [*PINS, newer, replace(PINS[0], epoch=50)], "old ones are no news"


def test_a_log_that_went_back_is_recorded_from_where_it_parted() -> None:
    store, recorder = MemoryStore(), Recorder(ADDRESSES, [])
    for value in range(3):
        store.write([Put(subscription("a", equals("a", value)))])
    recorder._read_log(store)
    other = MemoryStore()
    recorder._read_log(store)
    assert [entry.epoch for entry in recorder.entries] == [1, 2, 3]
    other.write([Put(subscription("b", equals("b", 1)))])
    recorder._read_log(other)
    assert [entry.epoch for entry in recorder.entries] == [1, 2, 3, 1]
    assert len({entry.lineage for entry in recorder.entries}) >= 2
