"""`./herald chaos`: break things in a stack under load, and judge what came of it."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from deploy.chaos import campaign, report
from deploy.chaos.faults import BOTH
from deploy.commands import up
from deploy.environment import UserError, state_dir

help = "inject faults into a stack of its own under load, and judge each run"

DELIVERIES = ("exactly_once", "at_least_once", "both")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare what to run, how often, and the form of the report."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--fault", type=int, nargs="+", metavar="N", help="numbers of faults; --list tells them"
    )
    chosen.add_argument("--all", action="store_true", help="all faults (default)")
    chosen.add_argument("--list", action="store_true", help="tell the faults and run none")
    parser.add_argument("--match", default="", metavar="WORD", help="of those, only names with it")
    parser.add_argument("--runs", type=int, default=1, metavar="K", help="runs of each fault")
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="M", help="repeat all for so long"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of moments and load")
    parser.add_argument("--delivery", choices=DELIVERIES, default="both")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument(
        "--record", action="store_true", help="write the table into docs/reliability.md"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep logs and histories of runs that hold, too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the faults; 0 only if all held."""
    faults, left_out = campaign.choose(arguments.fault or ())
    deliveries = BOTH if arguments.delivery == "both" else (arguments.delivery,)
    faults = [
        one
        for one in faults
        if arguments.match in one.name and set(one.deliveries) & set(deliveries)
    ]
    if arguments.list:
        print("\n".join(report.listing(faults, left_out)))
        return 0
    if not faults:
        print("\n".join(report.not_injected(left_out)))
        raise UserError("there is nothing to inject of what was chosen; --list tells all faults.")
    plan = campaign.Plan(faults, deliveries, arguments.runs, arguments.seed, arguments.minutes)
    home = state_dir()
    home.mkdir(parents=True, exist_ok=True)
    up.fetch(["kafka", "driver"], home)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=home))
    outcomes: list[campaign.Outcome] = []
    try:
        for outcome in campaign.run_plan(plan, folder):
            outcomes.append(outcome)
            if not arguments.json:
                print("\n".join(report.described(outcome)), flush=True)
    finally:  # also when it is interrupted
        report.conclude(outcomes, left_out, arguments.json, arguments.record)
    holds = bool(outcomes) and all(one.holds for one in outcomes)
    if holds and not arguments.keep:
        shutil.rmtree(folder)
    elif not arguments.json:
        print(f"\nLogs and histories lie in {folder}; ./herald verify judges a history.")
    return 0 if holds else 1
