"""Backlog: how many events wait in each partition, asked of the broker itself.

Spark tells only with the end of a batch, and nothing of a batch that it runs again.
"""

from __future__ import annotations

from confluent_kafka import KafkaException

from streaming.metrics import Metrics
from streaming.pins import Offsets
from streaming.settings import StreamingSettings
from streaming.topics import ADMIN_TIMEOUT_S, admin_of, boundaries

ANSWER_TIMEOUT_S = 2.0
"""Who asks has something else to do: a batch, or to notice that the driver is told to stop."""


class Backlog:
    """Ends of the partitions, and the gauge of what waits before them."""

    def __init__(self, settings: StreamingSettings, metrics: Metrics) -> None:
        self._topics = settings.events_topics
        self._admin = admin_of(settings)
        self._lag = metrics.consumer_lag
        is_first = settings.starting_offsets == "earliest"
        self._first = boundaries(self._admin, self._topics, is_first, ADMIN_TIMEOUT_S)

    def ends(self) -> Offsets:
        """The offset after the last event of each partition; KafkaException without an answer."""
        return boundaries(self._admin, self._topics, False, ANSWER_TIMEOUT_S)

    def show(self, committed: Offsets) -> None:
        """Set the gauge by what has been written; leave it while the broker is away."""
        try:
            ends = self.ends()
        except KafkaException:
            return
        for topic, partitions in ends.items():
            known = {**self._first.get(topic, {}), **committed.get(topic, {})}
            for partition, end in partitions.items():
                # A partition that came after the start is read from its beginning.
                self._lag.labels(topic, partition).set(max(0, end - known.get(partition, 0)))
