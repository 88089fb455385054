"""Outcome: what came of one run of one fault, and its form as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from deploy.verdicts import Verdict


class Row(NamedTuple):
    """A row of the table: all runs of one fault in one delivery."""

    number: int
    name: str
    delivery: str


class Turn(NamedTuple):
    """One run of a row, the same whenever it is run: its number and the campaign's seed."""

    row: Row
    run: int
    seed: int


@dataclass
class Outcome:
    """What came of one run of one fault.

    verdict     the checker's; None when the run ended before there was anything to judge.
    recovery_s  from the end of the injection until all events before it were told of.
    seconds     of the run as a whole, without the start of its stack.
    broken      in words, what else does not hold.
    revision    of the code that ran; '' where it is not known.
    """

    turn: Turn
    verdict: Verdict | None = None
    recovery_s: float | None = None
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    revision: str = ""

    @property
    def row(self) -> Row:
        """The row that the run belongs to."""
        return self.turn.row

    @property
    def holds(self) -> bool:
        """Whether all that must hold did."""
        return self.verdict is not None and self.verdict.holds and not self.broken

    def count(self, kind: str) -> int | None:
        """How many findings of a kind; None where there is no verdict."""
        return None if self.verdict is None else self.verdict.counts[kind]

    def to_json(self) -> dict[str, object]:
        """All of it."""
        return {
            "fault": self.row.number,
            "name": self.row.name,
            "delivery": self.row.delivery,
            "run": self.turn.run,
            "seed": self.turn.seed,
            "revision": self.revision,
            "holds": self.holds,
            "seconds": round(self.seconds, 1),
            "recovery_s": None if self.recovery_s is None else round(self.recovery_s, 2),
            "broken": self.broken,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `to_json` gave; KeyError, TypeError or ValueError if it has another form."""
        row = Row(int(told["fault"]), str(told["name"]), str(told["delivery"]))
        verdict, recovery_s = told["verdict"], told["recovery_s"]
        return cls(
            Turn(row, int(told["run"]), int(told["seed"])),
            None if verdict is None else Verdict.from_json(verdict),
            None if recovery_s is None else float(recovery_s),
            float(told["seconds"]),
            list(told["broken"]),
            str(told["revision"]),
        )
