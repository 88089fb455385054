"""Query: Spark's query, from its plan to its end, and started again where a batch is replanned."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streaming.batch import BatchRunner, Stopped
from streaming.match import MatchRequest, match_partition
from streaming.pace import Pace, Replanned
from streaming.packing import PACKED_DDL
from streaming.passthrough import pass_partition
from streaming.pins import Offsets
from streaming.settings import StreamingSettings
from streaming.source import read_events
from streaming.task import run_task

STOP_SECONDS_MAX = 15.0
RECORDED_SECONDS_MAX = 1.0
"""Wait for Spark to record the last batch; else it is replayed, which changes nothing."""

_log = logging.getLogger(__name__)


class _Unexpected(logging.Filter):
    """Lets py4j not tell of exceptions by which batches end on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, Stopped | Replanned)


class MatchingQuery:
    """One query of one session, with the limit that its pace wants."""

    def __init__(
        self,
        session: SparkSession,
        settings: StreamingSettings,
        template: MatchRequest,
        runner: BatchRunner,
        pace: Pace,
    ) -> None:
        self._session = session
        self._settings = settings
        self._template = template
        self._runner = runner
        self._pace = pace
        self._committed: Offsets = {}
        self._query: Any = None
        logging.getLogger("py4j.clientserver").addFilter(_Unexpected())

    def start(self, committed: Offsets) -> None:
        """Begin where the checkpoint ends, or else after `committed`."""
        self._committed = committed
        settings = self._settings
        function = pass_partition if settings.matcher == "passthrough" else match_partition
        events = read_events(self._session, settings, committed, self._pace.limit_to_apply())
        packed = events.mapInArrow(partial(run_task, self._template, function), PACKED_DDL)
        writer = packed.writeStream.queryName(settings.query_name).foreachBatch(self._runner)
        self._query = (
            writer.option("checkpointLocation", str(settings.checkpoint_dir.absolute()))
            .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
            .start()
        )

    def ends_within(self, seconds: int) -> bool:
        """Whether it ends by itself; StreamingQueryException where something ends it."""
        try:
            return bool(self._query.awaitTermination(seconds))
        except StreamingQueryException:
            if not isinstance(self._runner.failure, Replanned):
                raise
            self.start(self._committed)
            return False

    def stop(self) -> None:
        """Let the running batch end, wait until Spark has recorded it, then stop."""
        runner = self._runner
        if not runner.stop(STOP_SECONDS_MAX):
            _log.warning("the running batch takes too long to wait for; it will be replayed")
        deadline = time.monotonic() + RECORDED_SECONDS_MAX
        while time.monotonic() < deadline and not runner.parked.wait(0.02):
            if not self._query.status["isTriggerActive"]:
                break
        try:
            self._query.stop()
        except StreamingQueryException as error:
            if not isinstance(runner.failure, Stopped | Replanned):
                _log.warning("%s", error)
