"""Failpoints: what the setting may say, when they act, and that each has its place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.environment import REPOSITORY, child_environment
from streaming import failpoints
from streaming.failpoints import NAMES, FailpointError, arm, hit, parse
from streaming.settings import load_settings


@pytest.fixture(autouse=True)
def disarmed(tmp_path: Path) -> Iterator[None]:
    yield
    arm("", tmp_path)


def test_every_name_is_a_place_and_every_place_has_a_name() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "streaming").glob("*.py")]
    places = re.findall(r"\bhit\(\"([a-z.]+)\"\)", "\n".join(sources))
    assert set(places) == set(NAMES)


def test_nothing_happens_where_nothing_is_armed(tmp_path: Path) -> None:
    arm("", tmp_path)
    for name in NAMES:
        hit(name)


def test_a_failpoint_acts_at_each_pass_or_at_one(tmp_path: Path) -> None:
    arm("batch.pinned=raise, sink.produced=raise@2", tmp_path)
    for _ in range(2):
        with pytest.raises(FailpointError, match=r"batch\.pinned"):
            hit("batch.pinned")
    hit("sink.produced")
    with pytest.raises(FailpointError):
        hit("sink.produced")
    hit("sink.produced")
    hit("batch.matched")


def test_one_that_acts_once_in_all_remembers_over_restarts(tmp_path: Path) -> None:
    for expected in (True, False):
        arm("batch.pinned=raise@2!", tmp_path)  # as a process that starts does
        hit("batch.pinned")
        if expected:
            with pytest.raises(FailpointError):
                hit("batch.pinned")
        else:
            hit("batch.pinned")


def test_sleep_waits_so_long(tmp_path: Path) -> None:
    arm("match.begun=sleep:0.05", tmp_path)
    started = time.monotonic()
    hit("match.begun")
    assert time.monotonic() - started >= 0.05


def test_kill_ends_the_process_at_once(tmp_path: Path) -> None:
    program = "\n".join(
        [
            "from pathlib import Path",
            "from streaming.failpoints import arm, hit",
            f"arm('batch.planned=kill@2', Path({str(tmp_path)!r}))",
            "hit('batch.planned')",
            "print('once', flush=True)",
            "hit('batch.planned')",
            "print('twice', flush=True)",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "once\n")


@pytest.mark.parametrize(
    "text",
    [
        "batch.pined=kill",
        "batch.pinned=stop",
        "batch.pinned",
        "batch.pinned=kill@0",
        "batch.pinned=sleep",
        "batch.pinned=kill:3",
        "batch.pinned=kill sink.produced=kill",
    ],
)
def test_what_is_no_failpoint_is_refused_with_the_known_names(text: str) -> None:
    with pytest.raises(ValueError, match="is no failpoint") as refused:
        parse(text)
    assert all(name in str(refused.value) for name in NAMES)
    assert "kill, raise, sleep:SECONDS" in str(refused.value)


def test_a_wrong_setting_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERALD_FAILPOINTS", "nowhere=kill")
    with pytest.raises(SystemExit) as ended:
        load_settings()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "HERALD_FAILPOINTS=nowhere=kill" in told
    assert "sink.uncommitted" in told


def test_a_file_arms_what_it_says_at_the_time(tmp_path: Path) -> None:
    file = tmp_path / "failpoints"
    arm(f"@{file}", tmp_path)
    hit("batch.pinned")
    for number, text in enumerate(["batch.pinned=raise@2", "batch.pinned=raise@1"]):
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(number, number + 1))  # two writes may fall into one tick of the clock
        if number == 0:
            hit("batch.pinned")
        with pytest.raises(FailpointError):
            hit("batch.pinned")
    file.write_text("batch.pined=raise", encoding="utf-8")
    with pytest.raises(ValueError, match="is no failpoint"):
        hit("sink.produced")
    file.unlink()
    hit("batch.pinned")


def test_all_forms_are_read() -> None:
    points = parse(" match.begun=sleep:0.5@3! ,batch.planned=kill")
    assert points["match.begun"] == failpoints.Failpoint(
        "match.begun", "sleep", 0.5, at=3, once=True
    )
    assert points["batch.planned"] == failpoints.Failpoint("batch.planned", "kill")
