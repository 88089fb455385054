"""Segment Tree: keep each interval at few nodes, each of which it covers wholly.

Paper    Tatbul 2001, section 4.1.4, after de Berg et al., Computational Geometry, section 10.3.
Idea     the elementary intervals of an attribute are the leaves; a node stands for the union of its
         children. An interval is kept at the highest nodes that it covers, at most two a level.
         A value descends to its leaf, and all intervals at the nodes on the way contain it.
Layout   points    end points of each tree    rows    see index.kernels.profile_lists
         first     int64[t+1]   nodes of a tree: level after level from the leaves up, pairs of
                                neighbours under one node, the last one alone if need be
         start     int64[k+1]   node -> its run of `member`
         member    int32[m+8]   places of rows, ascending in each list
Worked   TODO
Cost     TODO
Differs  TODO
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.kernels import inlined, leaf
from index.kernels.ordered_domains import DOMAIN_KINDS, Points, is_below
from index.kernels.probe import Hits
from index.kernels.profile_lists import (
    AHEAD,
    EVALUATIONS,
    HITS,
    ListedRows,
    ListMemory,
    count_members,
)
from index.ordered_domains import DomainTrees, elementary_in_words
from index.profile_lists import ListTrees
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class SegmentTreeColumns(NamedTuple):
    """t trees of k nodes that list m times one of n rows."""

    points: Points
    rows: ListedRows
    first: NDArray[np.int64]  # [t+1]
    start: NDArray[np.int64]  # [k+1]
    member: NDArray[np.int32]  # [m + AHEAD] places of rows


class SegmentTrees(ListTrees[SegmentTreeColumns]):
    """The segment trees of one segment."""

    columns_type = SegmentTreeColumns

    @classmethod
    def grow(cls, trees: DomainTrees, rows: ListedRows) -> SegmentTreeColumns:
        """List the intervals at their nodes, in the order of rows."""
        leaf_count = (2 * np.diff(trees.points.start) + 1).astype(np.int64)
        sizes = np.array([_node_count(int(one)) for one in leaf_count], np.int64)
        first = np.concatenate(([0], np.cumsum(sizes)))
        tree = np.repeat(np.arange(leaf_count.size), np.diff(trees.start))
        by_place = np.argsort(trees.place, kind="stable")
        covering = (
            first[tree[by_place]],
            leaf_count[tree[by_place]],
            trees.low[by_place].astype(np.int64),
            trees.high[by_place].astype(np.int64),
        )
        start, member = _list_at_nodes(covering, trees.place[by_place], int(first[-1]))
        return SegmentTreeColumns(trees.points, rows, first, start, member)

    def listed(self) -> tuple[Points, ListedRows]:
        """The end points, and what is known of rows."""
        return self._columns.points, self._columns.rows

    def search(
        self, batch: EventBatch, memory: ListMemory, hits: Hits, first_event: int
    ) -> tuple[int, int]:
        """Descend to the leaves of an event's values."""
        return descend_events(self._columns, batch, memory, hits, first_event)

    def stats(self) -> dict[str, int]:
        """Nodes and what they list, besides what all lists count."""
        return {
            "node_count": self._columns.start.size - 1,
            "member_count": self._columns.member.size - AHEAD,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Nodes have lists in order, and no two on one way to a leaf list the same row."""
        super().check(rows)
        columns = self._columns
        assert columns.start[0] == 0 and columns.start[-1] == columns.member.size - AHEAD
        assert np.all(np.diff(columns.start) >= 0), "lists of nodes overlap"
        for tree, leaf_count in enumerate(self._leaf_counts()):
            first = int(columns.first[tree])
            assert columns.first[tree + 1] - first == _node_count(leaf_count), "nodes are lost"
            for at in range(leaf_count):
                way = np.concatenate([self._list(node) for node, *_ in _way(first, leaf_count, at)])
                assert np.unique(way).size == way.size, "a row is listed twice on one way"

    def lists_of(self, tree: int, kind: int, place: int, vocabulary: Vocabulary) -> list[str]:
        """The nodes that list a row, by the elementary intervals that they cover."""
        columns = self._columns
        leaf_count = self._leaf_counts()[tree]
        found = {
            (low, high)
            for at in range(leaf_count)
            for node, low, high in _way(int(columns.first[tree]), leaf_count, at)
            if place in self._list(node)
        }
        return [
            " to ".join(
                elementary_in_words(columns.points, vocabulary, tree, kind, end)
                for end in sorted(set(ends))
            )
            for ends in sorted(found)
        ]

    def _leaf_counts(self) -> list[int]:
        counts: list[int] = (2 * np.diff(self._columns.points.start) + 1).tolist()
        return counts

    def _list(self, node: int) -> NDArray[np.int32]:
        start, stop = self._columns.start[node : node + 2]
        return self._columns.member[start:stop]


class SegmentTree(Updatable):
    """Intervals at the nodes they cover; conjunctions of comparisons, `=` and IN."""

    name = "segment-tree"
    paper = "Tatbul: Index Structures and Algorithms for Efficient Profile Matching. 2001"
    summary = "keeps each interval at few nodes that it covers, and counts what a value meets"
    companion = PSTHash.name
    segment_type = accompanied(SegmentTrees, PSTHash.segment_type)


def _node_count(leaf_count: int) -> int:
    """Nodes of a tree with so many leaves."""
    count = leaf_count
    while leaf_count > 1:
        leaf_count = (leaf_count + 1) // 2
        count += leaf_count
    return count


def _way(first: int, leaf_count: int, at: int) -> list[tuple[int, int, int]]:
    """(node, lowest leaf, highest leaf) of the nodes from a leaf up to the root."""
    way = []
    width, count = 1, leaf_count
    while True:
        low = at // width * width
        way.append((first + at // width, low, min(low + width, leaf_count) - 1))
        if count == 1:
            return way
        first, width, count = first + count, 2 * width, (count + 1) // 2


@njit(cache=True, nogil=True)
def _list_at_nodes(
    covering: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    place: NDArray[np.int32],
    node_count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(start, member) of all nodes: intervals with (first node, leaves of the tree, low, high)."""
    first, leaf_count, low, high = covering
    start = np.zeros(node_count + 2, np.int64)
    member = np.zeros(0, np.int32)
    # First the sizes of lists, two nodes further, then the lists: `start` moves on by one.
    for listing in range(2):
        for at in range(place.size):
            node, count = first[at], leaf_count[at]
            begin, stop = low[at], high[at] + 1
            is_last = stop == count
            while begin < stop:
                if begin & 1:
                    _put(start, member, node + begin, place[at], listing)
                    begin += 1
                # At the right edge a node without neighbour goes up alone.
                if stop & 1 and begin < stop and not (is_last and count > 1):
                    stop -= 1
                    _put(start, member, node + stop, place[at], listing)
                node += count
                count = (count + 1) >> 1
                begin >>= 1
                stop = count if is_last else stop >> 1
        if listing == 0:
            start = np.cumsum(start)
            member = np.zeros(start[-1] + AHEAD, np.int32)
    return start[:-1].copy(), member


@inlined
def _put(
    start: NDArray[np.int64], member: NDArray[np.int32], node: int, place: int, listing: int
) -> None:
    """Count a member of a node's list, or append it."""
    if listing:
        member[start[node + 1]] = place
        start[node + 1] += 1
    else:
        start[node + 2] += 1


@leaf
def descend_events(
    columns: SegmentTreeColumns,
    batch: EventBatch,
    memory: ListMemory,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    asked, rows = memory.asked, columns.rows
    hit_count = hits.start[first_event]
    for event in range(first_event, asked.start.size - 1):
        if hits.hit.size - hit_count < rows.row.size:
            return event, rows.row.size
        first = asked.start[event]
        for at in range(first, asked.start[event + 1]):
            for probe in range(asked.probe_start[at], asked.probe_start[at + 1]):
                kind = asked.probes.kind[probe]
                tree = rows.tree[asked.rank[at] * DOMAIN_KINDS + kind]
                count = _descend(columns, tree, batch, memory, probe) if tree >= 0 else 0
                if count:
                    place = first, at, hit_count
                    hit_count = count_members(rows, columns.member, memory, hits, count, place)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return asked.start.size - 1, 0


@inlined
def _descend(
    columns: SegmentTreeColumns, tree: int, batch: EventBatch, memory: ListMemory, probe: int
) -> int:
    """Note the lists on the way from the root to the leaf of a probe; returns their number."""
    leaf_count = 2 * np.int64(columns.points.start[tree + 1] - columns.points.start[tree]) + 1
    level = 0
    while (leaf_count - 1) >> level:
        level += 1
    run_count = at = 0
    level_first = columns.first[tree + 1] - 1
    while True:
        start, stop = columns.start[level_first + at], columns.start[level_first + at + 1]
        if start < stop:
            memory.start[run_count], memory.stop[run_count] = start, stop
            run_count += 1
        if level == 0:
            return run_count
        level -= 1
        at *= 2
        level_first -= ((leaf_count - 1) >> level) + 1
        right = (at + 1) << level
        if right < leaf_count:
            memory.counts[EVALUATIONS] += 1
            if not is_below(columns.points, tree, right, batch, memory.asked.probes, probe):
                at += 1
