"""What keeps a stack from starting, found early or read from a log, each as one sentence."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from deploy.environment import UserError, is_port_free

DISK_FREE_BYTES_MIN = 512 * 1024 * 1024
LOG_BYTES_MAX = 32 * 1024 * 1024
LOG_TAIL_BYTES = 64 * 1024

PORT_VARIABLES = {
    "kafka": "HERALD_KAFKA_PORT",
    "valkey": "HERALD_STORE_PORT",
    "api": "HERALD_API_PORT",
    "driver": "HERALD_METRICS_PORT",
}

KNOWN_REASONS = (
    (
        ("No space left on device",),
        "the disk is full; free some space and start it again",
    ),
    (
        ("Address already in use", "BindException", "address already in use"),
        "another program took its port meanwhile; start it again, or choose another port",
    ),
    (
        ("Bad file format reading the append only file",),
        "the store's log of writes is damaged; run valkey-check-aof --fix on it, or move the "
        "folder valkey aside to begin with an empty store",
    ),
    (
        ("java.lang.OutOfMemoryError", "Cannot allocate memory", "insufficient memory"),
        "the machine has too little free memory; stop other programs and start it again",
    ),
)
"""Signs in a log, and what they mean; the first pair whose sign occurs is told."""


def refuse_full_disk(folder: Path) -> None:
    """Raise when the services would soon fill the disk of this folder."""
    free = shutil.disk_usage(folder).free
    if free < DISK_FREE_BYTES_MIN:
        raise UserError(
            f"the disk of {folder} has only {free // 2**20} MB left; free at least "
            f"{DISK_FREE_BYTES_MIN // 2**20} MB, or choose another folder by HERALD_STATE_DIR."
        )


def refuse_taken_port(service: str, port: int) -> None:
    """Raise when another program listens where a service is to listen."""
    if not is_port_free(port):
        raise UserError(
            f"port {port} of 127.0.0.1, which {service} needs, is taken; stop the program there, "
            f"or choose another port by {PORT_VARIABLES[service]}."
        )


def why_ended(log: Path, start: int) -> str:
    """The reason for which a service ended, as far as its log tells it after that position."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - LOG_TAIL_BYTES))
        tail = file.read().decode("utf-8", errors="replace")
    for signs, meaning in KNOWN_REASONS:
        if any(sign in tail for sign in signs):
            return f"{meaning} (details: {log})."
    return f"the end of {log} says why."


def begin_log(log: Path, service: str) -> int:
    """Mark a new start in a service's log, and return where it begins; a long log is put aside."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        os.replace(log, log.with_suffix(".1.log"))
    with log.open("a", encoding="utf-8") as file:
        file.write(f"==== {service} started at {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} ====\n")
        return file.tell()
