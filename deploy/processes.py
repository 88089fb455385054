"""Child processes that cannot outlive their parent, nor be confused with strangers (Linux).

A process id is reused after its process dies, so a record holds the start time too, and a signal
goes through a pidfd that was compared with it. All processes of a service, its JVMs and Spark's
daemons in process groups of their own included, carry marks in their environment: the marks find
them when the process that started them is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STACK_MARK = "HERALD_STACK_ID"
SERVICE_MARK = "HERALD_SERVICE"

GUARD = Path(__file__).resolve().parent / "guard.py"
POLL_S = 0.02

# The kernel ties a child to the *thread* that started it. This one lives as long as the process.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="herald-starter")


@dataclass(frozen=True)
class ProcessRecord:
    """One process, for good: `started` is what the kernel says, so a reused pid differs."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessRecord | None:
        """Describe a running process, or None when there is none (a zombie counts as none)."""
        started = start_time(pid)
        return None if started is None else cls(pid, started)

    def is_alive(self) -> bool:
        """Whether this very process runs."""
        return start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> bool:
        """Signal this very process; False when it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The descriptor names one process, so the answer holds until the signal is sent.
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def start_time(pid: int) -> str | None:
    """Boot and clock tick at which a process started, or None when it is gone or a zombie."""
    fields = stat_fields(pid)
    if not fields or fields[0] in "ZX":
        return None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return f"{boot}:{fields[19]}"


def parent_of(pid: int) -> int:
    """The parent of a process; 0 when it is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def stat_fields(pid: int) -> list[str]:
    """What /proc/PID/stat says after the program's name, from its state on; nothing when it is
    gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name in parentheses may itself hold blanks and parentheses.
    return stat[stat.rindex(")") + 2 :].split()


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    folder: Path,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, tied to this process, its output in a log file."""
    # -I -S: no site-packages; the guard needs milliseconds and the standard library only.
    guarded = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), *command]
    with log.open("ab") as output:
        return _starter.submit(
            subprocess.Popen[bytes],
            guarded,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        ).result()


def marked(stack_id: str, service: str | None = None) -> list[ProcessRecord]:
    """All processes whose environment carries a stack's mark, or one service's of that stack."""
    wanted = {f"{STACK_MARK}={stack_id}".encode()}
    if service is not None:
        wanted.add(f"{SERVICE_MARK}={service}".encode())
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it is gone, or another user's
        if wanted <= set(environment):
            record = ProcessRecord.of(int(entry))
            if record is not None:
                found.append(record)
    return found


def stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Ask a child to end, and kill it when it has not after the grace time; reap it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def sweep(stack_id: str, service: str | None = None, timeout_s: float = 10.0) -> None:
    """Kill whatever carries the mark until a look at all processes finds none."""
    deadline = time.monotonic() + timeout_s
    while left := marked(stack_id, service):
        for record in left:
            record.send(signal.SIGKILL)
        if time.monotonic() > deadline:
            pids = ", ".join(str(record.pid) for record in left)
            raise TimeoutError(f"processes {pids} are still there {timeout_s:g} s after SIGKILL")
        time.sleep(POLL_S)
