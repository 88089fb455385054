"""Companion: what an algorithm cannot file another one takes, so that each answers every filter.

The papers' algorithms are made for conjunctions of certain operators. A segment here has two parts:
the rows that the algorithm takes, and those it leaves to its companion. Both answer every event.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.columns import EventBatch
from index.kernels.probe import Compiled, Hits
from index.segment import Segment, under_prefix, with_prefix
from index.vocabulary import Vocabulary


class PartialSegment(Segment):
    """A segment of an algorithm that takes only some rows."""

    @classmethod
    @abstractmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of `rows` the algorithm can file."""


class Accompanied(Segment):
    """A partial segment and its companion's; subclasses name both types."""

    own_type: ClassVar[type[PartialSegment]]
    companion_type: ClassVar[type[Segment]]

    def __init__(self, own: PartialSegment, companion: Segment, own_rows: NDArray[np.int32]):
        self.own = own
        self.companion = companion
        self._own_rows = own_rows

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Both parts, each of its rows."""
        taken = cls.own_type.takes(compiled, rows)
        return cls(
            cls.own_type.build(compiled, rows[taken], attribute_count, shares),
            cls.companion_type.build(compiled, rows[~taken], attribute_count, shares),
            rows[taken],
        )

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """The hits of both, event by event."""
        return joined_hits(
            self.own.match(compiled, batch, attribute_count),
            self.companion.match(compiled, batch, attribute_count),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of both under a prefix each."""
        return {
            "own_rows": self._own_rows,
            **with_prefix("own.", self.own.to_arrays()),
            **with_prefix("companion.", self.companion.to_arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The parts that `to_arrays` wrote."""
        return cls(
            cls.own_type.from_arrays(under_prefix("own.", arrays)),
            cls.companion_type.from_arrays(under_prefix("companion.", arrays)),
            arrays["own_rows"],
        )

    def stats(self) -> dict[str, int]:
        """The algorithm's own counts; of the companion's those that mean the same, added up."""
        own, companion = self.own.stats(), self.companion.stats()
        shared = {name: count + companion.get(name, 0) for name, count in own.items()}
        return {"own_row_count": int(self._own_rows.size), **shared}

    def check(self, rows: NDArray[np.int32]) -> None:
        """Each part is sound, and no row is in both or in neither."""
        mine = self.is_own(rows)
        assert int(mine.sum()) == self._own_rows.size, "a row of the algorithm is not the segment's"
        self.own.check(rows[mine])
        self.companion.check(rows[~mine])

    def is_own(self, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of `rows` the algorithm took when the segment was built."""
        if not self._own_rows.size:
            return np.zeros(rows.size, np.bool_)
        at = np.minimum(np.searchsorted(self._own_rows, rows), self._own_rows.size - 1)
        mine: NDArray[np.bool_] = self._own_rows[at] == rows
        return mine

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """Where the part that has the row keeps it."""
        if self.is_own(np.array([row], np.int32))[0]:
            return self.own.filing_of(compiled, vocabulary, row)
        return f"with the companion, {self.companion.filing_of(compiled, vocabulary, row)}"


def accompanied(own: type[PartialSegment], companion: type[Segment]) -> type[Accompanied]:
    """The type of segments in which `companion` takes what `own` does not."""
    names = {"own_type": own, "companion_type": companion, "__module__": own.__module__}
    return type(f"{own.__name__}With{companion.__name__}", (Accompanied,), names)


def joined_hits(one: Hits, other: Hits) -> Hits:
    """The hits of two segments over the same events."""
    if not other.hit.size:
        return one
    hit = np.empty(one.hit.size + other.hit.size, np.int64)
    hit[np.arange(one.hit.size) + np.repeat(other.start[:-1], np.diff(one.start))] = one.hit
    hit[np.arange(other.hit.size) + np.repeat(one.start[1:], np.diff(other.start))] = other.hit
    return Hits(one.start + other.start, hit)
