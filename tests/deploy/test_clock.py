"""The clock that chaos sets: a process that runs follows each jump, and its waits stay as long."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chaos.clock import COMPILER, Clock
from deploy.environment import UserError

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no {COMPILER}")

NEAR_S = 30
FOLLOWER = """
import sys, threading, time
lock = threading.Lock()
lock.acquire()
for line in sys.stdin:
    steady = time.monotonic()
    threading.Event().wait(0.05)
    lock.acquire(timeout=0.05)
    print(time.time(), time.monotonic() - steady, flush=True)
"""


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


@pytest.fixture
def follower(clock: Clock) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    ) as process:
        yield process
        process.kill()


def told_by(process: subprocess.Popen[str]) -> tuple[float, float]:
    """How far its clock is from ours, and how long it waited for a tenth of a second."""
    assert process.stdin is not None and process.stdout is not None, "they are pipes"
    process.stdin.write("now\n")
    process.stdin.flush()
    at, waited = map(float, process.stdout.readline().split())
    return at - time.time(), waited


def test_a_process_that_runs_follows_each_jump(
    clock: Clock, follower: subprocess.Popen[str]
) -> None:
    for seconds in (0.0, 3600.0, -3600.25, 0.0):
        clock.set(seconds)
        apart, waited = told_by(follower)
        assert abs(apart - seconds) < NEAR_S
        assert 0.09 < waited < NEAR_S


def test_a_compiler_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.chaos.clock.SOURCE", tmp_path / "missing.c")
    with pytest.raises(UserError, match=r"missing\.c cannot be compiled: "):
        Clock(tmp_path)
