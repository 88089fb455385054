"""Patience: a broker that has just started, or moved a coordinator, answers a little later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

PASSING_CODES = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
)
PAUSE_S = 0.1

Answer = TypeVar("Answer")


def patiently(
    ask: Callable[[], Answer],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """The answer of a question to the group's coordinator, asked again while it is elsewhere.

    The client retries most questions itself, but not this kind. KafkaException of the last try
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
