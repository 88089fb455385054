"""The real broker and store: a transaction, faults, and nothing left at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, Message, Producer

from deploy.environment import child_environment
from deploy.processes import marked
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.state import StackState, is_owned, read_state

pytestmark = pytest.mark.connected

WAIT_S = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, StackSettings().on_free_ports(), {"kafka", "valkey"}) as stack:
        yield stack
    assert marked(stack.stack_id) == []
    assert not is_owned(folder)


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s"
        time.sleep(0.05)


def publish(stack: Stack, value: bytes, commit: bool = True) -> None:
    """One transaction with one message."""
    producer = Producer(
        {
            "bootstrap.servers": stack.env["HERALD_KAFKA_BOOTSTRAP"],
            "transactional.id": uuid.uuid4().hex,
            "message.max.bytes": 2_000_000,
        }
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("events", value)
    producer.flush(WAIT_S)
    if commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def committed(stack: Stack, count: int) -> list[bytes]:
    """The first committed events, in no particular order."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.env["HERALD_KAFKA_BOOTSTRAP"],
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["events"])
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(values) < count and time.monotonic() < deadline:
        message: Message | None = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_a_committed_message_is_read_and_an_aborted_one_is_not(stack: Stack) -> None:
    publish(stack, b"aborted", commit=False)
    publish(stack, b"kept")
    publish(stack, b"x" * 1_000_001)
    assert sorted(committed(stack, 2), key=len)[0] == b"kept"


def test_servers_come_back_with_their_data_after_a_kill(stack: Stack) -> None:
    with redis.Redis.from_url(stack.env["HERALD_STORE_URL"]) as client:
        client.set("key", "value")
    before = stack.pid("kafka"), stack.pid("valkey")
    for name in ("kafka", "valkey"):
        stack.kill(name)
    await_true(lambda: stack.dead_services() == ["valkey", "kafka"])
    for name in ("kafka", "valkey"):
        stack.restart(name)
    assert stack.dead_services() == []
    assert not {stack.pid("kafka"), stack.pid("valkey")} & set(before)
    with redis.Redis.from_url(stack.env["HERALD_STORE_URL"]) as client:
        assert client.get("key") == b"value"
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
    assert len(committed(stack, 2)) == 2


def herald(folder: Path, *arguments: str, **ports: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with a state folder of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "deploy.cli", *arguments],
        env={**child_environment(), "HERALD_STATE_DIR": str(folder), **ports},
        capture_output=True,
        text=True,
        timeout=120,
    )


def state_of(folder: Path) -> StackState:
    state = read_state(folder)
    assert state is not None
    return state


def condition(folder: Path, name: str) -> str:
    answer = json.loads(herald(folder, "status", "--json").stdout)
    conditions = {each["name"]: str(each["condition"]) for each in answer["services"]}
    return conditions[name]


def test_up_survives_faults_and_down_leaves_nothing(tmp_path: Path) -> None:
    settings = StackSettings().on_free_ports()
    ports = {"HERALD_STORE_PORT": str(settings.store_port)}
    up = herald(tmp_path, "up", "valkey", **ports)
    try:
        assert up.returncode == 0, up.stderr
        assert f"redis://127.0.0.1:{settings.store_port}/0" in up.stdout
        assert "already running" in herald(tmp_path, "up", "valkey", **ports).stdout
        first = state_of(tmp_path)

        # A dead service is started again.
        os.kill(first.services["valkey"].pid, signal.SIGKILL)
        await_true(lambda: state_of(tmp_path).services["valkey"] != first.services["valkey"])
        await_true(lambda: condition(tmp_path, "valkey") == "ready")

        # A killed supervisor takes its services along, and says so afterwards.
        first.owner.send(signal.SIGKILL)
        await_true(lambda: marked(first.stack_id) == [])
        died = herald(tmp_path, "status")
        assert died.returncode == 1
        assert "died. The stack's owner was killed; ./herald up starts it again." in died.stdout

        # Its folder is no obstacle.
        assert herald(tmp_path, "up", "valkey", **ports).returncode == 0
        second = state_of(tmp_path)
        assert second.stack_id != first.stack_id
    finally:
        down = herald(tmp_path, "down")
    assert down.stdout == "Herald is stopped; no process is left.\n"
    assert marked(second.stack_id) == []
    assert not second.owner.is_alive()
    assert herald(tmp_path, "down").stdout == "Herald was not running.\n"
    assert "ready" in herald(tmp_path, "logs", "supervisor").stdout


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path, stack: Stack) -> None:
    taken = str(stack.settings.store_port)
    up = herald(tmp_path, "up", "valkey", HERALD_STORE_PORT=taken)
    assert (up.returncode, up.stdout) == (1, "")
    assert up.stderr.startswith(f"herald: port {taken} of 127.0.0.1, which valkey needs, is taken")
    assert up.stderr.count("\n") == 1
    assert not is_owned(tmp_path)


def test_no_java_is_said_by_the_command_that_needs_it(tmp_path: Path) -> None:
    up = herald(tmp_path, "up", "kafka", JAVA_HOME=str(tmp_path), PATH=os.environ["PATH"])
    assert up.returncode == 1
    assert "Java was not found by JAVA_HOME" in up.stderr
    assert not (tmp_path / "stack.json").exists()
