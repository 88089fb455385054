"""Recent rows: small segments, each RATIO times the next, and a tail of rows in none.

    rows    0 ........................ m ........ k | k+1 ... end
            segment                    | segment    | tail, tried one by one

A value: adding rows makes another one, which shares the segments that did not change. So readers
keep what they had, and every row is built into log(rows) / log(RATIO) segments, RATIO times each at
most.

The tail becomes a segment when it is long, or when testing its rows has cost as much as building
them does (`is_dear`): where writes are many and events few, most rows die or are merged before an
event has met them. This is the rule of the ski rental, which never costs twice what it would if all
events to come were known (Karlin et al., Algorithmica 3, 1988).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import match_rows, new_scratch
from index.segment import Segment

TAIL_ROWS_MAX = 2_048
"""So many newest rows are tested one by one, whatever that has cost: at most 0.1 ms an event."""
TESTS_A_BUILD = 150_000
TESTS_A_ROW = 500
"""Tests of a row by an event (some 45 ns) that take as long as to build a segment (some 7 ms, and
25 µs a row)."""
RATIO = 8
"""A segment is built into one with what follows it, unless it is RATIO times as large."""
SEGMENT_ROWS_MAX = 131_072
"""A segment of that size is not built again before a merge, so that no add takes long."""

Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment and the rows it was built for, which ascend."""

    segment: Segment
    rows: Rows


@dataclass(frozen=True, slots=True)
class RecentRows:
    """Where the rows that were added since the base was built are found."""

    segments: tuple[Placed, ...] = ()
    tail: Rows = field(default_factory=lambda: np.zeros(0, np.int32))

    def with_rows(
        self, rows: Rows, needed: Callable[[Rows], Rows], build: Callable[[Rows], Segment]
    ) -> Self:
        """These and `rows`, all greater; `needed` and `build` as `filed` takes them."""
        longer = type(self)(self.segments, np.concatenate((self.tail, rows)))
        return longer if longer.tail.size <= TAIL_ROWS_MAX else longer.filed(needed, build)

    def is_dear(self, tests: int) -> bool:
        """Whether so many tests of rows in the tail cost as much as a segment of it."""
        return tests > TESTS_A_BUILD + TESTS_A_ROW * self.tail.size

    def filed(self, needed: Callable[[Rows], Rows], build: Callable[[Rows], Segment]) -> Self:
        """These with the tail in a segment, and what it is built with.

        needed   those of some rows that a reader may still ask for; others are left out
        build    a segment of some rows
        """
        kept, joined = list(self.segments), [self.tail]
        size = self.tail.size
        while kept and kept[-1].rows.size < RATIO * size:
            if kept[-1].rows.size + size > SEGMENT_ROWS_MAX:
                break
            joined.insert(0, kept.pop().rows)
            size += joined[0].size
        built = needed(np.concatenate(joined))
        return type(self)((*kept, Placed(build(built), built)), self.tail[:0])

    def hits(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Iterator[Hits]:
        """The hits of each segment, and those of the tail."""
        for placed in self.segments:
            yield placed.segment.match(compiled, batch, attribute_count)
        if self.tail.size:
            scratch = new_scratch(attribute_count)
            verdicts = match_rows(*compiled, self.tail, batch, scratch)
            event, place = np.nonzero(verdicts)
            start = np.searchsorted(event, np.arange(len(verdicts) + 1))
            rows = self.tail[place].astype(np.int64)
            yield Hits(start, rows << VERDICT_BITS | verdicts[event, place])

    def segment_of(self, row: int) -> Segment | None:
        """The segment that has a row; None if it is in the tail."""
        for placed in self.segments:
            at = int(np.searchsorted(placed.rows, row))
            if at < placed.rows.size and placed.rows[at] == row:
                return placed.segment
        return None

    def check(self, needed: Rows) -> None:
        """Every segment is sound, and each of the `needed` rows is in one place."""
        for placed in self.segments:
            placed.segment.check(placed.rows)
        rows = np.concatenate((*(placed.rows for placed in self.segments), self.tail))
        assert np.all(np.diff(rows) > 0), "a row is in two places, or they do not ascend"
        missing = np.setdiff1d(needed, rows)
        assert not missing.size, f"rows {missing} are nowhere"
