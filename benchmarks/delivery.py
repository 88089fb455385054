"""`./herald bench delivery`: what exactly_once costs against at_least_once, in one run.

Both are the same query on the same stack, each with topics and a checkpoint of its own; they run in
turn, and every other round in the other order. Whoever reads, reads committed records only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks import latency, pipeline, variant
from deploy.stack import Stack

DELIVERIES = ("exactly_once", "at_least_once")
LATENCY_WARM_S = 15.0
"""After a round at full speed, which compiled what there is to compile."""


@dataclass
class Measured:
    """One delivery: a rate and a median latency by round, and all latencies."""

    events_per_s: list[float] = field(default_factory=list)
    p50_s: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, object]:
        """As they are told."""
        return {
            "events_per_s": round(statistics.median(self.events_per_s)),
            "notifications_timed": len(self.seconds),
            "latency_p50_ms": round(1e3 * pipeline.quantile(self.seconds, 0.50), 1),
            "latency_p99_ms": round(1e3 * pipeline.quantile(self.seconds, 0.99), 1),
            "latency_p50_ms_by_round": [round(1e3 * value, 1) for value in self.p50_s],
        }


def bench(
    stack: Stack,
    payloads: Sequence[bytes],
    records: Sequence[int],
    amounts: tuple[int, float],
    progress: Callable[[str], None],
) -> dict[str, object]:
    """Rates and latencies of both deliveries.

    records   notifications of each payload
    amounts   rounds, and seconds in which latency is measured, of each delivery in each round
    """
    rounds, latency_s = amounts
    checkpoint = stack.env["HERALD_CHECKPOINT_DIR"]
    measured = {name: Measured() for name in DELIVERIES}
    for number in range(1, rounds + 1):
        for name in DELIVERIES if number % 2 else reversed(DELIVERIES):
            progress(f"round {number} of {rounds}: {name}")
            variables = {"HERALD_DELIVERY": name}
            variant.start(stack, name.replace("_", "-"), variables, checkpoint)
            _measure(stack, payloads, records, latency_s, measured[name])
    one, other = (measured[name] for name in DELIVERIES)
    ratios = [a / b for a, b in zip(one.events_per_s, other.events_per_s, strict=True)]
    p50_s = [pipeline.quantile(each.seconds, 0.50) for each in (one, other)]
    return {
        "events": len(payloads),
        "notifications": sum(records),
        "rounds": rounds,
        "latency_events_per_s": pipeline.LATENCY_EVENTS_PER_S,
        "latency_warm_s": LATENCY_WARM_S,
        **{
            f"{name}_{figure}": value
            for name in DELIVERIES
            for figure, value in measured[name].figures().items()
        },
        "ratio": round(statistics.median(ratios), 3),
        "ratio_by_round": [round(ratio, 3) for ratio in ratios],
        "latency_p50_ms_more": round(1e3 * (p50_s[0] - p50_s[1]), 1),
    }


def _measure(
    stack: Stack,
    payloads: Sequence[bytes],
    records: Sequence[int],
    latency_s: float,
    into: Measured,
) -> None:
    into.events_per_s.append(pipeline.rate(stack, payloads, lambda _: None, sum(records)))
    heard = latency.notification_latencies(
        stack.env, payloads, pipeline.LATENCY_EVENTS_PER_S, latency_s, LATENCY_WARM_S
    )
    wanted = told_of(records, heard.published)
    if heard.notifications != wanted:
        raise pipeline.RecordsDifferError(
            f"{heard.notifications:,} notifications came out of {heard.published:,} events, "
            f"not {wanted:,}"
        )
    into.seconds += heard.seconds
    into.p50_s.append(statistics.median(heard.seconds))


def told_of(records: Sequence[int], published: int) -> int:
    """How many notifications so many events have, when payloads are published over and over."""
    rounds, rest = divmod(published, len(records))
    sums = list(accumulate(records, initial=0))
    return rounds * sums[-1] + sums[rest]
