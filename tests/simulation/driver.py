"""Driver: one life of a driver, with everything in it that is Herald's own, in the job's order.

It may be killed wherever it touches a file, the broker or a worker; what it leaves behind is what
the next one finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame

from store.errors import StoreError
from streaming.batch import BatchRunner
from streaming.drift import EventWatch
from streaming.limit import BatchLimit
from streaming.match import MatchRequest
from streaming.metrics import Metrics
from streaming.pace import Pace, Replanned
from streaming.pins import Offsets, Pin, PinError, PinLog
from streaming.refresh import RefreshError
from streaming.sink import (
    Fenced,
    IdempotentSink,
    Sink,
    SinkFailed,
    Surroundings,
    TransactionalSink,
)
from streaming.source import SourceError, starting_offsets
from streaming.tail import SnapshotFailed
from tests.simulation.checkpoint import Checkpoint, ConcurrentUpdate
from tests.simulation.clients import Consumer, Link, Producer
from tests.simulation.processes import (
    Frame,
    SimulatedTail,
    SnapshotProcess,
    TaskFailed,
    options_of,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

RECORD_BYTES_MAX = 1_000_000
LIMIT = 50_000
"""Events of a batch, more than any schedule has."""


ENDS = (
    KafkaException,
    StoreError,
    SnapshotFailed,
    RefreshError,
    TaskFailed,
    Fenced,
    SinkFailed,
    PinError,
    SourceError,
    ConcurrentUpdate,
    OSError,
)
"""What a driver may end with; a supervisor starts another one."""


class Killed(BaseException):
    """The process is no more; not an Exception, for nothing may catch it."""


class WatchedPins(PinLog):
    """Pins that a history is told of, and around which a driver may be killed."""

    def __init__(
        self, world: World, pause: Callable[[str], None], tell: Callable[[Pin], None]
    ) -> None:
        super().__init__(world.settings.checkpoint_dir, world.settings.batches_retained)
        self._pause = pause
        self._tell = tell

    def pin(self, wanted: Pin) -> Pin:
        pinned = super().pin(wanted)
        if pinned is wanted:
            self._tell(pinned)
        self._pause("after its pin")
        return pinned

    def replace(self, pin: Pin) -> None:
        self._pause("before it pins anew")
        super().replace(pin)
        self._tell(pin)
        self._pause("after it has pinned anew")


class Driver:
    """A driver from its start to its end.

    in_batch, in_tail   which of its threads is in the middle of something.
    next_round_s        when its tail reads again.
    """

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._course = world.course
        self.name = f"driver {number}"
        self.link = Link(world.broker, world.course, self.pause, self._wait)
        self.in_batch = self.in_tail = self.is_stopped = False
        self.is_dead = False
        self.next_round_s = 0.0
        self._metrics = Metrics()
        self.tail = SimulatedTail(
            world.connect_driver,
            world.settings,
            self._metrics,
            lambda: self._runner.oldest_pin(),
            world.steady_s,
        )
        self.tail.spawn = self._spawn
        self.frame: Frame
        self._runner: BatchRunner
        self._pace: Pace
        self._limit: BatchLimit
        self._checkpoint: Checkpoint

    def start(self) -> bool:
        """As streaming.job does it; an exception ends the driver."""
        world, settings = self._world, self._world.settings
        self.in_batch = self.in_tail = True
        metrics = self._metrics
        pins = WatchedPins(world, self.pause, world.note_pin)
        sink = self._open_sink()
        self.pause("after it has opened its sink")
        watch = EventWatch(settings.snapshot_dir, metrics, self.tail.ask_for_snapshot)
        self._limit = BatchLimit(LIMIT, LIMIT, target_s=1e9)
        self._pace = Pace(self._limit, self._ends, settings.checkpoint_dir, metrics, world.steady_s)
        self._runner = BatchRunner(
            lambda: self.tail.head,
            pins,
            sink,
            metrics,
            watch,
            settings.checkpoint_dir,
            self._pace,
            world.wall_ns,
        )
        self.tail.begin()
        self.pause("after its tail has begun")
        template = MatchRequest(
            options_of(settings), 0, "", "1970-01-01T00:00:00Z", part_bytes=world.part_bytes
        )
        self.frame = Frame(world.broker, self._course, template, self.pause)
        self.frame.warm(*self.tail.head)
        counts = world.broker.counts(settings.events_topics)
        starting = starting_offsets(settings, sink.committed, lambda _: counts)
        self._checkpoint = Checkpoint(
            settings.checkpoint_dir, settings.batches_retained, starting, counts
        )
        self.in_batch = self.in_tail = False
        return True

    def run_batch(self) -> bool:
        """Plan the next batch, or take the one that was planned, and run it; False: no events."""
        checkpoint = self._checkpoint
        if not checkpoint.is_planned:
            end = self._drawn_end(checkpoint.start)
            if end == checkpoint.start:
                return False
            checkpoint.plan(end)
        self.frame.begin(checkpoint.start, checkpoint.end())
        self.pause("before its pin")
        self._course.note(f"{self.name} runs batch {checkpoint.batch} to {self.frame.end}")
        if self._course.chance(0.2):  # as if events had come to cost something else
            self._limit.value = self._course.pick((1, 2, 4, LIMIT))
        try:
            self._runner(cast(DataFrame, self.frame), checkpoint.batch)
        except Replanned as replanned:
            self._course.note(f"{self.name} starts its query again: {replanned}")
            self._pace.limit_to_apply()
            self._world.replans += 1
            return True
        self.pause("before Spark records the batch")
        checkpoint.record()
        return True

    def follow(self) -> bool:
        """One round of its tail; False if something kept it from reading."""
        self.in_tail = True
        pause_s = self.tail.follow(0)
        self.in_tail = False
        self.next_round_s = self._world.steady_s() + max(pause_s, 0.2 * self._course.below(4))
        return pause_s == 0

    def pause(self, where: str) -> None:
        """A moment in which others go on, time passes, or the process dies."""
        world = self._world
        if self._course.goes_wrong(world.kill_share):
            self._course.note(f"{self.name} is killed {where}")
            raise Killed
        if self._course.goes_wrong(world.stop_share):
            self._course.note(f"{self.name} is stopped {where}")
            self._wait(self._course.pick((0.5, 5.0, 61.0)))
            if not self.in_tail:
                world.let_follow(self)
        if self._course.goes_wrong(world.interleave_share):
            world.interleave()
        if self.is_dead:
            raise Killed

    def _open_sink(self) -> Sink:
        world, course = self._world, self._course
        around = Surroundings(
            producer=lambda options: Producer(self.link, dict(options)),
            consumer=lambda options: Consumer(self.link, dict(options)),
            record_bytes_max=lambda settings, topic: RECORD_BYTES_MAX,
            partitions_of=lambda settings: world.broker.counts(settings.events_topics),
            clock=world.steady_s,
            sleep=self._wait,
        )
        kind: Any = TransactionalSink if world.settings.exactly_once else IdempotentSink
        sink: Sink = kind(world.settings, around)
        course.note(f"{self.name} opens its sink")
        sink.open()
        return sink

    def _ends(self) -> Offsets:
        return {
            topic: self._world.broker.ends(topic) for topic in self._world.settings.events_topics
        }

    def _drawn_end(self, start: Offsets) -> Offsets:
        """A planned end: all there is, or less."""
        end: Offsets = {}
        for topic, partitions in start.items():
            ends = self._world.broker.ends(topic)
            end[topic] = {
                partition: ends[partition]
                if self._course.calm or self._course.chance(0.5)
                else offset + self._course.below(ends[partition] - offset + 1)
                for partition, offset in partitions.items()
            }
        return end

    def _spawn(self, words: list[str]) -> SnapshotProcess:
        world = self._world
        process = SnapshotProcess(words, world.settings, world.connect_driver, self._course)
        self._course.note(f"{self.name} spawns the snapshot process {' '.join(words[::2])}")
        world.snapshot_processes.append(process)
        if "--from-store" in words:
            world.excuse()  # it has lost its files: nobody promises how soon they are built anew
        return process

    def _wait(self, seconds: float) -> None:
        self.is_stopped = True
        self._world.pass_time(seconds)
        self.is_stopped = False
