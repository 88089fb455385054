"""Churn: writes that keep a population steady. Subscriptions come, go and are replaced for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

Tree = dict[str, Any]
KINDS = ("replace", "add", "replace", "delete")
"""In turn: half of all writes replace a filter, and as many subscriptions come as go."""


class Churn:
    """Draws the lines of `POST /v1/subscriptions:batch`; equal arguments give equal lines.

    A subscription that comes has an id that there never was: whatever keeps something of each id
    grows. Filters are drawn from those given, so the values in them are finitely many.
    """

    def __init__(self, filters: Sequence[Tree], count: int, seed: int) -> None:
        """Start from `count` subscriptions, at least one."""
        self._filters = filters
        self._random = random.Random(seed)
        self._kinds = cycle(KINDS)
        self._ids = [f"s{number}" for number in range(count)]
        self._next = count

    def population(self) -> Iterator[dict[str, Any]]:
        """The subscriptions to begin with."""
        for name in self._ids:
            yield self._form(name)

    def draw(self, count: int) -> list[dict[str, Any]]:
        """The next writes."""
        return [self._write(next(self._kinds)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self._ids)

    def _write(self, kind: str) -> dict[str, Any]:
        if kind == "add":
            self._ids.append(f"s{self._next}")
            self._next += 1
            return self._form(self._ids[-1])
        at = self._random.randrange(len(self._ids))
        if kind == "replace":
            return self._form(self._ids[at])
        name, self._ids[at] = self._ids[at], self._ids[-1]
        self._ids.pop()
        return {"op": "delete", "id": name}

    def _form(self, name: str) -> dict[str, Any]:
        return {"id": name, "filter": self._random.choice(self._filters)}
