"""`./herald test`: all tests, those without services first; what else is given goes to pytest."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from deploy.environment import REPOSITORY, child_environment, find_java

help = "run the tests: those without services, then those with a real broker, store and Spark"
passes_rest_on = True

PARTS = {
    # A worker a core; one that has nothing left takes over half of what another still has.
    "unit": ["-m", "not connected", "-n", "auto", "--dist", "worksteal"],
    # One after the other: each of these fills the machine with its own services.
    "connected": ["-m", "connected"],
}
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
    """Run each part, the later one also when the earlier has failures, and sum the outcome up."""
    if "connected" in parts:
        find_java()
    codes = [run_pytest(PARTS[part], rest) for part in parts]
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    if failures:
        return failures[0]
    return 0 if 0 in codes else NOTHING_COLLECTED


def run_pytest(selection: Sequence[str], rest: Sequence[str]) -> int:
    """Run pytest once over the selected tests, its output as it comes."""
    command = [sys.executable, "-P", "-m", "pytest", *selection, *rest]
    return subprocess.run(command, cwd=REPOSITORY, env=child_environment()).returncode
