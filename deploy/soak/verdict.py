"""Verdict: what grew during a soak, and whether that is allowed.

A figure goes up and down: a heap until it is collected, the log until it is trimmed. So the middle
of the first fifth of the time after the warm-up is compared with the middle of the last fifth.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deploy.soak.lag import Lag, quantile
from deploy.soak.memory import PASSING
from deploy.soak.sampling import Sample

GROWTH_MAX = {"memory": 0.05, "log": 0.25, "count": 0.25, "bytes": 0.25}
"""By kind of figure; what is trimmed in steps is at another step at each look."""
LAG_P99_S_MAX = 1.0
RATE_SHARE_MIN = 0.98
"""Of the rates asked for; below it the soak has not put the load on that it speaks of."""
PART = 5
"""The first and the last of so many parts of the time are compared."""
SEEN_SHARE_MIN = 0.5
"""A process seen in fewer samples came and went: the store's, when it writes its file anew."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One figure: its middle at the beginning and at the end, and the most it ever was."""

    name: str
    begin: float
    end: float
    most: float
    allowed: float

    @property
    def share(self) -> float:
        """What it grew by, as a share of what it was."""
        return self.end / self.begin - 1 if self.begin else float(self.end > 0)

    @property
    def holds(self) -> bool:
        """Whether it is no more than allowed."""
        return self.share < self.allowed


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
    judged = [one for one in samples if one.at_s >= since_s]
    if len(judged) < 2:
        return
    part_s = (judged[-1].at_s - since_s) / PART
    for name in sorted({name for one in judged for name in one.figures}):
        kind, _, title = name.partition("/")
        values = [(one.at_s, one.figures[name]) for one in judged if name in one.figures]
        is_lasting = len(values) >= SEEN_SHARE_MIN * len(judged)
        if kind not in GROWTH_MAX or not (is_lasting or title in PASSING):
            continue
        begin = [value for at_s, value in values if at_s <= since_s + part_s]
        end = [value for at_s, value in values if at_s >= judged[-1].at_s - part_s]
        if begin and end:
            middle = statistics.median
            most = max(value for _, value in values)
            yield Growth(name, middle(begin), middle(end), most, GROWTH_MAX[kind])
