"""List the algorithms of the registry."""

from __future__ import annotations

import argparse
import json

from index.base import MatchIndex
from index.model import Operator
from index.registry import ALGORITHMS, DEFAULT

help = "list the matching algorithms"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the form of the output."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print each algorithm with its paper, and what it can do itself."""
    if arguments.json:
        print(json.dumps([described(one) for one in ALGORITHMS.values()], indent=2))
        return 0
    for algorithm in ALGORITHMS.values():
        default = " (default)" if algorithm.name == DEFAULT else ""
        print(f"{algorithm.name}{default}: {algorithm.summary}")
        if algorithm.paper:
            print(f"    paper: {algorithm.paper}")
        if algorithm.companion:
            print(f"    operators: {', '.join(supported(algorithm))}")
            print(f"    companion: {algorithm.companion}")
    return 0


def described(algorithm: type[MatchIndex]) -> dict[str, object]:
    """An algorithm as JSON."""
    return {
        "name": algorithm.name,
        "default": algorithm.name == DEFAULT,
        "summary": algorithm.summary,
        "paper": algorithm.paper,
        "operators": supported(algorithm),
        "companion": algorithm.companion,
    }


def supported(algorithm: type[MatchIndex]) -> list[str]:
    """The operators that the algorithm files itself, in the order of the language."""
    return [operator for operator in Operator if operator in algorithm.operators]
