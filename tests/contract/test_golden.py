"""Each algorithm against the worked examples of its paper, tests/golden/<algorithm>.json.

A file lists cases: subscriptions by id, where each is filed (in the words of `filing_of`), and for
some events the matches and how many candidates the algorithm looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from index.events import encode
from index.language import parse_text
from index.model import Subscription
from index.registry import ALGORITHMS
from tests.strategies import NOW

FOLDER = Path(__file__).parent.parent / "golden"


def example_of(name: str) -> Path:
    """The file of an algorithm, or that of what it is a variant of, as name-variant."""
    own = FOLDER / f"{name}.json"
    return own if own.exists() else FOLDER / f"{name.partition('-')[0]}.json"


def golden_cases() -> Iterator[Any]:
    for name in ALGORITHMS:
        path = example_of(name)
        for case in json.loads(path.read_text()) if path.exists() else []:
            yield pytest.param(name, case, id=f"{name}, {case['name']}")


@pytest.mark.parametrize(("name", "case"), list(golden_cases()))
def test_golden(name: str, case: dict[str, Any]) -> None:
    index = ALGORITHMS[name].build(
        [Subscription(one, parse_text(text)) for one, text in case["subscriptions"].items()]
    )
    index.check()
    assert {one: index.filing_of(one) for one in case["subscriptions"]} == case["filed"]
    for asked in case["events"]:
        before = index.stats()["candidate_count"]
        matches = index.match(encode([asked["event"]], index.vocabulary), NOW)
        assert [sorted(ids) for ids in index.ids_by_event(matches)] == [asked["matches"]]
        assert index.stats()["candidate_count"] - before == asked["candidate_count"]


def test_every_algorithm_but_the_oracle_has_an_example() -> None:
    without = [name for name in ALGORITHMS if not example_of(name).exists()]
    assert without == ["scan"]
