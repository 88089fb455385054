"""World: one stack under load, with a proxy before each server and a recorder beside it."""

from __future__ import annotations

import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deploy.chaos.injection import PATIENCE_S, Broken, Injection, Outage, await_true
from deploy.chaos.load import Load
from deploy.environment import free_port
from deploy.history import History
from deploy.proxy import Proxy
from deploy.recorder import Recorder, Window, addresses_of
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.traffic import end_offsets
from store import StoreSettings, SubscriptionStore, open_store
from store.errors import StoreError
from streaming.failpoints import FOLDER as MARKS

POLL_S = 0.1
ASK_TIMEOUT_S = 5.0
RECOVERY_S_MAX = 300.0
DRAIN_S_MAX = 300.0
NUDGE_S = 5.0
RESTART_PAUSE_S = 1.0
TRANSACTION_TIMEOUT_MS = 10_000
SNAPSHOT_CHANGES_MIN = 150
"""So that snapshots are built during a run of a minute or two."""


class World:
    """Starts everything, and offers faults what they need; a context manager."""

    def __init__(self, folder: Path, delivery: str, seed: int) -> None:
        self.folder = folder
        self.delivery = delivery
        self.failpoints = folder.absolute() / "failpoints"
        self._seed = seed
        self._exits = ExitStack()
        self._own_env: dict[str, str] = {}
        self._master = ""
        self.injection = Injection()
        self.stack: Stack
        self.kafka_proxy: Proxy
        self.store_proxy: Proxy
        self.recorder: Recorder
        self.load: Load
        self.window: Window
        self._follower: Any

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.close()

    def _start(self) -> None:
        settings = StackSettings().on_free_ports()
        listener = free_port()
        enter = self._exits.enter_context
        self.kafka_proxy = enter(Proxy(listener))
        self.store_proxy = enter(Proxy(settings.store_port))
        second = f"{listener}:{self.kafka_proxy.port}"
        settings = settings.model_copy(update={"kafka_second_listener": second})
        environment = {
            "HERALD_KAFKA_BOOTSTRAP": f"127.0.0.1:{self.kafka_proxy.port}",
            "HERALD_STORE_URL": f"redis://127.0.0.1:{self.store_proxy.port}/0",
            "HERALD_DELIVERY": self.delivery,
            "HERALD_TRANSACTION_TIMEOUT_MS": str(TRANSACTION_TIMEOUT_MS),
            "HERALD_SNAPSHOT_CHANGES_MIN": str(SNAPSHOT_CHANGES_MIN),
            "HERALD_FAILPOINTS": f"@{self.failpoints}",
            # They live for a minute or two; the optimising compiler would take half of their time.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
        }
        self.bootstrap = f"127.0.0.1:{settings.kafka_port}"
        self.store_url = f"redis://127.0.0.1:{settings.store_port}/0"
        self.api = f"http://127.0.0.1:{settings.api_port}"
        self.stack = enter(Stack(self.folder, settings, environment=environment))
        self._own_env = self.stack.env.copy()
        addresses = addresses_of(self.stack.env, self.bootstrap, self.store_url)
        self.recorder = enter(Recorder(addresses, [self.checkpoint]))
        acknowledge = self.recorder.acknowledge
        self.load = enter(
            Load(self.bootstrap, self.events_topic, self.api, acknowledge, self._seed)
        )
        self._follower = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": settings.query_name, "log_level": 0}
        )
        self._exits.callback(self._follower.close)

    @property
    def checkpoint(self) -> Path:
        """The driver's."""
        return Path(self.stack.env["HERALD_CHECKPOINT_DIR"])

    @property
    def snapshots(self) -> Path:
        """The folder of the driver's snapshots and changes."""
        return Path(self.stack.env["HERALD_SNAPSHOT_DIR"])

    @property
    def events_topic(self) -> str:
        """Where events are published."""
        return self.stack.settings.events_topic

    def begin(self, master: str = "") -> None:
        """Begin a window: everything runs, and nothing is left to do.

        master   on which Spark the driver has to run; '' for the one of the stack.
        """
        for name in self.stack.dead_services():
            self.stack.restart(name)
        if master != self._master:
            self._master = master
            self.stack.env = self._own_env | ({"HERALD_MASTER": master} if master else {})
            self.restart_driver()
        self.failpoints.unlink(missing_ok=True)
        self.drain()
        self.injection = Injection()
        self.begin_window()

    def begin_window(self) -> None:
        """Judge what comes from here on, with the load paused and nothing left to do."""
        self.load.forget()
        self.window = self.recorder.begin()

    def end_window(self) -> History:
        """What there is to be judged."""
        return self.recorder.end(self.window, self.delivery)

    def run_load(self, seconds: float) -> None:
        """Let the load run for a while."""
        self.load.go()
        time.sleep(seconds)

    def drain(self) -> None:
        """Pause the load and wait until the query has done everything."""
        self.load.pause()
        ends = end_offsets(self.bootstrap, self.events_topic)
        deadline, nudge = time.monotonic() + DRAIN_S_MAX, time.monotonic() + NUDGE_S
        while not self._has_done(ends):
            if time.monotonic() > deadline:
                raise Broken(f"the query has not done everything within {DRAIN_S_MAX:g} s")
            if time.monotonic() > nudge:
                # Offsets whose commit was lost in at_least_once are committed by the next batch.
                for partition in range(len(ends)):
                    self.load.publish(b'{"n":0}', partition=partition)
                nudge = time.monotonic() + NUDGE_S
            self._tend_driver()
            time.sleep(POLL_S)
        if end_offsets(self.bootstrap, self.events_topic) != ends:
            self.drain()

    def healed(self) -> None:
        """Nothing is injected any more: from now on recovery is timed."""
        ends = end_offsets(self.bootstrap, self.events_topic)
        self.injection.healed = time.monotonic(), ends

    def wait(self, seconds: float) -> None:
        """Let time pass, and start a driver that ends meanwhile, as the supervisor does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._tend_driver()
            time.sleep(POLL_S)

    def _tend_driver(self) -> None:
        if "driver" in self.stack.dead_services():
            self.injection.restarts += 1
            self.failpoints.unlink(missing_ok=True)
            time.sleep(RESTART_PAUSE_S)
            self.stack.restart("driver", wait=False)

    def forget_writes_after(self, epoch: int) -> None:
        """The fault itself took these writes away; call it while none is under way."""
        self.load.wrote = [one for one in self.load.wrote if one.epoch <= epoch]
        self.recorder.writes = [one for one in self.recorder.writes if one.epoch <= epoch]

    def await_recovery(self) -> None:
        """Wait until the query has told of all events published before the fault was over."""
        if self.injection.healed is None:
            self.healed()
        assert self.injection.healed is not None, "it was just set"
        since, ends = self.injection.healed
        while not self._has_done(ends):
            if time.monotonic() - since > RECOVERY_S_MAX:
                raise Broken(f"the query has not recovered within {RECOVERY_S_MAX:g} s")
            self._tend_driver()
            time.sleep(POLL_S)
        self.injection.recovered_s = time.monotonic() - since

    def _has_done(self, ends: list[int]) -> bool:
        asked = [TopicPartition(self.events_topic, part) for part in range(len(ends))]
        try:
            answers = self._follower.committed(asked, timeout=ASK_TIMEOUT_S)
        except KafkaException:
            return False
        return all(answer.offset >= end for answer, end in zip(answers, ends, strict=True) if end)

    def arm(self, failpoints: str) -> None:
        """Arm failpoints in the processes of the driver that run, and let each act once more."""
        for mark in (self.checkpoint / MARKS).glob("*"):
            mark.unlink()
        partial = self.failpoints.with_suffix(".tmp")
        partial.write_text(failpoints, encoding="utf-8")
        partial.replace(self.failpoints)

    def restart_driver(self) -> None:
        """Start the driver again, with no failpoint armed, and wait until it is ready."""
        self.failpoints.unlink(missing_ok=True)
        self.stack.restart("driver")

    def await_death(self, name: str, timeout_s: float = PATIENCE_S) -> int:
        """Wait until a service has died, and return its exit code."""
        await_true(lambda: name in self.stack.dead_services(), f"{name} has not ended", timeout_s)
        code = self.stack.exit_code(name)
        assert code is not None, "it is dead"
        return code

    def await_mark(self, failpoint: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until a failpoint that acts once has acted."""
        mark = self.checkpoint / MARKS / failpoint
        await_true(mark.exists, f"nothing has come by {failpoint}", timeout_s)

    def kill(self, name: str) -> None:
        """End a service at once."""
        self.stack.kill(name, signal.SIGKILL)
        self.await_death(name)

    def metric(self, name: str) -> float:
        """A figure of the driver; NaN if it does not answer."""
        port = self.stack.settings.metrics_port
        with suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
                text = answer.read().decode()
            found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
            if found is not None:
                return float(found[1])
        return float("nan")

    @contextmanager
    def store(self) -> Iterator[SubscriptionStore]:
        """The store, past its proxy."""
        with open_store(StoreSettings(url=self.store_url)) as opened:
            yield opened

    @contextmanager
    def outage(self) -> Iterator[None]:
        """While the query may not hear of writes; it ends when the query is up to date again."""
        outage = Outage(time.time_ns())
        self.injection.outages.append(outage)
        try:
            yield
        finally:
            outage.ended = 2**63
        self.await_live()
        outage.ended = time.time_ns()

    def await_live(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the query has read all writes there were at the call."""
        reader = f"query:{self.stack.settings.query_name}"
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(StoreError), self.store() as store:
                newest = store.newest_epoch()
                while time.monotonic() < deadline:
                    if any(r.name == reader and r.epoch >= newest for r in store.readers()):
                        return
                    time.sleep(POLL_S)
            if time.monotonic() > deadline:
                raise Broken(f"the query has not read all writes within {timeout_s:g} s")
            time.sleep(POLL_S)
