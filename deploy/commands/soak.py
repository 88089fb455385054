"""`./herald soak`: steady load on a stack of its own, and whether anything grows meanwhile."""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.commands import up
from deploy.environment import UserError, state_dir

help = "put a stack of its own under steady load for long, and find what grows"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare how long, how much, and the form of the report."""
    parser.add_argument("--minutes", type=float, default=30.0, metavar="M", help="of load, in all")
    parser.add_argument(
        "--warm-up-minutes", type=float, default=5.0, metavar="M", help="of them not judged"
    )
    parser.add_argument("--writes", type=float, default=1_000.0, metavar="N", help="a second")
    parser.add_argument("--events", type=float, default=100.0, metavar="N", help="a second")
    parser.add_argument(
        "--subscriptions", type=int, default=20_000, metavar="N", help="that there are all the time"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of subscriptions")
    parser.add_argument("--json", action="store_true", help="print figures and samples as JSON")
    parser.add_argument(
        "--record", action="store_true", help="write the figures into docs/reliability.md"
    )
    parser.add_argument("--keep", action="store_true", help="keep data and logs of one that holds")


def run(arguments: argparse.Namespace) -> int:
    """Soak; 0 only if everything held."""
    # Spark's and Kafka's clients take a second to import, which --help need not wait for.
    soaking = importlib.import_module("deploy.soak.run")
    report = importlib.import_module("deploy.soak.report")
    refuse(arguments)
    plan = soaking.Plan(
        arguments.minutes,
        arguments.warm_up_minutes,
        arguments.writes,
        arguments.events,
        arguments.subscriptions,
        arguments.seed,
    )
    home = state_dir()
    home.mkdir(parents=True, exist_ok=True)
    up.fetch(["kafka", "driver"], home)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=home))
    outcome = soaking.soak(plan, folder, lambda words: print(words, file=sys.stderr, flush=True))
    print(report.to_json(outcome) if arguments.json else "\n".join(["", *report.lines(outcome)]))
    if arguments.record:
        report.write_down(outcome)
    if outcome.verdict.holds and not arguments.keep:
        shutil.rmtree(folder)
    else:
        print(f"Data and logs lie in {folder}.", file=sys.stderr)
    return 0 if outcome.verdict.holds else 1


def refuse(arguments: argparse.Namespace) -> None:
    """UserError for what nothing could be learned from."""
    if not 0 <= arguments.warm_up_minutes < arguments.minutes:
        raise UserError("--warm-up-minutes must be at least 0 and less than --minutes.")
    if arguments.writes <= 0 or arguments.events <= 0 or arguments.subscriptions < 1:
        raise UserError("--writes, --events and --subscriptions must be greater than 0.")
