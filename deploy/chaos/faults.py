"""The catalogue of faults: a number, a name, what is injected, what must hold, and how to do it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from deploy.chaos.world import World

BOTH = ("exactly_once", "at_least_once")
ONCE = ("exactly_once",)

Inject = Callable[[World, Random], None]


@dataclass(frozen=True)
class Fault:
    """One way to break something.

    number      of the fault that it is a kind of.
    injected    what is done, and `holds` what must be so afterwards, beside the checker's verdict.
    inject      does it while the load runs; Broken if something does not hold.
    deliveries  for which the promise is made.
    killed      which process a kill -9 ends at any moment; '' if the fault is another one.
    seconds     that a run is expected to take on two cores.
    master      on which Spark the driver has to run; '' for the one of the stack.
    needs       a program of this machine without which it cannot be injected.
    """

    number: int
    name: str
    injected: str
    holds: str
    inject: Inject
    deliveries: Sequence[str] = BOTH
    killed: str = ""
    seconds: float = 30.0
    master: str = ""
    needs: str = ""

    def lacks(self) -> str:
        """Why it cannot be injected on this machine; '' if it can."""
        found = not self.needs or shutil.which(self.needs) is not None
        return "" if found else f"there is no {self.needs} on this machine"


@dataclass(frozen=True)
class NotInjected:
    """A fault that cannot be injected by this command, or not on one machine, and why."""

    number: int
    name: str
    reason: str


FAULTS: list[Fault] = []
"""In the order of their numbers once all modules of faults are imported; see `catalogue`."""

NOT_INJECTED = (
    NotInjected(
        21,
        "upgrade from the previous release",
        "`tests/connected/test_upgrade.py` does it, with the checkpoint, log and snapshot of the "
        "first release that `tests/formats/` keeps",
    ),
)


def fault(
    number: int,
    name: str,
    injected: str,
    holds: str,
    deliveries: Sequence[str] = BOTH,
    killed: str = "",
    seconds: float = 30.0,
    master: str = "",
) -> Callable[[Inject], Inject]:
    """Enter a function into the catalogue."""

    def enter(inject: Inject) -> Inject:
        FAULTS.append(
            Fault(number, name, injected, holds, inject, deliveries, killed, seconds, master)
        )
        return inject

    return enter
