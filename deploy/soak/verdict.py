"""Verdict: what grew during a soak, and whether that is allowed.

A figure goes up and down: a heap until it is collected, the log until it is trimmed, a worker while
it moves to a newer snapshot. So what is compared is how high it goes: the value that one in ten
samples exceeds, in the first fifth of the time after the warm-up and in the last fifth. A median
would say where in its rhythm a figure happened to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from deploy.soak.lag import Lag, quantile
from deploy.soak.sampling import Sample

GROWTH_MAX = {"memory": 0.05, "log": 0.25, "count": 0.25, "bytes": 0.25}
"""By kind of figure; what is trimmed in steps is at another step at each look."""
STEP = {"count": 1}
"""By kind: so much more is no growth; whether a file is there is a matter of the moment."""
LAG_P99_S_MAX = 1.0
RATE_SHARE_MIN = 0.98
"""Of the rates asked for; below it the soak has not put the load on that it speaks of."""
PARTS = 5
"""The first and the last of so many parts of the samples are compared."""
HIGH = 0.9
"""The share of a part's samples that are not above what is compared."""
SEEN_SHARE_MIN = 0.5
"""A process seen in fewer samples came and went: the store's, when it writes its file anew."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One figure: how high it went at the beginning and at the end, and the most it ever was.

    allowed, step   it may grow by less than this share, and in any case by this much.
    """

    name: str
    begin: float
    end: float
    most: float
    allowed: float
    step: float = 0.0

    @property
    def share(self) -> float:
        """What it grew by, as a share of what it was."""
        return self.end / self.begin - 1 if self.begin else float(self.end > 0)

    @property
    def holds(self) -> bool:
        """Whether it is no more than allowed."""
        return self.share < self.allowed or 0 < self.end - self.begin <= self.step


@dataclass(frozen=True, slots=True)
class Rate:
    """Of writes or events a second: asked for, and done."""

    name: str
    asked: float
    done: float

    @property
    def holds(self) -> bool:
        """Whether the load was put on."""
        return self.done >= RATE_SHARE_MIN * self.asked


@dataclass(frozen=True, slots=True)
class LagFigures:
    """How long after their acknowledgement writes were in effect, in seconds."""

    writes: int
    p50_s: float
    p99_s: float
    most_s: float

    @classmethod
    def of(cls, lags: Sequence[Lag]) -> LagFigures:
        """Of all these; none is NaN, which does not hold."""
        p50_s, p99_s, most_s = (quantile(lags, share) for share in (0.5, 0.99, 1.0))
        return cls(sum(lag.writes for lag in lags), p50_s, p99_s, most_s)

    @property
    def holds(self) -> bool:
        """Whether nearly all were soon."""
        return self.p99_s < LAG_P99_S_MAX


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything judged.

    broken    what ended, or was not done, in words.
    """

    growths: tuple[Growth, ...]
    lag: LagFigures
    rates: tuple[Rate, ...]
    notifications: int
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        held = [one.holds for one in self.growths] + [one.holds for one in self.rates]
        return not self.broken and bool(self.growths) and self.lag.holds and all(held)

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "holds": self.holds,
            "lag": {**asdict(self.lag), "holds": self.lag.holds},
            "rates": [{**asdict(one), "holds": one.holds} for one in self.rates],
            "growths": [
                {**asdict(one), "share": one.share, "holds": one.holds} for one in self.growths
            ],
            "notifications": self.notifications,
            "broken": list(self.broken),
        }


def growths_of(samples: Sequence[Sample], since_s: float) -> Iterator[Growth]:
    """Of every figure that must not grow, by the samples from `since_s` on."""
    judged = [one.figures for one in samples if one.at_s >= since_s]
    for name in sorted({name for figures in judged for name in figures}):
        kind = name.partition("/")[0]
        values = [figures[name] for figures in judged if name in figures]
        is_lasting = len(values) >= max(2, SEEN_SHARE_MIN * len(judged))
        if kind in GROWTH_MAX and is_lasting:
            length = max(1, len(values) // PARTS)
            parts = values[:length], values[-length:]
            begin, end = (float(np.quantile(part, HIGH, method="lower")) for part in parts)
            allowed, step = GROWTH_MAX[kind], STEP.get(kind, 0)
            yield Growth(name, begin, end, max(values), allowed, step)
