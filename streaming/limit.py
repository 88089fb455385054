"""Limit: how many events a micro-batch may have, so that a full one takes about a target.

Spark's source takes a fixed number. Where events cost much, so many take minutes, in which no write
takes effect; where they cost little, a small number wastes the fixed part of a batch.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import orjson

FORMAT_VERSION = 1
FILE = "herald-limit.json"
FIRST = 5_000
"""Events of a batch before anything is known: a second's work even where each costs 200 µs."""
LEAST = 10
"""Below it a batch is all overhead, whatever an event costs."""
CHANGE_MIN = 2.0
"""A wanted limit that differs by less is not worth a restart of the query."""
SAMPLES_MAX = 4
"""Batches over which the cost is averaged: two in a row that are noise do not move it far."""
SECONDS_MIN = 1e-3
"""No batch takes less; a clock may say so."""
FULL = 0.5
"""A batch with this share of the limit tells what an event costs; a smaller one is overhead."""


class BatchLimit:
    """Measured batches in, a limit out; knows neither Spark nor a clock.

    value    events, between LEAST and the maximum; it changes by CHANGE_MIN times or more, or to
             one of its bounds.

    The cost of an event is the geometric mean of the last few batches since the last change, for
    what disturbs a batch multiplies its time. A batch counts when it is half full or takes longer
    than the target, however few events it has.
    """

    def __init__(self, value: int, events_max: int, target_s: float) -> None:
        self._events_max = events_max
        self._least = min(LEAST, events_max)
        self._target_s = target_s
        self._log_cost = 0.0
        self._samples = 0
        self.value = self._within(value)

    def note(self, events: int, seconds: float) -> bool:
        """Take in a batch that was written; whether the limit is another one now."""
        if events < 1:
            return False
        if events < FULL * self.value and seconds < self._target_s:
            return False
        cost = math.log(max(seconds, SECONDS_MIN) / events)
        self._samples = min(self._samples + 1, SAMPLES_MAX)
        self._log_cost += (cost - self._log_cost) / self._samples
        wanted = self._within(self._target_s / math.exp(self._log_cost))
        if max(wanted, self.value) < CHANGE_MIN * min(wanted, self.value):
            return False
        self.value, self._samples = wanted, 0
        return True

    def _within(self, events: float) -> int:
        return round(max(self._least, min(self._events_max, events)))


def load_limit(checkpoint: Path) -> int:
    """What the last driver of this checkpoint knew; FIRST if none did, or its file is damaged."""
    try:
        fields = orjson.loads((checkpoint / FILE).read_bytes())
        return int(fields["limit"]) if fields["v"] == FORMAT_VERSION else FIRST
    except (OSError, ValueError, KeyError, TypeError):
        return FIRST


def save_limit(checkpoint: Path, limit: int) -> None:
    """Leave the limit for the next driver; OSError if that is impossible."""
    aside = checkpoint / f".{FILE}.{os.getpid()}.tmp"
    aside.write_bytes(orjson.dumps({"v": FORMAT_VERSION, "limit": limit}))
    os.replace(aside, checkpoint / FILE)
