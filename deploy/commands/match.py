"""Match files: subscriptions, events and, if given, the ids expected for each event."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from deploy.environment import UserError
from deploy.filter_files import read_lines, read_subscriptions
from index import registry
from index.base import MatchIndex
from index.events import decode_payloads
from index.instants import parse_instant
from index.model import Instant

help = "match a file of events against a file of subscriptions, and compare with what is expected"

BATCH_EVENTS = 1_024
DIFFERENCES_SHOWN = 10
IDS_SHOWN = 5
ROLES = ("subscriptions", "events", "expected")


@dataclass(slots=True)
class Report:
    """What came out; `differences` has one entry for each event that differs."""

    algorithm: str
    subscriptions: int = 0
    events: int = 0
    dead_letters: int = 0
    matches: int = 0
    compared: int = 0
    build_s: float = 0.0
    decode_s: float = 0.0
    match_s: float = 0.0
    differences: list[dict[str, Any]] = field(default_factory=list)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the files, by place or by name, and how to match."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="SUBSCRIPTIONS EVENTS [EXPECTED]"
    )
    parser.add_argument(
        "--subscriptions", type=Path, metavar="S", help='lines {"id", "expr" or "filter", …}'
    )
    parser.add_argument("--events", type=Path, metavar="E", help="JSON events, one a line")
    parser.add_argument(
        "--expected", type=Path, metavar="X", help='lines {"event": line of E from 0, "ids": […]}'
    )
    parser.add_argument(
        "--algorithm", default=registry.DEFAULT, choices=sorted(registry.ALGORITHMS)
    )
    parser.add_argument("--now", type=_instant, help="what NOW() is, RFC 3339 (default: now)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Build, match and compare; 1 if an event differs."""
    files = _files(arguments)
    expected = read_expected(files["expected"]) if "expected" in files else {}
    report = Report(arguments.algorithm)
    now = arguments.now or Instant(*divmod(time.time_ns(), 1_000_000_000))

    subscriptions = list(read_subscriptions(files["subscriptions"]))
    started = time.perf_counter()
    index = registry.get(arguments.algorithm).build(subscriptions)
    report.build_s = time.perf_counter() - started
    report.subscriptions = len(index)

    for ids in _match(index, read_lines(files["events"]), now, report):
        if report.events in expected:
            report.compared += 1
            _compare(report, set(ids), expected[report.events])
        report.events += 1
    if beyond := [number for number in expected if number >= report.events]:
        raise UserError(f"{files['expected']} names event {beyond[0]}; there are {report.events}")
    print(json.dumps(asdict(report), indent=2) if arguments.json else "\n".join(_lines(report)))
    return 1 if report.differences else 0


def read_expected(path: Path) -> dict[int, set[str]]:
    """Ids by event number; UserError says which line cannot be read."""
    expected = {}
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                told = json.loads(line)
                expected[int(told["event"])] = set(map(str, told["ids"]))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}, line {number}: not event and ids: {error!r}") from None
    return expected


def _files(arguments: argparse.Namespace) -> dict[str, Path]:
    named = {role: getattr(arguments, role) for role in ROLES if getattr(arguments, role)}
    unnamed = [role for role in ROLES if role not in named]
    if len(arguments.files) > len(unnamed):
        raise UserError(f"too many files: {arguments.files[len(unnamed)]} has no role")
    files = named | dict(zip(unnamed, arguments.files, strict=False))
    if lacking := [role for role in ROLES[:2] if role not in files]:
        raise UserError(f"no file of {' and of '.join(lacking)}; see ./herald match --help")
    return files


def _match(
    index: MatchIndex, payloads: Sequence[bytes], now: Instant, report: Report
) -> Iterator[list[str]]:
    lines = iter(payloads)
    while batch := list(islice(lines, BATCH_EVENTS)):
        started = time.perf_counter()
        events, rejected = decode_payloads(batch, index.vocabulary)
        decoded = time.perf_counter()
        matches = index.match(events, now)
        report.match_s += time.perf_counter() - decoded
        report.decode_s += decoded - started
        report.dead_letters += len(rejected)
        report.matches += int(matches.row.size)
        yield from index.ids_by_event(matches)


def _compare(report: Report, ids: set[str], expected: set[str]) -> None:
    if ids != expected:
        report.differences.append(
            {
                "event": report.events,
                "missing": sorted(expected - ids),
                "unexpected": sorted(ids - expected),
            }
        )


def _lines(report: Report) -> Iterator[str]:
    yield f"algorithm      {report.algorithm}"
    yield f"subscriptions  {report.subscriptions:,}   built in {report.build_s:.3f} s"
    yield (
        f"events         {report.events:,}   decoded in {report.decode_s:.3f} s, "
        f"matched in {report.match_s:.3f} s, {report.dead_letters:,} dead letters"
    )
    yield f"matches        {report.matches:,}"
    if report.compared:
        yield f"compared       {report.compared:,} events, {len(report.differences):,} differ"
    for difference in report.differences[:DIFFERENCES_SHOWN]:
        wrong = [
            f"{kind} {_some(difference[kind])}"
            for kind in ("missing", "unexpected")
            if difference[kind]
        ]
        yield f"  event {difference['event']}: {'; '.join(wrong)}"
    if len(report.differences) > DIFFERENCES_SHOWN:
        yield f"  and {len(report.differences) - DIFFERENCES_SHOWN:,} more events"


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:IDS_SHOWN])
    return shown if len(ids) <= IDS_SHOWN else f"{shown} and {len(ids) - IDS_SHOWN:,} more"


def _instant(text: str) -> Instant:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
