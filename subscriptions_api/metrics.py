"""Every metric of the API."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The catalogue, in a registry of its own so that tests can make many."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "herald_api_requests",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "herald_api_request_seconds",
            "Time from the request's head to the end of its answer.",
            ("method", "route"),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.writes = Counter(
            "herald_api_writes",
            "Subscriptions written or refused, by outcome: created, replaced, deleted or a code.",
            ("outcome",),
            registry=self.registry,
        )
        self.epoch = Gauge(
            "herald_api_epoch",
            "Epoch of the last write that this process saw accepted.",
            registry=self.registry,
        )
        self.barrier_seconds = Histogram(
            "herald_api_barrier_seconds",
            "Time that callers waited for an epoch to be live.",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.events_published = Counter(
            "herald_api_events_published",
            "Events acknowledged by Kafka.",
            registry=self.registry,
        )
        self.events_refused = Counter(
            "herald_api_events_refused",
            "Events refused before Kafka, by reason.",
            ("reason",),
            registry=self.registry,
        )
