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
         digest     uint64[filings]                                  index.kernels.digests
         blocks     the records of a dense bucket, by 64             index.kernels.blocks
         texts      prefixes, substrings, expressions and the like   index.texts
         programs   of rows that records leave open                  index.kernels.word_programs
         residue    int32[r]     rows without key, tried on every event
Worked   s0: a = 1 AND b = 2 AND c < 3    s1: a = 1 AND b = 2 AND c > 5    s2: a = 1 OR d = 4
         cells of c: below 3, 3 to 5, above 5

             b=2 -> s0 [c: 001, a: 1]   s1 [c: 100, a: 1]        a=1 -> s2        d=4 -> s2

         A pair of a and b would be rarer, but not worth another lane and schema for two rows. The
         event a = 1, b = 2, c = 7 shows the word 100 on the lane of c's cells, and has two keys: s1
         passes its tests and matches, s0 fails; s2 is open, and its program decides.
Cost     match O(schemas met + candidates): a cache line for each bucket, and one for each row that
         its digest does not rule out; build O(filings) and a sort.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares, words_of_filing
from index.cache_lines import begins_line
from index.column_segment import ColumnSegment
from index.columns import EventBatch
from index.kernels.digests import fill_digests
from index.kernels.lanes import ALL_LANES, WIDE
from index.kernels.probe import Compiled, Hits
from index.kernels.record_filing import (
    MORE,
    OPEN,
    RECORD_WORDS,
    ROW_SHIFT,
    TESTS,
)
from index.kernels.record_memory import (
    BUCKETS,
    CANDIDATES,
    COUNTS,
    DIGESTS,
    DIGESTS_PASSED,
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
from index.kernels.text_runs import MOST
from index.key_filing import check_buckets
from index.record_filing import choose_filing, file_records
from index.text_search import TextSearch
from index.updatable import Updatable
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 16
"""Room for hits at first; later batches get more if those before them needed it."""
SPARE_MAX = 4
"""Memory of earlier calls is kept for so many threads: to clear it anew costs more than to match a
few events."""


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
        filing = choose_filing(compiled, rows, attribute_count, shares)
        return cls(file_records(compiled, filing))

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
        return {
            **self._sizes,
            "probe_count": int(self._counts[KEYS]),
            "bucket_visit_count": int(self._counts[BUCKETS]),
            "digest_count": int(self._counts[DIGESTS]),
            "digest_passed_count": int(self._counts[DIGESTS_PASSED]),
            "verified_count": int(self._counts[VERIFIED]),
            **super().stats(),
        }

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Sizes of the parts; to count them takes a walk over all."""
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
            "digest_bytes": columns.digest.nbytes,
            "filter_bytes": columns.key_filter.nbytes,
            "block_count": columns.blocks.first.size,
            "block_bytes": sum(part.nbytes for part in columns.blocks),
            "element_bytes": sum(part.nbytes for part in columns.elements),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the table, the records and the trie."""
        columns = self._columns
        filed = int((columns.table[:, 1] & 0xFFFFFFFF).max(initial=0))
        lines = columns.record.reshape(-1, RECORD_WORDS)
        assert filed <= len(lines), "buckets reach beyond the records"
        assert begins_line(columns.record) and begins_line(columns.lanes.line), "a line takes two"
        last = lines[:filed, TESTS + 1]
        row = (last >> ROW_SHIFT).astype(np.int32)
        check_buckets(columns.table, columns.key_filter, row)
        assert np.isin(row, columns.elements.row).all(), "a row is filed without element"
        assert not np.isin(columns.residue, row).any(), "a row of the residue is filed, too"
        assert np.isin(row, rows).all() and np.isin(columns.residue, rows).all()
        digest = np.empty(filed, np.uint64)
        fill_digests(columns.record, int(columns.lanes.first[WIDE]), digest)
        assert np.array_equal(columns.digest, digest), "a digest is another record's"
        more = lines[:, TESTS + 1] & MORE != 0
        ahead = lines[more, TESTS - 1].astype(np.int64)
        assert np.array_equal(np.sort(ahead), np.arange(filed, len(lines))), "a line is lost"
        trie = columns.trie
        assert np.all(trie.child_node > 0) and np.all(np.diff(trie.child_start) >= 0)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The elements of the row's cover, and how many events are expected to meet them."""
        elements, met = self._columns.elements, self._columns.met
        words = words_of_filing(compiled.predicates, vocabulary, elements, row, by_texts=True)
        start, stop = np.searchsorted(elements.row, [row, row + 1]).tolist()
        if start == stop:
            return words
        events = 1_000_000 * min(1.0, float(met[start:stop].sum()))
        return f"{words}; {events:,.0f} of 1,000,000 events are expected to meet it"


class Herald(Updatable):
    """Keys chosen by cost; any filter."""

    name = "herald"
    paper = ""
    summary = "files each subscription under the keys that cost least, as one cache line of tests"
    segment_type = RecordTable
