"""Judge a recorded run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from deploy.checker import check
from deploy.environment import UserError
from deploy.history import read_history
from deploy.verdicts import KINDS, Verdict

help = "judge a recorded run: was everything told that had to be, once and in order"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the form of the output."""
    parser.add_argument("history", type=Path, metavar="HISTORY", help="see deploy/history.py")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check the history; 1 if anything is found."""
    try:
        verdict = check(read_history(arguments.history))
    except ValueError as error:
        raise UserError(f"{arguments.history} cannot be judged: {error}") from None
    print(json.dumps(verdict.to_json(), indent=2) if arguments.json else "\n".join(_lines(verdict)))
    return 0 if verdict.holds else 1


def _lines(verdict: Verdict) -> Iterator[str]:
    yield (
        f"{verdict.events:,} events in {verdict.batches:,} batches, {verdict.matches:,} matches, "
        f"{verdict.notifications:,} notifications"
    )
    for kind in KINDS:
        yield f"{kind:<10} {verdict.counts[kind]:,}"
        yield from (f"    {words}" for words in verdict.examples.get(kind, ()))
