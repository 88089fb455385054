"""Job: wires the parts, runs the query until it is told to stop, and says why it ended."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from functools import partial
from types import FrameType

from confluent_kafka import KafkaException
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from index.registry import get
from store import StoreSettings, SubscriptionStore, open_store
from store.errors import StoreError, StoreUnavailable
from streaming.backlog import Backlog
from streaming.batch import BatchRunner
from streaming.drift import EventWatch
from streaming.failpoints import arm
from streaming.limit import BatchLimit, load_limit
from streaming.match import MatchRequest
from streaming.metrics import Metrics
from streaming.pace import Pace
from streaming.packing import PACKED_DDL
from streaming.pins import PinError, PinLog, instant_now
from streaming.positions import PositionError
from streaming.progress import ProgressLine
from streaming.query import MatchingQuery
from streaming.ready import Ready, serve
from streaming.refresh import IndexOptions
from streaming.settings import StreamingSettings
from streaming.sink import Fenced, Sink, open_sink
from streaming.snapshot_files import updatable
from streaming.source import SourceError, open_session
from streaming.tail import SnapshotFailed, Tail
from streaming.topics import TopicError, ensure_topics, record_bytes_max, refuse_lost_topics
from streaming.warm import idle_partition, warm_partition

CODE_STOPPED, CODE_FAILED, CODE_REFUSED, CODE_FENCED = 0, 1, 2, 3
REFUSALS = (SourceError, TopicError, PinError, PositionError, StoreError, TypeError, LookupError)

_log = logging.getLogger("streaming")


class Job:
    """One streaming query in this process."""

    def __init__(self, settings: StreamingSettings) -> None:
        self._settings = settings
        self._ready = Ready()
        self._metrics = Metrics()
        self._stop = threading.Event()
        self._pins = PinLog(settings.checkpoint_dir, settings.batches_retained)

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until something ends it; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        settings = self._settings
        if settings.metrics_port:
            serve(settings.metrics_host, settings.metrics_port, self._ready, self._metrics)
        try:
            return self._run()
        except REFUSALS as error:
            _log.error("%s", error)
            return CODE_REFUSED
        except KafkaException as error:
            _log.error("Kafka at %s: %s", settings.kafka_bootstrap, error.args[0].str())
            return CODE_REFUSED

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _run(self) -> int:
        settings = self._settings
        updatable(get(settings.algorithm))
        self._ready.waiting_for = "Kafka and its topics"
        ensure_topics(settings)
        sink = open_sink(settings)
        refuse_lost_topics(settings, sink.committed)
        self._ready.waiting_for = "Spark"
        session = open_session(settings)
        template = self._template()
        runner: BatchRunner
        tail = Tail(self._connect, settings, self._metrics, lambda: runner.oldest_pin())
        watch = EventWatch(settings.snapshot_dir.absolute(), self._metrics, tail.ask_for_snapshot)
        backlog = Backlog(settings, self._metrics)
        pace = self._pace(backlog)
        runner = BatchRunner(
            tail.head_with_files,
            self._pins,
            sink,
            self._metrics,
            watch,
            settings.checkpoint_dir,
            pace,
        )
        self._ready.waiting_for = "the subscription store"
        try:
            if not self._start_tail(tail):
                return CODE_STOPPED
            self._ready.waiting_for = "the index in every worker"
            self._warm(session, template, tail)
            query = MatchingQuery(session, settings, template, runner, pace)
            return self._stream(query, runner, backlog, sink)
        finally:
            tail.stop()
            sink.close()
            session.stop()

    def _pace(self, backlog: Backlog) -> Pace:
        settings = self._settings
        limit = BatchLimit(
            load_limit(settings.checkpoint_dir),
            settings.max_offsets_per_trigger,
            settings.batch_seconds_target,
        )
        return Pace(limit, backlog.ends, settings.checkpoint_dir, self._metrics)

    def _connect(self) -> SubscriptionStore:
        return open_store(StoreSettings(url=self._settings.store_url))

    def _start_tail(self, tail: Tail) -> bool:
        """Wait for the store if nothing here can stand in for it; False when told to stop."""
        while not self._stop.is_set():
            try:
                tail.start()
                return True
            except (StoreUnavailable, SnapshotFailed) as error:
                self._metrics.store_up.set(0)
                _log.error("waiting for the subscription store: %s", error)
                self._stop.wait(2)
        return False

    def _template(self) -> MatchRequest:
        settings = self._settings
        notification_max = record_bytes_max(settings, settings.notifications_topic)
        return MatchRequest(
            IndexOptions(settings.algorithm, str(settings.snapshot_dir.absolute())),
            epoch=0,
            lineage="",
            now=instant_now(0),
            hops_max=settings.hops_max,
            lift_data=settings.lift_data,
            notification_bytes_max=min(settings.notification_bytes_max, notification_max - 10_000),
            dead_letter_bytes_max=record_bytes_max(settings, settings.dead_letters_topic),
        )

    def _warm(self, session: SparkSession, template: MatchRequest, tail: Tail) -> None:
        """A job as wide as the machine, before the first event.

        It may take minutes, of which no batch has a pin yet, and subscriptions go on changing.
        """
        function = idle_partition if self._settings.matcher == "passthrough" else warm_partition
        width = session.sparkContext.defaultParallelism
        with tail.kept_head() as head:
            now = instant_now(time.time_ns())
            request = MatchRequest(template.index, head.epoch, head.lineage, now)
            session.range(0, width, numPartitions=width).mapInArrow(
                partial(function, request), PACKED_DDL
            ).toArrow()

    def _stream(
        self, query: MatchingQuery, runner: BatchRunner, backlog: Backlog, sink: Sink
    ) -> int:
        query.start(sink.committed)
        self._ready.waiting_for = ""
        _log.info("query %s is matching %s", self._settings.query_name, self._settings.events_topic)
        line = ProgressLine()
        try:
            while not self._stop.is_set():
                if query.ends_within(1):
                    break
                line.show(runner.totals)
                backlog.show(sink.committed)
        except StreamingQueryException as error:
            return self._why_ended(runner, error)
        finally:
            line.end()
            self._ready.waiting_for = "the end"
        query.stop()
        return CODE_STOPPED

    def _why_ended(self, runner: BatchRunner, error: StreamingQueryException) -> int:
        failure = runner.failure
        if isinstance(failure, Fenced):
            _log.error("%s", failure)
            return CODE_FENCED
        _log.error("the query ended: %s", failure or error)
        return CODE_FAILED


def main(settings: StreamingSettings) -> int:
    """Set up logging and run."""
    logging.basicConfig(
        level=settings.log_level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for talkative in ("py4j", "numba"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
    arm(settings.failpoints, settings.checkpoint_dir.absolute())
    return Job(settings).run()
