"""Processor time: what each process of a stack and its clients took of the processors.

On a machine that everything shares, a rate is bound by the sum of these.
"""

from __future__ import annotations

import os
import time

from deploy.processes import ProcessRecord, stat_fields
from deploy.roles import by_role
from deploy.stack import Stack

CLIENTS = "publisher and consumer"
"""Both are threads of this process."""

Times = dict[tuple[str, ProcessRecord | None], float]


class Stopwatch:
    """Measures from its making on."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = self._times()

    def seconds(self) -> dict[str, float]:
        """By role, of the processes that run now; what has ended is left out."""
        return spent(self._before, self._times())

    def _times(self) -> Times:
        times: Times = {(CLIENTS, None): time.process_time()}
        for role, records in by_role(self._stack.stack_id, self._stack.pids()).items():
            for record in records:
                times[role, record] = processor_s(record.pid)
        return times


def spent(before: Times, after: Times) -> dict[str, float]:
    """Seconds by role: a process that has started since began with none."""
    seconds: dict[str, float] = {}
    for (role, record), used in after.items():
        seconds[role] = seconds.get(role, 0.0) + used - before.get((role, record), 0.0)
    return seconds


def processor_s(pid: int) -> float:
    """Seconds that a process has used, in user code and in the kernel; 0 when it has ended."""
    fields = stat_fields(pid)
    if not fields:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
