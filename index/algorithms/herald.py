"""Herald's own index: keys chosen by cost, rows as records of one cache line, events in groups.

Sources  PSTHash (Ji and Jacobsen, PVLDB 2018, section 6): predicate spaces as parts of hashed keys.
         Fabret et al. (SIGMOD 2001, section 3.1 and 4): schemas of several attributes, chosen by
         cost. A-Tree: programs of shared predicates for any Boolean filter. What is new is how they
         are put together: any schemas of one to three lanes at once, exact tests of one word each,
         and memory read in the order in which it lies, for many events at a time.
Idea     a row is filed under a combination of its leaves, and all else that must hold is written
         beside it, as masks over the codes of an event's values. So a candidate costs one cache
         line, and what passes is a match.
Layout   lanes      attribute, facet -> lane; value -> code, part    index.kernels.lanes
         trie       schemas, which are sets of lanes                 index.kernels.schemas
         table      key, of parts -> bucket of records
         record     uint64[filings, 8]                               index.kernels.record_filing
         residue    int32[r]     rows without key, tried on every event
Worked   s0: a = 1 AND b = 2 AND c < 3    s1: a = 1 AND b = 2 AND c > 5    s2: a = 1 OR d = 4
         cells of c: below 3, 3 to 5, above 5

             b=2 -> s0 [c: 001, a: 1]   s1 [c: 100, a: 1]        a=1 -> s2        d=4 -> s2

         A pair of a and b would be rarer, but not worth another lane and schema for two rows. The
         event a = 1, b = 2, c = 7 shows the word 100 on the lane of c's cells, and has two keys: s1
         passes its tests and matches, s0 fails; s2 is open, and its program decides.
Cost     match O(schemas met + candidates), a cache line each; build O(filings) and a sort.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares, cover_elements, words_of_filing
from index.column_segment import ColumnSegment
from index.columns import EventBatch
from index.kernels.cover import SINGLE_KEYS_MAX, Elements, count_leaves
from index.kernels.key_listing import list_filings, list_predicate_parts, mark_parts
from index.kernels.lanes import ALL_LANES, Lookup
from index.kernels.leaf_tests import mark_negated
from index.kernels.probe import Compiled, Hits
from index.kernels.record_filing import (
    MORE,
    OPEN,
    RECORD_WORDS,
    ROW_SHIFT,
    TESTS,
    LeafTests,
    fill_records,
    new_leaf_tests,
    new_tests,
)
from index.kernels.record_memory import (
    BUCKETS,
    CANDIDATES,
    COUNTS,
    FOR_CANDIDATES,
    FOR_HITS,
    FOR_KEYS,
    HITS,
    KEYS,
    VERIFIED,
    RecordColumns,
    RecordMemory,
    new_record_memory,
    suits,
    with_candidates,
    with_keys,
)
from index.kernels.records import match_groups
from index.kernels.schema_choice import LeafTable
from index.kernels.schemas import TRIPLE_PARTS_MAX
from index.kernels.text_runs import MOST
from index.kernels.word_programs import (
    WordPrograms,
    Writing,
    room_for_programs,
    write_programs,
)
from index.key_filing import check_buckets, file_rows
from index.key_schemas import build_trie, choose_elements
from index.lanes import Expected, build_lanes, expected_shares, leaf_costs, only_used
from index.program import GATE_DEPTH_MAX
from index.spaces import FACET_BITS
from index.text_search import TextSearch
from index.updatable import Updatable
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 16
"""Room for hits at first; later batches get more if those before them needed it."""
SPARE_MAX = 4
"""Memory of earlier calls is kept for so many threads: to clear it anew costs more than to match a
few events."""


class Filing(NamedTuple):
    """What the rows of a segment are filed under, while it is built."""

    lookup: Lookup
    table: LeafTable
    elements: Elements
    residue: NDArray[np.int32]


class RecordTable(ColumnSegment[RecordColumns]):
    """The rows of one segment as records by key."""

    columns_type = RecordColumns

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(columns)
        self._counts = np.zeros(COUNTS, np.int64)
        self._spare: list[RecordMemory] = []
        self._search = TextSearch(columns.texts)
        self._most_room = 0, 1
        """The most room for hits that a call has had to ask for, and its events."""

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Divide the values, choose keys, and write a record for each place a row is filed."""
        filing = _choose(compiled, rows, attribute_count, shares)
        return cls(_file(compiled, filing))

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """The hits of all events, rows ascending, with more room where it runs out."""
        columns = self._columns
        found = self._search.found_in(compiled.predicates, batch)
        texts_of_event = int(found.counts[MOST])
        memory = self._memory_for(batch, texts_of_event, attribute_count)
        event_count = batch.entry_start.size - 1
        room = np.empty(self._room_for(event_count), np.int64)
        hits = Hits(np.zeros(event_count + 1, np.int64), room)
        event = 0
        while event < event_count:
            step = match_groups(columns, compiled, batch, found, memory, hits, event)
            event, reason, wanted = step
            if reason == FOR_KEYS:
                memory = with_keys(memory, wanted)
            elif reason == FOR_CANDIDATES:
                memory = with_candidates(memory, 2 * wanted)
            elif reason == FOR_HITS:
                hit = np.empty(2 * (hits.hit.size + wanted), np.int64)
                hit[: hits.start[event]] = hits.hit[: hits.start[event]]
                hits = hits._replace(hit=hit)
                self._most_room = max(self._most_room, (hit.size, event_count))
        self._counts += memory.counts
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        memory.counts[:] = 0
        if len(self._spare) < SPARE_MAX:
            self._spare.append(memory)
        return hits._replace(hit=hits.hit[: hits.start[-1]])

    def _room_for(self, event_count: int) -> int:
        """Room for the hits of so many events, at the rate of the call that needed most; never more
        than that had, for its events may have been few and unlike others.
        """
        most, events = self._most_room
        seen = min(most, most * event_count // events)
        return max(event_count * HITS_PER_EVENT, seen) + 1

    def _memory_for(
        self, batch: EventBatch, texts_of_event: int, attribute_count: int
    ) -> RecordMemory:
        """Memory that no other thread has: of an earlier call, or new.

        A call that fails does not give its memory back, for words of events may be left in it.
        """
        spare = None
        with suppress(IndexError):
            spare = self._spare.pop()
        if spare is not None and suits(spare, batch, texts_of_event, attribute_count):
            return spare
        return new_record_memory(self._columns, batch, texts_of_event, attribute_count)

    def stats(self) -> dict[str, int]:
        """Sizes of the parts, and what `match` has counted so far."""
        columns = self._columns
        return {
            "residue_count": columns.residue.size,
            "bucket_count": int(np.count_nonzero(columns.table[:, 0])),
            "filing_count": columns.record.size // RECORD_WORDS,
            "schema_count": int(np.count_nonzero(columns.trie.ends)),
            "open_count": int(np.count_nonzero(columns.record[TESTS + 1 :: RECORD_WORDS] & OPEN)),
            "lane_count": int(columns.lanes.first[ALL_LANES]),
            "table_bytes": columns.table.nbytes,
            "record_bytes": columns.record.nbytes,
            "filter_bytes": columns.key_filter.nbytes,
            "element_bytes": sum(part.nbytes for part in columns.elements),
            "probe_count": int(self._counts[KEYS]),
            "bucket_visit_count": int(self._counts[BUCKETS]),
            "verified_count": int(self._counts[VERIFIED]),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the table, the records and the trie."""
        columns = self._columns
        filed = int((columns.table[:, 1] & 0xFFFFFFFF).max(initial=0))
        lines = columns.record.reshape(-1, RECORD_WORDS)
        assert filed <= len(lines), "buckets reach beyond the records"
        last = lines[:filed, TESTS + 1]
        row = (last >> ROW_SHIFT).astype(np.int32)
        check_buckets(columns.table, columns.key_filter, row)
        assert np.isin(row, columns.elements.row).all(), "a row is filed without element"
        assert not np.isin(columns.residue, row).any(), "a row of the residue is filed, too"
        assert np.isin(row, rows).all() and np.isin(columns.residue, rows).all()
        more = lines[:, TESTS + 1] & MORE != 0
        ahead = lines[more, TESTS - 1].astype(np.int64)
        assert np.array_equal(np.sort(ahead), np.arange(filed, len(lines))), "a line is lost"
        trie = columns.trie
        assert np.all(trie.child_node > 0) and np.all(np.diff(trie.child_start) >= 0)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The elements of the row's cover."""
        elements = self._columns.elements
        return words_of_filing(compiled.predicates, vocabulary, elements, row, by_texts=True)


class Herald(Updatable):
    """Keys chosen by cost; any filter."""

    name = "herald"
    paper = ""
    summary = "files each subscription under the keys that cost least, as one cache line of tests"
    segment_type = RecordTable


def _choose(
    compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
) -> Filing:
    """Where each row is filed: conjunctions by cost, other filters under an access cover."""
    programs, predicates = compiled
    leaf_count, _ = count_leaves(programs, rows)
    used = np.flatnonzero(leaf_count)
    negated = np.zeros(leaf_count.size, np.bool_)
    mark_negated(programs, rows, negated)
    lookup, points = build_lanes(predicates, used, leaf_count[used], negated[used], attribute_count)
    lane, part_count = np.zeros(used.size, np.int32), np.zeros(used.size, np.int32)
    parts = np.empty(SINGLE_KEYS_MAX, np.int64)
    list_predicate_parts(compiled, lookup, used, parts, lane, part_count)
    expected = expected_shares(
        compiled, used, leaf_count[used], lookup, points, shares, attribute_count
    )
    table = _leaf_table(lookup, expected, lane, part_count, attribute_count)
    triples = bool(lookup.lanes.part_start[-1] < TRIPLE_PARTS_MAX)
    chosen = choose_elements(compiled, table, rows[_are_conjunctions(compiled, rows)], triples)
    others = np.setdiff1d(rows, chosen.row, assume_unique=True)
    costs = leaf_costs(lookup, expected, part_count)
    covered, residue = cover_elements(programs, predicates, costs, others, 2)
    return Filing(lookup, table, _joined(chosen, covered), residue)


def _are_conjunctions(compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which rows are leaves that must all hold, and at least one."""
    start, code = compiled.programs
    first = start[rows]
    found: NDArray[np.bool_] = start[rows + 1] > first
    found[found] = code[first[found]] >= 0
    return found


def _leaf_table(
    lookup: Lookup,
    expected: Expected,
    lane: NDArray[np.int32],
    part_count: NDArray[np.int32],
    attribute_count: int,
) -> LeafTable:
    lane_of = lookup.lanes.lane_of
    dimension = np.zeros(int(lookup.lanes.first[ALL_LANES]), np.int64)
    known = np.flatnonzero(lane_of)
    dimension[lane_of[known]] = known
    key_lane = lookup.texts.key_lane
    textual = np.flatnonzero(key_lane)
    dimension[key_lane[textual]] = attribute_count + textual << FACET_BITS  # behind all others
    presence = np.ones(dimension.size)
    presence[lane_of[known]] = expected.presence[known >> FACET_BITS]
    presence[key_lane[textual]] = expected.presence[textual]
    return LeafTable(lookup.position, expected.predicate, lane, part_count, dimension, presence)


def _joined(one: Elements, other: Elements) -> Elements:
    """The elements of both, by ascending row, with room for three leaves each."""
    leaf = np.full((one.row.size + other.row.size, 3), -1, np.int32)
    leaf[: one.row.size] = one.leaf
    leaf[one.row.size :, :2] = other.leaf
    row = np.concatenate((one.row, other.row))
    order = np.argsort(row, kind="stable")
    coarse = np.concatenate((one.coarse, other.coarse))
    return Elements(row[order], leaf[order], coarse[order])


def _file(compiled: Compiled, filing: Filing) -> RecordColumns:
    """The records of all elements by key."""
    lookup, table, elements, residue = filing
    lanes = lookup.lanes
    memory = np.zeros((3, SINGLE_KEYS_MAX), np.int64), np.zeros((3, 2), np.int64)
    schemas = np.zeros(3 * elements.row.size, np.int32)
    nothing = np.empty(0, np.uint64), np.empty(0, np.int32), schemas
    total = list_filings(compiled, lookup, elements, table, memory, nothing)
    keys, key_rows = np.empty(total, np.uint64), np.empty(total, np.int32)
    list_filings(compiled, lookup, elements, table, memory, (keys, key_rows, schemas))
    key_filter, slots, bucket_row = file_rows(keys, key_rows)
    part_used = np.zeros((int(lanes.part_start[-1]) >> 6) + 1, np.uint64)
    mark_parts(compiled, lookup, elements, table, memory, part_used, key_filter)
    record = np.empty(bucket_row.size * RECORD_WORDS, np.uint64)
    memory_of_tests = new_leaf_tests(table.share.size), new_tests()
    sources = compiled, lookup, elements, table, bucket_row, memory_of_tests
    lines = fill_records(*sources, record)
    if lines > bucket_row.size:
        record = np.empty(lines * RECORD_WORDS, np.uint64)
        fill_records(*sources, record)
    trie = build_trie(schemas.reshape(-1, 3), int(lanes.first[ALL_LANES]))
    open_rows = _open_rows(record, residue)
    is_residue = np.isin(open_rows, residue, assume_unique=True)
    programs = _programs_of(open_rows, is_residue, compiled, lookup, table, memory_of_tests[0])
    lanes = only_used(lanes, record, programs, schemas)
    filed = lanes, trie, part_used, key_filter, slots, record, residue, elements
    return RecordColumns(*filed, lookup.texts, programs)


def _open_rows(record: NDArray[np.uint64], residue: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows that programs decide, ascending."""
    last = record[TESTS + 1 :: RECORD_WORDS]
    opened = (last[last & OPEN != 0] >> ROW_SHIFT).astype(np.int32)
    return np.union1d(opened, residue).astype(np.int32)


def _programs_of(
    rows: NDArray[np.int32],
    is_residue: NDArray[np.bool_],
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    leaf_tests: LeafTests,
) -> WordPrograms:
    """The programs of those rows over the words of events."""
    if not rows.size:
        nothing = np.empty(0, np.int32), np.empty(0, np.int64)
        return WordPrograms(np.zeros(1, np.int64), *nothing)
    written = WordPrograms(
        rows[:1].astype(np.int64),
        np.empty(int(rows[-1] - rows[0]) + 2, np.int32),
        np.empty(room_for_programs(compiled, rows), np.int64),
    )
    memory = leaf_tests, Writing(*np.zeros((3, GATE_DEPTH_MAX), np.int64))
    count = write_programs(compiled, lookup, table, rows, is_residue, memory, written)
    return written._replace(code=written.code[:count].copy())
