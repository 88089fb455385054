"""OpIndex: file each subscription under its rarest attribute, and count its satisfied predicates.

Paper    Zhang, Chan, Tan, PVLDB 7(8) 2014, sections 4.1 pivots, 4.2 lists and signatures, 4.3
         algorithm 1, 5 algorithm 2, 5.1 costs, 7 their 32 list_segments and 64 bits.
Idea     a conjunction cannot match where one of its attributes is absent, so it lies under one of
         them, its pivot, and an event visits the pivots among its own attributes. There, predicates
         of one operator form a list in which the satisfied ones follow each other; each raises the
         counter of its subscription. A list is cut into list_segments by attribute, and the
         signature of one tells that it has nothing for a value without a look at its entries.
Layout   lists      int32[d+1]   attribute -> its lists as a pivot, at most one an operator
         operator   uint8[l]     = , = without case, <= , >= , anything else
         directory  int64[l+1]   list -> its list_segments, a power of two of them
         signature  uint64[b]    of a list_segment    first  int64[b+1]   its first entry
         attribute int32[p] | number float64[p], mark int16[p] | ask int32[p]    entries, sorted so
         leaf       int32[a]     the leaf asked for   place  int32[a]     by which row
         row, pivot, needed      int32[n]             place -> row, its pivot, how many it asks
Worked   S2: A <= 8 AND C >= 2    S3: C = 6 AND B <= 4 AND E BETWEEN 3 AND 12    S5: D >= 12 AND ...
         pivots A for S2, C for S3, D for S5
         C:  [=] C 6 -> S3    [<=] B 4 -> S3    [>=] E 3 -> S3
         event B = 6, C = 3, E = 9: only C is a pivot. [=]: the signature has no bit of C 3.
         [<=]: no B from 6 on. [>=]: E up to 9 has E 3, which holds: 1 of 3, so S3 does not match.
Cost     m attributes, l lists visited, s entries found: match O(m l + s), and a binary search for
         each that signatures let through. Build a sort. Best where attributes are many and events
         have few of them; poor where all have the same, for then all pivots are visited.
Differs  Counters carry the number of their event instead of being reset. A range of two ends is one
         entry under its lower end, because of an array each end could be satisfied by another
         value. Every entry found is tested. Prefixes have no trie, they are tested one by one as
         all other operators are. CNF and other trees go to PSTHash.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import ConjunctionSegment, words_of_leaves
from index.kernels import inlined, leaf
from index.kernels.cover import SINGLE_KEYS_MAX
from index.kernels.lookups import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    FIRST_MARK,
    FOLDED,
    OPERATOR_BITS,
    OTHER,
    Lookups,
    bit_of,
    look_up,
    new_lookups,
)
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.predicate_phase import leaves_of_rows
from index.predicates import ALL, NO_MARK, NOCASE, STRING_MARK, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.segment import collect_hits
from index.threshold import Polarity
from index.updatable import Updatable
from index.vocabulary import Vocabulary

LIST_SEGMENTS_MAX = 32
"""Section 7."""
LIST_SEGMENT_ENTRIES = 16
"""A mean list_segment has up to twice as many: 60 % or more of its signature is unset (lemma 8)."""
COUNTS = 4
SEARCHED, SKIPPED, CANDIDATES, HITS = range(COUNTS)
"""Places in `Working.counts`."""

_ONE, _NONE = np.uint64(1), np.uint64(0)


class OpIndexColumns(NamedTuple):
    """l lists of b list_segments of p entries, for the a leaves of n rows; d attributes."""

    lists: NDArray[np.int32]  # [d+1]
    operator: NDArray[np.uint8]  # [l]
    directory: NDArray[np.int64]  # [l+1]
    signature: NDArray[np.uint64]  # [b]
    first: NDArray[np.int64]  # [b+1]
    attribute: NDArray[np.int32]  # [p] entries of a list_segment ascend by these three
    number: NDArray[np.float64]  # [p]
    mark: NDArray[np.int16]  # [p] as in `index.predicates`, or the residual of an end
    ask: NDArray[np.int32]  # [p]
    leaf: NDArray[np.int32]  # [a] code
    place: NDArray[np.int32]  # [a]
    row: NDArray[np.int32]  # [n] rows of one pivot follow each other, and so do their counters
    pivot: NDArray[np.int32]  # [n]
    needed: NDArray[np.int32]  # [n]


class Working(NamedTuple):
    """Working memory of one call; stamps are 1 + the number of an event."""

    scratch: Scratch
    lookups: Lookups
    tested: NDArray[np.int32]  # [a] stamp of a leaf of a row: several values may lead to it
    stamp: NDArray[np.int32]  # [n] the counter is of this event
    raised: NDArray[np.int32]  # [n]
    counts: NDArray[np.int64]  # list_segments searched and skipped, candidates, hits


class PredicateLists(ConjunctionSegment[OpIndexColumns]):
    """The predicate lists of one segment."""

    columns_type = OpIndexColumns

    def __init__(self, columns: OpIndexColumns) -> None:
        super().__init__(columns)
        self._searched_count = 0
        self._skipped_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose pivots, and sort the predicates of all rows into lists."""
        predicates = compiled.predicates
        place, code = leaves_of_rows(compiled.programs, rows)
        attribute = predicates.record["attribute"][code >> POLARITY_BITS]
        pivot = _pivots(place, attribute, _visibility(place, attribute, attribute_count, shares))
        order = np.argsort(pivot, kind="stable")
        row, pivot = rows[order].astype(np.int32), pivot[order]
        place_of = np.empty(rows.size, np.int64)
        place_of[order] = np.arange(rows.size)
        # Each leaf of a row once, however often the row has it.
        asks = np.unique(place_of[place] << 32 | code)
        place, code = (asks >> 32).astype(np.int32), (asks & 0xFFFFFFFF).astype(np.int32)
        operator, ask, number, mark = _entries(predicates, code)
        key = pivot[place[ask]].astype(np.int64) << OPERATOR_BITS | operator
        listed, list_of, sizes = np.unique(key, return_inverse=True, return_counts=True)
        directory = np.concatenate(([0], np.cumsum(_list_segment_counts(sizes))))
        attribute = predicates.record["attribute"][code >> POLARITY_BITS][ask]
        list_segment = _list_segments(directory, list_of, attribute)
        order = np.lexsort((mark, number, attribute, list_segment))
        columns = OpIndexColumns(
            _starts(listed >> OPERATOR_BITS, attribute_count).astype(np.int32),
            (listed & ((1 << OPERATOR_BITS) - 1)).astype(np.uint8),
            directory.astype(np.int64),
            np.zeros(int(directory[-1]), np.uint64),
            _starts(list_segment[order], int(directory[-1])),
            attribute[order],
            number[order],
            mark[order],
            ask[order].astype(np.int32),
            code,
            place,
            row,
            pivot,
            np.bincount(place, minlength=rows.size).astype(np.int32),
        )
        sign(columns, columns.signature)
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit pivots event after event."""
        columns, row_count = self._columns, self._columns.row.size
        working = Working(
            new_scratch(attribute_count),
            new_lookups(batch),
            np.zeros(columns.leaf.size, np.int32),
            np.zeros(row_count, np.int32),
            np.zeros(row_count, np.int32),
            np.zeros(COUNTS, np.int64),
        )
        hits = collect_hits(
            lambda room, event: visit_pivots(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            row_count,
        )
        searched, skipped, candidates, hit_count = working.counts.tolist()
        self._searched_count += searched
        self._skipped_count += skipped
        self._candidate_count += candidates
        self._hit_count += hit_count
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of which any predicate held."""
        columns = self._columns
        return {
            "pivot_count": int(np.count_nonzero(np.diff(columns.lists))),
            "predicate_list_count": columns.operator.size,
            "list_segment_count": columns.signature.size,
            "entry_count": columns.ask.size,
            "searched_list_segment_count": self._searched_count,
            "skipped_list_segment_count": self._skipped_count,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every leaf lies in the lists of its row's pivot, sorted, and signatures know it."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        assert np.all(np.diff(columns.pivot) >= 0), "rows of a pivot lie apart"
        counted = np.bincount(columns.place, minlength=rows.size)
        assert np.array_equal(counted, columns.needed), "a row can never or too early be counted up"
        lasts = columns.lists[-1], columns.directory[-1]
        assert lasts == (columns.operator.size, columns.signature.size), "lists overlap or are lost"
        assert columns.first[0] == 0 and columns.first[-1] == columns.ask.size
        signature = np.zeros_like(columns.signature)
        sign(columns, signature)
        assert np.array_equal(signature, columns.signature), "a signature is not of its entries"
        pivot_of = np.repeat(np.arange(columns.lists.size - 1), np.diff(columns.lists))
        list_segment = np.repeat(np.arange(signature.size), np.diff(columns.first))
        number = np.searchsorted(columns.directory, list_segment, "right") - 1
        under = columns.pivot[columns.place[columns.ask]]
        assert np.array_equal(under, pivot_of[number]), "an entry under a foreign pivot"
        segments = _list_segments(columns.directory, number, columns.attribute)
        assert np.array_equal(list_segment, segments), "an entry in a foreign list_segment"
        order = np.lexsort((columns.mark, columns.number, columns.attribute, list_segment))
        assert np.array_equal(order, np.arange(order.size)), "entries are not sorted"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The pivot, and the predicates that raise the row's counter."""
        columns = self._columns
        place = int(np.flatnonzero(columns.row == row)[0])
        start, stop = np.searchsorted(columns.place, (place, place + 1))
        words = words_of_leaves(compiled, vocabulary, columns.leaf[start:stop])
        pivot = ".".join(vocabulary.path(int(columns.pivot[place])))
        return f"with pivot {pivot}, counted up to {columns.needed[place]} by {words}"


class OpIndex(Updatable):
    """Pivots and predicate lists; conjunctions of any predicates a kernel can test."""

    name = "opindex"
    paper = (
        "Zhang et al.: An Efficient Publish/Subscribe Index for E-Commerce Databases. PVLDB 2014"
    )
    summary = "visits the subscriptions whose rarest attribute an event has, and counts what holds"
    companion = PSTHash.name
    segment_type = accompanied(PredicateLists, PSTHash.segment_type)


def _visibility(
    place: NDArray[np.int32], attribute: NDArray[np.int32], attribute_count: int, shares: Shares
) -> NDArray[np.float64]:
    """The share of events that have each attribute; where unknown, of rows that name it."""
    pairs = np.unique(attribute.astype(np.int64) << 32 | place)
    row_count = max(int(place[-1]) + 1 if place.size else 0, 1)
    visibility = np.bincount(pairs >> 32, minlength=attribute_count) / row_count
    known = np.flatnonzero(~np.isnan(shares.of_attribute[:attribute_count]))
    visibility[known] = shares.of_attribute[known]
    return visibility


def _pivots(
    place: NDArray[np.int32], attribute: NDArray[np.int32], visibility: NDArray[np.float64]
) -> NDArray[np.int32]:
    """The least visible attribute of each row; of several, that of the leaf tested first."""
    order = np.lexsort((visibility[attribute], place))
    is_first = np.ones(place.size, np.bool_)
    is_first[1:] = place[1:] != place[:-1]
    return attribute[order[is_first]].astype(np.int32)


def _entries(
    predicates: PredicateColumns, code: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int16]]:
    """(operator, ask, number, mark) of every entry: a set has one for each member."""
    record = predicates.record[code >> POLARITY_BITS]
    kind, flags, low = record["kind"], record["flags"], record["low"]
    # Only these are TRUE by a single value.
    by_value = (code & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE) & (flags & ALL == 0)
    is_set = by_value & (kind == PredicateKind.IN) & (record["size"] <= SINGLE_KEYS_MAX)
    size = np.where(is_set, record["size"], 1).astype(np.int64)
    ask = np.repeat(np.arange(code.size), size)
    member = np.arange(ask.size) - np.repeat(np.cumsum(size) - size, size)
    is_equal, is_null = kind == PredicateKind.EQUAL, kind == PredicateKind.IS_NULL
    is_range = by_value & (kind == PredicateKind.RANGE)
    is_upper = is_range & np.isneginf(low)
    is_equality = by_value & (is_equal | is_null) | is_set
    operator = np.full(code.size, OTHER)
    operator[is_equality] = EQUAL
    operator[is_range] = AT_LEAST
    operator[is_upper] = AT_MOST
    number = np.where(is_upper, record["high"], low)
    mark = np.where(is_upper, record["high_residual"], record["low_residual"])
    is_plain = is_range | is_equality & is_equal
    number[~is_plain], mark[~is_plain] = 0.0, 0
    mark[by_value & is_null] = NO_MARK
    operator, number, mark = operator[ask], number[ask], mark[ask]
    of_set = is_set[ask]
    at = record["start"][ask][of_set] + member[of_set]
    number[of_set], mark[of_set] = predicates.member_number[at], predicates.member_mark[at]
    folds = (operator == EQUAL) & (flags[ask] & NOCASE != 0) & (mark == STRING_MARK)
    operator[folds] = FOLDED
    return operator, ask, number, mark.astype(np.int16)


def _list_segment_counts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Into how many list_segments lists of these sizes are cut, powers of two."""
    wanted = np.clip(sizes // LIST_SEGMENT_ENTRIES, 1, LIST_SEGMENTS_MAX)
    counts: NDArray[np.int64] = 1 << np.log2(wanted).astype(np.int64)
    return counts


def _list_segments(
    directory: NDArray[np.int64], list_of: NDArray[np.int64], attribute: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The list_segments of attributes in lists."""
    within: NDArray[np.int64] = attribute & (np.diff(directory)[list_of] - 1)
    return directory[list_of] + within


def _starts(ascending: NDArray[np.int64], stop: int) -> NDArray[np.int64]:
    """Where the runs of 0..stop begin, and where the last one ends."""
    return np.searchsorted(ascending, np.arange(stop + 1)).astype(np.int64)


@leaf
def sign(columns: OpIndexColumns, signature: NDArray[np.uint64]) -> None:
    """Set the bits of all entries in `signature`, all zero on entry."""
    for number in range(columns.operator.size):
        operator = int(columns.operator[number])
        for at in range(columns.directory[number], columns.directory[number + 1]):
            for entry in range(columns.first[at], columns.first[at + 1]):
                key, mark = columns.number[entry], int(columns.mark[entry])
                bit = bit_of(operator, int(columns.attribute[entry]), key, mark)
                signature[at] |= _ONE << bit


@leaf
def visit_pivots(
    columns: OpIndexColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    row_count, scratch = columns.row.size, working.scratch
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, scratch.entry_of)
        look_up(batch, event, working.lookups)
        for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
            pivot = batch.entry_attribute[entry]
            if pivot >= columns.lists.size - 1:
                continue
            for number in range(columns.lists[pivot], columns.lists[pivot + 1]):
                at = event, number, hit_count
                hit_count = _search_list(columns, compiled.predicates, batch, working, hits, at)
        leave_event(batch, event, scratch.entry_of)
        working.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _search_list(
    columns: OpIndexColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    at: tuple[int, int, int],
) -> int:
    """Raise the counters of what holds in list at[1] on event at[0]; returns the hits so far."""
    event, at_list, hit_count = at
    lookups, counts, stamp = working.lookups, working.counts, event + 1
    operator = columns.operator[at_list]
    first = columns.directory[at_list]
    mask = columns.directory[at_list + 1] - first - 1
    for place in range(lookups.size[operator]):
        attribute = lookups.attribute[operator, place]
        list_segment = first + (attribute & mask)
        if columns.signature[list_segment] >> lookups.bit[operator, place] & _ONE == _NONE:
            counts[SKIPPED] += 1
            continue
        counts[SEARCHED] += 1
        key, mark = lookups.number[operator, place], lookups.mark[operator, place]
        low = (-np.inf, FIRST_MARK) if operator >= AT_LEAST else (key, mark)
        start = _first_entry(columns, list_segment, attribute, low)
        for entry in range(start, columns.first[list_segment + 1]):
            if columns.attribute[entry] != attribute:
                break
            if operator <= FOLDED or operator == AT_LEAST:
                number = columns.number[entry]
                if number > key or (number == key and columns.mark[entry] > mark):
                    break
            ask = columns.ask[entry]
            if working.tested[ask] != stamp:
                working.tested[ask] = stamp
                if leaf_holds(predicates, columns.leaf[ask], batch, working.scratch) == YES:
                    hit_count = _raise(columns, working, hits, columns.place[ask], stamp, hit_count)
    return hit_count


@inlined
def _raise(
    columns: OpIndexColumns, working: Working, hits: Hits, place: int, stamp: int, hit_count: int
) -> int:
    """Raise a row's counter, and append the row when that is complete; returns the hits so far."""
    if working.stamp[place] != stamp:
        working.stamp[place] = stamp
        working.raised[place] = 0
        working.counts[CANDIDATES] += 1
    working.raised[place] += 1
    if working.raised[place] == columns.needed[place]:
        hits.hit[hit_count] = np.int64(columns.row[place]) << VERDICT_BITS | YES
        hit_count += 1
    return hit_count


@inlined
def _first_entry(
    columns: OpIndexColumns, list_segment: int, attribute: int, low: tuple[float, int]
) -> int:
    """The first entry of a list_segment from (attribute, *low) on."""
    start, stop = int(columns.first[list_segment]), int(columns.first[list_segment + 1])
    while start < stop:
        middle = (start + stop) // 2
        number = columns.number[middle]
        before = columns.attribute[middle] < attribute
        if columns.attribute[middle] == attribute:
            before = number < low[0] or (number == low[0] and columns.mark[middle] < low[1])
        if before:
            start = middle + 1
        else:
            stop = middle
    return start
