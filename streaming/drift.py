"""Drift: what recent events look like, and whether the index was built for others.

Workers send a few events of each batch along with their counters. The driver keeps the newest of
them in a file beside the snapshots, and the snapshot process chooses keys by what it finds there.
When events come to meet far more subscriptions in vain than right after the snapshot, a new one is
asked for.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from index.decode import parse_event
from index.errors import EventError
from index.events import Events
from index.statistics import EventStatistics
from streaming.metrics import Metrics

SAMPLE_FILE = "events-sample.jsonl"
SAMPLE_EVENTS = 2_048
SAMPLE_OF_BATCH = 2
"""Events that a worker sends of a batch, for each costs it another decoding."""
SAMPLE_BYTES_MAX = 8_192
"""Larger events are not sampled."""
WRITE_SECONDS = 30.0
WINDOW_EVENTS = 20_000
DRIFTED = 2.0
"""So many times the first window's candidates in vain are drift."""
IN_VAIN_MIN = 50.0
"""Fewer more, an event, are not worth a snapshot."""

_log = logging.getLogger(__name__)


def sample_of(events: Events) -> list[str]:
    """A few events of a batch, spread over it, as JSON."""
    sample = []
    for number in range(min(SAMPLE_OF_BATCH, len(events))):
        with suppress(EventError):
            text = orjson.dumps(events.event(number * len(events) // SAMPLE_OF_BATCH))
            if len(text) <= SAMPLE_BYTES_MAX:
                sample.append(text.decode())
    return sample


def read_statistics(folder: Path) -> EventStatistics | None:
    """What the sampled events look like; None if there are none."""
    try:
        lines = (folder / SAMPLE_FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return None
    statistics = EventStatistics()
    for line in lines:
        with suppress(EventError):
            statistics.observe_event(parse_event(line))
    return statistics if statistics.event_count else None


class DriftMeter:
    """Candidates in vain, an event, against the first window of events after a snapshot."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self._base_epoch = -1
        self._first: float | None = None
        self._events = self._in_vain = 0
        self.ratio = 1.0

    def count(self, facts: Mapping[str, Any], events: int) -> bool:
        """Take in the counts of one worker after so many events more; True if they drifted."""
        base_epoch = int(facts["base_epoch"])
        if base_epoch > self._base_epoch:
            self._base_epoch, self._first, self.ratio = base_epoch, None, 1.0
            self._events = self._in_vain = 0
        in_vain = int(facts.get("candidate_count", 0)) - int(facts.get("hit_count", 0))
        executor = str(facts["executor"])
        known_epoch, before = self._seen.get(executor, (-1, 0))
        self._seen[executor] = base_epoch, in_vain
        if known_epoch != base_epoch or in_vain < before or base_epoch < self._base_epoch:
            return False  # its index is another one by now, and counts anew
        self._events += events
        self._in_vain += in_vain - before
        return self._events >= WINDOW_EVENTS and self._close_window()

    def _close_window(self) -> bool:
        cost = self._in_vain / self._events
        self._events = self._in_vain = 0
        if self._first is None:
            self._first = cost
        self.ratio = cost / max(self._first, 1.0)
        return cost > DRIFTED * self._first and cost - self._first >= IN_VAIN_MIN


class EventWatch:
    """Takes in the counters of every batch, in the driver.

    ask_for_snapshot   is called when events have drifted, once until there is a newer snapshot.
    """

    def __init__(
        self, folder: Path, metrics: Metrics, ask_for_snapshot: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._metrics = metrics
        self._ask_for_snapshot = ask_for_snapshot
        self._sample: deque[str] = deque(maxlen=SAMPLE_EVENTS)
        self._written = float("-inf")
        self._meter = DriftMeter()

    def count(self, counters: Mapping[str, Any]) -> None:
        """Take in the counters of one packed row."""
        self._sample.extend(counters.get("sample", ()))
        if counters.get("index"):
            if self._meter.count(counters["index"], counters.get("rows", 0)):
                _log.info("events have drifted: %.1f times the candidates", self._meter.ratio)
                self._write()
                self._ask_for_snapshot()
            self._metrics.drift.set(self._meter.ratio)
        if self._sample and time.monotonic() - self._written >= WRITE_SECONDS:
            self._write()

    def _write(self) -> None:
        """Let the snapshot process see the sample; without one, it guesses."""
        self._written = time.monotonic()
        path = self._folder / SAMPLE_FILE
        aside = path.with_suffix(".new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            aside.write_text("\n".join(self._sample) + "\n", encoding="utf-8")
            os.replace(aside, path)
        except OSError as error:
            _log.error("the sample of events is not written: %s", error)
