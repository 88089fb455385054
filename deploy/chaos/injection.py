"""Injection: what a fault leaves behind beside the history, and how it says what broke."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

POLL_S = 0.05
PATIENCE_S = 300.0
"""For what comes within seconds: on a busy machine it takes minutes, which breaks nothing."""


class Broken(Exception):
    """Something that a fault must not break is broken: what was expected, and what came."""


@dataclass
class Outage:
    """When the query could not hear of writes, in nanoseconds since 1970."""

    began: int
    ended: int = 0


@dataclass
class Injection:
    """What came of one injection, beside the history.

    healed       when nothing was injected any more, and where the topic of events ended then.
    recovered_s  from there until the query had told of all events before.
    outages      of the store, as the query sees it.
    restarts     of a driver that had ended, as the supervisor of a stack starts it.
    """

    healed: tuple[float, list[int]] | None = None
    recovered_s: float | None = None
    outages: list[Outage] = field(default_factory=list)
    restarts: int = 0


def await_true(condition: Callable[[], bool], words: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until something is so; Broken says what was not."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Broken(f"{words} within {timeout_s:g} s")
        time.sleep(POLL_S)


def expect(condition: bool, words: str) -> None:
    """Broken with these words unless it is so."""
    if not condition:
        raise Broken(words)
