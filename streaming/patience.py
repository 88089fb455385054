"""Patience with a broker: how long to wait for an answer that comes late, and when to give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

PASSING_CODES = frozenset(
    {
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "_UNKNOWN_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
    }
)
"""Who would answer, a group's coordinator or a partition's leader, is elsewhere or not known."""
PAUSE_S = 0.1

Answer = TypeVar("Answer")


def patiently(
    ask: Callable[[], Answer],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """The answer of a question to a coordinator or leader, asked again while it is elsewhere.

    The client retries most questions itself, but not these. KafkaException of the last try
    after `timeout_s`, and of any other error at once.
    """
    deadline = clock() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].name() not in PASSING_CODES or clock() > deadline:
                raise
            time.sleep(PAUSE_S)


def within(timeout_s: float, call: Callable[[], object]) -> None:
    """Make a call of the client that may never return; KafkaException when it takes too long.

    The client's own timeout is not looked at while it waits for a coordinator that does not come
    back (librdkafka issue 5456). The call is left to a thread of its own, which may wait for ever;
    whatever it uses must be thrown away.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="within", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer in {timeout_s:g} s"))
    if failures:
        raise failures[0]
