"""`./herald up`: start the stack in the background and wait until it is ready."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from deploy import jars
from deploy.class_archive import spark_archive
from deploy.environment import UserError, child_environment, find_java, state_dir
from deploy.services import SERVICE_NAMES
from deploy.state import StackState, is_owned, log_file, read_state

help = "start broker, store, API and streaming query in the background"

EXPORTED = (
    "HERALD_KAFKA_BOOTSTRAP",
    "HERALD_EVENTS_TOPIC",
    "HERALD_NOTIFICATIONS_TOPIC",
    "HERALD_DEAD_LETTERS_TOPIC",
    "HERALD_STORE_URL",
    "HERALD_API_HOST",
    "HERALD_API_PORT",
)
POLL_S = 0.1
START_TIMEOUT_S = 900


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare which services to start."""
    parser.add_argument(
        "services",
        nargs="*",
        metavar="SERVICE",
        help=f"any of {', '.join(SERVICE_NAMES)} (default: all); what is left out is found by "
        "HERALD_KAFKA_BOOTSTRAP and HERALD_STORE_URL",
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the supervisor unless one runs, wait for the stack, and tell its addresses."""
    services = chosen(arguments.services)
    folder = state_dir()
    if is_owned(folder):
        state = wait_until_ready(folder, None)
        missing = [name for name in services if name not in state.ports]
        if missing:
            raise UserError(
                f"a stack without {', '.join(missing)} already runs in {folder}; "
                "./herald down stops it."
            )
        print("Herald was already running.")
    else:
        fetch(services, folder)
        state = wait_until_ready(folder, start_supervisor(services, folder))
        print("Herald is ready.")
    print(describe(state, folder))
    return 0


def chosen(services: list[str]) -> list[str]:
    """The services to start, all when none is named."""
    unknown = [name for name in services if name not in SERVICE_NAMES]
    if unknown:
        raise UserError(
            f"there is no service {unknown[0]!r}; choose from {', '.join(SERVICE_NAMES)}."
        )
    return services or list(SERVICE_NAMES)


def fetch(services: list[str], folder: Path) -> None:
    """Do in the foreground what may take a minute the first time."""
    if {"kafka", "driver"} & set(services):
        find_java()
    if "kafka" in services:
        jars.broker_dir(log_file(folder, "jars"))
    if "driver" in services:
        jars.connector_dir(log_file(folder, "jars"))
        spark_archive(log_file(folder, "class-archive"))


def start_supervisor(services: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the background owner of the stack, free of this terminal."""
    log = log_file(folder, "supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "deploy.supervisor", *services],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**child_environment(), "HERALD_STATE_DIR": str(folder)},
            start_new_session=True,
        )


def wait_until_ready(folder: Path, supervisor: subprocess.Popen[bytes] | None) -> StackState:
    """Wait for the stack; without a supervisor of ours, for the one that somebody else started."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        ended = supervisor.poll() is not None if supervisor else not is_owned(folder)
        state = read_state(folder)
        if ended:
            told = state.message if state and state.phase == "failed" else last_words(folder)
            raise UserError(told)
        is_ours = supervisor is None or (state is not None and state.owner.pid == supervisor.pid)
        if state is not None and is_ours and state.phase == "ready":
            return state
        time.sleep(POLL_S)
    raise UserError(
        f"the stack was not ready after {START_TIMEOUT_S} s; ./herald status tells which service "
        "is late, ./herald down stops it."
    )


def last_words(folder: Path) -> str:
    """What the supervisor said when it ended without having become the folder's owner."""
    log = log_file(folder, "supervisor")
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    _, found, message = lines[-1].partition(" failed: ")
    return message if found else f"the supervisor ended; the end of {log} says why."


def describe(state: StackState, folder: Path) -> str:
    """Addresses for a person, and exports for their programs."""
    environment, ports = state.environment, state.ports
    rows = [
        ("REST API", "api", f"http://127.0.0.1:{ports.get('api')}/docs"),
        ("Kafka", "kafka", environment["HERALD_KAFKA_BOOTSTRAP"]),
        ("Store", "valkey", environment["HERALD_STORE_URL"]),
        ("Metrics", "driver", f"http://127.0.0.1:{ports.get('driver')}/metrics"),
    ]
    lines = [f"  {title:<9} {address}" for title, name, address in rows if name in ports]
    lines += [f"  {'Logs':<9} {os.path.relpath(folder / 'logs')} (./herald logs)", ""]
    lines += ["For your own programs:"]
    lines += [f"  export {name}={shlex.quote(environment[name])}" for name in EXPORTED]
    return "\n".join(lines)
