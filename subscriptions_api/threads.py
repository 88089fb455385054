"""Work that would hold up the event loop, each kind in threads of its own.

A slow Kafka, a heavy dry run or a large batch may fill its own threads, never those in which
single subscriptions are read and written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

BATCHES_MAX = 2
PUBLISHING_MAX = 64
DRY_RUNS_MAX = 4

P = ParamSpec("P")
R = TypeVar("R")


async def run_in(
    limiter: CapacityLimiter, work: Callable[P, R], *given: P.args, **named: P.kwargs
) -> R:
    """Run something in one of a kind's threads."""
    return await to_thread.run_sync(partial(work, *given, **named), limiter=limiter)


@dataclass(frozen=True)
class Threads:
    """How many threads each kind of work may have."""

    batches: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(BATCHES_MAX))
    publishing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(PUBLISHING_MAX))
    dry_runs: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(DRY_RUNS_MAX))
