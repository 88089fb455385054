"""Golden cases through the whole service: REST, store, Kafka, the streaming query, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.case_service import service_target
from deploy.cases import load_cases, run_cases
from deploy.settings import StackSettings
from deploy.stack import Stack
from index.registry import DEFAULT

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@pytest.mark.connected
@pytest.mark.slow
def test_the_service_gives_the_answers_of_the_cases(tmp_path: Path) -> None:
    settings = StackSettings().on_free_ports()
    with (
        Stack(tmp_path, settings, environment={"HERALD_ALGORITHM": DEFAULT}) as stack,
        service_target(stack.env) as target,
    ):
        cases = load_cases(GOLDEN / "semantics.jsonl")
        assert [str(failure) for failure in run_cases(cases, target)] == []
