"""Sequential scan: test every subscription on every event, by the kernel that verifies.

Paper    the baseline SCAN of Sadoghi, Jacobsen: BE-Tree, SIGMOD 2011, section 7.2, and of Ji,
         Jacobsen, PVLDB 12(3), 2018, section 7.
Idea     no structure, and still no oracle: `scan` evaluates filters as they are written, this one
         their compiled programs, which end at the first predicate that fails.
Layout   row int32[n]    programs lie in the order of rows, so memory is read from end to end
Worked   rows 0 `a = 1`, 1 `MISSING b`; of the event {"a": 1} both hold: its rows are [0, 1].
Cost     match O(predicates up to the first that fails, over all n). Build nothing. Best for a few
         hundred subscriptions, or where most of them match; poor otherwise.
Differs  Any filter, not only conjunctions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.columns import EventBatch
from index.kernels import leaf
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import (
    NO,
    Scratch,
    enter_event,
    holds,
    leave_event,
    new_scratch,
)
from index.segment import Segment, collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class AllRows(Segment):
    """The rows of one segment, in order."""

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._rows = rows
        self._rows.flags.writeable = False
        self._candidate_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Nothing but the rows."""
        return cls(rows.copy())

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Try all rows, event after event."""
        scratch = new_scratch(attribute_count)
        event_count = batch.entry_start.size - 1
        self._candidate_count += event_count * self._rows.size
        return collect_hits(
            lambda room, event: try_all(self._rows, compiled, batch, scratch, room, event),
            event_count,
            self._rows.size,
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The rows."""
        return {"row": self._rows}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The segment that `to_arrays` wrote."""
        return cls(arrays["row"])

    def stats(self) -> dict[str, int]:
        """Every row is a candidate of every event."""
        return {"candidate_count": self._candidate_count}

    def check(self, rows: NDArray[np.int32]) -> None:
        """The rows are those it was built for."""
        assert np.array_equal(self._rows, rows), "other rows than it was built for"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """Nowhere in particular."""
        return "among all rows: it is tried on every event"


class Sequential(Updatable):
    """SCAN of the papers; any filter."""

    name = "sequential"
    paper = "SCAN, the baseline of Sadoghi, Jacobsen: BE-Tree. SIGMOD 2011"
    summary = "tests the compiled program of every subscription on every event"
    segment_type = AllRows


@leaf
def try_all(
    rows: NDArray[np.int32],
    compiled: Compiled,
    batch: EventBatch,
    scratch: Scratch,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < rows.size:
            return event, rows.size
        enter_event(batch, event, scratch.entry_of)
        for place in range(rows.size):
            row = rows[place]
            verdict = holds(compiled.programs, compiled.predicates, batch, scratch, row)
            if verdict != NO:
                hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | verdict
                hit_count += 1
        leave_event(batch, event, scratch.entry_of)
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0
