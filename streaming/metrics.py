"""Metrics: every figure that the driver serves on /metrics, with its meaning.

None has a label that grows with subscriptions or tenants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STEPS = ("pin", "spark", "refresh", "decode", "match", "notify", "write")
"""Parts of a batch; refresh to notify are the sums over its tasks, within spark."""


class Metrics:
    """The catalogue, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.events = Counter(
            "herald_events", "Events read and matched or rejected.", registry=registry
        )
        self.events_skipped = Counter(
            "herald_events_skipped",
            "Events of a replay that were told of already.",
            registry=registry,
        )
        self.matches = Counter(
            "herald_matches", "Pairs of an event and a subscription found.", registry=registry
        )
        self.notifications = Counter(
            "herald_notifications", "Records written to the notifications topic.", registry=registry
        )
        self.dead_letters = Counter(
            "herald_dead_letters", "Events that are none, by reason.", ["reason"], registry=registry
        )
        self.batches = Counter("herald_batches", "Micro-batches written.", registry=registry)
        self.passes = Counter("herald_passes", "Transactions that batches took.", registry=registry)
        self.batch_seconds = Histogram(
            "herald_batch_seconds",
            "Time of a batch in our callback.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.step_seconds = Histogram(
            "herald_step_seconds",
            "Time of each step of a batch.",
            ["step"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.write_failures = Counter(
            "herald_write_failures", "Attempts to write a batch that failed.", registry=registry
        )
        self.epoch = Gauge("herald_epoch", "Newest epoch the driver can pin.", registry=registry)
        self.pinned_epoch = Gauge(
            "herald_pinned_epoch", "Epoch of the newest batch.", registry=registry
        )
        self.epoch_lag = Gauge(
            "herald_epoch_lag", "Epochs the newest batch is behind the driver.", registry=registry
        )
        self.consumer_lag = Gauge(
            "herald_consumer_lag", "Events not read yet.", ["topic", "partition"], registry=registry
        )
        self.batch_limit = Gauge(
            "herald_batch_limit", "Events of one micro-batch at most, as of now.", registry=registry
        )
        self.turn_seconds = Histogram(
            "herald_restart_seconds",
            "Time to start the query again within its session.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.replans = Counter(
            "herald_replans",
            "Batches planned anew, by reason: limit or skew.",
            ["reason"],
            registry=registry,
        )
        self.store_up = Gauge(
            "herald_store_up", "1 when the subscription store answers.", registry=registry
        )
        self.epochs_lost = Counter(
            "herald_epochs_lost", "Times the store lost epochs already applied.", registry=registry
        )
        self.snapshot_epoch = Gauge(
            "herald_snapshot_epoch", "Epoch of the newest snapshot.", registry=registry
        )
        self.snapshot_time = Gauge(
            "herald_snapshot_timestamp_seconds", "When it was built.", registry=registry
        )
        self.snapshot_failures = Counter(
            "herald_snapshot_failures", "Snapshots that could not be built.", registry=registry
        )
        self.index = Gauge(
            "herald_index",
            "What a worker's index counts: subscriptions, rows, bytes and more, by name.",
            ["executor", "name"],
            registry=registry,
        )
        self.drift = Gauge(
            "herald_drift",
            "Candidates in vain, against those right after the newest snapshot.",
            registry=registry,
        )
        self._executors: dict[str, set[str]] = {}

    def count_row(self, counters: Mapping[str, Any]) -> None:
        """Take in the counters of one packed row."""
        self.events.inc(counters.get("rows", 0) - counters.get("untold", 0))
        self.events_skipped.inc(counters.get("skipped", 0))
        self.matches.inc(counters.get("matches", 0))
        self.notifications.inc(counters.get("notifications", 0))
        for reason, count in counters.get("rejected", {}).items():
            self.dead_letters.labels(reason).inc(count)
        index = counters.get("index")
        if index:
            self._show_index(index)

    def _show_index(self, facts: Mapping[str, Any]) -> None:
        """The newest facts of one worker; workers that are gone make room for newer ones."""
        executor = str(facts["executor"])
        names = {name for name, value in facts.items() if isinstance(value, int | float)}
        if executor not in self._executors and len(self._executors) >= EXECUTORS_MAX:
            oldest = next(iter(self._executors))
            for name in self._executors.pop(oldest):
                self.index.remove(oldest, name)
        self._executors.pop(executor, None)
        self._executors[executor] = names
        for name in names:
            self.index.labels(executor, name).set(facts[name])


EXECUTORS_MAX = 64
"""Worker processes shown at once: each restart is a new one."""
