"""In place: an updatable index whose own method changes its structure with every add and remove.

Idea     the method's rows of the base and its recent rows have a growing segment each. A new row
         enters the recent one at once; a row that no version can see any more leaves its segment at
         once. Rows for the companion take the way of every updatable index.
Layout   rows      base                      | recent
         own       growing segment           | growing segment
         others    a segment of the companion | small segments and a tail, see index.recent_rows
Versions A change without a version of its own ends the older versions: what it kills is deleted. A
         change with a version leaves what it kills in place, for readers of older ones, until
         `release` or `merge` ends these.
Cost     add and remove: compiling, and what the method takes. Readers and writers take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.answers import joined_hits
from index.columns import EventBatch, Matches
from index.companion import Accompanied
from index.growing import GrowingArray
from index.growing_segment import GrowingSegment
from index.kernels.probe import Hits
from index.model import Instant, Subscription
from index.recent_rows import RecentRows
from index.row_store import RowStore
from index.segment import Segment
from index.updatable import Updatable
from index.versions import Change, State

if TYPE_CHECKING:
    from index.events import Events


class InPlace(Updatable):
    """An index of a growing segment; `segment_type` accompanies it with the companion's."""

    segment_type: ClassVar[type[Accompanied]]
    _dying: list[tuple[RowStore, int]]

    def add_all(self, subscriptions: Sequence[Subscription], version: int | None = None) -> None:
        """Take in several at one version; of two with one id the later stands."""
        with self._writing:
            super().add_all(subscriptions, version)
            if version is None:
                self.release(self.version)

    def change_all(self, changes: Iterable[Change]) -> None:
        """Make several changes, one after the other, which readers see all at once."""
        with self._writing:
            super().change_all(changes)
            if self.version == self.oldest_version:  # what died at it is seen by no version
                self.release(self.version)

    def remove(self, subscription_id: str, version: int | None = None) -> bool:
        """Let a subscription be invisible from `version` on; False if there is none."""
        with self._writing:
            was_there = super().remove(subscription_id, version)
            if version is None:
                self.release(self.version)
            return was_there

    def release(self, oldest_version: int) -> None:
        """No match will ask for an older version: delete the rows that died by then."""
        with self._writing:
            self.oldest_version = max(self.oldest_version, oldest_version)
            kept = []
            for store, row in self._dying:
                if store.died[row] <= self.oldest_version:
                    self._delete(store, row)
                else:
                    kept.append((store, row))
            self._dying = kept

    def match(self, events: Events, now: Instant, version: int | None = None) -> Matches:
        """The rows visible at `version` (by default the newest) whose filter is TRUE, ascending."""
        with self._writing:
            return super().match(events, now, version)

    def stats(self) -> dict[str, int | float]:
        """As of every updatable index; `own_row_count` has the rows that did not leave."""
        with self._writing:
            state = self._state
            base = self._needed(state.base, _all_rows(state.base))
            own_count = int(np.count_nonzero(self._base_segment(state).is_own(base)))
            own_count += self._own_recent(state).size
            return {**super().stats(), "own_row_count": own_count}

    def check(self) -> None:
        """Assert every invariant of the layout."""
        with self._writing:
            super().check()
            state = self._state
            self._recent.check(self._own_recent(state))

    def _begin(self, base: RowStore, segment: Segment, version: int) -> None:
        super()._begin(base, segment, version)
        recent = self._state.recent
        count = self.vocabulary.attribute_count
        self._recent = _growing(
            self.segment_type.own_type.build(
                recent.compiled(), _all_rows(recent), count, Shares.unknown()
            )
        )
        self._taken = GrowingArray(np.bool_)
        self._dying = []
        self._recent_shares = Shares.unknown()
        self._shares_rows_max = 0

    def _file_recent(self, state: State, first_row: int, stop: int) -> RecentRows:
        recent = state.recent
        compiled = recent.compiled()
        rows = np.arange(first_row, stop, dtype=np.int32)
        taken = self.segment_type.own_type.takes(compiled, rows)
        # Rows of an append that failed were never filed.
        self._taken.extend(np.zeros(first_row - len(self._taken), np.bool_))
        self._taken.extend(taken)
        if taken.any():
            shares = self._shares_of_recent(recent)
            count = self.vocabulary.attribute_count
            self._recent.insert(compiled, rows[taken], count, shares)
        return state.recent_rows.with_rows(rows[~taken], *self._filing(recent))

    def _shares_of_recent(self, recent: RowStore) -> Shares:
        """What statistics know, asked again only when there are twice the rows."""
        if len(recent) > self._shares_rows_max:
            self._recent_shares = self._shares.of(recent.predicates, self.vocabulary)
            self._shares_rows_max = 2 * len(recent)
        return self._recent_shares

    def _kill(self, state: State, places: Iterable[tuple[RowStore, int]], version: int) -> None:
        killed = list(places)
        super()._kill(state, killed, version)
        self._dying += killed

    def _delete(self, store: RowStore, row: int) -> None:
        """Delete a row, if it is one of the method's own."""
        state, rows = self._state, np.array([row], np.int32)
        if store is state.base:
            if self._base_segment(state).is_own(rows)[0]:
                _growing(self._base_segment(state).own).delete(store.compiled(), rows)
        elif self._taken.view()[row]:
            self._recent.delete(store.compiled(), rows)

    def _hits(self, state: State, batch: EventBatch) -> Iterator[tuple[RowStore, Hits, int]]:
        base, *others = super()._hits(state, batch)
        yield base
        compiled = state.recent.compiled()
        own = self._recent.match(compiled, batch, self.vocabulary.attribute_count)
        # Rows of the growing segment lie between those that left it.
        hits = joined_hits([own, *(hits for _, hits, _ in others)])
        yield state.recent, hits, len(state.base)

    def _segments(self, state: State) -> list[Segment]:
        return [*super()._segments(state), self._recent]

    def _segment_of(self, state: State, store: RowStore, row: int) -> Segment | None:
        if store is state.recent and self._taken.view()[row]:
            return self._recent
        return super()._segment_of(state, store, row)

    def _check_filed(self, state: State) -> None:
        rows, segment = _all_rows(state.base), self._base_segment(state)
        own = segment.is_own(rows)
        segment.own.check(self._needed(state.base, rows[own]))
        segment.companion.check(rows[~own])
        recent = _all_rows(state.recent)
        state.recent_rows.check(self._needed(state.recent, recent[~self._taken.view()]))

    def _own_recent(self, state: State) -> NDArray[np.int32]:
        """The recent rows in the growing segment."""
        return self._needed(state.recent, np.flatnonzero(self._taken.view()).astype(np.int32))

    def _base_segment(self, state: State) -> Accompanied:
        assert isinstance(state.base_segment, Accompanied)
        return state.base_segment


def _growing(segment: Segment) -> GrowingSegment:
    assert isinstance(segment, GrowingSegment)
    return segment


def _all_rows(store: RowStore) -> NDArray[np.int32]:
    return np.arange(len(store), dtype=np.int32)
