"""`./herald check`: everything that CI checks, each step also when an earlier one failed."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.commands.test import PARTS, SPREAD, run_parts
from deploy.environment import REPOSITORY, child_environment

COVERED_PERCENT_MIN = 95

help = "run all that CI runs: format, lint, types, import rules, tests, docs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare what may be left out."""
    parser.add_argument("--fast", action="store_true", help="without the tests with real services")
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="also run index/ interpreted, every line of its kernels counted; takes long",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all steps, then list them with their outcome; 0 only when each passed."""
    parts = ["unit"] if arguments.fast else list(PARTS)
    steps: dict[str, Callable[[], int]] = {
        "format": lambda: tool("ruff", "format", "--check", "."),
        "lint": lambda: tool("ruff", "check", "."),
        "types": lambda: tool("mypy", "--strict"),
        "imports": lambda: tool("lint-imports"),
        "tests": lambda: run_parts(parts, []),
    }
    if arguments.coverage:
        steps["coverage"] = coverage
    outcomes = {name: timed(name, step) for name, step in steps.items()}
    for name, (code, seconds) in outcomes.items():
        print(f"{name:<8} {'passed' if code == 0 else 'FAILED'} in {seconds:.0f} s")
    return 0 if all(code == 0 for code, _ in outcomes.values()) else 1


def timed(name: str, step: Callable[[], int]) -> tuple[int, float]:
    """Run one step under a heading."""
    print(f"==== {name}", flush=True)
    begin = time.monotonic()
    return step(), time.monotonic() - begin


def coverage() -> int:
    """Run the tests of index/ with kernels interpreted; 1 if too few of its lines ran."""
    interpreted = {"NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "interpreted"}
    chosen = "not connected and not large"
    pytest = ["pytest", "-q", *SPREAD, "-m", chosen]
    runs = [
        ["erase"],
        ["run", "--rcfile=pyproject.toml", "-p", "-m", *pytest, "tests/index", "tests/contract"],
        ["combine", "-q"],
        ["report", "--include=index/*", "--skip-covered", f"--fail-under={COVERED_PERCENT_MIN}"],
    ]
    codes = [tool("coverage", *arguments, environment=interpreted) for arguments in runs]
    return max(codes)


def tool(name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
    """Run a program of the virtual environment at the root of the repository."""
    command: Sequence[str] = [str(Path(sys.executable).parent / name), *arguments]
    variables = {**child_environment(), **(environment or {})}
    return subprocess.run(command, cwd=REPOSITORY, env=variables).returncode
