"""Segments for tests of one algorithm: built alone, changed alone, and read again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.base import MatchIndex
from index.evaluate import truth
from index.events import encode
from index.kernels.probe import VERDICT_BITS, Compiled
from index.language import parse_text
from index.model import Filter, Subscription
from index.row_store import RowStore
from index.segment import Segment
from index.updatable import Updatable
from index.vocabulary import Vocabulary
from tests.strategies import NOW

Built = TypeVar("Built", bound=Segment)


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


def built(kind: type[Built], texts: Sequence[str]) -> tuple[Built, NDArray[np.int32]]:
    """A segment of these filters alone, and its rows."""
    segment: Built = Rows(*texts).build(kind)
    return segment, np.arange(len(texts), dtype=np.int32)


def numbered(nodes: Sequence[Filter]) -> list[Subscription]:
    """Subscriptions s0, s1, and so on to these filters."""
    return [Subscription(f"s{number}", node) for number, node in enumerate(nodes)]


def subscriptions(texts: Sequence[str]) -> list[Subscription]:
    """Subscriptions s0, s1, ... of these filters."""
    return numbered([parse_text(text) for text in texts])


def matched(index: MatchIndex, events: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What an index matches, for each event."""
    matches = index.match(encode(events, index.vocabulary), NOW)
    return [sorted(ids) for ids in index.ids_by_event(matches)]


def reopened(index: Updatable, events: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What an index matches after it was saved and opened."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        index.save(path)
        opened = type(index).open(path)
        opened.check()
        return matched(opened, events)
