"""`./herald status`: what runs, since when, and whether it is ready."""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from deploy.environment import state_dir
from deploy.processes import ProcessRecord
from deploy.services import SERVICE_NAMES, describe
from deploy.state import StackState, is_owned, log_file, read_state

help = "show each service: running, ready, since when, memory, address"


@dataclass(frozen=True)
class ServiceStatus:
    """One service as it is now; `condition` is ready, starting, dead or stopped."""

    name: str
    condition: str
    pid: int | None
    uptime_s: int | None
    memory_mb: int | None
    address: str
    log: str
    waits_for: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the output form."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print the status; the exit code is 0 only when every service is ready."""
    folder = state_dir()
    state = read_state(folder)
    phase, message = overall(state, is_owned(folder))
    services = [] if state is None else service_statuses(state, folder)
    if arguments.json:
        content = {
            "phase": phase,
            "message": message,
            "state_dir": str(folder),
            "environment": state.environment if state else {},
            "services": [asdict(service) for service in services],
        }
        print(json.dumps(content, indent=2))
    else:
        print_table(phase, message, services)
    is_ready = phase == "ready" and all(service.condition == "ready" for service in services)
    return 0 if is_ready else 1


def overall(state: StackState | None, owned: bool) -> tuple[str, str]:
    """The phase of the stack, corrected for an owner that was killed, and what to do about it."""
    if state is None:
        return "stopped", "No stack has run here; ./herald up starts one."
    if not owned and state.phase in ("starting", "ready", "stopping"):
        return "died", "The stack's owner was killed; ./herald up starts it again."
    return state.phase, state.message


def service_statuses(state: StackState, folder: Path) -> list[ServiceStatus]:
    """All services of the stack, asked at the same time."""
    names = [name for name in SERVICE_NAMES if name in state.ports]
    with ThreadPoolExecutor(max_workers=len(SERVICE_NAMES)) as pool:
        return list(pool.map(lambda name: service_status(name, state, folder), names))


def service_status(name: str, state: StackState, folder: Path) -> ServiceStatus:
    """One service: its process, and its own answer to whether it is ready."""
    record, port = state.services.get(name), state.ports[name]
    address, log = f"127.0.0.1:{port}", str(log_file(folder, name))
    if record is None or not record.is_alive():
        is_expected = state.phase in ("starting", "ready")
        condition = "dead" if is_expected else "stopped"
        return ServiceStatus(name, condition, None, None, None, address, log)
    service = describe(name, folder, port, state.environment)
    is_ready = service.is_ready()
    return ServiceStatus(
        name,
        "ready" if is_ready else "starting",
        record.pid,
        uptime_s(record),
        memory_mb(record.pid),
        address,
        log,
        "" if is_ready else service.waits_for(),
    )


def uptime_s(record: ProcessRecord) -> int:
    """Seconds since the process started."""
    ticks = int(record.started.rpartition(":")[2])
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def memory_mb(pid: int) -> int | None:
    """Resident memory of a process, shared pages included."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def print_table(phase: str, message: str, services: list[ServiceStatus]) -> None:
    """The status for a person."""
    console = Console(highlight=False)
    console.print(f"Herald: {phase}. {message}".rstrip())
    if not services:
        return
    table = Table(box=None, pad_edge=False)
    for title in ("service", "condition", "pid", "up", "memory", "address", ""):
        table.add_column(title)
    colours = {"ready": "green", "starting": "yellow", "dead": "red", "stopped": "dim"}
    for service in services:
        table.add_row(
            service.name,
            f"[{colours[service.condition]}]{service.condition}[/]",
            "" if service.pid is None else str(service.pid),
            "" if service.uptime_s is None else f"{service.uptime_s} s",
            "" if service.memory_mb is None else f"{service.memory_mb} MB",
            service.address,
            service.waits_for,
        )
    console.print(table)
