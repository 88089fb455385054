"""Segment Tree: keep each interval at the few nodes that it just covers.

Paper    Tatbul 2001, section 4.1.4, after de Berg et al., Computational Geometry, section 10.3.
Idea     the elementary intervals of an attribute are the leaves, and a node stands for the union of
         its children. An interval is kept at the highest nodes that it covers, at most two a level.
         A value descends to its leaf, and all intervals at the nodes on its way contain it.
Layout   points    end points of each tree    rows    see index.kernels.profile_lists
         first     int64[t+1]   nodes of a tree in the order of a walk: a node, what is left below
                                it, what is right. Neighbours have one node above them, level by
                                level, and a last one without neighbour has one alone
         start     int64[k+1]   node -> its run of `member`
         listing   uint64[...]  bit of each node that lists a row: most list none
         member    int32[m+8]   places of rows, ascending in each list
Worked   Example 4, as far as the paper's text tells (tests/golden/segment-tree.json); of x ask
         0: <= 25    1: 10..50    2: 18..45    3: > 55
         4: 2..40    5: 65..70    6: 5..35     7: 30..60
         x = 20: the 29 leaves are 5 levels below the root; the way to (18, 25) lists
         at (18, 25) to [40]: 1 2 4        at (18, 25) to [30]: 6        at (18, 25) to [25]: 0
Cost     v values of an event, f rows found: match O(v log n + f), where rows that ask for one
         attribute are hits as they are found, and others raise a counter. Build O(m) and a sort; m
         is up to 2 n log n, and 4 bytes each. Best where rows ask for one attribute, or each
         attribute finds few; poor where many rows are found by each of several attributes.
Differs  Lists instead of bit vectors at nodes: a node lists few rows of n, and an event must not
         read n bits for each level (100,000 intervals of one attribute: 10 MB, and 9 GB as
         vectors). Sets are joined by counting, so a list is read as far as it goes.
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
from index.kernels.ordered_domains import EVALUATIONS, HITS, Points, is_below
from index.kernels.probe import Hits
from index.kernels.profile_lists import (
    AHEAD,
    ListedRows,
    ListMemory,
    count_members,
    tree_of,
)
from index.ordered_domains import INTERVAL_OPERATORS, DomainTrees, elementary_in_words
from index.profile_lists import ListTrees
from index.updatable import Updatable
from index.vocabulary import Vocabulary

_ONE = np.uint64(1)


class SegmentTreeColumns(NamedTuple):
    """t trees of k nodes that list m times one of n rows."""

    points: Points
    rows: ListedRows
    first: NDArray[np.int64]  # [t+1]
    start: NDArray[np.int64]  # [k+1]
    listing: NDArray[np.uint64]  # [k / 64 + 1]
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
        listing = np.zeros((start.size + 63) // 64 * 8, np.uint8)
        bits = np.packbits(start[1:] > start[:-1], bitorder="little")
        listing[: bits.size] = bits
        listing_words = listing.view(np.uint64)
        return SegmentTreeColumns(trees.points, rows, first, start, listing_words, member)

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
        bits = np.unpackbits(columns.listing.view(np.uint8), bitorder="little")
        assert np.array_equal(np.flatnonzero(bits), np.flatnonzero(np.diff(columns.start))), (
            "a list is hidden, or a node without one is not"
        )
        for tree, leaf_count in enumerate(self._leaf_counts()):
            first = int(columns.first[tree])
            assert columns.first[tree + 1] - first == _node_count(leaf_count), "nodes are lost"
            for at in range(leaf_count):
                way = np.concatenate([self._list(node) for node in _way(first, leaf_count, at)])
                assert np.unique(way).size == way.size, "a row is listed twice on one way"

    def lists_of(self, tree: int, kind: int, place: int, vocabulary: Vocabulary) -> list[str]:
        """The nodes that list a row, by the elementary intervals that they cover."""
        columns = self._columns
        leaf_count = self._leaf_counts()[tree]
        first, stop = columns.first[tree : tree + 2].tolist()
        slots = np.flatnonzero(columns.member[: columns.start[-1]] == place)
        nodes = np.searchsorted(columns.start, slots, "right") - 1
        runs = [
            _covered(first, leaf_count, node) for node in nodes.tolist() if first <= node < stop
        ]
        return [
            elementary_in_words(columns.points, vocabulary, tree, kind, run) for run in sorted(runs)
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
    operators = INTERVAL_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(SegmentTrees, PSTHash.segment_type)


def _node_count(leaf_count: int) -> int:
    """Nodes of a tree with so many leaves."""
    count = leaf_count
    while leaf_count > 1:
        leaf_count = (leaf_count + 1) // 2
        count += leaf_count
    return count


def _way(first: int, leaf_count: int, at: int) -> list[int]:
    """The nodes from the root of a tree, `first`, to a leaf."""
    way = [first]
    for level in reversed(range((leaf_count - 1).bit_length())):
        way.append(way[-1] + (2 << level if at >> level & 1 else 1))
    return way


def _covered(first: int, leaf_count: int, node: int) -> tuple[int, int]:
    """(lowest leaf, highest leaf) below a node of the tree whose root is `first`."""
    level, low = (leaf_count - 1).bit_length(), 0
    while node != first:
        level -= 1
        is_right = node >= first + (2 << level)
        first += 2 << level if is_right else 1
        low += 1 << level if is_right else 0
    return low, min(low + (1 << level), leaf_count) - 1


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
            count = leaf_count[at]
            begin, stop = low[at], high[at] + 1
            is_last = stop == count
            level = 0
            above = first[at] + _depth(count)  # and nodes on the way from the root
            while begin < stop:
                if begin & 1:
                    _put(start, member, above + _left_of(begin, level), place[at], listing)
                    begin += 1
                # At the right edge a node without neighbour goes up alone, but for the root.
                is_last = is_last and count > 1
                if stop & 1 and begin < stop and not is_last:
                    stop -= 1
                    _put(start, member, above + _left_of(stop, level), place[at], listing)
                count = (count + 1) >> 1
                begin >>= 1
                stop = count if is_last else stop >> 1
                level += 1
                above -= 1
        if listing == 0:
            start = np.cumsum(start)
            member = np.zeros(start[-1] + AHEAD, np.int32)
    return start[:-1].copy(), member


@inlined
def _depth(leaf_count: int) -> int:
    """Levels below the root of a tree."""
    depth = 0
    while (leaf_count - 1) >> depth:
        depth += 1
    return depth


@inlined
def _left_of(at: int, level: int) -> int:
    """Nodes that a walk meets left of the way to node `at` of a level: where the way turns right,
    at each bit of `at`, the tree left of it is complete.
    """
    count = at << (level + 1)
    while at:
        at &= at - 1
        count -= 1
    return count


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
                tree = tree_of(rows, asked, at, probe)
                if tree >= 0:
                    count = _descend(columns, tree, batch, memory, probe)
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
    leaf_count = 2 * int(columns.points.start[tree + 1] - columns.points.start[tree]) + 1
    node, at, level = columns.first[tree], 0, _depth(leaf_count)
    run_count = evaluations = 0
    while True:
        if columns.listing[node >> 6] >> np.uint64(node & 63) & _ONE:
            memory.start[run_count] = columns.start[node]
            memory.stop[run_count] = columns.start[node + 1]
            run_count += 1
        if level == 0:
            break
        level -= 1
        node += 1
        right = at + (1 << level)
        if right < leaf_count:
            evaluations += 1
            if not is_below(columns.points, tree, right, batch, memory.asked.probes, probe):
                at = right
                node += (2 << level) - 1
    memory.counts[EVALUATIONS] += evaluations
    return run_count
