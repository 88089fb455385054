"""A store of rows with a segment beside it: for tests of what a segment does alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.evaluate import truth
from index.events import encode
from index.kernels.probe import VERDICT_BITS, Compiled
from index.language import parse_text
from index.model import Filter, Subscription
from index.row_store import RowStore
from index.segment import Segment
from index.vocabulary import Vocabulary
from tests.strategies import NOW


class Rows:
    """Filters by row, compiled; a row is never used again."""

    def __init__(self, *texts: str) -> None:
        self.vocabulary = Vocabulary()
        self.store = RowStore(self.vocabulary)
        self.nodes: list[Filter] = []
        self.add(*texts)

    def add(self, *texts: str) -> NDArray[np.int32]:
        """Compile more filters; returns their rows."""
        first = len(self.nodes)
        self.nodes += [parse_text(text) for text in texts]
        added = enumerate(self.nodes[first:], start=first)
        self.store.append([Subscription(f"s{row}", node) for row, node in added], first)
        return np.arange(first, len(self.nodes), dtype=np.int32)

    @property
    def compiled(self) -> Compiled:
        return self.store.compiled()

    @property
    def attribute_count(self) -> int:
        return self.vocabulary.attribute_count

    def build(
        self,
        kind: type[Segment],
        rows: NDArray[np.int32] | None = None,
        shares: Shares | None = None,
    ) -> Any:
        """A segment of these rows, by default of all."""
        if rows is None:
            rows = np.arange(len(self.nodes), dtype=np.int32)
        shares = shares or Shares.unknown()
        return kind.build(self.compiled, rows, self.attribute_count, shares)

    def matched(self, segment: Segment, events: Sequence[dict[str, Any]]) -> list[list[int]]:
        """The rows that a segment finds, for each event."""
        batch = encode(events, self.vocabulary).columns
        hits = segment.match(self.compiled, batch, self.attribute_count)
        rows = (hits.hit >> VERDICT_BITS).tolist()
        return [sorted(rows[hits.start[at] : hits.start[at + 1]]) for at in range(len(events))]

    def expected(
        self, rows: Sequence[int] | NDArray[np.int32], events: Sequence[dict[str, Any]]
    ) -> list[list[int]]:
        """What the oracle finds among some rows."""
        return [
            [int(row) for row in rows if truth(self.nodes[row], event, NOW) is True]
            for event in events
        ]
