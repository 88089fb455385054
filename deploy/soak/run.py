"""Run: a stack of its own, a population, the load, the samples, and what they amount to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message
from redis.exceptions import RedisError

from deploy.demo import flights, generated
from deploy.pin_watch import PinWatch
from deploy.settings import StackSettings
from deploy.soak.churn import Churn
from deploy.soak.lag import LagMeter
from deploy.soak.load import EVENT_TICKS_PER_S, REQUESTS_PER_S, Events, Steady, Writer
from deploy.soak.sampling import Sample, Sampler
from deploy.soak.verdict import LagFigures, Rate, Verdict, growths_of
from deploy.stack import Stack
from deploy.traffic import Follower, Listener, Publisher, Registrar

FILTERS = 50_000
"""Different filters that writes are drawn from."""
EVENTS = 50_000
"""Different events, published in turn."""
LIVE_TIMEOUT_S = 600.0
POLL_S = 0.2
"""Pins are looked for so often: a query keeps only the newest ones."""
SAMPLE_S = 5.0
PROGRESS_S = 30.0
SETTLE_S = 3.0
"""Events go on for so long after the last write, so that it is in effect."""
DRAIN_S_MAX = 60.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. The warm-up is part of the minutes; what is judged begins after it."""

    minutes: float
    warm_up_minutes: float
    writes_per_s: float
    events_per_s: float
    subscriptions: int
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    plan: Plan
    verdict: Verdict
    samples: list[Sample]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the load had done at some second after its beginning."""

    at_s: float = 0.0
    writes: int = 0
    events: int = 0


def soak(plan: Plan, folder: Path, progress: Progress) -> Outcome:
    """Run it in a state folder of its own; what ended early is told of in the verdict."""
    table = flights.load()
    filters = [tree for _, tree in generated.generate(table, FILTERS, plan.seed)]
    payloads = flights.payloads(table.slice(0, EVENTS))
    churn = Churn(filters, plan.subscriptions, plan.seed)
    progress("starting Kafka, Valkey, the API and Spark")
    with Stack(folder, StackSettings().on_free_ports()) as stack, ExitStack() as exits:
        progress(f"registering {plan.subscriptions:,} subscriptions")
        api = f"http://127.0.0.1:{stack.settings.api_port}"
        _register(api, churn.population())
        progress(f"{plan.writes_per_s:,.0f} writes/s and {plan.events_per_s:,.0f} events/s")
        load = Load(plan, stack, exits)
        broken = []
        try:
            load.begin(api, churn, payloads)
            load.watch(plan.minutes * 60, progress)
            load.end()
        except (RuntimeError, OSError, RedisError) as error:
            broken.append(str(error))
        return Outcome(plan, load.verdict(broken), load.samples)


def _register(api: str, forms: Iterable[dict[str, object]]) -> None:
    with closing(Registrar(api)) as registrar:
        for _ in registrar.register(forms):
            pass
        registrar.wait_live(LIVE_TIMEOUT_S)


class Load:
    """The load on a stack, and what is seen of it; `exits` close what it opens."""

    def __init__(self, plan: Plan, stack: Stack, exits: ExitStack) -> None:
        self._plan = plan
        self._stack = stack
        self._exits = exits
        bootstrap, topic = stack.env["HERALD_KAFKA_BOOTSTRAP"], stack.env["HERALD_EVENTS_TOPIC"]
        self._publisher = exits.enter_context(closing(Publisher(bootstrap, topic)))
        query, start = stack.env["HERALD_QUERY_NAME"], self._publisher.start
        self._follower = exits.enter_context(closing(Follower(bootstrap, query, topic, start)))
        self._sampler = exits.enter_context(closing(Sampler(stack, self._behind)))
        self._pins = PinWatch([Path(stack.env["HERALD_CHECKPOINT_DIR"])])
        self._meter = LagMeter()
        self._notifications = 0
        self._writes: Steady
        self._events: Steady
        self._started_s = 0.0
        self._warm, self._last = Counts(), Counts()
        self.samples: list[Sample] = []

    def begin(self, api: str, churn: Churn, payloads: Sequence[bytes]) -> None:
        """Put the load on."""
        enter, plan, env = self._exits.enter_context, self._plan, self._stack.env
        writer = enter(closing(Writer(api, churn, self._meter.acknowledge)))
        events = Events(self._publisher, payloads)
        enter(
            Listener(env["HERALD_KAFKA_BOOTSTRAP"], env["HERALD_NOTIFICATIONS_TOPIC"], self._hear)
        )
        self._started_s = time.time()
        self._events = enter(Steady("events", plan.events_per_s, EVENT_TICKS_PER_S, events.publish))
        self._writes = enter(Steady("writes", plan.writes_per_s, REQUESTS_PER_S, writer.write))

    def watch(self, seconds: float, progress: Progress) -> None:
        """Watch until so long after the beginning; RuntimeError if anything ended meanwhile."""
        sampled_s = told_s = 0.0
        while (at_s := self._at_s()) < seconds:
            self._look()
            self._last = Counts(at_s, self._writes.done, self._events.done)
            if at_s < self._plan.warm_up_minutes * 60:
                self._warm = self._last
            if at_s >= sampled_s + SAMPLE_S:
                sampled_s = at_s
                self.samples.append(self._sampler.sample(at_s))
            if at_s >= told_s + PROGRESS_S:
                told_s = at_s
                progress(self._told())
            time.sleep(POLL_S)

    def end(self) -> None:
        """Take the load off, and wait until everything is done; RuntimeError if it is not."""
        self._writes.stop()
        settled_s = self._at_s() + SETTLE_S
        while self._at_s() < settled_s:
            self._look()
            time.sleep(POLL_S)
        self._events.stop()
        self._publisher.flush()
        deadline_s = self._at_s() + DRAIN_S_MAX
        while behind := self._behind():
            if self._at_s() > deadline_s:
                raise RuntimeError(f"{behind:,} events were not told of within {DRAIN_S_MAX:g} s")
            self._look()
            time.sleep(POLL_S)

    def verdict(self, broken: Sequence[str]) -> Verdict:
        """What is judged, and what broke."""
        plan, warm, last = self._plan, self._warm, self._last
        seconds = max(last.at_s - warm.at_s, POLL_S)
        lags = [one for one in self._meter.lags(time.time()) if one.at_s >= self._since_s()]
        return Verdict(
            growths=tuple(growths_of(self.samples, warm.at_s)),
            lag=LagFigures.of(lags),
            rates=(
                Rate("writes", plan.writes_per_s, (last.writes - warm.writes) / seconds),
                Rate("events", plan.events_per_s, (last.events - warm.events) / seconds),
            ),
            notifications=self._notifications,
            broken=tuple(broken),
        )

    def _at_s(self) -> float:
        return time.time() - self._started_s

    def _since_s(self) -> float:
        """When the warm-up was over, in seconds since 1970."""
        return self._started_s + self._warm.at_s

    def _behind(self) -> int:
        return self._publisher.published - self._follower.done()

    def _hear(self, messages: Sequence[Message]) -> None:
        self._notifications += len(messages)

    def _look(self) -> None:
        """See what was pinned, and whether everything runs."""
        self._sampler.look()
        for pin in self._pins.poll():
            now = pin.instant
            self._meter.pin(pin.epoch, now.seconds + now.nanoseconds / 1e9)
        for steady in (self._writes, self._events):
            steady.raise_failure()
        if dead := self._stack.dead_services():
            raise RuntimeError(f"{', '.join(dead)} ended; {self._stack.log(dead[0])} says why")

    def _told(self) -> str:
        """Where it stands, for whoever waits."""
        lag = LagFigures.of(self._meter.lags(time.time()))
        return (
            f"{self._at_s() / 60:.1f} min: {self._writes.done:,} writes, "
            f"{self._events.done:,} events, {self._notifications:,} notifications, "
            f"lag p99 {lag.p99_s:.2f} s, most {lag.most_s:.2f} s"
        )
