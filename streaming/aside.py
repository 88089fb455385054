"""Aside: work that is done beside what a process does otherwise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[], T]
Aside = Callable[[Work[T]], "Future[T]"]

SWITCH_S = 0.0005
"""A thread that wants the interpreter has it so soon. With Python's 5 ms, whoever serves beside
such work, and waits for something two hundred times a batch, takes a second longer for it."""


def in_a_thread(work: Work[T]) -> Future[T]:
    """Begin some work; it does not keep the process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    sys.setswitchinterval(SWITCH_S)
    threading.Thread(target=run, name="herald-aside", daemon=True).start()
    return future
