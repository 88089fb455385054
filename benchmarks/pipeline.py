"""`./herald bench pipeline`: the whole path on the embedded stack against a pass-through of it.

The pass-through is the same query with the matcher taken out: the same source, workers, packing,
transaction and sink, one record for each event. Both run in turn on the same broker in the same
run, so their ratio says what decoding, matching and notifying cost, and where an event has several
notifications, what more records cost: the processor time of each process tells them apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from benchmarks import latency, variant
from benchmarks.processor import Stopwatch
from deploy.flow import Flow
from deploy.stack import Stack

PASSTHROUGH = {"HERALD_MATCHER": "passthrough"}
"""How the pass-through's driver differs from the stack's own."""
WARM_EVENTS = 5_000
LATENCY_EVENTS_PER_S = 1_000.0
LATENCY_WARM_S = 60.0


class RecordsDifferError(AssertionError):
    """Not as many records came out as must have, so no rate means anything."""


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rounds: int
    latency_s: float
    writes: int
    notifications: int
    """So many must come out of a round."""


@dataclass
class Measured:
    """One pipeline: its rate and its processor seconds by process, by round."""

    events_per_s: list[float] = field(default_factory=list)
    processor_s: list[dict[str, float]] = field(default_factory=list)

    def run(self, stack: Stack, payloads: Sequence[bytes], record_count: int) -> None:
        """One round at full speed."""
        warm(stack, payloads)
        watch = Stopwatch(stack)
        self.events_per_s.append(flow_rate(stack, payloads, _ignore, record_count))
        self.processor_s.append(watch.seconds())

    def processor_us(self, events: int) -> dict[str, float]:
        """µs an event by process, the median of the rounds."""
        roles = dict.fromkeys(role for seconds in self.processor_s for role in seconds)
        return {
            role: round(
                1e6 * statistics.median(s.get(role, 0.0) for s in self.processor_s) / events, 1
            )
            for role in roles
        }


def bench(
    stack: Stack, payloads: Sequence[bytes], plan: Plan, progress: Callable[[str], None]
) -> dict[str, object]:
    """Rates of both pipelines in turn, latency and freshness of the stack's own.

    Subscriptions are registered already. Rates are medians of `plan.rounds` rounds.
    """
    own, other = Measured(), Measured()
    for number in range(1, plan.rounds + 1):
        progress(f"round {number} of {plan.rounds}: matching {len(payloads):,} events")
        own.run(stack, payloads, plan.notifications)
        progress(f"round {number} of {plan.rounds}: passing them through")
        with variant.standing_in(stack, "passthrough", PASSTHROUGH):
            other.run(stack, payloads, len(payloads))
    rates = [statistics.median(one.events_per_s) for one in (own, other)]
    progress(
        f"latency at {LATENCY_EVENTS_PER_S:,.0f} events/s for {plan.latency_s:g} s, "
        f"after {LATENCY_WARM_S:g} s of warm-up"
    )
    latencies = latency.notification_latencies(
        stack.env, payloads, LATENCY_EVENTS_PER_S, plan.latency_s, LATENCY_WARM_S
    ).seconds
    progress(f"freshness of {plan.writes} writes")
    fresh = latency.freshness(stack.env, payloads, LATENCY_EVENTS_PER_S, plan.writes)
    return {
        "events": len(payloads),
        "notifications": plan.notifications,
        "rounds": plan.rounds,
        "events_per_s": round(rates[0]),
        "passthrough_events_per_s": round(rates[1]),
        "ratio": round(rates[0] / rates[1], 3),
        "ratio_by_round": [
            round(a / b, 3) for a, b in zip(own.events_per_s, other.events_per_s, strict=True)
        ],
        "processor_us_per_event": own.processor_us(len(payloads)),
        "passthrough_processor_us_per_event": other.processor_us(len(payloads)),
        "latency_events_per_s": LATENCY_EVENTS_PER_S,
        "latency_warm_s": LATENCY_WARM_S,
        "notifications_timed": len(latencies),
        "latency_p50_ms": _milliseconds(latencies, 0.50),
        "latency_p99_ms": _milliseconds(latencies, 0.99),
        "writes": plan.writes,
        "fresh_barrier_p95_ms": _milliseconds(fresh.barrier_s, 0.95),
        "fresh_notification_p95_ms": _milliseconds(fresh.notification_s, 0.95),
    }


def _milliseconds(seconds: Sequence[float], share: float) -> float | None:
    return round(1e3 * quantile(seconds, share), 1) if len(seconds) > 1 else None


def _ignore(_: int) -> None:
    """For whoever does not watch."""


def passthrough_rate(
    stack: Stack, payloads: Sequence[bytes], watch: Callable[[int], None]
) -> float:
    """Events a second of the pass-through; the stack's own driver is away meanwhile."""
    with variant.standing_in(stack, "passthrough", PASSTHROUGH):
        return rate(stack, payloads, watch, len(payloads))


def rate(
    stack: Stack,
    payloads: Sequence[bytes],
    watch: Callable[[int], None],
    record_count: int,
) -> float:
    """Events a second through the running driver, after a short warm-up; `record_count` must come
    out.
    """
    warm(stack, payloads)
    return flow_rate(stack, payloads, watch, record_count)


def warm(stack: Stack, payloads: Sequence[bytes]) -> None:
    """Have the running driver do some of it, so that it has compiled what it needs most."""
    with Flow(stack.env, _Counter().receive) as flow:
        flow.run(payloads[:WARM_EVENTS], _ignore)


def flow_rate(
    stack: Stack,
    payloads: Sequence[bytes],
    watch: Callable[[int], None],
    record_count: int,
) -> float:
    """As `rate`, without the warm-up."""
    counted = _Counter()
    with Flow(stack.env, counted.receive) as flow:
        seconds = flow.run(payloads, watch)
    if counted.records != record_count:
        raise RecordsDifferError(
            f"{counted.records:,} records came out of {len(payloads):,} events, "
            f"not {record_count:,}"
        )
    return len(payloads) / seconds


@dataclass
class _Counter:
    """Counts records; the listener's thread is the only writer."""

    records: int = 0

    def receive(self, messages: Sequence[Message]) -> None:
        self.records += len(messages)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]
