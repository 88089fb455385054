"""The four services of the stack: how each is started, when it is ready, how long it may take."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy import broker, jars, valkey
from deploy.state import log_file

SERVICE_NAMES = ("valkey", "kafka", "api", "driver")
"""In the order of starting; the first two are servers, the others use them."""

DRIVER_FENCED = 3
"""Exit code of a driver whose query another one has taken over."""

COMPILING_S_MAX = 600.0
"""API and driver compile kernels on the first start after a change of index/: two minutes of a core
each, and at the same time."""


@dataclass(frozen=True)
class Service:
    """One program of the stack."""

    name: str
    port: int
    command: Callable[[], list[str]]
    is_ready: Callable[[], bool]
    waits_for: Callable[[], str]  # what a service that is not ready says, or ""
    ready_timeout_s: float
    grace_s: float
    # Exit codes after which it must not be started again, each with what to tell the user.
    final_codes: Mapping[int, str] = field(default_factory=dict)


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
            waits_for=lambda: "",
            ready_timeout_s=60,  # it loads its log of writes first
            grace_s=10,
        )
    if name == "kafka":
        bootstrap = environment["HERALD_KAFKA_BOOTSTRAP"]
        second = environment.get("HERALD_KAFKA_SECOND_LISTENER", "")
        return Service(
            name,
            port,
            command=lambda: broker.prepare(
                folder, jars.broker_dir(log_file(state_dir, "jars")), port, log, second
            ),
            is_ready=lambda: listens(port) and broker.is_ready(bootstrap),
            waits_for=lambda: "",
            ready_timeout_s=60,
            grace_s=15,
        )
    module = {"api": "subscriptions_api", "driver": "streaming"}[name]
    return Service(
        name,
        port,
        command=lambda: [sys.executable, "-P", "-m", module],
        is_ready=lambda: ask_ready(port)[0],
        waits_for=lambda: ask_ready(port)[1],
        ready_timeout_s=COMPILING_S_MAX,
        grace_s=10 if name == "api" else 20,
        # Started again it would take the query back, and the two would do so for ever.
        final_codes={}
        if name == "api"
        else {
            DRIVER_FENCED: f"another driver of the query {environment['HERALD_QUERY_NAME']!r} has "
            "taken over; stop that one and run ./herald down and ./herald up, or give one of the "
            "two another HERALD_QUERY_NAME"
        },
    )


def listens(port: int) -> bool:
    """Whether something accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask_ready(port: int) -> tuple[bool, str]:
    """Whether GET /readyz answers 200, and its first line; a proxy could not reach 127.0.0.1."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        line = answer.read(200).decode("utf-8", errors="replace").partition("\n")[0]
        return answer.status == 200, line
    except (OSError, http.client.HTTPException):
        return False, ""
    finally:
        connection.close()
