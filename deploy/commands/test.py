"""`./herald test`: all tests, with and without services; what else is given goes to pytest.

Tests with real services wait for brokers and clocks half of their time. So both parts run at once,
the tests without services at a lower priority; what they print comes after the others' output.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from deploy.environment import REPOSITORY, child_environment, find_java

help = "run the tests, those without services and those with a real broker, store and Spark"
passes_rest_on = True

SPREAD = ["-n", "auto", "--dist", "loadscope", "--no-loadscope-reorder"]
"""A worker a core; tests/conftest.py forms the groups that one of them runs, and orders them."""
PARTS = {
    "unit": ["-m", "not connected", *SPREAD],
    # One after the other: each of these fills the machine with its own services.
    "connected": ["-m", "connected"],
}
NICENESS = 10
"""Of the tests without services: those with services must not wait for them."""
NOTHING_COLLECTED = 5
"""pytest's exit code when no test fits; with -k that is usual for one of the two parts."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the selection of a part."""
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--unit", action="store_true", help="only tests without services")
    part.add_argument("--connected", action="store_true", help="only tests with real services")
    parser.epilog = "Further arguments go to pytest: ./herald test --unit -k jars -x"


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen parts; 0 only when tests ran and none failed."""
    if arguments.unit:
        parts = ["unit"]
    elif arguments.connected:
        parts = ["connected"]
    else:
        parts = list(PARTS)
    return run_parts(parts, arguments.rest)


def run_parts(parts: Sequence[str], rest: Sequence[str]) -> int:
    """Run each part, also when another has failures, and sum the outcome up."""
    if "connected" in parts:
        find_java()
    if len(parts) == 1:
        codes = [subprocess.run(**pytest_command(parts[0], rest)).returncode]
    else:
        codes = run_both(rest)
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    if failures:
        return failures[0]
    return 0 if 0 in codes else NOTHING_COLLECTED


def run_both(rest: Sequence[str]) -> list[int]:
    """Run both parts at once; the output of the one in the background follows when it is over."""
    with tempfile.TemporaryFile() as output:
        unit = subprocess.Popen(
            **pytest_command("unit", rest),
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.nice(NICENESS),
        )
        try:
            connected = subprocess.run(**pytest_command("connected", rest)).returncode
            code = unit.wait()
        finally:
            unit.terminate()
            unit.wait()
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.stdout.flush()
    return [code, connected]


def pytest_command(part: str, rest: Sequence[str]) -> dict[str, Any]:
    """Arguments of a subprocess that runs pytest once over the tests of a part."""
    command = [sys.executable, "-P", "-m", "pytest", *PARTS[part], *rest]
    return {"args": command, "cwd": REPOSITORY, "env": child_environment()}
