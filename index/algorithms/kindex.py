"""k-index: intersect the posting lists of an event's predicates, one size of subscription a time.

Paper    Whang et al., PVLDB 2(1) 2009: the inverted list for conjunctions and the Conjunction
         algorithm.
Idea     a conjunction of k predicates matches if it is in k posting lists of predicates that hold.
         So conjunctions are kept apart by k, and an event of s satisfied predicates looks only at
         k <= s. There its lists are merged in the order of the rows they stand at: a row before
         that of the k-th list is in fewer than k lists, so all lists before skip to that row.
Layout   phase    the distinct leaves and the way to them, see index.predicate_phase
         first    int64[k+2]   rows of size k (one of the paper's partitions) have the places
                               first[k]..first[k+1]; places ascend by size, then by row
         lists    int32[l+1]   leaf place -> its posting lists, one for each size, ascending
         size     int32[p]     size of the rows in the list
         start    int64[p+1]   list -> its run of `member`
         member   int32[m]     places of rows, ascending in each list
         row      int32[n]     place -> row
         key      int64[...]   place that a cursor is at << 32 | cursor; the first k ascend,
                               the others are a heap
Worked   c1: age = 3 AND state = NY                       c4: state = CA AND gender = M
         c2: age = 3 AND gender = F                       c5: age IN (3, 4)
         c3: age = 3 AND gender = M AND state != CA       c6: age IN (3, 4) AND gender = M
                                                              AND state = CA
         event age = 3, state = CA, gender = M: four leaves hold, so sizes 1, 2 and 3 are visited
             1   IN (3, 4) [c5]                           first = first: c5 matches
             2   age = 3 [c1 c2]  CA [c4]  M [c4]         c1 < c4: age = 3 skips to c4 and ends
                 CA [c4]  M [c4]                          first = second: c4 matches
             3   age = 3 [c3]  M [c3 c6]  IN [c6]  CA [c6]    c3 < c6: age = 3 ends, M skips
                 M [c6]  IN [c6]  CA [c6]                 first = third: c6 matches
Cost     s satisfied leaves, K sizes: match O(predicate phase + s K + rounds), where a round moves
         up to k cursors, each by O(log of what it skips) steps in its list and O(k + log s) in the
         order. Build a sort. Best where little more than k lists are open, for then the k-th is far
         ahead; poor where many are and k is small: lists are read entry by entry.
Differs  A posting list is of a leaf, of any operator, and the predicate phase says which hold; the
         paper has one of each (attribute, value), and looks for the values of the event. So k
         counts distinct leaves: two of one attribute count twice, IN and != once. Negations hold or
         do not, as all leaves; there is no list of conjunctions without other predicates. A leaf's
         lists of all sizes are side by side instead of in a hash table for each size. Sizes are
         visited upwards, and nothing is ranked. The paper sorts all lists again after each skip;
         where ranges are leaves, thousands may hold, so only the first k are sorted here and the
         others are a heap. Filters that are no plain conjunctions go to PSTHash; so AND of ORs,
         which the paper's second half indexes, does not belong here.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.kernels import leaf
from index.kernels.batch import sort
from index.kernels.event_parts import CANDIDATES, HITS, Memory
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, enter_event, leave_event
from index.predicate_phase import (
    PhaseColumns,
    build_phase,
    leaves_of_rows,
    phase_memory,
    satisfied,
)
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

_CURSOR_BITS = 32
_CURSOR_MASK = (1 << _CURSOR_BITS) - 1
_ENDED = 2**63 - 1
"""Key of a cursor that is through its list: after all others."""


class PostingColumns(NamedTuple):
    """p posting lists of n rows with up to k leaves each, m in all, l of them distinct."""

    phase: PhaseColumns
    first: NDArray[np.int64]  # [k+2]
    lists: NDArray[np.int32]  # [l+1]
    size: NDArray[np.int32]  # [p]
    start: NDArray[np.int64]  # [p+1]
    member: NDArray[np.int32]  # [m] places of rows
    row: NDArray[np.int32]  # [n]


class Cursors(NamedTuple):
    """One for each posting list of the event at hand and one size; room for one a leaf."""

    key: NDArray[np.int64]  # [l]
    at: NDArray[np.int64]  # [l] where in `member` the cursor is
    stop: NDArray[np.int64]  # [l]
    next_list: NDArray[np.int32]  # [l] first list of the satisfied leaf that is not visited yet


class PostingLists(ConjunctionSegment[PostingColumns]):
    """The posting lists of one segment."""

    columns_type = PostingColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Sort the rows by size, and their leaves by leaf and row; rarity does not matter."""
        number, code = leaves_of_rows(compiled.programs, rows)
        leaves, leaf_place = np.unique(code, return_inverse=True)
        width = max(rows.size, 1)
        # A leaf that a row names twice counts once, so sizes are known only after this.
        pairs = np.unique(leaf_place.astype(np.int64) * width + number)
        leaf_place, number = np.divmod(pairs, width)
        size_of = np.bincount(number, minlength=rows.size)
        order = np.argsort(size_of, kind="stable")
        sizes = size_of[order]
        place_of = np.empty(rows.size, np.int64)
        place_of[order] = np.arange(rows.size)
        leaf_place, member = np.divmod(np.sort(leaf_place * width + place_of[number]), width)
        # Places ascend by size, so the postings of a leaf are in the order of its lists already.
        is_first = np.ones(member.size, np.bool_)
        is_first[1:] = leaf_place[1:] != leaf_place[:-1]
        is_first[1:] |= sizes[member[1:]] != sizes[member[:-1]]
        start = np.flatnonzero(is_first)
        columns = PostingColumns(
            build_phase(compiled, leaves, attribute_count),
            np.searchsorted(sizes, np.arange(sizes.max(initial=0) + 2)).astype(np.int64),
            np.searchsorted(leaf_place[start], np.arange(leaves.size + 1)).astype(np.int32),
            sizes[member[start]].astype(np.int32),
            np.append(start, member.size).astype(np.int64),
            member.astype(np.int32),
            rows[order].astype(np.int32),
        )
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Merge event after event."""
        columns = self._columns
        memory = phase_memory(columns.phase, batch, attribute_count)
        leaf_count = columns.phase.leaf.size
        key, at, stop = (np.empty(leaf_count, np.int64) for _ in range(3))
        memories = memory, Cursors(key, at, stop, np.empty(leaf_count, np.int32))
        hits = collect_hits(
            lambda room, event: merge_events(columns, compiled, batch, memories, room, event),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row that a k-th list stood at."""
        columns = self._columns
        return {
            "distinct_predicate_count": columns.phase.leaf.size,
            "posting_list_count": columns.size.size,
            "posting_count": columns.member.size,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is in as many lists as its size says, all of that size and in order."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        assert columns.first[0] == 0 and columns.first[-1] == rows.size
        sizes = np.repeat(np.arange(columns.first.size - 1), np.diff(columns.first))
        counted = np.bincount(columns.member, minlength=rows.size)
        assert np.array_equal(counted, sizes), "a row is in more or fewer lists than its size"
        assert columns.lists[0] == 0 and columns.lists[-1] == columns.size.size
        assert np.all(np.diff(columns.lists) > 0), "a leaf without lists"
        for begin, end in zip(columns.lists[:-1], columns.lists[1:], strict=True):
            assert np.all(np.diff(columns.size[begin:end]) > 0), "a leaf has two lists of one size"
        assert columns.start[0] == 0 and columns.start[-1] == columns.member.size
        for number, size in enumerate(columns.size):
            members = columns.member[columns.start[number] : columns.start[number + 1]]
            assert members.size, "a list of no row"
            assert np.all(np.diff(members) > 0), "a list does not ascend"
            assert np.all(sizes[members] == size), "a row is in a list of another size"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The posting lists that the row is in."""
        columns = self._columns
        place = int(np.flatnonzero(columns.row == row)[0])
        numbers = np.searchsorted(columns.start, np.flatnonzero(columns.member == place), "right")
        asked = np.searchsorted(columns.lists, numbers - 1, "right") - 1
        words = words_of_leaves(compiled, vocabulary, columns.phase.leaf[asked])
        return f"in the posting lists of size {asked.size} of {words}"


class KIndex(Updatable):
    """Posting lists by size; conjunctions of any predicates a kernel can test."""

    name = "kindex"
    paper = "Whang et al.: Indexing Boolean Expressions. PVLDB 2(1), 2009"
    summary = "intersects posting lists of predicates that hold, one size of subscription a time"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(PostingLists, PSTHash.segment_type)


@leaf
def merge_events(
    columns: PostingColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, Cursors],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    memory, cursors = memories
    row_count, size_max = columns.row.size, columns.first.size - 2
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for at in range(leaf_count):
            cursors.next_list[at] = columns.lists[memory.candidate[at]]
        for size in range(1, min(leaf_count, size_max) + 1):
            if columns.first[size] == columns.first[size + 1]:
                continue
            live = _open_lists(columns, memory, cursors, leaf_count, size)
            if live >= size:
                hit_count = _merge(columns, memory, cursors, (size, live), hits, hit_count)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@leaf
def _open_lists(
    columns: PostingColumns, memory: Memory, cursors: Cursors, leaf_count: int, size: int
) -> int:
    """Set a cursor to the begin of each satisfied leaf's list of this size; returns their number.

    On entry no leaf's next list is of a smaller size; on exit none is of this one.
    """
    live = 0
    for at in range(leaf_count):
        number = cursors.next_list[at]
        if number < columns.lists[memory.candidate[at] + 1] and columns.size[number] == size:
            cursors.next_list[at] = number + 1
            begin = columns.start[number]
            cursors.at[live] = begin
            cursors.stop[live] = columns.start[number + 1]
            cursors.key[live] = np.int64(columns.member[begin]) << _CURSOR_BITS | live
            live += 1
    return live


@leaf
def _merge(
    columns: PostingColumns,
    memory: Memory,
    cursors: Cursors,
    lists: tuple[int, int],
    hits: Hits,
    hit_count: int,
) -> int:
    """Append the rows that lists[0] of the first lists[1] cursors meet; returns the hits so far.

    A row is in no more lists than that: those of its own leaves.
    """
    size, live = lists
    key = cursors.key
    sort(key, live)  # a sorted run is a heap, too
    candidate = -1
    while key[size - 1] != _ENDED:
        target = key[size - 1] >> _CURSOR_BITS
        if target != candidate:
            candidate = target
            memory.counts[CANDIDATES] += 1
        if key[0] >> _CURSOR_BITS == target:
            hits.hit[hit_count] = np.int64(columns.row[target]) << VERDICT_BITS | YES
            hit_count += 1
            target += 1
        moved = 0
        while moved < size and key[moved] >> _CURSOR_BITS < target:
            key[moved] = _skip(columns.member, cursors, key[moved], target)
            moved += 1
        _sort_again(key, moved, size, live)
    return hit_count


@leaf
def _skip(member: NDArray[np.int32], cursors: Cursors, key: int, target: int) -> int:
    """Move a cursor that is below `target` to the first place that is not; returns its new key.

    By strides that double, because most skips are short, and then halving the last of them.
    """
    cursor = key & _CURSOR_MASK
    below, stop, stride = cursors.at[cursor], cursors.stop[cursor], 1
    while below + stride < stop and member[below + stride] < target:
        below += stride
        stride *= 2
    at = min(below + stride, stop)
    while at - below > 1:
        middle = (below + at) >> 1
        if member[middle] < target:
            below = middle
        else:
            at = middle
    cursors.at[cursor] = at
    if at == stop:
        return _ENDED
    return int(np.int64(member[at]) << _CURSOR_BITS | cursor)


@leaf
def _sort_again(key: NDArray[np.int64], moved: int, size: int, live: int) -> None:
    """Let key[:size] be the least keys again, ascending, where the first `moved` have grown.

    On entry and exit key[size:live] is a heap, none of which is below the others that have not
    grown: those stay, and each grown key gives way to the top of the heap if that is less.
    """
    for number in range(moved - 1, -1, -1):
        moving, at = key[number], number
        if live > size and key[size] < moving:
            moving = _exchange_top(key[size], moving, key, size, live)
        while at + 1 < size and key[at + 1] < moving:
            key[at] = key[at + 1]
            at += 1
        key[at] = moving


@leaf
def _exchange_top(top: int, moving: int, key: NDArray[np.int64], base: int, stop: int) -> int:
    """Let `moving` sink into the heap key[base:stop] in place of its `top`, which is returned."""
    hole, child = base, base + 1
    while child < stop:
        if child + 1 < stop and key[child + 1] < key[child]:
            child += 1
        if key[child] >= moving:
            break
        key[hole] = key[child]
        hole, child = child, base + 2 * (child - base) + 1
    key[hole] = moving
    return top
