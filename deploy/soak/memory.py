"""Memory: what each process of a stack takes, as the kernel counts it.

The figure is the proportional set size (`Pss` of /proc/PID/smaps_rollup): pages of a process that
are in memory, of those that k processes share one k-th. So workers that were forked from one daemon
and have one snapshot mapped do not count its pages twice, and the figures add up to what all take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from deploy.processes import ProcessRecord
from deploy.roles import SNAPSHOT_PROCESS, by_role, words_of

Figures = dict[str, int]
"""Bytes by the name of a process."""


class Processes:
    """Finds the processes of a stack and gives each a name that its successor inherits.

    mains   gives the process id of each service's main process, see `deploy.roles.by_role`.
    """

    def __init__(self, stack_id: str, mains: Callable[[], Mapping[str, int]]) -> None:
        self._stack_id = stack_id
        self._mains = mains
        self._places: dict[str, list[ProcessRecord | None]] = {}

    def figures(self) -> Figures:
        """The memory of each process that runs."""
        figures: Figures = {}
        for role, group in sorted(by_role(self._stack_id, self._mains()).items()):
            if role == SNAPSHOT_PROCESS:
                continue  # see SnapshotProcesses
            for number, record in self._numbered(role, group):
                taken = _kilobytes(Path(f"/proc/{record.pid}/smaps_rollup"), "Pss:") * 1024
                if taken:
                    figures[role if number == 1 else f"{role} {number}"] = taken
        return figures

    def _numbered(
        self, role: str, group: Sequence[ProcessRecord]
    ) -> Iterator[tuple[int, ProcessRecord]]:
        """Each keeps its number; a new one takes that of one that has ended."""
        places = self._places.setdefault(role, [])
        for at, record in enumerate(places):
            if record not in group:
                places[at] = None
        for record in group:
            if record not in places:
                if None not in places:
                    places.append(None)
                places[places.index(None)] = record
            yield places.index(record) + 1, record


class SnapshotProcesses:
    """Each lives for seconds: its figure is the most it ever had in memory, shared pages in full.

    peak_bytes   of the last one that has ended; 0 before the first.
    """

    def __init__(self, driver_pid: int) -> None:
        self._driver_pid = driver_pid
        self._pid = self._peak_bytes = 0
        self.peak_bytes = 0

    def look(self) -> None:
        """See how far the present one is; call it several times a second."""
        pid = next(filter(_builds_snapshot, _children(self._driver_pid)), 0)
        if self._pid not in (0, pid):
            self.peak_bytes = self._peak_bytes
        peak_bytes = _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:") * 1024 if pid else 0
        self._pid, self._peak_bytes = pid, peak_bytes or self._peak_bytes


def _children(pid: int) -> list[int]:
    """Those of all threads of a process; none when it has ended."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text(encoding="ascii").split())
        except OSError:
            continue  # the thread has ended
    return found


def _builds_snapshot(pid: int) -> bool:
    return "streaming.snapshots" in words_of(pid)


def _kilobytes(path: Path, name: str) -> int:
    """A figure of a process; 0 when it has just ended."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
