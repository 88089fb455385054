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
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Access, Shares, choose_access, some_elements, words_of_filing
from index.cache_lines import begins_line, zeros_in_lines
from index.columns import EventBatch
from index.frozen import frozen
from index.kernels.cover import SINGLE_KEYS_MAX, Elements
from index.kernels.event_parts import COUNTS, KeyColumns, Memory, new_memory
from index.kernels.filing import new_parts
from index.kernels.probe import Compiled, Hits, match_events
from index.kernels.signature import (
    SIGNATURE_WORDS,
    SIGNED_LEAVES,
    Signed,
    sign_rows,
)
from index.kernels.triples import TripleColumns, TripleMemory, match_events_by_triples
from index.key_filing import (
    check_buckets,
    file_elements,
    file_triples,
    keys_from_arrays,
    keys_to_arrays,
    triples_from_arrays,
    triples_to_arrays,
)
from index.segment import Segment, Step, collect_hits
from index.spaces import FACET_BITS
from index.updatable import Updatable
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 8
"""Room for hits at first; it grows when the first events need more."""
ELEMENT_NAMES = "single", "pair", "triple"
"""Of elements with one, two and three leaves, in `stats`."""


class KeyTable(Segment):
    """The rows of one segment by key."""

    N: ClassVar[int] = 2
    """Access predicates that a row is filed under at most."""

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
        access = choose_access(*compiled, rows, attribute_count, shares, access_predicates=cls.N)
        signed = _signatures(compiled, access, rows, attribute_count)
        columns = file_elements(compiled, access, attribute_count, signed)
        return cls(columns, access.elements)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Look the events up one after the other, with more room for hits if it runs out."""
        row_count = compiled.programs.start.size - 1
        event_mask = _new_event_mask(self._keys.signed)
        memory = new_memory(batch, attribute_count, row_count, event_mask)
        event_count = batch.entry_start.size - 1
        hits = collect_hits(
            self._step(compiled, batch, memory),
            event_count,
            HITS_PER_EVENT * event_count + self._keys.residue.size,
        )
        self._counts += memory.counts
        return hits

    def _step(self, compiled: Compiled, batch: EventBatch, memory: Memory) -> Step:
        """What `collect_hits` calls."""
        keys = self._keys
        return lambda room, event: match_events(keys, compiled, batch, memory, room, event)

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
        leaf_counts = np.count_nonzero(self._elements.leaf >= 0, axis=1)
        return {
            "residue_count": keys.residue.size,
            "bucket_count": int(np.count_nonzero(keys.table[:, 0])),
            "filing_count": keys.bucket_row.size,
            **{
                f"{name}_key_element_count": int(np.count_nonzero(leaf_counts == count))
                for count, name in enumerate(ELEMENT_NAMES[: self.N], 1)
            },
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
        assert begins_line(keys.signed.signature), "signatures lie across lines"
        check_buckets(keys.table, keys.key_filter, keys.bucket_row)
        assert np.isin(keys.bucket_row, elements.row).all(), "a row is filed without element"
        assert not np.isin(keys.residue, elements.row).any(), "a row of the residue is filed, too"
        assert np.isin(elements.row, rows).all() and np.isin(keys.residue, rows).all()
        assert np.all(np.diff(elements.row) >= 0), "elements are not in the order of rows"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The elements of the row's cover."""
        return words_of_filing(compiled.predicates, vocabulary, self._elements, row)


class SingleKeyTable(KeyTable):
    """Rows by one access predicate."""

    N = 1


class TripleKeyTable(KeyTable):
    """Rows by up to three access predicates: keys of three spaces stand apart from the others."""

    N = 3

    def __init__(self, keys: KeyColumns, elements: Elements, triples: TripleColumns) -> None:
        super().__init__(keys, elements)
        self._triples = triples

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """The same, with rows of three access predicates filed by themselves."""
        access = choose_access(*compiled, rows, attribute_count, shares, access_predicates=cls.N)
        signed = _signatures(compiled, access, rows, attribute_count)
        has_three = access.elements.leaf[:, cls.N - 1] >= 0
        keys, triples = file_triples(
            compiled,
            _only(access, has_three),
            attribute_count,
            file_elements(compiled, _only(access, ~has_three), attribute_count, signed),
        )
        return cls(keys, access.elements, triples)

    def _step(self, compiled: Compiled, batch: EventBatch, memory: Memory) -> Step:
        filed = self._keys, self._triples
        memories = memory, TripleMemory(np.empty_like(memory.dimension), np.empty_like(memory.part))
        return lambda room, event: match_events_by_triples(
            filed, compiled, batch, memories, room, event
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names."""
        return {**super().to_arrays(), **triples_to_arrays(self._triples)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The table that `to_arrays` wrote."""
        elements = Elements(*(arrays[f"element_{name}"] for name in Elements._fields))
        return cls(keys_from_arrays(arrays), elements, triples_from_arrays(arrays))

    def stats(self) -> dict[str, int]:
        """The same, and the sizes of what is filed under three spaces."""
        triples, dimensions = self._triples, self._triples.dimensions
        return {
            **super().stats(),
            "triple_bucket_count": int(np.count_nonzero(triples.table[:, 0])),
            "triple_filing_count": triples.bucket_row.size,
            "triple_table_bytes": triples.table.nbytes + triples.bucket_row.nbytes,
            "triple_filter_bytes": triples.key_filter.nbytes
            + sum(part.nbytes for part in dimensions),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """The same of both tables."""
        super().check(rows)
        triples, leaf = self._triples, self._elements.leaf
        check_buckets(triples.table, triples.key_filter, triples.bucket_row)
        rows_of_three = self._elements.row[leaf[:, self.N - 1] >= 0]
        assert np.isin(triples.bucket_row, rows_of_three).all(), "a row is filed without element"
        dimensions = self._keys.dimensions
        assert not np.any(triples.dimensions.tripled & ~dimensions.asked), "values not looked up"


class PSTHash(Updatable):
    """Two access predicates a subscription; any filter."""

    name = "psthash"
    paper = "Ji, Jacobsen: PS-Tree-based Efficient Boolean Expression Matching. PVLDB 12(3), 2018"
    summary = "files each subscription under pairs of value spaces of two selective predicates"
    segment_type: ClassVar[type[Segment]] = KeyTable


class PSTHash1(PSTHash):
    """One access predicate a subscription; any filter."""

    name = "psthash-1"
    summary = "files each subscription under the value spaces of its most selective predicate"
    segment_type = SingleKeyTable


class PSTHash3(PSTHash):
    """Three access predicates a subscription; any filter."""

    name = "psthash-3"
    summary = "files each subscription under triples of value spaces of three selective predicates"
    segment_type = TripleKeyTable


def _only(access: Access, chosen: NDArray[np.bool_]) -> Access:
    """The same with some of its elements."""
    return replace(access, elements=some_elements(access.elements, chosen))


def _signatures(
    compiled: Compiled, access: Access, rows: NDArray[np.int32], attribute_count: int
) -> Signed:
    first, last = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
    signed = Signed(
        zeros_in_lines((last - first + 1) * SIGNATURE_WORDS, np.uint64),
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
