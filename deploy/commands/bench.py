"""Benchmarks: matching alone, and the whole path."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import matching
from deploy.environment import REPOSITORY, UserError
from deploy.filter_files import read_lines, read_subscriptions
from index import registry
from index.model import Subscription

help = (
    "measure matching (match), reading events (decode), the whole path (pipeline), what exactly "
    "once costs (delivery), or the papers' figures (paper)"
)

ROUNDS = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the benchmarks and their arguments."""
    kinds = parser.add_subparsers(dest="kind", required=True)
    match = kinds.add_parser("match", help="algorithms side by side on files")
    decode = kinds.add_parser("decode", help="ways to read JSON events, side by side on files")
    for one in (match, decode):
        one.add_argument(
            "--subscriptions", type=Path, required=True, help='lines {"id", "expr" or "filter"}'
        )
        one.add_argument("--events", type=Path, required=True, help="JSON events, one a line")
        one.add_argument("--rounds", type=int, default=ROUNDS, help="figures are medians of these")
        one.add_argument("--json", action="store_true", help="print the figures as JSON")
    match.add_argument(
        "--algorithm",
        nargs="+",
        action="extend",
        choices=sorted(registry.ALGORITHMS),
        help="the algorithms to compare (default: all)",
    )
    paper = kinds.add_parser("paper", help="draw figures and tables of the papers again")
    paper.add_argument("names", nargs="*", metavar="NAME", help="figures; without any, a list")
    paper.add_argument(
        "--folder", type=Path, default=REPOSITORY / "docs" / "benchmarks", help="where they go"
    )
    paper.add_argument("--json", action="store_true", help="print as JSON how they came out")
    whole = kinds.add_parser("pipeline", help="the whole path against a pass-through of it")
    delivery = kinds.add_parser("delivery", help="exactly once against at least once")
    for one in (whole, delivery):
        _add_load(one)
    whole.add_argument("--writes", type=int, default=200, help="writes for freshness")


def _add_load(parser: argparse.ArgumentParser) -> None:
    """What goes through the whole path, and how often."""
    parser.add_argument(
        "--workload",
        choices=("flights", "ads"),
        default="flights",
        help="the demo's subscriptions to flights, or advertisements as in the PS-Tree paper",
    )
    parser.add_argument(
        "--matches",
        type=float,
        default=2.5,
        metavar="M",
        help="advertisements that an event matches, on average (default: as many as flights); with "
        "1, as many records come out as of the pass-through",
    )
    parser.add_argument(
        "--mode",
        choices=("thin", "full", "compact"),
        default="thin",
        help="of all subscriptions; compact: one notification an event, whatever it matches",
    )
    parser.add_argument(
        "--subscriptions", type=int, default=100_000, help="generated ones; flights have 40 more"
    )
    parser.add_argument("--events", type=int, default=100_000, help="events a round")
    parser.add_argument("--rounds", type=int, default=2, help="rates are medians of these")
    parser.add_argument("--seconds", type=float, default=30, help="how long latency is measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run one benchmark; 1 if what came out is wrong, whatever the speed."""
    if arguments.kind == "paper":
        return _bench_paper(arguments)
    if arguments.rounds < 1:
        raise UserError("--rounds must be 1 or more")
    if getattr(arguments, "matches", 1.0) <= 0:
        raise UserError("--matches must be more than 0")
    kinds = {
        "match": _bench_match,
        "decode": _bench_decode,
        "pipeline": _bench_pipeline,
        "delivery": _bench_delivery,
    }
    return kinds[arguments.kind](arguments)


def _bench_paper(arguments: argparse.Namespace) -> int:
    # Charts need a library that takes a second to import.
    papers = importlib.import_module("benchmarks.paper.run")
    known = papers.names()
    if not arguments.names:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        raise UserError(
            f"no figure is called {unknown[0]!r}; ./herald bench paper lists all of them"
        )
    try:
        verdicts = papers.run(arguments.names, arguments.folder, _progress)
    except AssertionError as error:
        print(f"herald: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps([asdict(one) for one in verdicts], indent=2))
        return 0
    for one in verdicts:
        kept = {None: "not ranked by a paper", True: "as in the paper"}
        paper = f"the paper has {' < '.join(one.paper)}"
        print(f"{one.title}\n    {' < '.join(one.measured)}: {kept.get(one.kept, paper)}")
    return 0


def _bench_pipeline(arguments: argparse.Namespace) -> int:
    # Kafka's client and Arrow take a second to import, which `bench match` need not wait for.
    pipeline_command = importlib.import_module("benchmarks.pipeline_run")
    size = pipeline_command.Size(*_size(arguments))
    amounts = arguments.rounds, arguments.seconds, arguments.writes
    return _tell(arguments, lambda: pipeline_command.run(size, amounts, _progress))


def _size(load: argparse.Namespace) -> tuple[str, int, int, float, str]:
    return load.workload, load.subscriptions, load.events, load.matches, load.mode


def _bench_delivery(arguments: argparse.Namespace) -> int:
    stage = importlib.import_module("benchmarks.pipeline_run")
    size = stage.Size(*_size(arguments))
    amounts = arguments.rounds, arguments.seconds
    return _tell(arguments, lambda: stage.compare_deliveries(size, amounts, _progress))


def _tell(arguments: argparse.Namespace, measure: Callable[[], dict[str, object]]) -> int:
    """Measure and print the figures; 1, and why, if what came out is wrong."""
    try:
        figures = measure()
    except AssertionError as error:
        print(f"herald: {error}", file=sys.stderr)
        return 1
    print(json.dumps(figures, indent=2) if arguments.json else _lines(figures))
    return 0


def _lines(figures: dict[str, object]) -> str:
    return "\n".join(f"{name:<28} {value}" for name, value in figures.items())


def _bench_decode(arguments: argparse.Namespace) -> int:
    # Arrow takes a second to import, which `bench match` need not wait for.
    decoding = importlib.import_module("benchmarks.decoding")
    subscriptions, payloads = _files(arguments)
    return _tell(
        arguments,
        lambda: decoding.bench(subscriptions, payloads, arguments.rounds, _progress),
    )


def _files(arguments: argparse.Namespace) -> tuple[list[Subscription], list[bytes]]:
    subscriptions = list(read_subscriptions(arguments.subscriptions))
    payloads = read_lines(arguments.events)
    if not subscriptions or not payloads:
        raise UserError("nothing to measure: the subscriptions and the events both need a line")
    return subscriptions, payloads


def _bench_match(arguments: argparse.Namespace) -> int:
    subscriptions, payloads = _files(arguments)
    chosen = list(dict.fromkeys(arguments.algorithm or sorted(registry.ALGORITHMS)))
    try:
        figures = matching.bench(subscriptions, payloads, chosen, arguments.rounds, _progress)
    except matching.CountsDifferError as error:
        print(f"herald: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        _print_table(figures)
    return 0


def _progress(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def _print_table(figures: dict[str, object]) -> None:
    algorithms = figures["algorithms"]
    assert isinstance(algorithms, dict)
    table = Table(title=f"{figures['subscriptions']:,} subscriptions, {figures['events']:,} events")
    table.add_column("figure")
    for name in algorithms:
        table.add_column(name, justify="right")
    for figure in next(iter(algorithms.values())):
        values = (algorithms[name][figure] for name in algorithms)
        table.add_row(figure, *("–" if value is None else f"{value:,}" for value in values))
    Console().print(table)
