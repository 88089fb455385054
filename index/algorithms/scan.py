"""Scan: the oracle. Evaluate every filter on every event, exactly as the semantics say.

Idea     no structure, so nothing can be missed; every other index must give the same matches.
Layout   row -> subscription, removed ones too      id -> row, of the living, ascending
Worked   rows 0 `a = 1`, 1 `MISSING b`; of the event {"a": 1} both are TRUE: its rows are [0, 1].
Cost     build, add, remove O(1) a subscription; match O(N · size of filter) an event. Best when N
         is a handful or the answer must be beyond doubt; poor otherwise. Removed subscriptions
         keep their rows, so that earlier matches keep their meaning: memory grows with churn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import numpy as np

from index.base import MatchIndex
from index.columns import Matches
from index.errors import EventError
from index.evaluate import truth
from index.model import Instant, Subscription
from index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from index.events import Events
    from index.statistics import EventStatistics


class Scan(MatchIndex):
    """Evaluates every subscription on every event."""

    name = "scan"
    paper = ""
    summary = "the oracle: evaluates every filter on every event; slow, obvious and complete"

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self._subscriptions: list[Subscription] = []
        self._row_of: dict[str, int] = {}

    @classmethod
    def build(
        cls, subscriptions: Iterable[Subscription], statistics: EventStatistics | None = None
    ) -> Self:
        """All filters as they are; statistics would help nothing."""
        scan = cls()
        for subscription in subscriptions:
            scan.add(subscription)
        return scan

    def add(self, subscription: Subscription) -> None:
        """Append the subscription; O(1)."""
        self.remove(subscription.id)
        self._row_of[subscription.id] = len(self._subscriptions)
        self._subscriptions.append(subscription)

    def remove(self, subscription_id: str) -> bool:
        """Take the subscription from the living; O(1)."""
        return self._row_of.pop(subscription_id, None) is not None

    def match(self, events: Events, now: Instant) -> Matches:
        """Every living filter on every event that could be decoded."""
        starts, rows = [0], list[int]()
        for position in range(len(events)):
            rows += self._rows_of(events, position, now)
            starts.append(len(rows))
        return Matches(np.array(starts, np.int64), np.array(rows, np.int32))

    def _rows_of(self, events: Events, position: int, now: Instant) -> list[int]:
        try:
            event = events.event(position)
        except EventError:
            return []
        return [
            row
            for row in self._row_of.values()
            if truth(self._subscriptions[row].filter, event, now) is True
        ]

    def stats(self) -> dict[str, int | float]:
        """Subscriptions alive, and rows ever given out."""
        return {"subscription_count": len(self), "row_count": len(self._subscriptions)}

    def check(self) -> None:
        """Rows ascend and lead back to their ids."""
        rows = list(self._row_of.values())
        assert rows == sorted(set(rows)), f"rows not ascending: {rows}"
        for subscription_id, row in self._row_of.items():
            assert self._subscriptions[row].id == subscription_id, (subscription_id, row)

    def ids_of(self, rows: Iterable[int]) -> list[str]:
        """Ids of rows, removed ones too."""
        return [self._subscriptions[row].id for row in rows]

    def attachments_of(self, rows: Iterable[int]) -> list[bytes]:
        """Attachments of rows, removed ones too."""
        return [self._subscriptions[row].attachment for row in rows]

    def __len__(self) -> int:
        return len(self._row_of)
