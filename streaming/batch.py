"""Batch: one micro-batch in the driver, from its pin to the commit of its last transaction.

Most batches are told of in one pass: a job of Spark, and a transaction. One whose output is larger
than a transaction should be is told of in several; each goes on where the one before was committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame

from streaming.drift import EventWatch
from streaming.failpoints import hit
from streaming.metrics import Metrics
from streaming.offset_log import planned_offsets
from streaming.pace import Pace
from streaming.packing import Output, unpack
from streaming.pins import Offsets, Pin, PinLog, instant_now
from streaming.positions import Mark, Positions
from streaming.sink import Sink
from streaming.tail import Head
from streaming.task import PROPERTY, encode_batch

_log = logging.getLogger(__name__)


class Stopped(Exception):
    """The query is ending; the batch was not begun or not ended, and the next start takes it up."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the workers hand over in one pass, and the positions that this reaches."""

    outputs: list[Output]
    reached: Positions

    def stop_at(self, left: Mapping[str, Mapping[str, tuple[int, int, int]]], pin: Pin) -> None:
        """Some events, by topic and partition, are left to another pass, wholly or in part."""
        for topic, partitions in left.items():
            for name, (offset, part, parts) in partitions.items():
                self.reached.offsets[topic][int(name)] = offset
                if part:
                    mark = Mark(part, parts, pin.epoch, pin.lineage, pin.now)
                    self.reached.marks.setdefault(topic, {})[int(name)] = mark


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
    pace       decides whether a batch runs as planned, and is told what batches took.
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
        pace: Pace,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._head = head
        self._pins = pins
        self._sink = sink
        self._metrics = metrics
        self._watch = watch
        self._checkpoint = checkpoint
        self._pace = pace
        self._clock = clock
        self._previous: Pin | None = None
        self._passes = 0
        self._refresh_s = 0.0
        self._running = threading.Lock()
        self._stopping = False
        self.parked = threading.Event()
        self.totals = Totals()
        self.failure: BaseException | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run one batch; raises to end the query."""
        with self._running:
            self.failure = None
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
        if pin.end != end:
            self._pace.turn(batch, pin.end)
        self._previous = pin
        pinned = time.perf_counter()
        self._metrics.step_seconds.labels("pin").observe(pinned - started)
        self._passes, self._refresh_s = 0, 0.0
        while self._sink.positions.lacking(Positions(end)):
            if self._passes:
                self._between_passes()
            pin = self._run_pass(frame, pin, is_replay)
            self._passes += 1
        if self._passes:
            # What workers took to reach the epoch is no cost of events: fewer would not spare it.
            self._pace.note(batch, end, time.perf_counter() - pinned - self._refresh_s)
        self._metrics.batches.inc()
        self._metrics.pinned_epoch.set(pin.epoch)
        self._metrics.epoch_lag.set(self._head().epoch - pin.epoch)
        self.totals.batches += 1
        self.totals.epoch = pin.epoch
        self.totals.batch_s = time.perf_counter() - started
        self._metrics.batch_seconds.observe(self.totals.batch_s)

    def _between_passes(self) -> None:
        """A moment at which the batch may be left: the next driver goes on from here."""
        hit("pass.committed")
        if self._stopping:
            self.parked.set()
            raise Stopped

    def _run_pass(self, frame: DataFrame, pin: Pin, is_replay: bool) -> Pin:
        """Match and write as much of a batch as one transaction holds; the pin it was done at."""
        started = time.perf_counter()
        pin, told = self._match(frame, pin, is_replay)
        matched = time.perf_counter()
        hit("batch.matched")
        self._metrics.step_seconds.labels("spark").observe(matched - started)
        self._sink.write(told.outputs, told.reached)
        self._metrics.step_seconds.labels("write").observe(time.perf_counter() - matched)
        self._metrics.passes.inc()
        return pin

    def _pin(self, batch: int, end: Offsets) -> tuple[Pin, bool]:
        """The batch's pin, and whether an earlier driver had made it."""
        known = self._pins.find(batch)
        if known is None:
            wanted = self._wanted(batch, self._pace.end_of(batch, end))
            known = self._pins.pin(wanted)
            if known is wanted:
                return wanted, False
        _log.info("batch %d was pinned before, at epoch %d", batch, known.epoch)
        pin = self._with_partly(known)
        if pin is not known:
            self._pins.replace(pin)
        return pin, True

    def _wanted(self, batch: int, end: Offsets) -> Pin:
        head = self._head()
        before = self._previous
        if before is None or before.batch != batch - 1:
            before = self._pins.find(batch - 1)
        start = {} if before is None else before.end
        now = instant_now(self._clock())
        return self._with_partly(Pin(batch, head.epoch, head.lineage, now, start, end))

    def _with_partly(self, pin: Pin) -> Pin:
        """The pin, with the events of its batch that have been told of in part at another one."""
        partly = {topic: dict(one) for topic, one in pin.partly.items()}
        for topic, partition, offset, mark in self._sink.positions.each():
            is_within = offset < pin.end.get(topic, {}).get(partition, 0)
            if mark is not None and is_within and not mark.is_of(pin):
                partly.setdefault(topic, {})[partition] = (offset, mark.part, mark.parts)
        return pin if partly == pin.partly else replace(pin, partly=partly)

    def _match(self, frame: DataFrame, pin: Pin, is_replay: bool) -> tuple[Pin, Told]:
        try:
            return pin, self._match_at(frame, pin)
        except Exception as error:
            if "RefreshError" not in str(error):
                raise
            # The store lost this epoch, or a snapshot was lost that led to it. What the batch has
            # told already stays; of what is left nothing at this epoch has become visible in
            # exactly_once, nor ever of a batch that is no replay, so it may be matched at another.
            newer = self._wanted(pin.batch, pin.end)
            newer = replace(newer, start=pin.start)
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
            return newer, self._match_at(frame, newer)

    def _match_at(self, frame: DataFrame, pin: Pin) -> Told:
        positions = self._sink.positions
        waiting = positions.lacking(Positions(pin.end))
        share_bytes = max(1, self._sink.bytes_max // max(1, waiting))
        context = frame.sparkSession.sparkContext
        context.setLocalProperty(PROPERTY, encode_batch(pin, positions, share_bytes))
        packed = frame.toArrow()
        told = Told([], Positions({topic: dict(one) for topic, one in pin.end.items()}))
        refresh_s = 0.0
        for notifications, dead_letters, encoded in zip(
            *(column.to_pylist() for column in packed.columns), strict=True
        ):
            counters = orjson.loads(encoded)
            self._count(counters)
            refresh_s = max(refresh_s, counters.get("refresh_s", 0.0))
            told.outputs.append(unpack(notifications, dead_letters))
            told.stop_at(counters.get("reached", {}), pin)
        self._refresh_s += refresh_s
        return told

    def _count(self, counters: dict[str, Any]) -> None:
        if self._passes:  # what is left out was told of in the passes before, not before a replay
            counters.pop("skipped", None)
        self._metrics.count_row(counters)
        self._watch.count(counters)
        for step in ("refresh", "decode", "match", "notify"):
            if (seconds := counters.get(f"{step}_s")) is not None:
                self._metrics.step_seconds.labels(step).observe(seconds)
        self.totals.events += counters.get("rows", 0) - counters.get("untold", 0)
        self.totals.notifications += counters.get("notifications", 0)
        self.totals.dead_letters += sum(counters.get("rejected", {}).values())
