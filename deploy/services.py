"""The four services of the stack: how each is started, when it is ready, how long it may take."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import broker, jars, valkey
from deploy.state import log_file

SERVICE_NAMES = ("valkey", "kafka", "api", "driver")
"""In the order of starting; the first two are servers, the others use them."""


@dataclass(frozen=True)
class Service:
    """One program of the stack."""

    name: str
    port: int
    command: Callable[[], list[str]]
    is_ready: Callable[[], bool]
    ready_timeout_s: float
    grace_s: float


def describe(name: str, state_dir: Path, port: int, environment: Mapping[str, str]) -> Service:
    """The service of that name, with its data below the state folder."""
    folder, log = state_dir / name, log_file(state_dir, name)
    if name == "valkey":
        url = environment["HERALD_STORE_URL"]
        return Service(
            name,
            port,
            command=lambda: valkey.prepare(folder, port),
            is_ready=lambda: listens(port) and valkey.is_ready(url),
            ready_timeout_s=60,  # it loads its log of writes first
            grace_s=10,
        )
    if name == "kafka":
        bootstrap = environment["HERALD_KAFKA_BOOTSTRAP"]
        return Service(
            name,
            port,
            command=lambda: broker.prepare(
                folder, jars.broker_dir(log_file(state_dir, "jars")), port, log
            ),
            is_ready=lambda: listens(port) and broker.is_ready(bootstrap),
            ready_timeout_s=60,
            grace_s=15,
        )
    module = {"api": "subscriptions_api", "driver": "streaming"}[name]
    return Service(
        name,
        port,
        command=lambda: [sys.executable, "-P", "-m", module],
        is_ready=lambda: answers_ready(port),
        # The driver compiles its kernels on the first start after a change of index/.
        ready_timeout_s=60 if name == "api" else 240,
        grace_s=10 if name == "api" else 20,
    )


def listens(port: int) -> bool:
    """Whether something accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers_ready(port: int) -> bool:
    """Whether GET /readyz answers 200; asked directly, since a proxy cannot reach 127.0.0.1."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
