"""Processes: parts of a driver that are processes of their own, run here, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import orjson
import pyarrow as pa

from store.base import SubscriptionStore
from store.errors import StoreError, StoreUnavailable
from store.lineage import GivenOut
from store.memory import MemoryStore
from streaming import snapshots
from streaming.match import MatchRequest, match_batches
from streaming.packing import PACKED_TYPE
from streaming.pins import Offsets
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.settings import StreamingSettings
from streaming.tail import Tail
from streaming.task import decode_batch
from streaming.warm import RECORD_TYPE
from tests.simulation.broker import Broker
from tests.simulation.course import Course

TASK_ATTEMPTS = 4
WORKERS = 2
EVENT_TIME_US = 1_700_000_000_000_000


class StoreClient:
    """One process's connection to the store, with a memory of its own of what it was given.

    problem   says why the store does not answer this process now; empty: it does.
    """

    def __init__(self, store: MemoryStore, problem: Callable[[], str]) -> None:
        self._store = store
        self._problem = problem
        self._given_out = GivenOut()

    def __enter__(self) -> StoreClient:
        return self

    def __exit__(self, *reason: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if problem := self._problem():
                raise StoreUnavailable(problem)
            self._store._given_out = self._given_out
            return method(*arguments, **named)

        return call


def client_of(store: MemoryStore, problem: Callable[[], str]) -> SubscriptionStore:
    """A client as the interface that it passes on."""
    return cast(SubscriptionStore, StoreClient(store, problem))


class SnapshotProcess:
    """The snapshot process: it outlives its driver, and only one of them builds at a time."""

    building = False

    def __init__(
        self,
        words: list[str],
        settings: StreamingSettings,
        connect: Callable[[], SubscriptionStore],
        course: Course,
    ) -> None:
        self._arguments = snapshots.arguments_of(words)
        self._settings = settings
        self._connect = connect
        self._course = course
        self._output = b""
        self.returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        """Run to the end; what it writes."""
        self.run()
        return self._output, None

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self.returncode = -15

    def run(self) -> None:
        """Build, unless another one does."""
        if self.returncode is not None:
            return
        if SnapshotProcess.building:
            self.returncode = snapshots.CODE_BUSY
            return
        SnapshotProcess.building = True
        try:
            self.returncode = self._build()
        finally:
            SnapshotProcess.building = False

    def _build(self) -> int:
        folder = self._settings.snapshot_dir.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if self._course.goes_wrong(0.1):
            return -9
        try:
            built, lineage = snapshots.build(self._settings, self._arguments, self._connect)
        except (StoreError, RefreshError, OSError, ValueError) as error:
            self._course.note(f"the snapshot process fails: {type(error).__name__}")
            return 1
        self._output = orjson.dumps({"epoch": built.epoch, "lineage": lineage})
        return 0


class SimulatedTail(Tail):
    """The tail with a snapshot process that is run here."""

    spawn: Callable[[list[str]], SnapshotProcess]

    def _spawn(self, arguments: list[str]) -> Any:
        return self.spawn([*arguments, "--keep-epoch", str(self._oldest_asked() or 0)])


class TaskFailed(Exception):
    """A job ended because a task failed too often; Spark tells why in words only."""


class Frame:
    """A batch's rows as foreachBatch gets them, and the workers that a job of it runs in."""

    def __init__(
        self,
        broker: Broker,
        course: Course,
        template: MatchRequest,
        pause: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._course = course
        self._template = template
        self._pause = pause
        self._properties: dict[str, str] = {}
        self._workers = [self._new_worker() for _ in range(WORKERS)]
        self.begin({}, {})

    def begin(self, start: Offsets, end: Offsets) -> None:
        """A batch with these events."""
        self.start, self.end, self._jobs = start, end, 0

    @property
    def sparkSession(self) -> Frame:
        return self

    @property
    def sparkContext(self) -> Frame:
        return self

    def setLocalProperty(self, name: str, value: str) -> None:
        self._properties[name] = value

    def warm(self, epoch: int, lineage: str) -> None:
        """Bring every worker to an epoch, as the job before the first batch does."""
        for worker in self._workers:
            worker.reach(epoch, lineage)

    def kill_worker(self) -> None:
        """One of them begins again with nothing."""
        self._workers[self._course.below(WORKERS)] = self._new_worker()

    def toArrow(self) -> pa.Table:
        """Run one task a partition; their rows in the order of partitions."""
        if self._jobs:
            self._pause("between two passes")
        self._jobs += 1
        (encoded,) = self._properties.values()
        request = decode_batch(self._template, encoded)
        rows: list[pa.RecordBatch] = []
        for topic, ends in self.end.items():
            for partition, stop in ends.items():
                start = self.start.get(topic, {}).get(partition, 0)
                if start < stop:
                    self._pause("before a task")
                    rows += self._task(request, topic, partition, start, stop)
        return pa.Table.from_batches(rows, PACKED_TYPE)

    def _task(
        self, request: MatchRequest, topic: str, partition: int, start: int, stop: int
    ) -> list[pa.RecordBatch]:
        """A task that is tried again when it fails, and when its worker dies at its end."""
        batch = _records(self._broker, topic, partition, start, stop)
        for attempt in range(1, TASK_ATTEMPTS + 1):
            number = self._course.below(WORKERS)
            try:
                rows = list(match_batches(request, [batch], self._workers[number]))
            except RefreshError as error:
                if attempt == TASK_ATTEMPTS:
                    raise TaskFailed(f"{type(error).__name__}: {error}") from error
                continue
            if attempt == TASK_ATTEMPTS or not self._course.goes_wrong(0.03):
                return rows
            self._course.note("a worker dies with its task")
            self._workers[number] = self._new_worker()
        raise AssertionError("the last attempt returned or raised")

    def _new_worker(self) -> LiveIndex:
        return LiveIndex(self._template.index)


def options_of(settings: StreamingSettings) -> IndexOptions:
    """Where workers find the index."""
    return IndexOptions(settings.algorithm, str(settings.snapshot_dir.absolute()))


def _records(broker: Broker, topic: str, partition: int, start: int, stop: int) -> pa.RecordBatch:
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": EVENT_TIME_US,
        }
        for record in broker.between(topic, partition, start, stop)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_TYPE)
