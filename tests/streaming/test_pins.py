from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from index.model import Instant
from streaming.pins import FOLDER, Partly, Pin, PinError, PinLog, instant_now

PIN = Pin(7, 12, "line", "2026-01-01T00:00:00.5Z", {"e": {0: 1}}, {"e": {0: 5, 11: 2}})


def test_the_first_pin_of_a_batch_stands_for_every_replay(tmp_path: Path) -> None:
    log = PinLog(tmp_path, retained=10)
    assert log.pin(PIN) is PIN
    assert log.pin(replace(PIN, epoch=13)) == PIN
    assert PinLog(tmp_path, retained=10).pin(replace(PIN, epoch=14)) == PIN
    assert log.find(8) is None


def test_now_keeps_its_nanoseconds() -> None:
    assert replace(PIN, now=instant_now(1_500_000_000_123_456_789)).instant == Instant(
        1_500_000_000, 123_456_789
    )


def _race(folder: Path, barrier: multiprocessing.synchronize.Barrier, epoch: int) -> None:
    log = PinLog(folder, retained=10)
    barrier.wait()
    found = log.pin(replace(PIN, epoch=epoch))
    (folder / f"saw-{epoch}").write_text(str(found.epoch))


def test_of_drivers_that_race_one_wins_and_all_see_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    racers = [context.Process(target=_race, args=(tmp_path, barrier, n)) for n in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(timeout=60)
    seen = {path.read_text() for path in tmp_path.glob("saw-*")}
    assert len(list(tmp_path.glob("saw-*"))) == 4
    assert len(seen) == 1


def test_a_crash_in_the_middle_leaves_no_pin_and_no_rubbish(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    PinLog(tmp_path, retained=10)
    (folder / ".7.99.tmp").write_bytes(b'{"v":')
    log = PinLog(tmp_path, retained=10)
    assert log.find(7) is None
    assert os.listdir(folder) == []


def test_a_pin_can_be_replaced_when_the_store_lost_its_epoch(tmp_path: Path) -> None:
    log = PinLog(tmp_path, retained=10)
    log.pin(PIN)
    log.replace(replace(PIN, epoch=3))
    assert log.pin(PIN).epoch == 3


@pytest.mark.parametrize("partly", [{}, {"events": {1: (8, 3, 40)}}])
def test_only_a_pin_with_events_told_of_in_part_has_a_later_format(
    tmp_path: Path, partly: Partly
) -> None:
    pins = PinLog(tmp_path, 10)
    wanted = Pin(0, 1, "one", instant_now(0), {}, {}, partly)
    pins.pin(wanted)
    (path,) = tmp_path.glob("*/0.json")
    assert orjson.loads(path.read_bytes())["v"] == (2 if partly else 1)
    assert pins.find(0) == wanted


def test_pins_are_kept_as_long_as_the_offsets_of_their_batches(tmp_path: Path) -> None:
    log = PinLog(tmp_path, retained=3)
    for batch in range(10):
        log.pin(replace(PIN, batch=batch))
    assert sorted(int(path.stem) for path in (tmp_path / FOLDER).iterdir()) == [7, 8, 9]
    newest = log.newest()
    assert newest is not None and newest.batch == 9


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"v":1}', b'{"v":2,"batch":7}'])
def test_a_damaged_pin_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    log = PinLog(tmp_path, retained=3)
    (tmp_path / FOLDER / "7.json").write_bytes(content)
    with pytest.raises(PinError, match=r"7\.json"):
        log.pin(PIN)
