"""Examples drawn once a process, for tests that ask the same of many algorithms.

Drawing takes longer than checking. So each property has its examples, all algorithms meet the same
ones, and only where one fails does Hypothesis look for a smaller one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Generic, TypeVar

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

Example = TypeVar("Example")

INTERPRETED = "interpreted"
"""The profile for kernels in plain Python."""
EXAMPLES = 40
SHRINKING_EXAMPLES = 1_000
"""Examples among which a failure is looked for again, to be made smaller."""


def at_most(count: int) -> int:
    """So many examples, or as many as the profile has where that is fewer."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return min(count, profile.max_examples)


def thoroughly(count: int) -> int:
    """So many examples, but where kernels are interpreted no more than the profile has."""
    return at_most(count) if settings.get_current_profile_name() == INTERPRETED else count


class Drawn(Generic[Example]):
    """Examples of a strategy, for each property its own."""

    def __init__(self, strategy: st.SearchStrategy[Example]) -> None:
        self._strategy = strategy
        self._examples: dict[str, list[Example]] = {}

    def check(self, holds: Callable[[Example], None]) -> None:
        """Call a property with each of its examples; the smallest found failure is what fails."""
        for example in self._of(holds.__qualname__):
            try:
                holds(example)
            except Exception as error:
                again = given(self._strategy)(lambda one: holds(one))
                settings(max_examples=SHRINKING_EXAMPLES)(again)()
                error.add_note(f"no smaller example was found than {example!r}")
                raise

    def _of(self, name: str) -> list[Example]:
        if name not in self._examples:
            drawn: list[Example] = []

            @seed(zlib.crc32(name.encode()))
            @settings(max_examples=at_most(EXAMPLES), phases=[Phase.generate], database=None)
            @given(self._strategy)
            def draw(example: Example) -> None:
                drawn.append(example)

            draw()
            self._examples[name] = drawn
        return self._examples[name]
