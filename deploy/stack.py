"""The whole of Herald on one machine: broker, store, API and streaming driver as processes.

    with Stack(folder, StackSettings().on_free_ports(), {"kafka", "valkey"}) as stack:
        producer = Producer({"bootstrap.servers": stack.env["HERALD_KAFKA_BOOTSTRAP"]})

The services die with the process that owns the stack, even when that is killed; what they keep lies
in the state folder and is found again by the next stack there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO

from deploy import broker, jars
from deploy.class_archive import spark_archive
from deploy.environment import UserError, child_environment, find_java
from deploy.obstacles import begin_log, refuse_full_disk, refuse_taken_port, why_ended
from deploy.processes import (
    SERVICE_MARK,
    STACK_MARK,
    ProcessRecord,
    spawn,
    stop,
    sweep,
)
from deploy.services import SERVICE_NAMES, Service, describe
from deploy.settings import StackSettings
from deploy.state import StackState, log_file, read_state, take_folder

POLL_S = 0.05


class Stack:
    """Services that start, stop and fail together; use it as a context manager."""

    def __init__(
        self,
        state_dir: Path,
        settings: StackSettings | None = None,
        services: Iterable[str] = SERVICE_NAMES,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a stack; nothing starts before `start` or `with`.

        `environment` holds further variables for the services, such as HERALD_ALGORITHM.
        """
        self.state_dir = state_dir.absolute()
        self.settings = settings or StackSettings()
        self.names = tuple(name for name in SERVICE_NAMES if name in set(services))
        self.stack_id = uuid.uuid4().hex
        self.env = self._environment(environment or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._log_starts: dict[str, int] = {}
        self._folder: IO[str] | None = None
        self._state: StackState | None = None

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all services and wait until each is ready; on failure stop them and raise."""
        self._own_folder()
        try:
            self._prepare()
            servers = [name for name in self.names if name in ("valkey", "kafka")]
            self.start_services(servers)
            if "kafka" in self.names:
                broker.create_topics(self.env["HERALD_KAFKA_BOOTSTRAP"], self.settings.topics())
            self.start_services([name for name in self.names if name not in servers])
            self._write(self.state.with_phase("ready"))
        except BaseException as error:
            self.stop(failure=str(error) or type(error).__name__)
            raise

    def stop(self, failure: str = "") -> None:
        """Stop all services, users before servers, and make sure that no process is left."""
        if self._folder is None:
            return
        self._write(self.state.with_phase("stopping", failure))
        try:
            for name in reversed(self.names):
                self.stop_service(name)
            sweep(self.stack_id)
        finally:
            self._write(self.state.with_phase("failed" if failure else "stopped", failure))
            self._folder.close()
            self._folder = None

    def start_services(self, names: Iterable[str]) -> None:
        """Start services side by side and wait for all of them."""
        names = list(names)
        for name in names:
            self._launch(self.service(name))
        for name in names:
            self.wait_ready(name)

    def stop_service(self, name: str) -> None:
        """Stop one service and everything that it started."""
        process = self._running.pop(name, None)
        if process is not None:
            stop(process, self.service(name).grace_s)
            sweep(self.stack_id, name)

    def restart(self, name: str, wait: bool = True) -> None:
        """Stop one service if it runs and start it again; return at once or when it is ready."""
        self.stop_service(name)
        self._launch(self.service(name))
        if wait:
            self.wait_ready(name)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a service's main process, to see what the others make of it."""
        self._running[name].send_signal(number)

    def pid(self, name: str) -> int:
        """The process id of a service's main process."""
        return self._running[name].pid

    def pids(self) -> dict[str, int]:
        """The process id of each service's main process."""
        return {name: self.pid(name) for name in self.names}

    def dead_services(self) -> list[str]:
        """Services of this stack that do not run, in the order of starting."""
        running = {name for name, process in self._running.items() if process.poll() is None}
        return [name for name in self.names if name not in running]

    def exit_code(self, name: str) -> int | None:
        """The exit code of a service that has ended; None while it runs, or if it never did."""
        process = self._running.get(name)
        return None if process is None else process.poll()

    def ended_for_good(self, name: str) -> str:
        """Why a dead service must not be started again, or '' when it may be."""
        code = self.exit_code(name)
        return "" if code is None else self.service(name).final_codes.get(code, "")

    def service(self, name: str) -> Service:
        """How a service of this stack is started and asked."""
        return describe(name, self.state_dir, self.settings.ports()[name], self.env)

    def log(self, name: str) -> Path:
        """The file with a service's output."""
        return log_file(self.state_dir, name)

    @property
    def state(self) -> StackState:
        """What the state folder tells of this stack; there is none before the start."""
        if self._state is None:
            raise RuntimeError("the stack has not been started")
        return self._state

    def wait_ready(self, name: str) -> None:
        """Wait until a service answers; raise with the reason when it ends or takes too long."""
        service, process = self.service(name), self._running[name]
        deadline = time.monotonic() + service.ready_timeout_s
        while not service.is_ready():
            if process.poll() is not None:
                reason = why_ended(self.log(name), self._log_starts[name])
                raise UserError(f"{name} ended with code {process.returncode}: {reason}")
            if time.monotonic() > deadline:
                said = service.waits_for()
                raise UserError(
                    f"{name} was not ready after {service.ready_timeout_s:g} s"
                    + (f" and said {said!r}" if said else "")
                    + f"; look into {self.log(name)}, and try again on a less busy machine."
                )
            time.sleep(POLL_S)

    def _environment(self, further: Mapping[str, str]) -> dict[str, str]:
        """The environment of every service: ours, the stack's addresses, and its marks."""
        addresses = {
            "HERALD_STATE_DIR": str(self.state_dir),
            "HERALD_CHECKPOINT_DIR": str(self.state_dir / "checkpoint"),
            "HERALD_SNAPSHOT_DIR": str(self.state_dir / "snapshots"),
            "HERALD_SCRATCH_DIR": str(self.state_dir / "scratch"),
            "HERALD_LOG_DIR": str(self.state_dir / "logs"),
            "HERALD_KAFKA_SECOND_LISTENER": self.settings.kafka_second_listener,
            "HERALD_EVENTS_TOPIC": self.settings.events_topic,
            "HERALD_NOTIFICATIONS_TOPIC": self.settings.notifications_topic,
            "HERALD_DEAD_LETTERS_TOPIC": self.settings.dead_letters_topic,
            "HERALD_QUERY_NAME": self.settings.query_name,
            "HERALD_API_HOST": "127.0.0.1",
            "HERALD_API_PORT": str(self.settings.api_port),
            "HERALD_METRICS_PORT": str(self.settings.metrics_port),
        }
        kafka, store = self.settings.kafka_port, self.settings.store_port
        # A server that is not ours to start may be anywhere.
        if "kafka" in self.names or "HERALD_KAFKA_BOOTSTRAP" not in os.environ:
            addresses["HERALD_KAFKA_BOOTSTRAP"] = f"127.0.0.1:{kafka}"
        if "valkey" in self.names or "HERALD_STORE_URL" not in os.environ:
            addresses["HERALD_STORE_URL"] = f"redis://127.0.0.1:{store}/0"
        return {**child_environment(), **addresses, **further, STACK_MARK: self.stack_id}

    def _own_folder(self) -> None:
        self._folder = take_folder(self.state_dir)
        if self._folder is None:
            raise UserError(
                f"a stack already runs in {self.state_dir}; stop it with ./herald down, or choose "
                "another folder by HERALD_STATE_DIR."
            )
        owner = ProcessRecord.of(os.getpid())
        assert owner is not None, "this process runs"
        try:
            before = read_state(self.state_dir)
            if before is not None:  # its owner may have been killed in the middle of something
                sweep(before.stack_id)
        except UserError:
            self._folder.close()
            self._folder = None
            raise
        ports = {name: self.settings.ports()[name] for name in self.names}
        shown = {key: self.env[key] for key in sorted(self.env) if key.startswith("HERALD_")}
        del shown[STACK_MARK]
        self._write(StackState(self.stack_id, "starting", owner, ports=ports, environment=shown))

    def _prepare(self) -> None:
        """Find the usual obstacles before a service meets them and dies of them; fetch jars."""
        refuse_full_disk(self.state_dir)
        for name in self.names:
            refuse_taken_port(name, self.settings.ports()[name])
        if {"kafka", "driver"} & set(self.names):
            find_java()
        if "driver" in self.names:
            self.env["HERALD_JARS_DIR"] = str(jars.connector_dir(self.log("jars")))
            if archive := spark_archive(self.log("class-archive")):
                self.env["HERALD_CLASS_ARCHIVE"] = str(archive)

    def _launch(self, service: Service) -> None:
        log = self.log(service.name)
        self._log_starts[service.name] = begin_log(log, service.name)
        environment = {**self.env, SERVICE_MARK: service.name}
        process = spawn(service.command(), environment, log, self.state_dir)
        self._running[service.name] = process
        record = ProcessRecord.of(process.pid)
        if record is not None:
            services = {**self.state.services, service.name: record}
            self._write(replace(self.state, services=services))

    def _write(self, state: StackState) -> None:
        self._state = state
        state.write(self.state_dir)
