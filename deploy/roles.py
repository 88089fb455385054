"""Roles: what each process of a stack is, by its marks and its command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.processes import ProcessRecord, marked, parent_of

TITLES = {"valkey": "Valkey", "kafka": "Kafka", "api": "API"}
DRIVER_JVM = "driver's JVM"
SNAPSHOT_PROCESS = "snapshot process"


def by_role(stack_id: str, mains: Mapping[str, int]) -> dict[str, list[ProcessRecord]]:
    """The processes of a stack that run.

    mains   the process id of each service's main process: the store writes its title over the mark
            that others are found by.
    """
    groups: dict[str, list[ProcessRecord]] = {}
    for service, pid in mains.items():
        main = ProcessRecord.of(pid)
        others = marked(stack_id, service)
        for record in dict.fromkeys([main, *others] if main else others):
            role = role_of(service, words_of(record.pid), words_of(parent_of(record.pid)))
            groups.setdefault(role, []).append(record)
    return groups


def role_of(service: str, words: Sequence[str], parent: Sequence[str]) -> str:
    """What a process of a service is, by its command line and its parent's."""
    if service != "driver":
        return TITLES[service]
    if "streaming.daemon" in words:
        return "worker" if "streaming.daemon" in parent else "daemon"
    if "streaming.snapshots" in words:
        return SNAPSHOT_PROCESS
    return DRIVER_JVM if words and Path(words[0]).name == "java" else "driver"


def words_of(pid: int) -> list[str]:
    """The command line of a process; none when it has ended."""
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return content.decode(errors="replace").rstrip("\0").split("\0")
