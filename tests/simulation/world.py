"""World: one schedule's store, broker, clocks, files and drivers, and the history of what they did.

Whatever happens is one of the steps of `steps.py`. A step that has a driver in the middle of
something may hold others within it: `interleave`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path

from deploy.history import Acknowledged, History
from store.base import Operation, SubscriptionStore
from store.errors import StoreUnavailable
from store.memory import MemoryStore
from streaming.crowd import PART_BYTES
from streaming.pins import Pin, instant_now
from streaming.settings import StreamingSettings
from tests.simulation.broker import Broker
from tests.simulation.clients import Link
from tests.simulation.course import Course
from tests.simulation.driver import ENDS, Driver, Killed
from tests.simulation.processes import SnapshotProcess, client_of

BEGAN_NS = 1_767_225_600_000_000_000
"""2026-01-01."""
SETTINGS = StreamingSettings(
    events_topic="events",
    notifications_topic="notifications",
    dead_letters_topic="dead-letters",
    query_name="simulated",
    algorithm="sequential",
    hops_max=4,
    lift_data=False,
    transaction_timeout_ms=60_000,
    produce_attempts_max=3,
)
DEPTH_MAX = 3
INTERLEAVINGS_MAX = 100
"""Of one schedule: with tiny transactions more would happen in a batch than it ever tells of."""
FAULTS = (
    "kill",
    "stop",
    "second driver",
    "store away",
    "driver cut off",
    "lost tail",
    "trimmed log",
    "damaged snapshot",
    "lost snapshots",
    "lost checkpoint",
    "old checkpoint",
    "clocks jump",
    "unknown write",
)


class World:
    """Everything outside the drivers, and who of them is alive."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        take_step: Callable[[World], None],
        faults: Collection[str] | None = None,
    ) -> None:
        self._take_step = take_step
        self.course = course = Course(seed)
        drawn = [fault for fault in FAULTS if course.chance(0.4)]
        self.faults = set(drawn if faults is None else faults)
        self.kill_share = 0.04 if "kill" in self.faults else 0.0
        self.stop_share = 0.03 if "stop" in self.faults else 0.0
        self.interleave_share = course.pick((0.0, 0.1, 0.3))
        self.is_bulk = course.chance(0.1)
        delivery = "exactly_once" if course.chance(0.6) else "at_least_once"
        self.settings = settings_of(course, folder, delivery, self.is_bulk)
        self.part_bytes = course.pick((PART_BYTES, 200, 200))
        self._steady_ns = 0
        self.wall_offset_ns = self.store_offset_ns = BEGAN_NS
        self.broker = Broker(self.steady_s, {"events": 2, "notifications": 2, "dead-letters": 1})
        marks = count(1)
        self.store = MemoryStore(self._store_s, lambda: f"mark-{next(marks)}")
        self.store_is_away = self.driver_is_cut_off = False
        self._writer = client_of(self.store, lambda: "away" if self.store_is_away else "")
        self.history = History(delivery=delivery)
        self.drivers: list[Driver] = []
        self._numbers = count(1)
        self.snapshot_processes: list[SnapshotProcess] = []
        self._unproved: list[int] = []
        """Epochs acknowledged while some driver could not be expected to know of them soon."""
        self.weights: dict[Callable[[World], None], float] = {}
        self.repins = self.replans = 0
        self.has_lost_checkpoint = self.has_jumped = self.had_two_drivers = False
        self._interleavings = 0
        self.links: list[Link] = []
        self.found: list[str] = []
        course.note(f"{delivery}, faults: {', '.join(sorted(self.faults)) or 'none'}")

    def steady_s(self) -> float:
        """Seconds that no clock's jump changes."""
        return self._steady_ns / 1e9

    def wall_ns(self) -> int:
        """What drivers take for the time."""
        return self._steady_ns + self.wall_offset_ns

    def _store_s(self) -> float:
        return (self._steady_ns + self.store_offset_ns) / 1e9

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and everything that only waits for it happen."""
        self._steady_ns += int(seconds * 1e9)
        self.broker.expire()
        for driver in list(self.drivers):
            if self.steady_s() >= driver.next_round_s:
                self.let_follow(driver)

    def let_follow(self, driver: Driver) -> None:
        """A round of a driver's tail, if it is not in one already."""
        if driver.in_tail or driver.is_stopped or driver not in self.drivers:
            return
        try:
            if driver.follow():
                self._prove()
            else:
                self.excuse()
        except Killed:
            driver.is_dead = True
            self._remove(driver)
        except Exception as error:
            self.found.append(f"the tail of {driver.name} ends: {error!r}")
            driver.in_tail = True

    def interleave(self) -> None:
        """Some steps of others in the middle of one."""
        if self.course.depth < DEPTH_MAX and self._interleavings < INTERLEAVINGS_MAX:
            self._interleavings += 1
            self.course.depth += 1
            for _ in range(1 + self.course.below(3)):
                self._take_step(self)
            self.course.depth -= 1

    def connect_driver(self) -> SubscriptionStore:
        """A driver's connection to the store, or that of its snapshot process."""
        client = client_of(self.store, self._driver_problem)
        client.ping()
        return client

    def _driver_problem(self) -> str:
        return "away" if self.store_is_away or self.driver_is_cut_off else ""

    def start_driver(self) -> None:
        """Start another driver, whoever else is alive."""
        driver = Driver(self, next(self._numbers))
        self.links.append(driver.link)
        self.had_two_drivers |= bool(self.drivers)
        self.drivers.append(driver)
        self.course.note(f"{driver.name} starts")
        self._run(driver, driver.start)
        self.excuse()
        self._prove()

    def run_batch(self, driver: Driver) -> bool:
        """A batch of a driver; False if there was none, or it ended."""
        driver.in_batch = True
        done = self._run(driver, driver.run_batch)
        driver.in_batch = False
        return done

    def _run(self, driver: Driver, part: Callable[[], bool]) -> bool:
        """Part of a driver's life; False if it came to nothing."""
        try:
            return part()
        except Killed:
            self._remove(driver)
        except Exception as error:
            self.course.note(f"{driver.name} ends: {type(error).__name__}")
            if not isinstance(error, ENDS):
                self.found.append(f"{driver.name} ends: {error!r}")
            self._remove(driver)
        return False

    def kill(self, driver: Driver) -> None:
        """End a driver that is between two steps."""
        self.course.note(f"{driver.name} is killed")
        self._remove(driver)

    def _remove(self, driver: Driver) -> None:
        if driver in self.drivers:
            self.drivers.remove(driver)

    def write(self, operations: list[Operation]) -> None:
        """One write of the API, which may get no answer."""
        try:
            result = self._writer.write(operations)
        except StoreUnavailable:
            self.course.note("a write is refused: the store is away")
            return
        if not any(outcome.accepted for outcome in result.outcomes):
            return
        self.history.entries.append(self.store._log[-1])
        self.course.note(f"epoch {result.epoch}")
        if "unknown write" in self.faults and self.course.goes_wrong(0.1):
            self.course.note("its answer is lost")
            return
        if self.is_bulk or self._driver_problem() or not self.drivers:
            self._unproved.append(result.epoch)
        else:
            self.history.writes.append(Acknowledged(result.epoch, instant_now(self.wall_ns())))

    def lose_tail(self, epoch: int) -> None:
        """A failover to a replica that has not seen the newest epochs."""
        self.store.lose_tail(epoch)
        self.history.writes = [one for one in self.history.writes if one.epoch <= epoch]
        self._unproved = [one for one in self._unproved if one <= epoch]

    def jump_wall(self, jump_ns: int) -> None:
        """The drivers' clock jumps: nobody can say any more what came a second before a batch."""
        self.course.note(f"the drivers' clock jumps {jump_ns // 10**9} s")
        self.wall_offset_ns += jump_ns
        self.has_jumped = True

    def is_done(self) -> bool:
        """Whether all events are in batches, and every driver knows all there is to know."""
        ends = self.broker.ends("events")
        newest = self.store.lineage()
        return any(pin.end.get("events") == ends for pin in self.history.pins[-2:]) and all(
            driver.tail.head == newest for driver in self.drivers
        )

    def excuse(self) -> None:
        """Some driver cannot read: what it does not know yet takes effect when it can."""
        known = min((driver.tail.head.epoch for driver in self.drivers), default=0)
        late = [one for one in self.history.writes if one.epoch > known]
        self._unproved += [one.epoch for one in late]
        self.history.writes = [one for one in self.history.writes if one.epoch <= known]

    def _prove(self) -> None:
        """What every driver knows by now must take effect from now on."""
        heads = [driver.tail.head.epoch for driver in self.drivers]
        proved = [one for one in self._unproved if heads and one <= min(heads)]
        self._unproved = [one for one in self._unproved if one not in proved]
        now = instant_now(self.wall_ns())
        self.history.writes += [Acknowledged(epoch, now) for epoch in proved]

    def note_pin(self, pin: Pin) -> None:
        """A batch has a pin, or another one."""
        known = self.history.pins
        self.repins += any(one.batch == pin.batch for one in known)
        self.course.note(f"batch {pin.batch} is pinned to {pin.epoch} {pin.lineage} at {pin.now}")
        if pin.partly:
            self.course.note(f"an event was told of in part at another pin: {pin.partly}")
        known.append(pin)


def settings_of(course: Course, folder: Path, delivery: str, is_bulk: bool) -> StreamingSettings:
    """Settings under which rare things happen often."""
    drawn: dict[str, object] = {
        "delivery": delivery,
        "checkpoint_dir": folder / "checkpoint",
        "snapshot_dir": folder / "snapshots",
        "snapshot_changes_min": course.pick((2, 5, 1_000)),
        "bulk_changes_per_s": 1 if is_bulk else 1_500,
        "batches_retained": course.pick((2, 100)),
        "transaction_bytes_max": course.pick((1_000_000, 1, 1)),
    }
    return SETTINGS.model_copy(update=drawn)
