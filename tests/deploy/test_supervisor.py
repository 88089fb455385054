"""Dead services come back soon, but not in a storm."""

from __future__ import annotations

from deploy.supervisor import BACKOFF_S, HEALTHY_S, Restarts


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
