"""Batch: one micro-batch in the driver, from its pin to the commit of its transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame

from streaming.drift import EventWatch
from streaming.failpoints import hit
from streaming.metrics import Metrics
from streaming.packing import Output, unpack
from streaming.pins import Offsets, Pin, PinLog, instant_now
from streaming.sink import Sink
from streaming.source import planned_offsets
from streaming.tail import Head
from streaming.task import PROPERTY, encode_batch

_log = logging.getLogger(__name__)


class Stopped(Exception):
    """The query is ending; the batch was not begun and is planned again at the next start."""


@dataclass(slots=True)
class Totals:
    """What the terminal shows; written by the batch's thread only."""

    batches: int = 0
    events: int = 0
    notifications: int = 0
    dead_letters: int = 0
    epoch: int = 0
    batch_s: float = 0.0


class BatchRunner:
    """What foreachBatch calls.

    head       gives the newest epoch that may be pinned; it may wait for one.
    clock      nanoseconds since 1970, what batches are pinned by.
    failure    the exception that ended the query, which Spark passes on only as text.
    """

    def __init__(
        self,
        head: Callable[[], Head],
        pins: PinLog,
        sink: Sink,
        metrics: Metrics,
        watch: EventWatch,
        checkpoint: Path,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._head = head
        self._pins = pins
        self._sink = sink
        self._metrics = metrics
        self._watch = watch
        self._checkpoint = checkpoint
        self._clock = clock
        self._previous: Pin | None = None
        self._running = threading.Lock()
        self._stopping = False
        self.parked = threading.Event()
        self.totals = Totals()
        self.failure: BaseException | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run one batch; raises to end the query."""
        with self._running:
            try:
                if self._stopping:
                    # The batch before this one is now known to be recorded by Spark.
                    self.parked.set()
                    raise Stopped
                self._run(frame, batch)
            except BaseException as error:
                self.failure = error
                raise

    def stop(self, timeout_s: float) -> bool:
        """Let the running batch end and no other begin; False if it took too long."""
        self._stopping = True
        if not self._running.acquire(timeout=timeout_s):
            return False
        self._running.release()
        return True

    def oldest_pin(self) -> int | None:
        """The epoch of the newest batch: the oldest one that can be replayed."""
        pin = self._previous or self._pins.newest()
        return None if pin is None else pin.epoch

    def _run(self, frame: DataFrame, batch: int) -> None:
        started = time.perf_counter()
        end = planned_offsets(self._checkpoint, batch)
        hit("batch.planned")
        pin, is_replay = self._pin(batch, end)
        hit("batch.pinned")
        self._previous = pin
        pinned = time.perf_counter()
        self._metrics.step_seconds.labels("pin").observe(pinned - started)
        if not self._sink.covers(end):
            outputs = self._match(frame, pin, is_replay)
            matched = time.perf_counter()
            hit("batch.matched")
            self._metrics.step_seconds.labels("spark").observe(matched - pinned)
            self._sink.write(outputs, end)
            self._metrics.step_seconds.labels("write").observe(time.perf_counter() - matched)
        self._metrics.batches.inc()
        self._metrics.pinned_epoch.set(pin.epoch)
        self._metrics.epoch_lag.set(self._head().epoch - pin.epoch)
        self.totals.batches += 1
        self.totals.epoch = pin.epoch
        self.totals.batch_s = time.perf_counter() - started
        self._metrics.batch_seconds.observe(self.totals.batch_s)

    def _pin(self, batch: int, end: Offsets) -> tuple[Pin, bool]:
        """The batch's pin, and whether an earlier driver had made it."""
        wanted = self._wanted(batch, end)
        pin = self._pins.pin(wanted)
        if pin is not wanted:
            _log.info("batch %d is replayed at epoch %d", batch, pin.epoch)
        return pin, pin is not wanted

    def _wanted(self, batch: int, end: Offsets) -> Pin:
        head = self._head()
        before = self._previous
        if before is None or before.batch != batch - 1:
            before = self._pins.find(batch - 1)
        start = {} if before is None else before.end
        return Pin(batch, head.epoch, head.lineage, instant_now(self._clock()), start, end)

    def _match(self, frame: DataFrame, pin: Pin, is_replay: bool) -> list[Output]:
        try:
            return self._match_at(frame, pin)
        except Exception as error:
            if "RefreshError" not in str(error):
                raise
            # The store lost this epoch, or a snapshot was lost that led to it. Nothing at it has
            # become visible in exactly_once, nor ever of a batch that is no replay, so the batch
            # may be matched at another one.
            newer = replace(self._wanted(pin.batch, pin.end), start=pin.start)
            if not is_replay and (newer.epoch, newer.lineage) == (pin.epoch, pin.lineage):
                raise
            _log.error(
                "batch %d cannot be matched at epoch %d any more, it is matched at %d: %s",
                pin.batch,
                pin.epoch,
                newer.epoch,
                error,
            )
            self._pins.replace(newer)
            self._previous = newer
            return self._match_at(frame, newer)

    def _match_at(self, frame: DataFrame, pin: Pin) -> list[Output]:
        committed = self._sink.committed if self._sink.skips_committed else {}
        context = frame.sparkSession.sparkContext
        context.setLocalProperty(PROPERTY, encode_batch(pin, committed))
        packed = frame.toArrow()
        outputs = []
        for notifications, dead_letters, counters in zip(
            *(column.to_pylist() for column in packed.columns), strict=True
        ):
            self._count(orjson.loads(counters))
            outputs.append(unpack(notifications, dead_letters))
        return outputs

    def _count(self, counters: dict[str, Any]) -> None:
        self._metrics.count_row(counters)
        self._watch.count(counters)
        for step in ("refresh", "decode", "match", "notify"):
            if (seconds := counters.get(f"{step}_s")) is not None:
                self._metrics.step_seconds.labels(step).observe(seconds)
        self.totals.events += counters.get("rows", 0)
        self.totals.notifications += counters.get("notifications", 0)
        self.totals.dead_letters += sum(counters.get("rejected", {}).values())
