"""Verdicts: what a notification says, and what is found to be wrong with a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import orjson

from deploy.history import Record
from streaming.crowd import part_of
from streaming.notification import COMPACT_TYPE, TYPE
from streaming.target import index_id

EXAMPLES_KEPT = 10
KINDS = ("lost", "false", "duplicate", "order", "stale", "backward")


class Place(NamedTuple):
    """Where an event lies."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


class Told(NamedTuple):
    """One subscription that was told of an event, at one epoch."""

    tenant: str
    id: str
    revision: int

    def part(self, parts: int) -> int:
        """Which of so many parts of an event tells it."""
        return part_of(index_id(self.tenant, self.id).encode(), parts)

    def __str__(self) -> str:
        return f"{self.id} of {self.tenant} (revision {self.revision})"


class Said(NamedTuple):
    """What a notification says."""

    place: Place
    epoch: int
    told: tuple[Told, ...]
    is_compact: bool


@dataclass(slots=True)
class Verdict:
    """Findings by kind: how many, and the first of them in words."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    events: int = 0
    matches: int = 0
    batches: int = 0
    notifications: int = 0

    def find(self, kind: str, words: str) -> None:
        """Note a finding."""
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_KEPT:
            examples.append(words)

    @property
    def holds(self) -> bool:
        """Was nothing found?"""
        return not self.counts

    def to_json(self) -> dict[str, object]:
        """All of it."""
        return {
            "holds": self.holds,
            "events": self.events,
            "matches": self.matches,
            "batches": self.batches,
            "notifications": self.notifications,
            "found": {kind: self.counts[kind] for kind in KINDS},
            "examples": self.examples,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `to_json` gave; KeyError, TypeError or ValueError if it has another form."""
        sums = (int(told[name]) for name in ("events", "matches", "batches", "notifications"))
        found = Counter({kind: int(told["found"][kind]) for kind in KINDS if told["found"][kind]})
        return cls(found, {kind: list(words) for kind, words in told["examples"].items()}, *sums)


def said_by(notification: Record) -> Said:
    """What a notification says; ValueError if it does not have the form of one that is known."""
    kind = notification.header("ce_type")
    if kind not in (TYPE, COMPACT_TYPE):
        raise ValueError(f"a notification of type {kind}, but {TYPE} and {COMPACT_TYPE} are known")
    try:
        value = orjson.loads(notification.value or b"")
        event = value["event"]
        place = Place(event["topic"], event["partition"], event["offset"])
        is_compact = kind == COMPACT_TYPE
        if is_compact:
            named = [(value["tenant"], name, revision) for name, revision in value["subscriptions"]]
        else:
            named = [(value["tenant"], value["subscription"], value["revision"])]
        return Said(place, value["epoch"], tuple(Told(*one) for one in named), is_compact)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no notification: {error!r}") from None
