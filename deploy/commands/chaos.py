"""`./herald chaos`: break things in a stack under load, and judge what came of it."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from deploy.chaos import campaign, report
from deploy.chaos.faults import BOTH, Fault, NotInjected
from deploy.chaos.journal import Journal
from deploy.chaos.outcome import Outcome
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
    parser.add_argument("--delivery", choices=DELIVERIES, default="both")
    parser.add_argument("--runs", type=at_least_one, default=1, metavar="K", help="of each fault")
    parser.add_argument(
        "--crash-runs",
        type=at_least_one,
        default=1,
        metavar="K",
        help="of each process that is killed, spread over the places where it may die",
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="M", help="repeat all for so long"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of moments and load")
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="append each outcome to FILE, and run only what it does not have yet",
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="have earlier outcomes of the chosen faults in the journal count no more",
    )
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the table of docs/reliability.md from all outcomes of the journal",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep logs and histories of runs that hold, too"
    )


def at_least_one(text: str) -> int:
    """A number of runs; ValueError, which argparse reports, if it is none."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than one run")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Run the faults; 0 only if all held."""
    if arguments.list:
        print("\n".join(report.listing(*matching(arguments))))
        return 0
    plan, left_out = plan_of(arguments)
    if not plan.faults:
        print("\n".join(report.not_injected(left_out)))
        raise UserError("there is nothing to inject of what was chosen; --list tells all faults.")
    outcomes: list[Outcome] = []
    journal = open_journal(arguments, plan)
    try:
        run_plan(plan, arguments, outcomes, journal)
    finally:  # also when it is interrupted
        if journal is not None:
            rows = set(plan.rows())
            outcomes = [one for one in journal.outcomes if one.row in rows]
        report.conclude(outcomes, left_out, arguments.json)
        if journal is not None and arguments.record:
            report.write_down(journal)
    return 0 if outcomes and all(one.holds for one in outcomes) else 1


def plan_of(arguments: argparse.Namespace) -> tuple[campaign.Plan, list[NotInjected]]:
    """What the arguments ask for, and what of it is not injected."""
    faults, left_out = matching(arguments)
    deliveries = BOTH if arguments.delivery == "both" else (arguments.delivery,)
    faults, impossible = campaign.able(faults, deliveries)
    plan = campaign.Plan(
        faults,
        deliveries,
        arguments.runs,
        arguments.seed,
        arguments.minutes,
        arguments.crash_runs,
    )
    return plan, [*left_out, *impossible]


def matching(arguments: argparse.Namespace) -> tuple[list[Fault], list[NotInjected]]:
    """The faults that the arguments name, and what of them is never injected."""
    faults, left_out = campaign.choose(arguments.fault or ())
    return [one for one in faults if arguments.match in one.name], left_out


def open_journal(arguments: argparse.Namespace, plan: campaign.Plan) -> Journal | None:
    """The journal that the arguments name; UserError where they need one and name none."""
    if arguments.journal is None:
        for name in ("record", "anew"):
            if getattr(arguments, name):
                raise UserError(f"--{name} is about a journal: add --journal FILE.")
        return None
    journal = Journal(arguments.journal)
    if arguments.anew:
        journal.begin_anew(plan.rows())
    return journal


def run_plan(
    plan: campaign.Plan,
    arguments: argparse.Namespace,
    outcomes: list[Outcome],
    journal: Journal | None,
) -> None:
    """Run what is not done, and tell of each outcome as it comes."""
    home = state_dir()
    home.mkdir(parents=True, exist_ok=True)
    up.fetch(["kafka", "driver"], home)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=home))
    done = journal.done if journal else set()
    for outcome in campaign.run_plan(plan, folder, done, arguments.keep):
        outcomes.append(outcome)
        if journal:
            journal.add(outcome)
        if not arguments.json:
            print("\n".join(report.described(outcome)), flush=True)
    if not any(folder.iterdir()):
        shutil.rmtree(folder)
    elif not arguments.json:
        print(f"\nLogs and histories lie in {folder}; ./herald verify judges a history.")
