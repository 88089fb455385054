"""`./herald test` in parts: each test belongs to one, and none hides the failure of another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from deploy.commands import test as command

UNIT, CONNECTED, PATIENT, QUERIES = command.PARTS


def codes(monkeypatch: pytest.MonkeyPatch, of: Mapping[str, int]) -> list[str]:
    """Have each part end with a code of its own, or 0; the parts in the order of their starts."""
    started: list[str] = []

    def pytest_command(part: str, rest: object) -> dict[str, Any]:
        started.append(part)
        return {"args": [sys.executable, "-c", f"print('{part}'); exit({of.get(part, 0)})"]}

    monkeypatch.setattr(command, "pytest_command", pytest_command)
    monkeypatch.setattr(command, "find_java", lambda: "java")
    return started


def test_random_faults_run_beside_the_tests_without_services(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started = codes(monkeypatch, {})
    assert command.run_parts(list(command.PARTS), []) == 0
    assert started == [UNIT, CONNECTED, PATIENT, QUERIES]
    assert capfd.readouterr().out.split() == [CONNECTED, PATIENT, UNIT, QUERIES]


@pytest.mark.parametrize("part", list(command.PARTS))
def test_the_failure_of_any_part_is_that_of_all(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    started = codes(monkeypatch, {part: 1})
    assert command.run_parts(list(command.PARTS), []) == 1
    assert len(started) == len(command.PARTS)


def test_parts_in_which_no_test_fits_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = dict.fromkeys(command.PARTS, command.NOTHING_COLLECTED)
    codes(monkeypatch, {**nothing, QUERIES: 0})
    assert command.run_parts(list(command.PARTS), []) == 0
    codes(monkeypatch, nothing)
    assert command.run_parts(list(command.PARTS), []) == command.NOTHING_COLLECTED


def test_every_test_belongs_to_one_part() -> None:
    for connected, slow, patient in product((False, True), repeat=3):
        marks = {"connected": connected, "slow": slow, "patient": patient}
        if patient and not (connected and slow):
            continue  # who is patient has all three
        fits = [eval(selection[1], {}, marks) for selection in command.PARTS.values()]
        assert fits.count(True) == 1, marks
