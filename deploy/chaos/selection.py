"""Selection: random faults within a bounded time, as CI runs them.

The seed alone decides what is selected and in which order, so the same seed meets the same faults.
How long they take is expected, not known; a machine that is slower leaves the last ones out.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deploy.chaos import campaign
from deploy.chaos.faults import BOTH, Fault
from deploy.chaos.outcome import Outcome, Turn

STACK_S = 35.0
"""Expected for a stack to start and stop."""


@dataclass(frozen=True)
class Selection:
    """What a seed selects: for each delivery its faults, in the order in which they run."""

    seed: int
    seconds: float
    faults: dict[str, list[Fault]]


def select(seed: int, seconds: float, deliveries: Sequence[str] = BOTH) -> Selection:
    """Random faults that are expected to fit into the time, which deliveries share equally."""
    return Selection(
        seed,
        seconds,
        {
            delivery: drawn(Random(f"{seed} {delivery}"), delivery, seconds / len(deliveries))
            for delivery in deliveries
        },
    )


def drawn(random: Random, delivery: str, seconds: float) -> list[Fault]:
    """Faults of one delivery in random order, without those that no time is left for."""
    promised, _ = campaign.able(campaign.catalogue(), (delivery,))
    left, found = seconds - STACK_S, []
    for fault in random.sample(promised, len(promised)):
        if fault.seconds <= left:
            left -= fault.seconds
            found.append(fault)
    return found


def run(selection: Selection, folder: Path) -> Iterator[Outcome]:
    """Run what is selected, as long as there is time for the next one."""
    began = time.monotonic()
    for number, (delivery, faults) in enumerate(selection.faults.items(), 1):
        share = selection.seconds * number / len(selection.faults)
        steps = timely(faults, delivery, selection.seed, began + share)
        yield from campaign.run_steps(steps, folder, delivery)


def timely(
    faults: Sequence[Fault], delivery: str, seed: int, deadline: float
) -> Iterator[tuple[Fault, Turn]]:
    """The next fault each time, until one is expected to end after the deadline."""
    for fault in faults:
        if time.monotonic() + fault.seconds > deadline:
            return
        yield fault, Turn(campaign.row_of(fault, delivery), 1, seed)


def repeat_command(outcome: Outcome) -> str:
    """What runs the fault of an outcome again, at the same moments."""
    row = outcome.row
    return (
        f"./herald chaos --fault {row.number} --match {shlex.quote(row.name)} "
        f"--delivery {row.delivery} --seed {outcome.turn.seed}"
    )
