"""Pace: whether a batch runs as Spark has planned it, and the limit that the next query gets.

Spark's source takes its limit when a query starts, and divides it in proportion to what waits in
each partition. So where the limit has become another one, or a partition gets hardly anything of a
batch beside one with a long queue, the batch is pinned with another end than Spark's, its plan is
exchanged for the pinned one, and the query is started again in the same session: it finds the new
plan, and goes on with the new limit. The pin decides; a driver that finds a plan which differs from
its batch's pin, as after a crash in between, exchanges it as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaException

from streaming.limit import BatchLimit, save_limit
from streaming.metrics import Metrics
from streaming.offset_log import is_planned, planned_offsets, replace_plan
from streaming.pins import Offsets
from streaming.shares import fair_end, size_of, starved

QUEUE_BATCHES_MIN = 3
"""With fewer full batches waiting, a short queue does not wait long behind a long one."""
TURN_SHARE_MAX = 0.2
"""Of a driver's time, what starting again for even shares may take."""

_log = logging.getLogger(__name__)


class Replanned(Exception):
    """A batch has another plan now; the query must be started again to find it."""


class Pace:
    """The limit of a driver, and the plans it exchanges.

    ends    asks the broker for the ends of all partitions; KafkaException if it does not answer.
    clock   seconds, from any beginning.

    `limit_to_apply` is called while no query runs, everything else by the batch's thread.
    """

    def __init__(
        self,
        limit: BatchLimit,
        ends: Callable[[], Offsets],
        checkpoint: Path,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._ends = ends
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._clock = clock
        self._applied = limit.value
        self._turning = -1
        self._turn_began = self._turn_s = 0.0
        self._turn_ended = -1e9
        metrics.batch_limit.set(limit.value)

    def limit_to_apply(self) -> int:
        """The limit for the query that is about to start."""
        self._applied = self._limit.value
        return self._applied

    def end_of(self, batch: int, planned: Offsets) -> Offsets:
        """Where a batch that is not pinned shall end; mostly where Spark has planned it."""
        start = self._start(batch)
        size, limit = size_of(start, planned), self._limit.value
        shrinks = limit < self._applied and size > limit
        if not shrinks and 2 * size < self._applied:
            return planned  # it has all that waits
        try:
            latest = self._ends()
        except KafkaException as error:
            _log.warning("batch %d stays as planned, the broker does not answer: %s", batch, error)
            return planned
        fair = fair_end(start, latest, limit)
        if shrinks or (limit > self._applied and size_of(start, latest) > 2 * self._applied):
            reason = "limit"
        elif self._is_skewed(start, planned, latest, fair):
            reason = "skew"
        else:
            return planned
        self._metrics.replans.labels(reason).inc()
        return _over(planned, fair)

    def turn(self, batch: int, pinned: Offsets) -> NoReturn:
        """Have Spark plan a batch as it is pinned; raises Replanned."""
        self._turning, self._turn_began = batch, self._clock()
        replace_plan(self._checkpoint, batch, pinned)
        raise Replanned(f"batch {batch} is planned anew, to end at {pinned}")

    def note(self, batch: int, end: Offsets, seconds: float) -> None:
        """Take in a batch that was written, and the time of matching and writing it."""
        if batch == self._turning:
            self._turning, self._turn_ended = -1, self._clock()
            turn_s = self._turn_ended - self._turn_began - seconds
            # One that was disturbed must not keep short queues waiting ten times as long.
            self._turn_s = (self._turn_s + turn_s) / 2 if self._turn_s else turn_s
            self._metrics.turn_seconds.observe(turn_s)
        before, events = self._limit.value, size_of(self._start(batch), end)
        if not self._limit.note(events, seconds):
            return
        limit = self._limit.value
        _log.info("%d events took %.1f s: limit %d, was %d", events, seconds, limit, before)
        self._metrics.batch_limit.set(limit)
        try:
            save_limit(self._checkpoint, limit)
        except OSError as error:
            _log.warning("the next driver will not know the limit: %s", error)

    def _is_skewed(self, start: Offsets, planned: Offsets, latest: Offsets, fair: Offsets) -> bool:
        waits_long = size_of(start, latest) > QUEUE_BATCHES_MIN * self._limit.value
        may_turn = self._turn_s <= TURN_SHARE_MAX * (self._clock() - self._turn_ended)
        return waits_long and may_turn and bool(starved(start, planned, fair))

    def _start(self, batch: int) -> Offsets:
        """Where Spark begins a batch; nothing is known of the first one."""
        before = batch - 1
        if not is_planned(self._checkpoint, before):
            return {}
        return planned_offsets(self._checkpoint, before)


def _over(planned: Offsets, fair: Offsets) -> Offsets:
    """The even shares; of partitions that have none, as they are so new, what Spark planned."""
    return {topic: {**ends, **fair.get(topic, {})} for topic, ends in planned.items()}
