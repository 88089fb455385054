"""Updatable: six verbs and many versions for an algorithm that can only build.

Idea     segments are built once and never change. The base segment may be large, and be mapped from
         a snapshot. What is added since lies in rows of its own: small recent segments, the newest
         rows in none and tested one by one. A removed row stays where it is and is not visible any
         more; so is a row that another of the same id has replaced.
Layout   rows        0 ........................ n | n+1 ................ m ........ k | k+1 .. end
         store       base, perhaps mapped         | recent
         segments    one                          | each RATIO times the next          | tail
         row         visible at version v if born <= v < died
Worked   add s1 at version 1, s2 at 2; replace s1 at 3; remove s2 at 4. Rows s1 [1, 3), s2 [2, 4),
         s1 [3, ..): version 2 sees rows 0 and 1, version 3 rows 1 and 2, version 4 row 2.
Cost     add O(compile), and now and then a segment, which a match builds where events are many:
         every row is built into log(rows) / log(RATIO) of them, RATIO times each at most. remove
         O(1). match: one segment after the other, and a filter by version. The base is built again
         only by `merge`.

Readers never wait: `match` takes one reference to an immutable state, and a version that it has
seen stays as it was. Writers take turns; a reader that files the tail does so when none is at work.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import KnownShares
from index.answers import in_order, joined_rows
from index.base import MatchIndex
from index.columns import EventBatch, Matches
from index.decisions import Decisions, without_refused
from index.kernels.probe import Hits
from index.model import Instant, Subscription
from index.recent_rows import RecentRows, Rows
from index.row_joining import joined
from index.row_store import RowStore
from index.segment import Segment, under_prefix, with_prefix
from index.snapshot import SnapshotError, open_snapshot, write_snapshot
from index.versions import Change, State
from index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from index.events import Events
    from index.statistics import EventStatistics


class Updatable(MatchIndex):
    """A MatchIndex from a Segment; subclasses name theirs in `segment_type`."""

    segment_type: ClassVar[type[Segment]]

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.oldest_version = 0
        """No match will ask for an older version: rows that died by then may be dropped."""
        self._shares = KnownShares(None)
        self._writing = threading.RLock()
        self._decisions = Decisions()
        self._tail_tests = 0
        self.meta: dict[str, object] = {}
        """What `save` was given to keep beside the index, after `open`."""
        self._state: State  # `_begin` makes the first, and whoever makes an index calls it

    @classmethod
    def build(
        cls,
        subscriptions: Iterable[Subscription],
        statistics: EventStatistics | None = None,
        version: int = 0,
    ) -> Self:
        """An index whose base holds all of them, visible from `version` on."""
        index = cls()
        distinct = {subscription.id: subscription for subscription in subscriptions}
        base = RowStore(index.vocabulary)
        base.append(list(distinct.values()), version)
        index._shares = KnownShares(statistics)
        index._begin(base, index._build_base(base), version)
        return index

    @classmethod
    def sharing(cls, other: Updatable, statistics: EventStatistics | None = None) -> Self:
        """An index of another's base that shares its rows: to compare algorithms without as many
        copies. What one of them removes, all lose.
        """
        index = cls()
        index.vocabulary = other.vocabulary
        index._shares = KnownShares(statistics)
        base = other._state.base
        index._begin(base, index._build_base(base), other.version)
        return index

    @classmethod
    def open(cls, path: Path | str, verify: bool = True) -> Self:
        """The index that `save` wrote. Arrays are mapped, so time hardly grows with the rows."""
        meta, arrays = open_snapshot(path, verify)
        if meta["algorithm"] != cls.name:
            problem = f"it was written by {meta['algorithm']}, not by {cls.name}"
            raise SnapshotError(Path(path), "meta", problem)
        index = cls()
        index.vocabulary = Vocabulary.from_arrays(under_prefix("vocabulary/", arrays))
        base = RowStore(index.vocabulary, under_prefix("rows/", arrays))
        segment = cls.segment_type.from_arrays(under_prefix("segment/", arrays))
        index._begin(base, segment, meta["version"])
        index.meta = meta["meta"]
        return index

    def save(self, path: Path | str, meta: Mapping[str, object] | None = None) -> int:
        """Write the newest version to a snapshot file; returns its bytes. `meta` is kept beside.

        Files are equal, byte for byte, if the same subscriptions were built in the same order, with
        equal statistics, and are saved with equal `meta`.
        """
        with self._writing:
            state = self._state
            base, segment = state.base, state.base_segment
            if state.recent_count or base.dead_count:
                base, segment = self._merged(state, state.version)
            header = {"algorithm": self.name, "version": state.version, "meta": dict(meta or {})}
            salt = json.dumps(header, sort_keys=True).encode()
            arrays = {
                **with_prefix("vocabulary/", self.vocabulary.to_arrays(salt)),
                **with_prefix("rows/", base.to_arrays()),
                **with_prefix("segment/", segment.to_arrays()),
            }
        return write_snapshot(path, header, arrays)

    @property
    def version(self) -> int:
        """The newest version: that of the last change."""
        return self._state.version

    def advance(self, version: int) -> None:
        """Let `version` be the newest, though nothing changed."""
        with self._writing:
            self._state = replace(self._state, version=self._next_version(version))

    def add(self, subscription: Subscription, version: int | None = None) -> None:
        """Take in a subscription from `version` on (by default one more than the newest)."""
        self.add_all([subscription], version)

    def add_all(self, subscriptions: Sequence[Subscription], version: int | None = None) -> None:
        """Take in several at one version; of two with one id the later stands."""
        with self._writing:
            self.change_all([Change(self._next_version(version), subscriptions)])

    def change_all(self, changes: Iterable[Change]) -> None:
        """Make several changes, one after the other, which readers see all at once.

        What they add is built into segments together, at a fraction of the cost of one by one.
        When one fails, those before it are made, and it raises.
        """
        with self._writing:
            state = self._state
            first_row = stop = len(state.recent)
            version, alive_count = state.version, state.alive_count
            try:
                for change in changes:
                    version = _not_older(change.version, version)
                    alive_count += self._make(state, change)
                    stop = len(state.recent)
            finally:
                self._state = replace(
                    state,
                    version=version,
                    recent_count=len(state.recent),
                    recent_rows=self._file_recent(state, first_row, stop),
                    alive_count=alive_count,
                )

    def remove(self, subscription_id: str, version: int | None = None) -> bool:
        """Let a subscription be invisible from `version` on; False if there is none."""
        with self._writing:
            state = self._state
            version = self._next_version(version)
            place = state.find(subscription_id)
            if place is not None:
                self._kill(state, [place], version)
            alive_count = state.alive_count - (place is not None)
            self._state = replace(state, version=version, alive_count=alive_count)
            return place is not None

    def merge(
        self, oldest_version: int | None = None, statistics: EventStatistics | None = None
    ) -> None:
        """Build base and recent rows into a new base; rows get new numbers.

        Rows that died by `oldest_version` (by default the newest) are dropped, and no older version
        can be asked for any more. By `statistics`, if they are given, keys are chosen from now on:
        events may have drifted from those that the former choice was made by.
        """
        with self._writing:
            state = self._state
            if statistics is not None:
                self._shares = KnownShares(statistics)
            oldest = state.version if oldest_version is None else oldest_version
            self._begin(*self._merged(state, oldest), state.version)
            self.oldest_version = oldest

    def match(self, events: Events, now: Instant, version: int | None = None) -> Matches:
        """The rows visible at `version` (by default the newest) whose filter is TRUE, ascending."""
        self._note_tests(self._state.recent_rows, len(events))
        state = self._state
        version = state.version if version is None else version
        if not self.oldest_version <= version <= state.version:
            known = f"{self.oldest_version} to {state.version}"
            raise ValueError(f"version {version} is not known, only {known}")
        events = events.renewed(self.vocabulary)
        parts = []
        for store, hits, first_row in self._hits(state, events.columns):
            if not hits.hit.size:
                continue
            visible = store.visible_hits(in_order(hits), version)
            decided = self._decisions.decided(store, visible, events, now)
            parts.append((without_refused(events, decided), first_row))
        if not parts:
            return Matches(np.zeros(len(events) + 1, np.int64), np.zeros(0, np.int32))
        return joined_rows(parts)

    def ids_of(self, rows: Iterable[int]) -> list[str]:
        """Subscription ids of rows, in the order of the rows."""
        state = self._state
        return [store.id_of(at) for store, at in map(state.place, rows)]

    def attachments_of(self, rows: Iterable[int]) -> list[bytes]:
        """Attachments of rows, in the order of the rows."""
        state, row = self._state, np.fromiter(rows, np.int32)
        base_count = len(state.base)
        is_recent = row >= base_count
        base = iter(state.base.attachments_of(row[~is_recent]))
        recent = iter(state.recent.attachments_of(row[is_recent] - base_count))
        return [next(recent if late else base) for late in is_recent.tolist()]

    def filing_of(self, subscription_id: str) -> str:
        """Under which keys a subscription is filed, in words."""
        state = self._state
        place = state.find(subscription_id)
        if place is None:
            raise KeyError(f"no subscription {subscription_id!r}")
        store, row = place
        segment = self._segment_of(state, store, row)
        if segment is None:
            return "among the newest: it is tried on every event, until there are many of them"
        return segment.filing_of(store.compiled(), self.vocabulary, row)

    def stats(self) -> dict[str, int | float]:
        """Counts of rows and segments, and those of the algorithm, added up over the segments."""
        state = self._state
        counts: Counter[str] = Counter()
        segments = self._segments(state)
        for segment in segments:
            counts.update(segment.stats())
        return {
            "subscription_count": state.alive_count,
            "row_count": len(state.base) + state.recent_count,
            "dead_row_count": state.base.dead_count + state.recent.dead_count,
            "tail_row_count": state.recent_rows.tail.size,
            "segment_count": len(segments),
            "settled_count": self._decisions.settled_count,
            "evaluated_count": self._decisions.evaluated_count,
            "row_bytes": state.base.nbytes + state.recent.nbytes,
            "structure_bytes": sum(segment.nbytes for segment in segments),
            **counts,
        }

    def check(self) -> None:
        """Assert every invariant of the layout."""
        state = self._state
        state.base.check()
        state.recent.check()
        assert state.recent_count <= len(state.recent)
        self._check_filed(state)
        alive = sum(np.count_nonzero(store.alive) for store in (state.base, state.recent))
        assert alive == state.alive_count, (alive, state.alive_count)

    def __len__(self) -> int:
        return self._state.alive_count

    def _begin(self, base: RowStore, segment: Segment, version: int) -> None:
        """Start with a base and nothing recent."""
        self._tail_tests = 0
        self.oldest_version = version
        alive_count = len(base) - base.dead_count
        recent = RowStore(self.vocabulary)
        self._state = State(version, base, segment, recent, 0, RecentRows(), alive_count)

    def _build_base(self, base: RowStore) -> Segment:
        rows = np.arange(len(base), dtype=np.int32)
        return self._build(base, rows)

    def _build(self, store: RowStore, rows: NDArray[np.int32]) -> Segment:
        shares = self._shares.of(store.predicates, self.vocabulary)
        attribute_count = self.vocabulary.attribute_count
        return self.segment_type.build(store.compiled(), rows, attribute_count, shares)

    def _merged(self, state: State, oldest_version: int) -> tuple[RowStore, Segment]:
        parts = [
            (store, np.flatnonzero(store.died > oldest_version).astype(np.int32))
            for store in (state.base, state.recent)
        ]
        base = joined(self.vocabulary, parts)
        return base, self._build_base(base)

    def _make(self, state: State, change: Change) -> int:
        """Append and kill the rows of a change; how many more rows are alive after it."""
        distinct = {subscription.id: subscription for subscription in change.added}
        gone = [one for one in change.removed if one not in distinct]
        places = [place for one in (*gone, *distinct) if (place := state.find(one)) is not None]
        if distinct:
            state.recent.append(list(distinct.values()), change.version)
        self._kill(state, places, change.version)
        return len(distinct) - len(places)

    def _file_recent(self, state: State, first_row: int, stop: int) -> RecentRows:
        """Where recent rows are found, with those from `first_row` to `stop` just appended."""
        rows = np.arange(first_row, stop, dtype=np.int32)
        return state.recent_rows.with_rows(rows, *self._filing(state.recent))

    def _filing(self, recent: RowStore) -> tuple[Callable[[Rows], Rows], Callable[[Rows], Segment]]:
        """How recent rows become a segment, as `RecentRows.filed` takes it."""

        def build(rows: Rows) -> Segment:
            self._tail_tests = 0
            return self._build(recent, rows)

        return lambda rows: self._needed(recent, rows), build

    def _note_tests(self, recent_rows: RecentRows, event_count: int) -> None:
        """Count what events are about to cost in the tail, and file it first if that is dear.

        Readers may lose a count to each other, and wait for no writer.
        """
        self._tail_tests += recent_rows.tail.size * event_count
        if not recent_rows.is_dear(self._tail_tests) or not self._writing.acquire(blocking=False):
            return
        try:
            state = self._state
            if state.recent_rows.tail.size:  # else another reader was quicker
                filed = state.recent_rows.filed(*self._filing(state.recent))
                self._state = replace(state, recent_rows=filed)
        finally:
            self._writing.release()

    def _kill(self, state: State, places: Iterable[tuple[RowStore, int]], version: int) -> None:
        """Let rows be invisible from `version` on."""
        for store, row in places:
            store.kill(row, version)

    def _needed(self, store: RowStore, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Those of some rows that a version may see which can still be asked for."""
        return rows[store.died[rows] > self.oldest_version]

    def _check_filed(self, state: State) -> None:
        """Every row that is needed lies where it is looked for."""
        state.base_segment.check(np.arange(len(state.base), dtype=np.int32))
        rows = np.arange(state.recent_count, dtype=np.int32)
        state.recent_rows.check(self._needed(state.recent, rows))

    def _segments(self, state: State) -> list[Segment]:
        """All segments that answer."""
        return [state.base_segment, *(placed.segment for placed in state.recent_rows.segments)]

    def _segment_of(self, state: State, store: RowStore, row: int) -> Segment | None:
        """The segment that has a row; None for a row of the tail."""
        return state.base_segment if store is state.base else state.recent_rows.segment_of(row)

    def _next_version(self, version: int | None) -> int:
        newest = self._state.version
        return newest + 1 if version is None else _not_older(version, newest)

    def _hits(self, state: State, batch: EventBatch) -> Iterator[tuple[RowStore, Hits, int]]:
        """The hits of each segment and of the tail, their store, and its first row."""
        attribute_count = self.vocabulary.attribute_count
        base, recent = state.base, state.recent
        yield base, state.base_segment.match(base.compiled(), batch, attribute_count), 0
        for hits in state.recent_rows.hits(recent.compiled(), batch, attribute_count):
            yield recent, hits, len(base)


def _not_older(version: int, newest: int) -> int:
    if version < newest:
        raise ValueError(f"version {version} is older than the newest, {newest}")
    return version
