"""Scratch: what a killed driver left goes, what a running one uses stays."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from streaming.scratch import open_scratch
from streaming.settings import StreamingSettings
from streaming.source import session_options


def _dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_dead_drivers_folder_is_removed_and_others_stay(tmp_path: Path) -> None:
    dead, parent = tmp_path / str(_dead_process()), tmp_path / str(os.getppid())
    stranger = tmp_path / "notes"
    for folder in (dead, parent, stranger):
        (folder / "spark-1").mkdir(parents=True)

    own = open_scratch(tmp_path)

    assert own == tmp_path / str(os.getpid())
    assert own.is_dir()
    assert not dead.exists()
    assert (parent / "spark-1").is_dir(), "a running driver needs its files"
    assert stranger.is_dir(), "a folder that is not a driver's is nobody's to remove"


def test_a_restart_in_the_same_process_keeps_its_folder(tmp_path: Path) -> None:
    own = open_scratch(tmp_path)
    (own / "file").touch()
    assert open_scratch(tmp_path) == own
    assert (own / "file").exists()


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "spark://host:7077"])
def test_sockets_stay_short_however_long_the_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """A socket's path of more than 107 bytes ends the driver at its start."""
    monkeypatch.setenv("PYTHONPATH", "")
    scratch = tmp_path / ("deep" * 30)
    options = session_options(StreamingSettings(log_dir=tmp_path, master=master), scratch)
    assert options.get("spark.local.dir") == (str(scratch) if "local" in master else None)
    name = f".{uuid.uuid4()}.sock"
    assert len(f"{options['spark.python.unix.domain.socket.dir']}/{name}".encode()) <= 107
