"""Clock: the time of day of some services, set apart from that of the machine.

A library that is preloaded (clock.c) adds to what a process is told; it takes a C compiler.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from deploy.environment import UserError

COMPILER = "cc"
SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """A clock in a folder; `environment` has a process follow it from its start on."""

    def __init__(self, folder: Path) -> None:
        library, self._file = folder / "clock.so", folder / "clock"
        self.set(0)
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise UserError(f"{SOURCE.name} cannot be compiled: {done.stderr.strip()[:500]}")
        self.environment = {
            "LD_PRELOAD": str(library.absolute()),
            "HERALD_CLOCK_FILE": str(self._file.absolute()),
        }

    def set(self, seconds: float) -> None:
        """Let it differ from the machine's clock by so much, from now on."""
        content = struct.pack("=q", round(seconds * 1e9))
        descriptor = os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o644)
        try:  # in place: processes have the file mapped
            os.pwrite(descriptor, content, 0)
        finally:
            os.close(descriptor)
