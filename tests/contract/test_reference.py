"""Real detection rules on real events: every algorithm finds exactly the expected matches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.commands.match import read_expected
from deploy.filter_files import read_lines, read_subscriptions
from index.base import MatchIndex
from index.events import decode_payloads
from index.registry import ALGORITHMS
from tests.strategies import NOW


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_detection_rules(algorithm: type[MatchIndex], shared: Path) -> None:
    folder = shared / "data" / "sigma"
    index = algorithm.build(read_subscriptions(folder / "rules.jsonl"))
    events, rejected = decode_payloads(read_lines(folder / "events.jsonl"), index.vocabulary)
    assert not rejected
    expected = read_expected(folder / "expected.jsonl")
    found = dict(enumerate(map(set, index.ids_by_event(index.match(events, NOW)))))
    assert json.dumps(found, default=sorted) == json.dumps(expected, default=sorted)
