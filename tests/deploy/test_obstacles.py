"""What keeps a stack from starting is told in one sentence, before or after the fact."""

from __future__ import annotations

import shutil
import socket
import types
from pathlib import Path

import pytest

from deploy import obstacles
from deploy.environment import UserError, free_port
from deploy.obstacles import begin_log, refuse_full_disk, refuse_taken_port, why_ended
from deploy.services import SERVICE_NAMES
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.state import read_state, state_file


def test_every_service_has_a_variable_for_its_port() -> None:
    assert set(obstacles.PORT_VARIABLES) == set(SERVICE_NAMES)
    for service, variable in obstacles.PORT_VARIABLES.items():
        field = variable.removeprefix("HERALD_").lower()
        settings = StackSettings.model_validate({field: 4711})
        assert settings.ports()[service] == 4711


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .* choose another port by HERALD_STORE"):
            refuse_taken_port("valkey", port)


def test_a_full_disk_is_told_in_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = types.SimpleNamespace(free=3 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(UserError, match=r"only 3 MB left; free at least 512 MB"):
        refuse_full_disk(tmp_path)


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("java.net.BindException: Address already in use", "another program took its port"),
        ("Bad file format reading the append only file", "log of writes is damaged"),
        ("java.lang.OutOfMemoryError: Java heap space", "too little free memory"),
        ("something new", "says why"),
    ],
)
def test_a_log_tells_why_a_service_ended(tmp_path: Path, line: str, meaning: str) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("No space left on device\n")  # of an earlier start, so it does not count
    start = begin_log(log, "kafka")
    with log.open("a") as file:
        file.write(f"{line}\n")
    assert meaning in why_ended(log, start)
    assert str(log) in why_ended(log, start)


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles, "LOG_BYTES_MAX", 10)
    log = tmp_path / "logs" / "api.log"
    begin_log(log, "api")
    begin_log(log, "api")
    assert sorted(path.name for path in log.parent.iterdir()) == ["api.1.log", "api.log"]


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    with Stack(tmp_path, services=()):
        with pytest.raises(UserError, match="a stack already runs in"):
            Stack(tmp_path, services=()).start()
        state = read_state(tmp_path)
        assert state is not None and state.phase == "ready"
    state = read_state(tmp_path)
    assert state is not None and state.phase == "stopped"
    with Stack(tmp_path, services=()):
        pass


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    state_file(tmp_path).write_text('{"stack_id": ')
    with pytest.raises(UserError, match=r"stack.json is damaged .* then delete it"):
        Stack(tmp_path, services=()).start()
    state_file(tmp_path).write_text('{"format": 0}')
    with pytest.raises(UserError, match="was written by another version"):
        Stack(tmp_path, services=()).start()


def test_a_stack_that_cannot_start_leaves_its_reason(tmp_path: Path) -> None:
    settings = StackSettings().on_free_ports().model_copy(update={"store_port": free_port()})
    with socket.socket() as server:
        server.bind(("127.0.0.1", settings.store_port))
        server.listen()
        with pytest.raises(UserError, match="is taken"):
            Stack(tmp_path, settings, {"valkey"}).start()
    state = read_state(tmp_path)
    assert state is not None and state.phase == "failed" and "is taken" in state.message
