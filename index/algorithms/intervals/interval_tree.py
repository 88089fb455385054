"""Interval Tree: keep each interval at the highest node whose key it contains.

Paper    Tatbul 2001, section 4.1.4, after de Berg et al., Computational Geometry, section 10.1.
Idea     a key, the median of end points, divides intervals: those that contain it stay, those left
         and those right of it go down. A value before the key is in the intervals at the node that
         begin early enough: they are read in the order of their low ends, up to the first that
         begins after the value. Likewise from high ends down for a value after the key.
Layout   points    end points of each tree    rows    see index.kernels.profile_lists
         root      int32[t]     nodes of a tree follow its root, down the left side first
         key       int32[k]     end point of a node, or -1: no end point is left between the keys
                                above, so the node's intervals contain all values that come there
         child     int32[2k]    nodes left and right, or -1
         first     int64[k+1]   node -> its run of the m intervals by low end, ascending; those by
                                high end, descending, stand m further
         member    int32[2m+8]  places of rows
         end       int32[2m]    elementary interval with which the member begins, or ends
Worked   Example 4, as far as the paper's text tells (tests/golden/interval-tree.json); of x ask
         0: <= 25    1: 10..50    2: 18..45    3: > 55
         4: 2..40    5: 65..70    6: 5..35     7: 30..60
         key 35 is in 4 6 1 2 7, by low end, and in 7 1 2 4 6, by high end; 0 is left at key 25,
         3 and 5 are right at 65
         x = 20: before 35, so 4 6 1 2 are read, and 7 ends the list; before 25, so 0 is read
Cost     v values of an event, f rows found: match O(v log n + f), an evaluation for each row found.
         Build O(n log n); 16 bytes an interval. Best where rows ask for one attribute; poor where
         many rows are found by each of several attributes.
Differs  The paper leaves open which end point is the key. Rows that ask for several attributes are
         counted, those that ask for one are hits as they are found. Ends are open or closed, and a
         part of a domain that no end point divides, as (3, 7) between the keys 3 and 7, has a node
         without key.
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
from index.kernels.ordered_domains import EVALUATIONS, HITS, Points, is_above, is_below, order_of
from index.kernels.probe import Hits
from index.kernels.profile_lists import (
    AHEAD,
    ListedRows,
    ListMemory,
    count_members,
    tree_of,
)
from index.ordered_domains import INTERVAL_OPERATORS, DomainTrees, point_in_words
from index.profile_lists import ListTrees
from index.updatable import Updatable
from index.vocabulary import Vocabulary


class IntervalTreeColumns(NamedTuple):
    """t trees of k nodes that list m intervals of n rows twice."""

    points: Points
    rows: ListedRows
    root: NDArray[np.int32]  # [t]
    key: NDArray[np.int32]  # [k]
    child: NDArray[np.int32]  # [2k]
    first: NDArray[np.int64]  # [k+1]
    member: NDArray[np.int32]  # [2m + AHEAD]
    end: NDArray[np.int32]  # [2m]


class IntervalTrees(ListTrees[IntervalTreeColumns]):
    """The interval trees of one segment."""

    columns_type = IntervalTreeColumns

    @classmethod
    def grow(cls, trees: DomainTrees, rows: ListedRows) -> IntervalTreeColumns:
        """Divide the intervals of each tree from the root down."""
        tree = np.repeat(np.arange(trees.key.size), np.diff(trees.start))
        orders = np.arange(trees.low.size), np.lexsort((-trees.high, tree))
        root, key, child, first, listed = _divide(
            trees.points.start, trees.start, (trees.low, trees.high), orders
        )
        return IntervalTreeColumns(
            trees.points,
            rows,
            root,
            key,
            child,
            first,
            np.append(trees.place[listed], np.zeros(AHEAD, np.int32)),
            np.concatenate((trees.low[listed[: first[-1]]], trees.high[listed[first[-1] :]])),
        )

    def listed(self) -> tuple[Points, ListedRows]:
        """The end points, and what is known of rows."""
        return self._columns.points, self._columns.rows

    def search(
        self, batch: EventBatch, memory: ListMemory, hits: Hits, first_event: int
    ) -> tuple[int, int]:
        """Read lists on the way down."""
        return stab_events(self._columns, batch, memory, hits, first_event)

    def stats(self) -> dict[str, int]:
        """Nodes and what they list, besides what all lists count."""
        return {
            "node_count": self._columns.key.size,
            "interval_count": int(self._columns.first[-1]),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every interval stands at the node of its key, in both lists and in order."""
        super().check(rows)
        columns = self._columns
        half = int(columns.first[-1])
        assert columns.first[0] == 0 and columns.end.size == 2 * half
        assert np.all(np.diff(columns.first) >= 0), "lists of nodes overlap"
        seen = 0
        for tree, root in enumerate(columns.root.tolist()):
            base, stop = columns.points.start[tree : tree + 2].tolist()
            todo = [(root, -1, stop - base)]
            while todo:
                node, low, high = todo.pop()
                if node < 0:
                    continue
                seen += 1
                start, end = columns.first[node : node + 2].tolist()
                lows, highs = columns.end[start:end], columns.end[half + start : half + end]
                assert np.all(np.diff(lows) >= 0) and np.all(np.diff(highs) <= 0), "out of order"
                one, other = columns.member[start:end], columns.member[half + start : half + end]
                assert np.array_equal(np.sort(one), np.sort(other)), "two lists of a node differ"
                key = int(columns.key[node])
                inner = (2 * low + 2, 2 * high) if key < 0 else (2 * (key - base) + 1,) * 2
                assert np.all(lows <= inner[0]) and np.all(highs >= inner[1]), "without its key"
                left, right = columns.child[2 * node : 2 * node + 2].tolist()
                if key < 0:
                    assert left < 0 and right < 0, "a node below one without key"
                    continue
                assert low < key - base < high, "a key outside of its node's part"
                todo += [(left, low, key - base), (right, key - base, high)]
        assert seen == columns.key.size, "a node is not reached, or twice"

    def lists_of(self, tree: int, kind: int, place: int, vocabulary: Vocabulary) -> list[str]:
        """The keys of the nodes that list a row."""
        points, columns = self._columns.points, self._columns
        slots = np.flatnonzero(columns.member[: columns.first[-1]] == place)
        nodes = np.searchsorted(columns.first, slots, "right") - 1
        # Nodes of a tree follow its root.
        nodes = nodes[np.searchsorted(columns.root, nodes, "right") - 1 == tree]
        return [
            point_in_words(points, vocabulary, kind, key) if key >= 0 else "no key"
            for key in columns.key[nodes].tolist()
        ]


class IntervalTree(Updatable):
    """Intervals at the keys they contain; conjunctions of comparisons, `=` and IN."""

    name = "interval-tree"
    paper = "Tatbul: Index Structures and Algorithms for Efficient Profile Matching. 2001"
    summary = "keeps each interval at a key that it contains, sorted by both ends, and counts"
    operators = INTERVAL_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(IntervalTrees, PSTHash.segment_type)


@njit(cache=True, nogil=True)
def _divide(
    points: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    orders: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]
]:
    """(root, key, child, first, listed) of trees with end points from `points` and intervals from
    `starts`. `orders` are the intervals of each tree by low ends, and by high ends from high to
    low; both are used up. `listed` has those of all nodes in the one order and then in the other.
    """
    tree_count, interval_count = starts.size - 1, starts[-1]
    node_max = 2 * points[-1] + tree_count
    root, key = np.full(tree_count, -1, np.int32), np.empty(node_max, np.int32)
    child, first = np.full(2 * node_max, -1, np.int32), np.zeros(node_max + 1, np.int64)
    listed = np.empty(2 * interval_count, np.int64)
    rest = np.empty(interval_count, np.int64)
    # A part yet to be divided: intervals start..stop, between two keys, and the child it is to be.
    todo = np.empty((node_max + 2, 5), np.int64)
    node = 0
    for tree in range(tree_count):
        count = _push(todo, 0, (starts[tree], starts[tree + 1]), (-1, _size(points, tree)), -1)
        while count:
            count -= 1
            start, stop, low, high, parent = todo[count]
            if parent < 0:
                root[tree] = node
            else:
                child[parent] = node
            middle = _median(ends, orders, (start, stop), (low, high))
            key[node] = points[tree] + middle if middle >= 0 else -1
            at = first[node]
            for which in range(2):
                to = which * interval_count + at
                cuts = _part(ends, orders[which], rest, (start, stop), middle, (listed, to))
            left, right = cuts
            first[node + 1] = at + stop - start - left - right
            if right:
                part = start + left, start + left + right
                count = _push(todo, count, part, (middle, high), 2 * node + 1)
            if left:
                count = _push(todo, count, (start, start + left), (low, middle), 2 * node)
            node += 1
    return root, key[:node].copy(), child[: 2 * node].copy(), first[: node + 1].copy(), listed


@inlined
def _size(points: NDArray[np.int32], tree: int) -> int:
    return int(points[tree + 1] - points[tree])


@inlined
def _push(
    todo: NDArray[np.int64],
    count: int,
    part: tuple[int, int],
    keys: tuple[int, int],
    parent: int,
) -> int:
    """Put a part on the stack; returns the parts on it."""
    todo[count, 0], todo[count, 1] = part
    todo[count, 2], todo[count, 3] = keys
    todo[count, 4] = parent
    return count + 1


@inlined
def _median(
    ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    orders: tuple[NDArray[np.int64], NDArray[np.int64]],
    part: tuple[int, int],
    keys: tuple[int, int],
) -> int:
    """The median of the end points between two keys that the intervals of a part have, or -1."""
    lows, highs = ends
    by_low, by_high = orders
    start, stop = part
    count = 0
    for at in range(start, stop):
        count += keys[0] < (lows[by_low[at]] - 1) >> 1 < keys[1]
        count += keys[0] < highs[by_high[at]] >> 1 < keys[1]
    wanted = (count + 1) >> 1
    # Both orders are merged; the second is read backwards, so that its ends ascend, too.
    low, high, middle = start, stop - 1, -1
    while wanted > 0:
        is_low = high < start
        if not is_low and low < stop:
            is_low = (lows[by_low[low]] - 1) >> 1 <= highs[by_high[high]] >> 1
        if is_low:
            middle = int(lows[by_low[low]] - 1) >> 1
            low += 1
        else:
            middle = int(highs[by_high[high]]) >> 1
            high -= 1
        wanted -= keys[0] < middle < keys[1]
    return middle


@inlined
def _part(
    ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    order: NDArray[np.int64],
    rest: NDArray[np.int64],
    part: tuple[int, int],
    middle: int,
    listed: tuple[NDArray[np.int64], int],
) -> tuple[int, int]:
    """Move the intervals of a part that contain the end point `middle` to `listed`, those before it
    to the begin of the part, and those after it behind these. Returns how many are left and right.
    """
    lows, highs = ends
    lists, to = listed
    start, stop = part
    left = right = 0
    for at in range(start, stop):
        interval = order[at]
        if middle >= 0 and highs[interval] < 2 * middle + 1:
            order[start + left] = interval
            left += 1
        elif middle >= 0 and lows[interval] > 2 * middle + 1:
            rest[right] = interval
            right += 1
        else:
            lists[to] = interval
            to += 1
    for at in range(right):
        order[start + left + at] = rest[at]
    return left, right


@leaf
def stab_events(
    columns: IntervalTreeColumns,
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
                    count = _stab(columns, tree, batch, memory, probe)
                    place = first, at, hit_count
                    hit_count = count_members(rows, columns.member, memory, hits, count, place)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return asked.start.size - 1, 0


@inlined
def _stab(
    columns: IntervalTreeColumns, tree: int, batch: EventBatch, memory: ListMemory, probe: int
) -> int:
    """Note the parts of lists whose intervals contain a probe; returns their number."""
    points, probes = columns.points, memory.asked.probes
    half = columns.first[columns.key.size]
    unbounded = 2 * (points.start[tree + 1] - points.start[tree])
    run_count = evaluations = 0
    node = columns.root[tree]
    while node >= 0:
        start, stop = columns.first[node], columns.first[node + 1]
        key = columns.key[node]
        order = 0
        if key >= 0:
            evaluations += 1
            order = order_of(points, key, batch, probes, probe)
        if order < 0:
            at = start
            while at < stop:
                low = columns.end[at]
                if low > 0:
                    evaluations += 1
                    if is_below(points, tree, low, batch, probes, probe):
                        break
                at += 1
            stop = at
            node = columns.child[2 * node]
        elif order > 0:
            start, stop = half + start, half + stop
            at = start
            while at < stop:
                high = columns.end[at]
                if high < unbounded:
                    evaluations += 1
                    if is_above(points, tree, high, batch, probes, probe):
                        break
                at += 1
            stop = at
            node = columns.child[2 * node + 1]
        else:
            node = -1
        if start < stop:
            memory.start[run_count], memory.stop[run_count] = start, stop
            run_count += 1
    memory.counts[EVALUATIONS] += evaluations
    return run_count
