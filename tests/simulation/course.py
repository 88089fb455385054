"""Course: every choice of a schedule, drawn from its seed alone, and the trace of what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

Option = TypeVar("Option")


class Course:
    """The one source of chance in a simulation.

    calm    nothing goes wrong any more: `goes_wrong` is always False.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace: list[str] = []
        self.depth = 0
        self.calm = False
        self._random = Random(seed)

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share of cases."""
        return self._random.random() < share

    def goes_wrong(self, share: float) -> bool:
        """As `chance`, for what is a fault."""
        return not self.calm and self._random.random() < share

    def below(self, stop: int) -> int:
        """A number from 0 on."""
        return int(self._random.random() * stop)

    def pick(self, options: Sequence[Option]) -> Option:
        """One of some options."""
        return options[self.below(len(options))]

    def pick_by_weight(self, weights: Mapping[Option, float]) -> Option:
        """One of some options, by weight."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def note(self, words: str) -> None:
        """Add a line to the trace, deeper for what happened in the middle of something else."""
        self.trace.append("  " * self.depth + words)
