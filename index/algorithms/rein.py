"""REIN: mark the subscriptions that cannot match; what is left unmarked matches.

Paper    Qian, Cao, Zhu, Wu, Lin, Zhao, "REIN: A fast event matching approach for content-based
         publish/subscribe systems", INFOCOM 2014; the PS-Tree paper, PVLDB 12(3) 2018, section 2,
         tells it from methods that count.
Idea     a predicate is an interval of an attribute's values. An event's value fails those that
         begin above it and those that end below it. Both are runs of buckets, which hold the lower
         and the upper ends in order; only the bucket in which the value lies is compared end by
         end. A bit for each subscription is set when one of its intervals fails.
Layout   domain   the values of one type of one attribute; how many domains an attribute has, and
                  which, says domain_of int32[a * 8], by attribute << 3 | type
         lows, highs, each for one kind of ends, -inf and inf left out:
             bucket  int32[d+1]   domain -> its buckets, ascending
             number  float64[b]   mark int16[b]   the least end in the bucket
             first   int64[b+1]   bucket -> its entries, in the order of rows
             end float64[e] | end_mark int16[e] | place int32[e]          entries
         upper    int32[e]    of an entry of `lows`: where its interval is in `highs`, or -1
         mentions int64[d+1]  domain -> its run of `mention`, rows with an interval there; but if
         words    int64[d]    is not -1, these are bits from that word of `mention_bits` on
         tests    int64[n+1]  row -> its run of `test`, codes of leaves that are no exact intervals
         row      int32[n]    place -> row
Worked   s0: a > 3    s1: a < 7 AND b = 2    s2: a BETWEEN 5 AND 6    s3: b IN (1, 4)
         a   lows [4 s0, 5 s2]    highs [6 s1, 6 s2]    mentioned by s0 s1 s2
         b   lows [1 s3, 2 s1]    highs [2 s1, 4 s3]    mentioned by s1 s3, to test: s3
         event a = 4, b = 2: of a, 5 is above 4 and marks s2, no upper end is below; of b no end
         fails. Left are s0 and s1, which match, and s3, whose set is tested and fails.
Cost     n rows of p predicates: match O(n p) in the worst case, an event sets a bit for nearly
         every predicate that does not hold, and n / 64 words for each attribute it lacks (or as
         many bits as rows mention it, if these are few). Build a sort. Best where subscriptions are
         broad, so that few fail; poor where most fail, as with equalities, or where attributes are
         many and events have few of them. 14 bytes an end, and 4 to 32 a predicate for mentions.
Differs  Buckets are cut at quantiles of the ends instead of at equal widths. A domain has one type,
         so that an event without a number marks all intervals of numbers. Of an array no value may
         satisfy an interval, if it is to be marked: below the least value, above the greatest, or
         in a gap between two neighbours. IN is the interval from its least to its greatest member,
         and what else is no interval is presence; rows that have such leaves are tested on them
         when nothing has marked them. Filters that are no plain conjunctions go to PSTHash.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import PRESENT, EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment, words_of_leaves
from index.intervals import DOMAIN_TYPE_BITS, DomainType, intervals_of
from index.kernels import inlined, leaf
from index.kernels.marking import (
    WORD_BITS,
    Ends,
    Values,
    mark_above,
    mark_below,
    mark_between,
    mark_row,
    mark_rows,
    values_in_domain,
)
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.kernels.words import trailing_zeros
from index.predicate_phase import leaves_of_rows
from index.predicates import PredicateColumns
from index.program import POLARITY_BITS
from index.runs import begins_run
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

BUCKET_ENTRIES = 64
"""A bucket is cut after so many ends, but equal ends are not parted."""
WORDS_PER_MENTION = 4
"""Setting one bit takes as long as uniting so many words of two bit sets."""

COUNTS = 2
CANDIDATES, HITS = range(COUNTS)
"""Places in `Working.counts`."""

_EXISTENCE, _PRESENCE = int(DomainType.EXISTENCE), int(DomainType.PRESENCE)
_NULLS, _FOLDED = int(DomainType.NULLS), int(DomainType.FOLDED)
_ALL, _NONE, _ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(1)


class ReinColumns(NamedTuple):
    """The intervals of n rows in d domains of a attributes."""

    domain_of: NDArray[np.int32]  # [a << DOMAIN_TYPE_BITS] number of the domain, or -1
    lows: Ends
    highs: Ends
    upper: NDArray[np.int32]  # [e] of an entry of `lows`: where its interval ends, or -1
    mentions: NDArray[np.int64]  # [d+1]
    mention: NDArray[np.int32]  # places of rows
    words: NDArray[np.int64]  # [d]
    mention_bits: NDArray[np.uint64]
    tests: NDArray[np.int64]  # [n+1]
    test: NDArray[np.int32]  # codes of leaves
    row: NDArray[np.int32]  # [n]


class Working(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    marked: NDArray[np.uint64]  # a bit for each row
    met: NDArray[np.int32]  # [d] 1 + the last event that has a value in the domain
    values: Values
    counts: NDArray[np.int64]


class MarkedIntervals(ConjunctionSegment[ReinColumns]):
    """The buckets of one segment."""

    columns_type = ReinColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Sort the ends of all intervals into buckets; what events have does not matter."""
        place, code = leaves_of_rows(compiled.programs, rows)
        # Each leaf of a row once, however often the row has it.
        asks = np.unique(place.astype(np.int64) << 32 | code)
        place, code = (asks >> 32).astype(np.int32), (asks & 0xFFFFFFFF).astype(np.int32)
        intervals = intervals_of(compiled.predicates, code)
        domains, domain = np.unique(intervals.domain, return_inverse=True)
        domain_of = np.full(attribute_count << DOMAIN_TYPE_BITS, -1, np.int32)
        domain_of[domains] = np.arange(domains.size)
        below = np.flatnonzero(np.isfinite(intervals.low))
        above = np.flatnonzero(np.isfinite(intervals.high))
        low = intervals.low[below], intervals.low_mark[below]
        high = intervals.high[above], intervals.high_mark[above]
        lows, low_order = _buckets(domain[below], low, place[below], domains.size)
        highs, high_order = _buckets(domain[above], high, place[above], domains.size)
        upper = np.full(place.size, -1, np.int32)
        upper[above[high_order]] = np.arange(above.size)
        tested = np.flatnonzero(~intervals.is_exact)
        # The cheaper a test, the lower the number of its kind.
        kind = compiled.predicates.record["kind"][code[tested] >> POLARITY_BITS]
        tested = tested[np.lexsort((kind, place[tested]))]
        columns = ReinColumns(
            domain_of,
            lows,
            highs,
            upper[below[low_order]],
            *_mentions(domain, place, (domains.size, rows.size)),
            np.searchsorted(place[tested], np.arange(rows.size + 1)),
            code[tested],
            rows.astype(np.int32),
        )
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Mark event after event."""
        columns, row_count = self._columns, self._columns.row.size
        value_count = int(np.diff(batch.value_start).max(initial=0))
        working = Working(
            new_scratch(attribute_count),
            np.zeros(_words(row_count), np.uint64),
            np.zeros(columns.words.size, np.int32),
            Values(np.empty(value_count), np.empty(value_count, np.int16)),
            np.zeros(COUNTS, np.int64),
        )
        hits = collect_hits(
            lambda room, event: mark_events(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            row_count,
        )
        self._found(working.counts[CANDIDATES], working.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row that was left unmarked."""
        columns = self._columns
        return {
            "domain_count": columns.words.size,
            "bucket_count": columns.lows.number.size + columns.highs.number.size,
            "end_count": columns.lows.end.size + columns.highs.end.size,
            "bit_set_count": int(np.count_nonzero(columns.words >= 0)),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Ends lie in their buckets, and every row is mentioned where it has ends."""
        columns = self._columns
        assert np.array_equal(columns.row, rows), "other rows than it was built for"
        assert columns.tests[0] == 0 and columns.tests[-1] == columns.test.size
        assert np.all(np.diff(columns.tests) >= 0), "tests of rows overlap"
        mentioned = [self._mentioned(domain) for domain in range(columns.words.size)]
        assert np.array_equal(
            np.unique(np.concatenate([*mentioned, rows[:0]])), np.arange(rows.size)
        )
        for ends in (columns.lows, columns.highs):
            assert ends.first[0] == 0 and ends.first[-1] == ends.end.size
            assert ends.bucket[0] == 0 and ends.bucket[-1] == ends.number.size
            for domain in range(columns.words.size):
                _check_buckets(ends, domain, mentioned[domain])
        bounded = np.flatnonzero(columns.upper >= 0)
        assert np.all(columns.upper < columns.highs.end.size), "an interval ends nowhere"
        places = columns.highs.place[columns.upper[bounded]]
        assert np.array_equal(columns.lows.place[bounded], places), "the ends of different rows"

    def _mentioned(self, domain: int) -> NDArray[np.int64]:
        """The places of the rows that have an interval in a domain."""
        columns, row_count = self._columns, self._columns.row.size
        if columns.words[domain] < 0:
            places = columns.mention[columns.mentions[domain] : columns.mentions[domain + 1]]
            assert np.all(np.diff(places) > 0), "rows are mentioned twice or not in order"
            return places.astype(np.int64)
        word = columns.words[domain] + np.arange(_words(row_count))
        bits = np.unpackbits(columns.mention_bits[word].view(np.uint8), bitorder="little")
        assert not bits[row_count:].any(), "a row that is not there is mentioned"
        return np.flatnonzero(bits)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The predicates that mark the row unless they hold, and those to be tested then."""
        columns = self._columns
        place = int(np.searchsorted(columns.row, row))
        _, codes = leaves_of_rows(compiled.programs, np.array([row], np.int32))
        words = words_of_leaves(compiled, vocabulary, np.unique(codes))
        ends = sum(np.count_nonzero(one.place == place) for one in (columns.lows, columns.highs))
        tests = columns.test[columns.tests[place] : columns.tests[place + 1]]
        left = f", if unmarked tested on {words_of_leaves(compiled, vocabulary, tests)}"
        return f"marked by {ends} ends unless {words}{left if tests.size else ''}"


class Rein(Updatable):
    """Marks what fails; conjunctions of any predicates a kernel can test."""

    name = "rein"
    paper = "Qian et al.: REIN, a Fast Event Matching Approach for Publish/Subscribe. INFOCOM 2014"
    summary = "marks the subscriptions whose intervals an event misses; the unmarked ones match"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(MarkedIntervals, PSTHash.segment_type)


def _words(row_count: int) -> int:
    """Words of a bit set of rows."""
    return -(-row_count // WORD_BITS)


def _buckets(
    domain: NDArray[np.int64],
    end: tuple[NDArray[np.float64], NDArray[np.int16]],
    place: NDArray[np.int32],
    domain_count: int,
) -> tuple[Ends, NDArray[np.int64]]:
    """Ends in buckets, and in which order the entries are."""
    number, mark = end
    order = np.lexsort((mark, number, domain))
    domain, ordered, ordered_mark = domain[order], number[order], mark[order]
    is_new = begins_run(domain, ordered, ordered_mark)
    # Equal ends are where the first of them is.
    at = np.maximum.accumulate(np.where(is_new, np.arange(order.size), 0))
    quantile = (at - np.searchsorted(domain, domain)) // BUCKET_ENTRIES
    is_first = is_new.copy()
    is_first[1:] &= (domain[1:] != domain[:-1]) | (quantile[1:] != quantile[:-1])
    first = np.flatnonzero(is_first)
    within = np.lexsort((place[order], np.cumsum(is_first)))
    order = order[within]
    ends = Ends(
        np.searchsorted(domain[first], np.arange(domain_count + 1)).astype(np.int32),
        ordered[first],
        ordered_mark[first],
        np.append(first, order.size),
        number[order],
        mark[order],
        place[order],
    )
    return ends, order


def _mentions(
    domain: NDArray[np.int64], place: NDArray[np.int32], counts: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]:
    """The rows that each domain is mentioned by: lists, and bit sets where lists would be long."""
    domain_count, row_count = counts
    pairs = np.unique(domain << 32 | place)
    domain, place = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    word_count = _words(row_count)
    sizes = np.bincount(domain, minlength=domain_count)
    is_dense = sizes * WORDS_PER_MENTION > word_count
    words = np.where(is_dense, (np.cumsum(is_dense) - 1) * word_count, -1)
    bits = np.zeros(int(np.count_nonzero(is_dense)) * word_count, np.uint64)
    dense = is_dense[domain]
    set_bits(bits, words[domain[dense]] * WORD_BITS + place[dense].astype(np.int64))
    sizes[is_dense] = 0
    return np.concatenate(([0], np.cumsum(sizes))), place[~dense], words, bits


def _check_buckets(ends: Ends, domain: int, mentioned: NDArray[np.int64]) -> None:
    """The buckets of a domain ascend, and their ends lie in them."""
    buckets = range(ends.bucket[domain], ends.bucket[domain + 1])
    keys = [(ends.number[bucket], ends.mark[bucket]) for bucket in buckets]
    assert keys == sorted(set(keys)), "buckets do not ascend"
    for at, bucket in enumerate(buckets):
        run = slice(ends.first[bucket], ends.first[bucket + 1])
        entries = list(zip(ends.end[run].tolist(), ends.end_mark[run].tolist(), strict=True))
        assert min(entries) == keys[at], "a bucket begins elsewhere"
        assert at + 1 == len(keys) or max(entries) < keys[at + 1], "an end in a foreign bucket"
        assert np.all(np.diff(ends.place[run]) >= 0), "entries are not in the order of rows"
        assert np.isin(ends.place[run], mentioned).all(), "a row has an end but is not mentioned"


@leaf
def set_bits(bits: NDArray[np.uint64], places: NDArray[np.int64]) -> None:
    """Set many bits."""
    for place in places:
        mark_row(bits, place)


@leaf
def mark_events(
    columns: ReinColumns,
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
        working.marked[:] = _NONE
        for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
            if batch.entry_attribute[entry] < columns.domain_of.size >> DOMAIN_TYPE_BITS:
                _mark_entry(columns, batch, entry, working, event + 1)
        for domain in range(columns.words.size):
            if working.met[domain] != event + 1:
                _mark_mentions(columns, domain, working.marked)
        enter_event(batch, event, working.scratch.entry_of)
        hit_count = _collect_unmarked(columns, compiled.predicates, batch, working, hits, hit_count)
        leave_event(batch, event, working.scratch.entry_of)
        counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _mark_entry(
    columns: ReinColumns, batch: EventBatch, entry: int, working: Working, stamp: int
) -> None:
    """Mark the rows whose intervals all values of an entry miss; note which domains it meets."""
    base = int(batch.entry_attribute[entry]) << DOMAIN_TYPE_BITS
    domain_of, values, marked = columns.domain_of, working.values, working.marked
    if domain_of[base | _EXISTENCE] >= 0:
        working.met[domain_of[base | _EXISTENCE]] = stamp
    if batch.entry_flags[entry] & PRESENT == 0:
        return
    if domain_of[base | _PRESENCE] >= 0:
        working.met[domain_of[base | _PRESENCE]] = stamp
    for domain_type in range(_NULLS, _FOLDED + 1):
        domain = int(domain_of[base | domain_type])
        if domain < 0:
            continue
        count = values_in_domain(batch, entry, domain_type, values)
        if count == 0:
            continue
        working.met[domain] = stamp
        last = count - 1
        mark_above(columns.lows, domain, values.number[last], int(values.mark[last]), marked)
        mark_below(columns.highs, domain, values.number[0], int(values.mark[0]), marked)
        for after in range(last):
            upper = columns.highs, columns.upper
            mark_between(columns.lows, upper, domain, values, after, marked)


@leaf
def _mark_mentions(columns: ReinColumns, domain: int, marked: NDArray[np.uint64]) -> None:
    """Mark all rows that have an interval in a domain."""
    first = columns.words[domain]
    if first < 0:
        start, stop = columns.mentions[domain], columns.mentions[domain + 1]
        mark_rows(marked, columns.mention, start, stop)
        return
    for word in range(marked.size):
        marked[word] |= columns.mention_bits[first + word]


@leaf
def _collect_unmarked(
    columns: ReinColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    hit_count: int,
) -> int:
    """Append the unmarked rows whose other leaves hold; returns the hits so far."""
    marked = working.marked
    for word in range(marked.size):
        unmarked = marked[word] ^ _ALL
        while unmarked != _NONE:
            place = word * WORD_BITS + trailing_zeros(unmarked)
            unmarked &= unmarked - _ONE
            if place >= columns.row.size:
                break
            working.counts[CANDIDATES] += 1
            holds = True
            for at in range(columns.tests[place], columns.tests[place + 1]):
                if leaf_holds(predicates, columns.test[at], batch, working.scratch) != YES:
                    holds = False
                    break
            if holds:
                hits.hit[hit_count] = np.int64(columns.row[place]) << VERDICT_BITS | YES
                hit_count += 1
    return hit_count
