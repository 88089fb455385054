"""Positions: how far a query has told of each partition, also within an event.

An event whose notifications are more than a transaction should hold is told of in parts, and may be
told of by half when its transaction is committed. Then the committed offset is its own, so that
consumer lag counts it, and the metadata of the commit has a `Mark`:

    {"v":1,"part":3,"parts":40,"epoch":…,"lineage":…,"now":…}     parts 0 to 2 have been told of

A mark says at which pin it was made, for the rest may have to be told of at another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from streaming.pins import Offsets, Pin

FORMAT_VERSION = 1


class PositionError(Exception):
    """The committed metadata cannot be gone on from: why, and what to do."""


class Mark(NamedTuple):
    """The next part of an event, of how many, and the pin at which those before were told of."""

    part: int
    parts: int
    epoch: int
    lineage: str
    now: str

    def is_of(self, pin: Pin) -> bool:
        """Whether it was made at this pin, or at one that makes the same of every event."""
        return (self.epoch, self.lineage, self.now) == (pin.epoch, pin.lineage, pin.now)

    def encode(self) -> str:
        """As the metadata of a committed offset."""
        return orjson.dumps({"v": FORMAT_VERSION} | self._asdict()).decode()

    @classmethod
    def decode(cls, metadata: str | None) -> Mark | None:
        """The inverse; None where there is none, PositionError if it is of a later version.

        Whatever else is there was committed by another tool, which means whole events.
        """
        try:
            fields = orjson.loads(metadata or "null")
            if not isinstance(fields, dict) or "v" not in fields:
                return None
        except ValueError:
            return None
        if fields.pop("v") != FORMAT_VERSION:
            raise PositionError(
                f"the consumer group has an offset with metadata {metadata}, of a later version: "
                "upgrade Herald, or let the newer one end its batch first."
            )
        return cls(**fields)


Marks = dict[str, dict[int, Mark]]
"""topic -> partition -> how far the event at its offset has been told of."""


@dataclass(frozen=True, slots=True)
class Positions:
    """The next event of each partition, and the marks of those that are told of in part."""

    offsets: Offsets
    marks: Marks = field(default_factory=dict)

    def each(self) -> Iterator[tuple[str, int, int, Mark | None]]:
        """Topic, partition, offset and mark."""
        for topic, partitions in self.offsets.items():
            for partition, offset in partitions.items():
                yield topic, partition, offset, self.marks.get(topic, {}).get(partition)

    def at(self, topic: str, partition: int) -> tuple[int, int]:
        """Offset and part; -1 where nothing is known."""
        mark = self.marks.get(topic, {}).get(partition)
        return self.offsets.get(topic, {}).get(partition, -1), 0 if mark is None else mark.part

    def lacking(self, end: Positions) -> int:
        """How many partitions have not come as far."""
        return sum(
            self.at(topic, partition) < end.at(topic, partition)
            for topic, partition, _, _ in end.each()
        )

    def with_later(self, other: Positions) -> Positions:
        """Each partition where it is further; a batch that is replayed may end before a later."""
        offsets: Offsets = {topic: dict(one) for topic, one in self.offsets.items()}
        marks: Marks = {topic: dict(one) for topic, one in self.marks.items()}
        for topic, partition, offset, mark in other.each():
            if self.at(topic, partition) < other.at(topic, partition):
                offsets.setdefault(topic, {})[partition] = offset
                marks.setdefault(topic, {}).pop(partition, None)
                if mark is not None:
                    marks[topic][partition] = mark
        return Positions(offsets, {topic: one for topic, one in marks.items() if one})
