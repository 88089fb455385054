"""Tell the cases of a file to algorithms or to the running service, and report what differs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from deploy.case_index import IndexTarget, ways_of
from deploy.case_service import service_environment, service_target
from deploy.cases import CaseTarget, load_cases, run_cases
from index import registry

help = "check algorithms, or the running service, against a file of cases with exact answers"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the file and whom to ask."""
    parser.add_argument("file", type=Path, metavar="FILE.jsonl", help="cases, one a line")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--algorithm", choices=sorted(registry.ALGORITHMS), default=registry.DEFAULT)
    asked.add_argument("--all", action="store_true", help="every algorithm")
    asked.add_argument(
        "--service", action="store_true", help="the running service: REST, Kafka, notifications"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Tell the cases to each target; 1 if any answer differs."""
    cases = load_cases(arguments.file)
    report = []
    for target in _targets(arguments):
        failures = list(run_cases(cases, target))
        report.append({"target": target.name, "failures": [one.as_object() for one in failures]})
        if not arguments.json:
            failed = len({failure.case.number for failure in failures})
            print(f"{target.name}: {len(cases) - failed} of {len(cases)} cases hold")
            for failure in failures:
                print(f"  {failure}")
    failure_count = sum(len(one["failures"]) for one in report)
    if arguments.json:
        print(json.dumps({"cases": len(cases), "failures": failure_count, "targets": report}))
    return 1 if failure_count else 0


def _targets(arguments: argparse.Namespace) -> Iterator[CaseTarget]:
    if arguments.service:
        with service_target(service_environment()) as target:
            yield target
        return
    names = sorted(registry.ALGORITHMS) if arguments.all else [arguments.algorithm]
    for name in names:
        algorithm = registry.get(name)
        for way in ways_of(algorithm):
            yield IndexTarget(algorithm, way)
