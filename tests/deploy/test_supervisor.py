"""Dead services come back soon, but not in a storm."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from deploy import supervisor
from deploy.services import DRIVER_FENCED, describe
from deploy.stack import Stack
from deploy.supervisor import BACKOFF_S, HEALTHY_S, Restarts, watch
from streaming.job import CODE_FENCED


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lives_of(restarts: Restarts, clock: Clock, life_s: float, count: int) -> list[float]:
    """The waits before `count` restarts of a service that dies after `life_s` each time."""
    waits = []
    for _ in range(count):
        wait = restarts.died("driver")
        clock.now += wait
        assert restarts.died("driver") == 0
        restarts.started("driver")
        clock.now += life_s
        waits.append(wait)
    return waits


def test_waits_grow_for_a_service_that_dies_at_once() -> None:
    clock = Clock()
    waits = lives_of(Restarts(clock), clock, 0.25, len(BACKOFF_S) + 2)
    assert waits == [*BACKOFF_S, BACKOFF_S[-1], BACKOFF_S[-1]]


def test_a_long_life_is_forgiven() -> None:
    clock = Clock()
    restarts = Restarts(clock)
    lives_of(restarts, clock, 0.25, 4)
    clock.now += HEALTHY_S
    assert lives_of(restarts, clock, HEALTHY_S + 1, 3) == [BACKOFF_S[0]] * 3


def test_services_wait_apart() -> None:
    clock = Clock()
    restarts = Restarts(clock)
    lives_of(restarts, clock, 0.25, 4)
    assert restarts.died("api") == BACKOFF_S[0]


class DeadStack:
    """A stack whose driver always ends at once, with one exit code."""

    def __init__(self, code: int, stopping: threading.Event) -> None:
        self._code = code
        self._stopping = stopping
        self._looks = 0
        self.restarted = 0

    def dead_services(self) -> list[str]:
        self._looks += 1
        if self._looks == 5:
            self._stopping.set()
        return ["driver"]

    def ended_for_good(self, name: str) -> str:
        service = describe(name, Path(), 1, {"HERALD_QUERY_NAME": "herald"})
        return service.final_codes.get(self._code, "")

    def log(self, name: str) -> Path:
        return Path(f"{name}.log")

    def restart(self, name: str, wait: bool) -> None:
        self.restarted += 1


@pytest.mark.parametrize(("code", "restarted"), [(1, True), (-9, True), (DRIVER_FENCED, False)])
def test_a_fenced_driver_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    restarted: bool,
) -> None:
    """It would fence the one that took over, whose supervisor would do the same."""
    monkeypatch.setattr(supervisor, "WATCH_S", 0.001)
    stopping = threading.Event()
    stack = DeadStack(code, stopping)
    watch(cast(Stack, stack), stopping)
    told = capsys.readouterr().out
    assert (stack.restarted > 0) is restarted
    assert told.count("HERALD_QUERY_NAME") == (not restarted), "told once"


def test_the_code_is_that_of_the_driver() -> None:
    assert DRIVER_FENCED == CODE_FENCED
