"""List the algorithms of the registry."""

from __future__ import annotations

import argparse
import json

from index.model import Operator
from index.registry import ALGORITHMS, DEFAULT

help = "list the matching algorithms"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the form of the output."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print each algorithm with what it cannot do itself."""
    algorithms = [
        {
            "name": name,
            "default": name == DEFAULT,
            "summary": algorithm.summary,
            "paper": algorithm.paper,
            "unsupported": sorted(frozenset(Operator) - algorithm.operators),
            "companion": algorithm.companion,
        }
        for name, algorithm in sorted(ALGORITHMS.items())
    ]
    if arguments.json:
        print(json.dumps(algorithms, indent=2))
        return 0
    for one in algorithms:
        print(f"{one['name']}{' (default)' if one['default'] else ''}: {one['summary']}")
        if one["paper"]:
            print(f"    paper: {one['paper']}")
        if one["unsupported"]:
            left = ", ".join(one["unsupported"])
            print(f"    leaves {left} to {one['companion'] or 'nobody: such filters are refused'}")
    return 0
