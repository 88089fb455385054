"""The background owner of a stack: starts it, restarts what dies, stops it when told to.

`./herald up` runs it as `python -m deploy.supervisor SERVICE ...` in a session of its own; what it
has to say stands in the state folder and in logs/supervisor.log.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable

from deploy.environment import UserError, state_dir
from deploy.settings import StackSettings
from deploy.stack import Stack

WATCH_S = 0.5
BACKOFF_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before each further restart; the last one is repeated."""

HEALTHY_S = 120.0
"""A service that lived this long begins anew with the shortest wait."""


class Restarts:
    """When each dead service may be started again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without deaths; `clock` tells seconds."""
        self._clock = clock
        self._deaths: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def died(self, name: str) -> float:
        """Note a death and return how long to wait; further calls before the start change nothing.

        The wait grows with each death that follows a short life.
        """
        now = self._clock()
        if name not in self._due:
            if now - self._started.get(name, now) > HEALTHY_S:
                self._deaths[name] = 0
            count = self._deaths.get(name, 0)
            self._deaths[name] = count + 1
            self._due[name] = now + BACKOFF_S[min(count, len(BACKOFF_S) - 1)]
        return max(0.0, self._due[name] - now)

    def started(self, name: str) -> None:
        """Note that a service is being started again."""
        self._due.pop(name, None)
        self._started[name] = self._clock()


def watch(stack: Stack, stopping: threading.Event) -> None:
    """Restart services that died, each after its wait, until told to stop."""
    restarts = Restarts()
    given_up: set[str] = set()
    while not stopping.wait(WATCH_S):
        for name in stack.dead_services():
            if name in given_up or restarts.died(name) > 0:
                continue
            if reason := stack.ended_for_good(name):
                given_up.add(name)
                say(f"{name} ended and stays so: {reason}")
                continue
            say(f"{name} ended; starting it again (its log: {stack.log(name)})")
            restarts.started(name)
            try:
                # Not waiting: it may need another service that is dead too and comes next.
                stack.restart(name, wait=False)
            except UserError as error:
                say(f"{name} is not back: {error}")


def say(sentence: str) -> None:
    """Write one line into the supervisor's log."""
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {sentence}", flush=True)


class StopRequested(BaseException):
    """The supervisor was told to stop while it was still starting."""


def main(services: list[str]) -> int:
    """Own a stack until SIGTERM or SIGINT."""
    stopping = threading.Event()

    def request_stop(number: int, frame: object) -> None:
        if not stopping.is_set():
            stopping.set()
            raise StopRequested(f"told to stop by {signal.Signals(number).name}")

    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, request_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may be closed
    try:
        with Stack(state_dir(), StackSettings(), services) as stack:
            say(f"ready: {', '.join(stack.names)}")
            watch(stack, stopping)
    except StopRequested as request:
        say(f"stopped: {request}")
    except UserError as error:
        say(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
