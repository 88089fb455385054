"""Golden cases: told to every algorithm, in every way that must not change the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.case_index import IndexTarget, ways_of
from deploy.cases import (
    ACCEPTED,
    DEAD_LETTER,
    Case,
    CaseTarget,
    Outcome,
    Publication,
    Write,
    load_cases,
    run_cases,
)
from deploy.environment import UserError
from index.registry import ALGORITHMS

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TARGETS = [
    pytest.param(algorithm, way, id=f"{name}, {way}")
    for name, algorithm in sorted(ALGORITHMS.items())
    for way in ways_of(algorithm)
]


def failures_of(path: Path, target: CaseTarget) -> list[str]:
    return [str(failure) for failure in run_cases(load_cases(path), target)]


@pytest.mark.large
@pytest.mark.parametrize(("algorithm", "way"), TARGETS)
def test_semantics(algorithm: Any, way: str) -> None:
    assert failures_of(GOLDEN / "semantics.jsonl", IndexTarget(algorithm, way)) == []


@pytest.mark.large
@pytest.mark.parametrize(("algorithm", "way"), TARGETS)
def test_reference_cases(algorithm: Any, way: str, shared: Path) -> None:
    assert failures_of(shared / "cases" / "matching.jsonl", IndexTarget(algorithm, way)) == []


class Parrot:
    """A target that accepts every write and says of every event what it was told to say."""

    name = "parrot"

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.writes: list[tuple[str, bool]] = []

    def write(self, writes: Sequence[Write]) -> list[str]:
        self.writes += [(write.id, write.form is None) for write in writes]
        return [ACCEPTED for _ in writes]

    def publish(self, publications: Sequence[Publication]) -> list[Outcome]:
        return [self.outcome for _ in publications]


def case(*when: dict[str, Any], number: int = 1) -> Case:
    given = ({"id": "A", "expr": "a = 1"},)
    return Case(number, "a case", "here", given, when)


def told(target: Parrot, *cases: Case) -> list[tuple[int, int, object, object]]:
    failures = run_cases(cases, target)
    return [(one.case.number, one.step, one.expected, one.got) for one in failures]


def test_a_wrong_answer_is_reported_with_its_step() -> None:
    heard = Parrot(frozenset({"case1-A", "case2-B", "somebody else"}))
    steps = ({"event": {}, "expect": ["A"]}, {"event_json": "{", "expect": "dead letter"})
    assert told(heard, case(*steps)) == [(1, 2, "dead letter", ["A"])]
    assert told(Parrot(DEAD_LETTER), case(*steps)) == [(1, 1, ["A"], "dead letter")]
    assert told(heard, case({"event": {}, "expect": []}, number=2)) == [(2, 1, [], ["B"])]


def test_a_registration_that_should_be_refused() -> None:
    step = {"register": {"id": "R", "expr": "a ="}, "expect": "refused"}
    assert told(Parrot(frozenset()), case(step)) == [(1, 1, "refused", "accepted")]


def test_cases_advance_together_under_ids_of_their_own() -> None:
    parrot = Parrot(frozenset())
    update = {"update": {"id": "A", "expr": "a = 2"}}
    told(parrot, case({"delete": "A"}, update), case({"delete": "A"}, number=7))
    assert parrot.writes == [
        ("case1-A", False),
        ("case7-A", False),
        ("case1-A", True),
        ("case7-A", True),
        ("case1-A", False),
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"name": "x", "given": []}', '"text"'])
def test_a_line_that_is_no_case_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "cases.jsonl"
    good = json.dumps({"name": "x", "given": [], "when": []})
    path.write_text(f"{good}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match="line 3 is no case"):
        load_cases(path)


def test_an_unknown_step_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="step 1 is of no known kind"):
        told(Parrot(frozenset()), case({"restart": True}))
    with pytest.raises(UserError, match=r"cannot read .*nowhere"):
        load_cases(tmp_path / "nowhere")
