"""`./herald test`: all tests, with and without services; what else is given goes to pytest.

Tests with real services wait for brokers and clocks half of their time. So those that take seconds,
and after them those that promise no time, such as random faults, run beside the tests without
services, which have a lower priority and print what they have to say afterwards. Those that run a
query for minutes come last, two modules at a time: they wait for something to happen, and what it
waits for must not be kept from the processors by the tests without services (a niceness means
nothing to services in other sessions).
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
    "connected": ["-m", "connected and not slow"],
    "patient": ["-m", "patient"],
    "queries": ["-m", "connected and slow and not patient", "-n", "2", "--dist", "loadscope"],
}
BESIDE = ("connected", "patient")
"""What runs while the tests without services do."""
NICENESS = 10
"""Of the tests without services: those with services must not wait for them."""
NOTHING_COLLECTED = 5
"""pytest's exit code when no test fits; with -k that is usual for some of the parts."""


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
        parts = [part for part in PARTS if part != "unit"]
    else:
        parts = list(PARTS)
    return run_parts(parts, arguments.rest)


def run_parts(parts: Sequence[str], rest: Sequence[str]) -> int:
    """Run each part, also when another has failures, and sum the outcome up."""
    if "connected" in parts:
        find_java()
    beside = [part for part in parts if part in BESIDE] if "unit" in parts else []
    codes = run_beside(beside, rest) if beside else []
    left = [part for part in parts if not beside or part not in ("unit", *beside)]
    codes += [run_part(part, rest) for part in left]
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    if failures:
        return failures[0]
    return 0 if 0 in codes else NOTHING_COLLECTED


def run_beside(parts: Sequence[str], rest: Sequence[str]) -> list[int]:
    """Run parts while the tests without services run, whose output follows when they are over."""
    with tempfile.TemporaryFile() as output:
        unit = subprocess.Popen(
            **pytest_command("unit", rest),
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.nice(NICENESS),
        )
        try:
            codes = [run_part(part, rest) for part in parts]
            codes.append(unit.wait())
        finally:
            unit.terminate()
            unit.wait()
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.stdout.flush()
    return codes


def run_part(part: str, rest: Sequence[str]) -> int:
    """Run the tests of a part and return pytest's exit code."""
    return subprocess.run(**pytest_command(part, rest)).returncode


def pytest_command(part: str, rest: Sequence[str]) -> dict[str, Any]:
    """Arguments of a subprocess that runs pytest once over the tests of a part."""
    command = [sys.executable, "-P", "-m", "pytest", *PARTS[part], *rest]
    return {"args": command, "cwd": REPOSITORY, "env": child_environment()}
