"""A stranger is never killed, and nothing of ours is left, however it was started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.processes import (
    SERVICE_MARK,
    STACK_MARK,
    ProcessRecord,
    marked,
    spawn,
    start_time,
    stop,
    sweep,
)

WAIT_S = 20.0


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s"
        time.sleep(0.01)


@pytest.fixture
def stack_id() -> str:
    return uuid.uuid4().hex


def marks(stack_id: str, service: str) -> dict[str, str]:
    return {**os.environ, STACK_MARK: stack_id, SERVICE_MARK: service}


def test_a_reused_process_id_is_another_process(tmp_path: Path, stack_id: str) -> None:
    child = spawn(["sleep", "60"], marks(stack_id, "a"), tmp_path / "log", tmp_path)
    record = ProcessRecord.of(child.pid)
    assert record is not None and record.is_alive()
    boot, _, tick = record.started.rpartition(":")
    earlier = replace(record, started=f"{boot}:{int(tick) - 1}")
    assert not earlier.is_alive()
    assert not earlier.send(signal.SIGKILL)
    assert child.poll() is None
    assert record.send(signal.SIGKILL)
    child.wait(WAIT_S)
    assert not record.is_alive()
    assert not record.send(signal.SIGKILL)


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen(["true"])
    await_true(lambda: start_time(child.pid) is None)
    child.wait()


def test_a_program_name_may_hold_blanks_and_parentheses(tmp_path: Path) -> None:
    odd = tmp_path / ") S (1 2"
    shutil.copy(shutil.which("sleep") or "", odd)
    child = subprocess.Popen([odd, "60"])
    try:
        record = ProcessRecord.of(child.pid)
        assert record is not None
        assert record.started.rpartition(":")[2].isdigit()
    finally:
        child.kill()
        child.wait()


def test_a_child_dies_with_its_killed_parent(tmp_path: Path, stack_id: str) -> None:
    program = textwrap.dedent("""
        import os, sys, time
        from pathlib import Path
        from deploy.processes import spawn
        folder = Path(sys.argv[1])
        child = spawn(["sleep", "60"], os.environ, folder / "log", folder)
        print(child.pid, flush=True)
        time.sleep(60)
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env=marks(stack_id, "a"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert ProcessRecord.of(child) is not None
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await_true(lambda: ProcessRecord.of(child) is None)


def test_marks_find_a_grandchild_in_a_session_of_its_own(tmp_path: Path, stack_id: str) -> None:
    command = ["sh", "-c", "setsid sleep 60 & setsid sleep 60 & wait"]
    child = spawn(command, marks(stack_id, "a"), tmp_path / "log", tmp_path)
    other = spawn(["sleep", "60"], marks(stack_id, "b"), tmp_path / "log", tmp_path)
    await_true(lambda: len(marked(stack_id, "a")) == 3)
    stop(child, grace_s=WAIT_S)
    assert len(marked(stack_id, "a")) == 2, "they do not hear the signal to their parent"
    sweep(stack_id, "a")
    assert marked(stack_id, "a") == []
    assert other.poll() is None
    sweep(stack_id)
    assert marked(stack_id) == []
    other.wait()


def test_who_does_not_end_when_asked_is_killed(tmp_path: Path, stack_id: str) -> None:
    command = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"]
    log = tmp_path / "log"
    child = spawn(command, marks(stack_id, "a"), log, tmp_path)
    await_true(lambda: log.read_text() == "deaf\n")
    stop(child, grace_s=0.1)
    assert child.returncode == -signal.SIGKILL
    sweep(stack_id)
