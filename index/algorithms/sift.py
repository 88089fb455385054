"""SIFT: look each value of an event up in a hash of posting lists, and count.

Paper    Yan and Garcia-Molina, "Index structures for selective dissemination of information under
         the Boolean model", TODS 19(2), 1994, the counting method; as Sadoghi and Jacobsen
         compare with it, BE-Tree, SIGMOD 2011, section 7.2: ranges and sets by the enumeration
         technique of Whang et al., PVLDB 2(1) 2009.
Idea     a predicate is the set of the values that satisfy it, so a subscription is put into the
         posting list of each of these values, once for each of its predicates. An event looks up
         its values and raises a counter for every posting: no predicate is tested. A counter that
         reaches the number of its subscription's predicates is a match.
Layout   space    points, cells of numbers and of strings, presence and existence of each attribute,
                  numbered in this order: see index.kernels.points and index.spaces
         first    int64[3]       the first cell of numbers, of strings, and the first presence
         start    int64[3s+1]    list 3 * space + role -> its run of `member`; the roles are
                  KILLS    the row cannot match     COUNTS   a leaf of it holds
                  TESTED   a leaf of it may hold, the space is only partly its own
         member   int32[m]       place of a row, ascending in each list
         asked    int32[m]       place of the leaf for which it is there
         leaf     int32[l]       codes of the distinct leaves, ascending
         row      int32[n]       place -> row            needed  int32[n]    leaves of the row
         counter  int32[2n]      base + leaves that held, below `base` it is of an earlier event;
                                 and beside it what the row needs
Worked   s0: a IN (1, 2) AND b < 5    s1: a = 2 AND b < 9    s2: b < 9 AND NOT a = 2
         a = 1  counts s0         b below 5        counts s0 s1 s2      a present  counts s2
         a = 2  counts s0 s1      b from 5 to 8    counts s1 s2
                kills s2
         event a = 2, b = 7: s2 is killed; a = 2 raises s0 and s1 to 1, b raises s1 to 2 of 2
Cost     v values in p postings: match O(v + p), an increment each. Build O(postings), which
         grow with the values that predicates allow. Best where each value is rare; poor where few
         attributes or values are shared by all, for then most subscriptions are counted every time.
Differs  The domain is not every value but every space that predicates tell apart. Where spaces are
         thinned (see index.spaces), the two cells at the ends of a range are tested. `!=` and NOT
         IN are counted under the presence of the attribute, and the values they name kill their
         rows, so that an absent attribute satisfies neither. What has no values to enumerate
         (CONTAINS, ALL, NOT of a range) is tested under presence. Counters rise above a base that
         rises with each event, instead of being reset. Other filters go to PSTHash.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import PRESENT, EventBatch, ValueType
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.enumeration import (
    COUNTS,
    KILLS,
    NUMBER_CELLS,
    PRESENCES,
    ROLES,
    STRING_CELLS,
    TESTED,
    enumerate_leaves,
)
from index.kernels import inlined, leaf
from index.kernels.cells import number_cell, string_cell
from index.kernels.points import PointColumns, points_of_value
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.predicate_phase import leaves_of_rows
from index.predicates import PredicateColumns
from index.segment import collect_hits
from index.spaces import SpaceColumns
from index.updatable import Updatable
from index.vocabulary import Vocabulary

POSTINGS_AHEAD = 24
"""So many postings before it is raised, a counter is prefetched."""

EVENT_COUNTS = 3
POSTINGS, CANDIDATES, HITS = range(EVENT_COUNTS)
"""Places in `Working.counts`."""

_BASE_MAX = 1 << 30
_NOWHERE = (1 << 32) - 1
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)


class SiftColumns(NamedTuple):
    """m postings of n rows in the lists of s spaces, for l distinct leaves."""

    points: PointColumns
    spaces: SpaceColumns
    first: NDArray[np.int64]  # [3]
    start: NDArray[np.int64]  # [3s+1]
    member: NDArray[np.int32]  # [m]
    asked: NDArray[np.int32]  # [m]
    leaf: NDArray[np.int32]  # [l]
    row: NDArray[np.int32]  # [n]
    needed: NDArray[np.int32]  # [n]


class Working(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    space: NDArray[np.int64]  # spaces of the event at hand
    several: NDArray[np.bool_]  # whether its attribute has more than one value
    counter: NDArray[np.int32]  # [2n] and what the row needs, in the same cache line
    base: NDArray[np.int64]  # [2] what counters start from, and by how much it rises
    seen: NDArray[np.int64]  # [l] 1 + event << 32 | at which of its spaces the leaf is counted
    counts: NDArray[np.int64]


class PostingLists(ConjunctionSegment[SiftColumns]):
    """The posting lists of one segment."""

    columns_type = SiftColumns

    def __init__(self, columns: SiftColumns) -> None:
        super().__init__(columns)
        self._posting_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Enumerate the spaces of all leaves; rarity does not matter to counting."""
        place, code = leaves_of_rows(compiled.programs, rows)
        # Each leaf of a row once, however often the row has it.
        asks = np.unique(place.astype(np.int64) << 32 | code)
        place, code = (asks >> 32).astype(np.int32), (asks & 0xFFFFFFFF).astype(np.int32)
        leaves, asked = np.unique(code, return_inverse=True)
        listed = enumerate_leaves(compiled.predicates, leaves, attribute_count)
        of_leaf = np.bincount(asked, minlength=leaves.size)
        postings = np.bincount(
            listed.key, np.repeat(of_leaf, np.diff(listed.start)), listed.key_count
        )
        start = np.concatenate(([0], np.cumsum(postings.astype(np.int64))))
        member, member_leaf = (np.empty(int(start[-1]), np.int32) for _ in range(2))
        columns = SiftColumns(
            listed.points,
            listed.spaces,
            listed.first,
            start,
            member,
            member_leaf,
            leaves,
            rows.astype(np.int32),
            np.bincount(place, minlength=rows.size).astype(np.int32),
        )
        ways = listed.start, listed.key
        fill_postings(place, asked.astype(np.int32), ways, start[:-1].copy(), (member, member_leaf))
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Count event after event."""
        columns, row_count = self._columns, self._columns.row.size
        value_at = batch.value_start[batch.entry_start]
        space_count = int((2 * np.diff(batch.entry_start) + 3 * np.diff(value_at)).max(initial=0))
        needed_max = int(columns.needed.max(initial=0))
        counter = np.zeros(2 * row_count, np.int32)
        counter[1::2] = columns.needed
        working = Working(
            new_scratch(attribute_count),
            np.empty(space_count, np.int64),
            np.empty(space_count, np.bool_),
            counter,
            np.array([0, 2 * (needed_max + 1)]),
            np.zeros(columns.leaf.size, np.int64),
            np.zeros(EVENT_COUNTS, np.int64),
        )
        hits = collect_hits(
            lambda room, event: count_events(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            row_count,
        )
        self._posting_count += int(working.counts[POSTINGS])
        self._found(working.counts[CANDIDATES], working.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row whose counter was raised."""
        columns = self._columns
        return {
            "space_count": (columns.start.size - 1) // ROLES,
            "posting_count": columns.member.size,
            "visited_posting_count": self._posting_count,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is listed for as many leaves as it needs, in the order of rows."""
        columns = self._columns
        assert np.array_equal(columns.row, rows), "other rows than it was built for"
        assert columns.start[0] == 0 and columns.start[-1] == columns.member.size
        assert np.all(np.diff(columns.start) >= 0), "lists overlap"
        list_of = np.repeat(np.arange(columns.start.size - 1), np.diff(columns.start))
        order = np.lexsort((columns.asked, columns.member, list_of))
        assert np.array_equal(order, np.arange(order.size)), "a list does not ascend"
        is_kill = list_of % ROLES == KILLS
        is_point = list_of < columns.points.number.size * ROLES
        assert np.all(is_point[is_kill]), "a row is killed by more than a single value"
        counted = np.unique(
            columns.member[~is_kill].astype(np.int64) << 32 | columns.asked[~is_kill]
        )
        listed = np.bincount(counted >> 32, minlength=rows.size)
        # An empty range has no spaces, and its rows can never be counted up.
        assert np.all(listed <= columns.needed), "a row is counted up too early"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The predicates that raise the row's counter, and in how many lists it stands."""
        columns = self._columns
        place = int(np.searchsorted(columns.row, row))
        mine = columns.member == place
        words = words_of_leaves(compiled, vocabulary, columns.leaf[np.unique(columns.asked[mine])])
        lists = int(np.count_nonzero(mine))
        return f"in {lists} posting lists, counted up to {columns.needed[place]} by {words}"


class Sift(Updatable):
    """Counts by values; conjunctions of any predicates a kernel can test."""

    name = "sift"
    paper = "Yan, Garcia-Molina: Index Structures for Selective Dissemination. TODS 19(2), 1994"
    summary = "looks up each value in a hash of posting lists and counts the rows it finds"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(PostingLists, PSTHash.segment_type)


@leaf
def fill_postings(
    place: NDArray[np.int32],
    asked: NDArray[np.int32],
    ways: tuple[NDArray[np.int64], NDArray[np.int64]],
    following: NDArray[np.int64],
    postings: tuple[NDArray[np.int32], NDArray[np.int32]],
) -> None:
    """Put each row into the lists of its leaves; `following` is where each list begins on entry,
    and where it ends on exit.
    """
    start, key = ways
    member, member_leaf = postings
    for ask in range(place.size):
        for way in range(start[asked[ask]], start[asked[ask] + 1]):
            slot = following[key[way]]
            following[key[way]] = slot + 1
            member[slot], member_leaf[slot] = place[ask], asked[ask]


@leaf
def count_events(
    columns: SiftColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    row_count, counts = columns.row.size, working.counts
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, working.scratch.entry_of)
        base = _next_base(working)
        space_count = _event_spaces(columns, batch, event, working)
        for at in range(space_count):
            first = ROLES * working.space[at]
            _kill(columns, working, columns.start[first + KILLS], columns.start[first + COUNTS])
        for at in range(space_count):
            first = ROLES * working.space[at]
            start, tested = columns.start[first + COUNTS], columns.start[first + TESTED]
            stop = columns.start[first + ROLES]
            counts[POSTINGS] += stop - start
            if not working.several[at]:
                hit_count = _count(columns, working, hits, (start, tested), hit_count)
                start = tested
            for slot in range(start, stop):
                stamp = np.int64(event + 1) << 32 | at
                asked = columns.asked[slot]
                if working.seen[asked] >> 32 != event + 1:
                    working.seen[asked] = stamp
                    if slot >= tested and not _holds(
                        compiled.predicates, columns.leaf[asked], batch, working.scratch
                    ):
                        working.seen[asked] = stamp | _NOWHERE
                if working.seen[asked] == stamp:
                    hit_count = _raise(columns, working, hits, slot, base, hit_count)
        leave_event(batch, event, working.scratch.entry_of)
        counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _next_base(working: Working) -> int:
    """Let all counters be below their base, which is returned."""
    working.base[0] += working.base[1]
    if working.base[0] > _BASE_MAX:
        working.counter[::2] = 0
        working.base[0] = working.base[1]
    return int(working.base[0])


@inlined
def _event_spaces(columns: SiftColumns, batch: EventBatch, event: int, working: Working) -> int:
    """Fill `working` with the spaces of an event that have lists; returns their number."""
    spaces, first = columns.spaces, columns.first
    count = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        if attribute >= columns.points.facets.size:
            continue
        presence = first[PRESENCES] + 2 * attribute
        count = _push(columns, working, presence + 1, False, count)
        if batch.entry_flags[entry] & PRESENT == 0:
            continue
        count = _push(columns, working, presence, False, count)
        start, stop = batch.value_start[entry], batch.value_start[entry + 1]
        for value in range(start, stop):
            several = stop - start > 1
            point, folded = points_of_value(columns.points, batch, value, attribute)
            if point >= 0:
                count = _push(columns, working, point, several, count)
            if folded >= 0:
                count = _push(columns, working, folded, several, count)
            if batch.value_type[value] == _NUMBER:
                cuts = spaces.number_cut_double, spaces.number_cut_residual
                low, high = (
                    spaces.number_cut_start[attribute],
                    spaces.number_cut_start[attribute + 1],
                )
                if low < high:
                    number, residual = batch.value_number[value], int(batch.value_residual[value])
                    cell = number_cell(cuts, low, high, number, residual)
                    space = first[NUMBER_CELLS] + low + attribute + cell
                    count = _push(columns, working, space, several, count)
            elif batch.value_type[value] == _STRING:
                low, high = (
                    spaces.string_cut_start[attribute],
                    spaces.string_cut_start[attribute + 1],
                )
                if low < high:
                    space = first[STRING_CELLS] + low + attribute
                    space += _string_cell(spaces, batch, (low, high), batch.value_string[value])
                    count = _push(columns, working, space, several, count)
    return count


@leaf
def _string_cell(
    spaces: SpaceColumns, batch: EventBatch, cuts: tuple[int, int], string: int
) -> int:
    """The cell of a string of the batch."""
    bounds = batch.string_start[string], batch.string_start[string + 1]
    texts = spaces.string_start, spaces.string_text
    return string_cell(texts, cuts[0], cuts[1], batch.text, bounds)


@inlined
def _push(columns: SiftColumns, working: Working, space: int, several: bool, count: int) -> int:
    """Append a space unless its lists are empty."""
    if columns.start[ROLES * space] == columns.start[ROLES * space + ROLES]:
        return count
    working.space[count], working.several[count] = space, several
    return count + 1


@leaf
def _kill(columns: SiftColumns, working: Working, start: int, stop: int) -> None:
    """Let the rows of some postings be beyond what they need, for good."""
    beyond = working.base[0] + working.base[1] // 2
    for slot in range(start, stop):
        working.counter[2 * int(columns.member[slot])] = beyond


@leaf
def _count(
    columns: SiftColumns, working: Working, hits: Hits, slots: tuple[int, int], hit_count: int
) -> int:
    """Raise the counters of the rows of postings that hold; returns the hits so far.

    The same as `_raise` for each, without a branch that half of the postings take.
    """
    member, counter, base = columns.member, working.counter, working.base[0]
    candidates, last = 0, member.size - 1
    for slot in range(slots[0], slots[1]):
        prefetch(counter, 2 * int(member[min(slot + POSTINGS_AHEAD, last)]))
        place = int(member[slot])
        before = counter[2 * place]
        candidates += before < base
        raised = max(before, base) + 1
        counter[2 * place] = raised
        if raised - base == counter[2 * place + 1]:
            hits.hit[hit_count] = np.int64(columns.row[place]) << VERDICT_BITS | YES
            hit_count += 1
    working.counts[CANDIDATES] += candidates
    return hit_count


@inlined
def _raise(
    columns: SiftColumns, working: Working, hits: Hits, slot: int, base: int, hit_count: int
) -> int:
    """Raise one counter, and append its row when that is complete; returns the hits so far."""
    place = int(columns.member[slot])
    before = working.counter[2 * place]
    if before < base:
        working.counts[CANDIDATES] += 1
        before = base
    working.counter[2 * place] = before + 1
    if before + 1 - base == working.counter[2 * place + 1]:
        hits.hit[hit_count] = np.int64(columns.row[place]) << VERDICT_BITS | YES
        hit_count += 1
    return hit_count


@leaf
def _holds(predicates: PredicateColumns, code: int, batch: EventBatch, scratch: Scratch) -> bool:
    """Whether a leaf holds of the event entered last."""
    return leaf_holds(predicates, code, batch, scratch) == YES
