"""PSTHash: file each subscription under two selective predicates at once, by their value spaces.

Paper    Ji and Jacobsen, "PS-Tree-based Efficient Boolean Expression Matching for High-Dimensional
         and Dense Workloads", PVLDB 12(3), 2018. Section 3.3 selectivity, 4 predicate spaces, 5
         PSTBloom, 6 PSTHash, Alg. 6 and 7.
Idea     a conjunction can only hold where two chosen predicates hold, its access predicates. Each
         covers some disjoint spaces of its attribute, and the row is filed under every pair of
         them. An event lies in one space per attribute; looking up all pairs of its spaces finds
         every row whose access predicates it satisfies. Only those candidates are verified.
Layout   space, see index.spaces -> part, a 64-bit hash -> key, one part or two mixed
             table    uint64[slots, 2]   key | start, stop     up to 4/5 full, linear probing
             bucket   int32[k]           rows, ascending in each bucket
             filters  uint64[...]        of parts, of pairs of dimensions, of keys
             residue  int32[r]           rows without key, tried on every event
             signature uint64[n, 4]      what else must hold, see index.kernels.signature
         element  (row, leaf, leaf or -1)                      what each row is filed under
Worked   Figure 4: S1 a=1 b=-1 c<0    S2 a=1 b=-1 c>0    S3 a=1 b<-1 c=0    S4 a<1 b=-1 c=0

             a=1, b=-1 -> S1 S2        a=1, c=0 -> S3        b=-1, c=0 -> S4

         The event a=1, b=-1, c=2 lies in the spaces a=1, b=-1 and the cell c>0, so three keys are
         looked up; the first finds S1 and S2. The signature of S1 asks for the cell c<0, so only
         S2 is verified, and matches (tests/golden/psthash.json).
Cost     s spaces of an event's values, c candidates: match O(s log cuts + s**2 + c). Build O(keys)
         and a sort of them; 16 bytes a slot and 4 a filing. Best where two predicates together are
         rare; poor where every one is met by most events, as `!=` or CONTAINS are.
Differs  Any filter, not only conjunctions: index.kernels.cover finds access covers of trees, where
         an OR files its row under all its children. Leaves that say nothing of values, such as `!=`
         or LIKE '%x', are filed under the presence of their attribute. A row too small for two
         access predicates has one, as in PSTBloom (section 5). PSTBloom's signatures are here for
         every row, as masks of codes in one cache line (with them, 100,000 subscriptions to flights
         take 10 µs an event, and 50 µs without). Selectivity is a number, not only a rank of
         operators. A row with too many keys is filed under fewer, wider spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Access, Shares, choose_access, words_of_leaf
from index.columns import EventBatch
from index.frozen import frozen
from index.kernels.cover import SINGLE_KEYS_MAX, Elements
from index.kernels.event_parts import COUNTS, KeyColumns, Memory
from index.kernels.filing import new_parts
from index.kernels.keys import first_lost_key
from index.kernels.probe import Compiled, Hits, match_events
from index.kernels.signature import (
    SIGNATURE_WORDS,
    SIGNED_LEAVES,
    Signed,
    sign_rows,
)
from index.kernels.verify import new_scratch
from index.key_filing import file_elements, keys_from_arrays, keys_to_arrays
from index.segment import Segment, collect_hits
from index.spaces import FACET_BITS
from index.updatable import Updatable
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 8
"""Room for hits at first; it grows when the first events need more."""


class KeyTable(Segment):
    """The rows of one segment by key."""

    def __init__(self, keys: KeyColumns, elements: Elements) -> None:
        self._keys = frozen(keys)
        self._elements = frozen(elements)
        self._counts = np.zeros(COUNTS, np.int64)

    @classmethod
    def build(
        cls,
        compiled: Compiled,
        rows: NDArray[np.int32],
        attribute_count: int,
        shares: Shares,
    ) -> Self:
        """Choose access covers, list their keys, and sort the rows by them."""
        access = choose_access(*compiled, rows, attribute_count, shares)
        signed = _signatures(compiled, access, rows, attribute_count)
        columns = file_elements(compiled, access, attribute_count, signed)
        return cls(columns, access.elements)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Look the events up one after the other, with more room for hits if it runs out."""
        keys = self._keys
        row_count = compiled.programs.start.size - 1
        value_at = batch.value_start[batch.entry_start]
        part_count = int((2 * np.diff(batch.entry_start) + 3 * np.diff(value_at)).max(initial=0))
        memory = Memory(
            new_scratch(attribute_count),
            np.empty(part_count, np.int64),
            np.empty(part_count, np.uint64),
            np.zeros(row_count, np.int32),
            np.empty(row_count, np.int32),
            _new_event_mask(keys.signed),
            np.empty(part_count, np.int32),
            np.zeros(COUNTS, np.int64),
        )
        event_count = batch.entry_start.size - 1
        hits = collect_hits(
            lambda room, event: match_events(keys, compiled, batch, memory, room, event),
            event_count,
            HITS_PER_EVENT * event_count + keys.residue.size,
        )
        self._counts += memory.counts
        return hits

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names."""
        elements = {f"element_{name}": part for name, part in self._elements._asdict().items()}
        return {**keys_to_arrays(self._keys), **elements}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The table that `to_arrays` wrote."""
        elements = Elements(*(arrays[f"element_{name}"] for name in Elements._fields))
        return cls(keys_from_arrays(arrays), elements)

    def stats(self) -> dict[str, int]:
        """Sizes of the parts, and what `match` has counted so far."""
        keys = self._keys
        probes, candidates, verified, hits, _ = self._counts.tolist()
        return {
            "residue_count": keys.residue.size,
            "bucket_count": int(np.count_nonzero(keys.table[:, 0])),
            "filing_count": keys.bucket_row.size,
            "single_key_element_count": int(np.count_nonzero(self._elements.second < 0)),
            "pair_key_element_count": int(np.count_nonzero(self._elements.second >= 0)),
            "table_bytes": keys.table.nbytes + keys.bucket_row.nbytes,
            "filter_bytes": keys.key_filter.nbytes
            + keys.dimensions.part_filter.nbytes
            + keys.dimensions.pair_filter.nbytes,
            "signature_bytes": sum(part.nbytes for part in keys.signed),
            "space_bytes": sum(part.nbytes for part in keys.spaces),
            "element_bytes": sum(part.nbytes for part in self._elements),
            "probe_count": probes,
            "candidate_count": candidates,
            "verified_count": verified,
            "hit_count": hits,
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the table, the buckets and the filters."""
        keys, elements = self._keys, self._elements
        used = keys.table[keys.table[:, 0] != 0]
        assert 5 * len(used) <= 4 * len(keys.table), "the table is more than four fifths full"
        assert len(np.unique(used[:, 0])) == len(used), "a key has two slots"
        assert first_lost_key(keys.table, keys.key_filter) < 0, "a key cannot be found"
        filed = 0
        for key, bounds in used.tolist():
            start, stop = bounds >> 32, bounds & 0xFFFFFFFF
            assert start < stop, f"key {key} has no rows"
            bucket = keys.bucket_row[start:stop]
            assert np.all(np.diff(bucket) > 0), f"rows of key {key} do not ascend"
            filed += stop - start
        assert filed == keys.bucket_row.size, "buckets overlap or leave gaps"
        assert np.isin(keys.bucket_row, elements.row).all(), "a row is filed without element"
        assert not np.isin(keys.residue, elements.row).any(), "a row of the residue is filed, too"
        assert np.isin(elements.row, rows).all() and np.isin(keys.residue, rows).all()
        assert np.all(np.diff(elements.row) >= 0), "elements are not in the order of rows"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The elements of the row's cover."""
        elements = self._elements
        start, stop = np.searchsorted(elements.row, [row, row + 1]).tolist()
        if start == stop:
            return "under no key: it is tried on every event"
        words = []
        for at in range(start, stop):
            leaves = [leaf for leaf in (elements.first[at], elements.second[at]) if leaf >= 0]
            texts = [
                words_of_leaf(compiled.predicates, vocabulary, int(leaf), bool(elements.coarse[at]))
                for leaf in leaves
            ]
            words.append(" with ".join(sorted(texts)))
        return "under " + ", or ".join(words)


class PSTHash(Updatable):
    """Two access predicates a subscription; any filter."""

    name = "psthash"
    paper = "Ji, Jacobsen: PS-Tree-based Efficient Boolean Expression Matching. PVLDB 12(3), 2018"
    summary = "files each subscription under pairs of value spaces of two selective predicates"
    segment_type = KeyTable


def _signatures(
    compiled: Compiled, access: Access, rows: NDArray[np.int32], attribute_count: int
) -> Signed:
    first, last = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
    signed = Signed(
        np.zeros((last - first + 1) * SIGNATURE_WORDS, np.uint64),
        np.array([first]),
        np.zeros(attribute_count << FACET_BITS, np.uint16),
        np.zeros(attribute_count, np.uint8),
    )
    filed = access.spaces, access.covers, access.costs, access.elements
    chosen = np.zeros(SIGNED_LEAVES, np.int32), np.zeros(SIGNED_LEAVES)
    sign_rows(
        (compiled.programs, compiled.predicates),
        filed,
        rows,
        signed,
        new_parts(SINGLE_KEYS_MAX),
        chosen,
    )
    return signed


def _new_event_mask(signed: Signed) -> NDArray[np.uint64]:
    event_mask = np.zeros(int(signed.slot_of.max(initial=0)) + 1, np.uint64)
    event_mask[0] = ~np.uint64(0)
    return event_mask
