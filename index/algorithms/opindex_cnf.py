"""OpIndex for CNF: a set of pivots for each subscription, and a bit for each of its disjunctions.

Paper    Zhang, Chan, Tan, PVLDB 7(8) 2014, section 6.1 on CNF, 7.6 their measurements; sections 4.2
         and 6.2 for predicate lists, see index.kernels.predicate_lists.
Idea     no attribute need be present where an AND of ORs holds, but of each OR one must be. So a
         row lies under all attributes of one of its ORs, the one with the fewest predicates; those
         are its pivots. A counter would count two predicates of one OR twice, so each OR has a bit:
         a predicate that holds clears the bit of its OR, and a row without bits matches.
Layout   lists      pivot -> operator -> list_segments -> entries: index.kernels.predicate_lists;
                    every predicate of a row lies under each of its pivots
         place      int32[p]   entry -> place of the row
         bit        uint8[p]   entry -> the OR it belongs to
         first_ask  int32[n+1] place -> its predicates, by OR
         row        int32[n], bits uint8[n]   place -> row, and its ORs
         chosen     uint8[n]   the OR whose attributes are the pivots
         bitmap     uint64[n, 3]   working memory: 1 + the event, bits of ORs of which nothing
                                   certain holds, bits of those of which nothing may hold
Worked   S1: (A = 2 OR B = 3) AND (C = 6 OR D >= 12 OR E <= 9)    S2: A <= 8 AND (C = 6 OR E <= 9)
         pivots A and B for S1, whose first OR is the shorter; A for S2
         A: [=] A 2, B 3, C 6 -> S1, C 6 -> S2    [<=] A 8 -> S2, E 9 -> S1, E 9 -> S2    ...
         B: [=] A 2, B 3, C 6 -> S1               [<=] E 9 -> S1                          ...
         event B = 3, C = 6, E = 9: only B is a pivot. S1 has bits 11; B 3 leaves 10, C 6 leaves
         00, a match; E 9 clears what is clear. S2 is not met: A is absent.
Cost     as OpIndex, but for each pivot of a row again. Best where an OR has one predicate, for then
         there is one pivot; poor where all ORs are long or name common attributes.
Differs  The bitmap is one word: a row of more than 64 ORs goes to PSTHash, as does all that is no
         AND of ORs. It carries the number of its event instead of being set anew, and the pivots of
         a row share it, so that a row is named once. A second bitmap knows which bits were cleared
         by regular expressions alone; a row that needs these is left to index.settling.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.kernels import inlined, leaf
from index.kernels.predicate_lists import (
    CANDIDATES,
    HITS,
    ListColumns,
    Search,
    entry_found,
    satisfied,
)
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import UNDECIDED, YES
from index.normal_forms import AND, in_normal_form, parts_of_rows
from index.pivots import visibility
from index.predicate_lists import (
    LISTED_OPERATORS,
    ListSegment,
    build_lists,
    check_lists,
    leaves_of_asks,
    new_search,
    words_of_asks,
)
from index.program import POLARITY_BITS
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

BITS_MAX = 64
"""ORs that one word can tell apart."""

_STAMP, _CERTAIN, _POSSIBLE = 0, 1, 2
_ALL, _ONE, _CLEAR = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(1), np.uint64(0)


class CNFColumns(NamedTuple):
    """n rows of a asks and p entries."""

    lists: ListColumns
    place: NDArray[np.int32]  # [p] of an entry
    bit: NDArray[np.uint8]  # [p] of an entry
    first_ask: NDArray[np.int32]  # [n+1] the asks of a row follow each other
    row: NDArray[np.int32]  # [n] rows that share a pivot are near each other
    bits: NDArray[np.uint8]  # [n]
    chosen: NDArray[np.uint8]  # [n] a bit


class Conjunctions(ListSegment[CNFColumns]):
    """Rows that are ANDs of ORs, by their sets of pivots."""

    columns_type = CNFColumns

    @property
    def _lists(self) -> ListColumns:
        return self._columns.lists

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """ANDs of up to 64 ORs, or of leaves, that can be looked up."""
        taken = in_normal_form(*compiled, rows, AND)
        place, part, _ = parts_of_rows(compiled.programs, rows[taken], AND)
        parts = np.bincount(place[_is_first(part)], minlength=int(taken.sum()))
        taken[taken] = parts <= BITS_MAX
        return taken

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose the pivots of each row, and sort its predicates into the lists of all of them."""
        row, part, code = parts_of_rows(compiled.programs, rows, AND)
        asked = compiled.predicates.record["attribute"]
        visible = visibility(row, asked[code >> POLARITY_BITS], attribute_count, shares)
        row_of_part = row[_is_first(part)]
        first_part = np.searchsorted(row_of_part, np.arange(rows.size + 1))
        # Each leaf of an OR once, however often the OR has it.
        asks = np.unique(part.astype(np.int64) << 32 | code)
        part_of, code = asks >> 32, (asks & 0xFFFFFFFF).astype(np.int32)
        chosen = _shortest(part_of, asked[code >> POLARITY_BITS], row_of_part, visible)
        # Rows are placed in the order of one of their pivots, and their asks in that of rows.
        one = asked[code[np.searchsorted(part_of, chosen)] >> POLARITY_BITS]
        order = np.argsort(one, kind="stable")
        place_of = np.empty(rows.size, np.int64)
        place_of[order] = np.arange(rows.size)
        place = place_of[row_of_part[part_of]]
        bit = part_of - first_part[row_of_part[part_of]]
        by_place = np.argsort(place, kind="stable")
        place, bit, code = place[by_place], bit[by_place], code[by_place]
        chosen = (chosen - first_part[:-1])[order]
        under = _under_pivots(place, asked[code >> POLARITY_BITS], bit == chosen[place])
        lists = build_lists(compiled.predicates, code, under, attribute_count)
        columns = CNFColumns(
            lists,
            place[lists.ask].astype(np.int32),
            bit[lists.ask].astype(np.uint8),
            np.searchsorted(place, np.arange(rows.size + 1)).astype(np.int32),
            rows[order].astype(np.int32),
            np.diff(first_part)[order].astype(np.uint8),
            chosen.astype(np.uint8),
        )
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Visit pivots event after event."""
        columns = self._columns
        search = new_search(columns.lists, int(columns.first_ask[-1]), batch, attribute_count)
        working = search, np.zeros((columns.row.size, 3), np.uint64)
        hits = collect_hits(
            lambda room, event: clear_bits(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._count(search)
        return hits

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row has a bit for each OR, and its predicates lie under the pivots of one."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        ends = columns.first_ask[0], columns.first_ask[-1]
        assert ends == (0, columns.lists.ask.max(initial=-1) + 1), "asks of no row"
        place, bit = _places_and_bits(columns)
        assert np.array_equal(place[columns.lists.ask], columns.place), "an entry of another row"
        assert np.array_equal(bit[columns.lists.ask], columns.bit), "an entry of another OR"
        owned = np.unique(place << 8 | bit)
        assert np.array_equal(np.bincount(owned >> 8, minlength=rows.size), columns.bits)
        assert np.all(owned & 0xFF < columns.bits[owned >> 8]), "a bit that no bitmap begins with"
        assert np.all(columns.chosen < columns.bits), "the pivots of no OR"
        attribute = np.empty(place.size, np.int32)
        attribute[columns.lists.ask] = columns.lists.attribute
        is_chosen = bit == columns.chosen[place]
        check_lists(columns.lists, _under_pivots(place, attribute, is_chosen))

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The pivots, and the predicates that clear each bit."""
        columns = self._columns
        place = int(np.flatnonzero(columns.row == row)[0])
        asks = slice(*columns.first_ask[place : place + 2].tolist())
        leaves = leaves_of_asks(columns.lists, int(columns.first_ask[-1]))[asks]
        bit = _places_and_bits(columns)[1][asks]
        record = compiled.predicates.record[leaves[bit == columns.chosen[place]] >> POLARITY_BITS]
        pivots = np.unique(record["attribute"]).tolist()
        paths = ", ".join(sorted(".".join(vocabulary.path(pivot)) for pivot in pivots))
        words = [
            " or ".join(words_of_asks(compiled, vocabulary, leaves[bit == number]))
            for number in range(columns.bits[place])
        ]
        cleared = ", ".join(f"[{one}]" for one in sorted(words))
        return f"with pivot{'s' * (len(pivots) > 1)} {paths}, bits cleared by {cleared}"


class OpIndexCNF(Updatable):
    """Sets of pivots and predicate lists; conjunctions, and ANDs of ORs."""

    name = "opindex-cnf"
    paper = (
        "Zhang et al.: An Efficient Publish/Subscribe Index for E-Commerce Databases. PVLDB 2014"
    )
    summary = "visits ANDs of ORs under all attributes of one OR, and clears a bit for each OR"
    operators = LISTED_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(Conjunctions, PSTHash.segment_type)


def _is_first(ascending: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Where the runs of equal numbers begin."""
    first = np.ones(ascending.size, np.bool_)
    first[1:] = ascending[1:] != ascending[:-1]
    return first


def _shortest(
    part: NDArray[np.int64],
    attribute: NDArray[np.int32],
    row_of_part: NDArray[np.int32],
    visible: NDArray[np.float64],
) -> NDArray[np.int64]:
    """The part of each row with the fewest predicates; of several, with the rarest attributes."""
    named = np.unique(part << 32 | attribute)
    rarity = np.bincount(named >> 32, visible[named & 0xFFFFFFFF], row_of_part.size)
    size = np.bincount(part, minlength=row_of_part.size)
    order = np.lexsort((rarity, size, row_of_part))
    return order[_is_first(row_of_part[order])].astype(np.int64)


def _places_and_bits(columns: CNFColumns) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Of every ask the place of its row, and its bit."""
    place = np.repeat(np.arange(columns.row.size), np.diff(columns.first_ask))
    bit = np.empty(place.size, np.uint8)
    bit[columns.lists.ask] = columns.bit
    return place, bit


def _under_pivots(
    place: NDArray[np.int64],
    attribute: NDArray[np.int32],
    is_chosen: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(pivot, ask) of every ask under every pivot of its row: attributes of the chosen asks."""
    pivots = np.unique(place[is_chosen].astype(np.int64) << 32 | attribute[is_chosen])
    row, pivot = pivots >> 32, pivots & 0xFFFFFFFF
    first = np.searchsorted(row, place)
    count = np.searchsorted(row, place, "right") - first
    ask = np.repeat(np.arange(place.size), count)
    copy = np.arange(ask.size) - np.repeat(np.cumsum(count) - count, count)
    return pivot[first[ask] + copy], ask


@leaf
def clear_bits(
    columns: CNFColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: tuple[Search, NDArray[np.uint64]],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    search, bitmap = working
    row_count, hit_count = columns.row.size, hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        for at in range(satisfied(columns.lists, compiled.predicates, batch, search, event)):
            if _clear(columns, bitmap, search, at, event):
                hits.hit[hit_count] = columns.place[entry_found(search, at)]
                hit_count += 1
        # Only now is it known whether an OR that a regular expression may satisfy holds without.
        for at in range(hits.start[event], hit_count):
            place = hits.hit[at]
            verdict = YES if bitmap[place, _CERTAIN] == _CLEAR else UNDECIDED
            hits.hit[at] = np.int64(columns.row[place]) << VERDICT_BITS | verdict
        search.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _clear(
    columns: CNFColumns, bitmap: NDArray[np.uint64], search: Search, at: int, event: int
) -> bool:
    """Clear the bit of search.found[at], as possible if uncertain; True if that was the last."""
    entry, stamp = entry_found(search, at), np.uint64(event + 1)
    place = columns.place[entry]
    if bitmap[place, _STAMP] != stamp:
        bitmap[place, _STAMP] = stamp
        all_bits = _ALL >> np.uint64(BITS_MAX - columns.bits[place])
        bitmap[place, _CERTAIN] = all_bits
        bitmap[place, _POSSIBLE] = all_bits
        search.counts[CANDIDATES] += 1
    bit = _ONE << np.uint64(columns.bit[entry])
    if search.found[at] >= 0:
        bitmap[place, _CERTAIN] &= ~bit
    if bitmap[place, _POSSIBLE] & bit == _CLEAR:
        return False
    bitmap[place, _POSSIBLE] &= ~bit
    return bool(bitmap[place, _POSSIBLE] == _CLEAR)
