"""Versions: what changes from one to the next, and the state that readers of one share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from index.model import Subscription
from index.recent_rows import RecentRows
from index.row_store import RowStore
from index.segment import Segment


class Change(NamedTuple):
    """What is new from a version on: ids that are gone, and subscriptions, of which those with a
    known id replace the former ones; of two with one id the later stands.
    """

    version: int
    added: Sequence[Subscription] = ()
    removed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What a reader needs; replaced as a whole by every change."""

    version: int
    base: RowStore
    base_segment: Segment
    recent: RowStore
    recent_count: int
    recent_rows: RecentRows
    alive_count: int

    def place(self, row: int) -> tuple[RowStore, int]:
        """The store of a row, and its number there."""
        base_count = len(self.base)
        return (self.base, row) if row < base_count else (self.recent, row - base_count)

    def find(self, subscription_id: str) -> tuple[RowStore, int] | None:
        """The place of the living row of an id."""
        for store in (self.recent, self.base):
            row = store.find(subscription_id)
            if row >= 0:
                return store, row
        return None
