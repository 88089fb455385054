"""PSTBloom: file each subscription under one predicate; Bloom filters rule out most of the others.

Paper    Ji and Jacobsen, "PS-Tree-based Efficient Boolean Expression Matching for High-Dimensional
         and Dense Workloads", PVLDB 12(3), 2018. Section 3.3 selectivity, 4 predicate spaces, 5
         PSTBloom, Alg. 4 and 5.
Idea     each attribute is cut into disjoint spaces. At a space stand the rows whose access
         predicate, their most selective, covers it, and a Bloom filter of the rows that cover it
         with another predicate. An event lies in one space of each attribute. It tries the rows
         that stand at these; a row is let go as soon as it is missing in the filter of the space
         in which the event lies for one of its other predicates. What is left is verified.
Layout   nodes      uint64[slots, 4]  space -> its runs, its filter, its slot, by linear probing
         run_start  int32[r+1]        rows of run k are run_row[run_start[k]:run_start[k+1]]
         run_slot   int32[r]          what the rows of a run ask for first; ascending at each node
         run_row    int32[f]          rows, ascending in each run
         words      uint64[w]         Bloom filters one after the other, see index.kernels.bloom
         asked      start, slot       row -> the dimensions it asks for, most selective first
         residue    int32[r]          rows without access predicate, tried on every event
         element    (row, leaf)       what each row is filed under
Worked   Figure 3: S1 a<-5 b in 1..5    S2 a in -5..-1 b<1    S3 a in -5..-1 b>5

             a   below -5 {S1}    -5..-1 [S2 S3] {}    above -1 {}       [rows] {filter}
             b   below 1  {S2}     1..5  [S1]    {}    above 5  {S3}

         The event a=-3, b=0 finds S2 and S3 at a -5..-1. Both ask for b; in the filter of the
         space below 1 is S2 and not S3, so only S2 is verified, and matches.
Cost     s spaces of an event's values, c rows at these: match O(s log cuts + c) with one word of a
         filter for each. Build O(p spaces) for p predicates; 32 bytes a node, 8 to 16 bits for each
         space of a predicate, 4 bytes a filing and a predicate. Best where one predicate is rare;
         poor where many rows stand at each space, as in dense workloads.
Differs  The paper names neither size nor number of hashes of its filters; see index.kernels.bloom.
         Rows at a space stand in runs by the dimension that their next most selective predicate
         asks for. An event none of whose spaces there is asked for skips the run; such rows are not
         counted as candidates. Any filter, see index.kernels.cover; only what a conjunction at the
         root demands is in filters. `!=` and others that say nothing of values ask for the presence
         of their attribute, whose filter is one word. A list of numbers and of strings without case
         is only verified. Spaces are rounded outwards, so the access predicate is verified, too.
         There are no counters: nodes do not change, and index.updatable takes care of rows that
         leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares, choose_access, words_of_filing
from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.bloom import may_contain, row_hash
from index.kernels.cover import Elements
from index.kernels.event_parts import (
    CANDIDATES,
    COUNTS,
    HITS,
    PROBES,
    VERIFIED,
    Memory,
    event_parts,
    new_memory,
)
from index.kernels.leaf_nodes import (
    FILTER,
    NODE_FIELDS,
    PART,
    RUNS,
    SIGNED,
    LeafColumns,
    find_node,
    first_lost_node,
    first_unsigned_row,
    node_place,
)
from index.kernels.prefetch import prefetch
from index.kernels.probe import (
    Compiled,
    Hits,
    add_residue,
    forget_candidates,
    verify_candidates,
)
from index.leaf_filing import file_leaves, leaves_from_arrays, leaves_to_arrays
from index.segment import Segment, collect_hits
from index.spaces import FACET_BITS
from index.updatable import Updatable
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 8
"""Room for hits at first; it grows when the first events need more."""
PATHS_MAX = 8
"""Attributes that `filing_of` names."""

_ASKED_AHEAD = 8
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Reached(NamedTuple):
    """The nodes in whose spaces an event's values lie. Working memory of one thread."""

    head: NDArray[np.int32]  # [slots+1] the last node reached of a dimension, or -1
    before: NDArray[np.int32]  # [p] the one before it of the same dimension, or -1
    slot: NDArray[np.int32]  # [p]
    runs: NDArray[np.uint64]  # [p] fields of the node
    filter: NDArray[np.uint64]  # [p]
    skipped: NDArray[np.int64]  # [1] rows in runs that ask for what the event lacks, of all events


class LeafNodes(Segment):
    """The leaf nodes of one segment's attributes."""

    def __init__(self, columns: LeafColumns, elements: Elements) -> None:
        self._columns = columns
        self._elements = elements
        self._counts = np.zeros(COUNTS, np.int64)
        self._skipped_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Choose access predicates, file the rows under them, and enter them in filters."""
        access = choose_access(*compiled, rows, attribute_count, shares, access_predicates=1)
        return cls(file_leaves(compiled, access, rows, attribute_count), access.elements)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Let the events find their nodes one after the other."""
        columns = self._columns
        row_count = compiled.programs.start.size - 1
        memory = new_memory(batch, attribute_count, row_count, np.zeros(1, np.uint64))
        room = memory.part.size
        reached = Reached(
            np.full(columns.dimension_of.size, -1, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.uint64),
            np.empty(room, np.uint64),
            np.zeros(1, np.int64),
        )
        memories = memory, reached
        event_count = batch.entry_start.size - 1
        hits = collect_hits(
            lambda room, event: match_leaves(columns, compiled, batch, memories, room, event),
            event_count,
            HITS_PER_EVENT * event_count + columns.residue.size,
        )
        self._counts += memory.counts
        self._skipped_count += int(reached.skipped[0])
        return hits

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names."""
        elements = {f"element_{name}": part for name, part in self._elements._asdict().items()}
        return {**leaves_to_arrays(self._columns), **elements}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The leaf nodes that `to_arrays` wrote."""
        elements = Elements(*(arrays[f"element_{name}"] for name in Elements._fields))
        return cls(leaves_from_arrays(arrays), elements)

    def stats(self) -> dict[str, int]:
        """Sizes of the parts, and what `match` has counted so far.

        A candidate is a row at a node that an event reaches, once for each such node. Rows of runs
        that ask for an attribute the event lacks are not looked at; they are counted as skipped.
        """
        columns = self._columns
        used = columns.nodes[columns.nodes[:, PART] != 0]
        return {
            "residue_count": columns.residue.size,
            "node_count": len(used),
            "run_count": columns.run_slot.size,
            "filing_count": columns.run_row.size,
            "signed_count": int((used[:, SIGNED] & _LOW).sum()),
            "node_bytes": columns.nodes.nbytes,
            "run_bytes": columns.run_start.nbytes
            + columns.run_slot.nbytes
            + columns.run_row.nbytes,
            "signature_bytes": columns.words.nbytes,
            "asked_bytes": columns.asked_start.nbytes + columns.asked_slot.nbytes,
            "filter_bytes": columns.divisions.dimensions.part_filter.nbytes,
            "space_bytes": sum(part.nbytes for part in columns.divisions.spaces),
            "element_bytes": sum(part.nbytes for part in self._elements),
            "probe_count": int(self._counts[PROBES]),
            "skipped_count": self._skipped_count,
            "candidate_count": int(self._counts[CANDIDATES]),
            "verified_count": int(self._counts[VERIFIED]),
            "hit_count": int(self._counts[HITS]),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the nodes, the runs and the filters."""
        columns, elements = self._columns, self._elements
        used = columns.nodes[columns.nodes[:, PART] != 0]
        assert 5 * len(used) <= 4 * len(columns.nodes), "the table is more than four fifths full"
        assert first_lost_node(columns.nodes) < 0, "a node cannot be found"
        first, stop = _halves_of(used[:, RUNS])
        assert _tile(first, stop, columns.run_slot.size), "nodes share a run, or one has no node"
        start, size = _halves_of(used[:, FILTER])
        assert _tile(start, start + size, columns.words.size), "filters overlap or leave gaps"
        assert np.all(size & (size - 1) == 0), "a filter is no power of two of words"
        assert np.all((size > 0) == (used[:, SIGNED] > 0)), "a filter of no rows, or rows without"
        for node in range(len(used)):
            slots = columns.run_slot[first[node] : stop[node]]
            assert np.all(np.diff(slots) > 0), "runs of a node do not ascend"
        asks_first = np.zeros(columns.asked_start.size - 1, np.int32)
        asks = columns.asked_start[1:] > columns.asked_start[:-1]
        asks_first[asks] = columns.asked_slot[columns.asked_start[:-1][asks]]
        for run, (begin, end) in enumerate(pairwise(columns.run_start)):
            run_rows = columns.run_row[begin:end]
            assert run_rows.size and np.all(np.diff(run_rows) > 0), "rows of a run do not ascend"
            slots = asks_first[run_rows - columns.first_row[0]]
            assert np.all(slots == columns.run_slot[run]), "a row asks for something else first"
        assert np.isin(columns.run_row, elements.row).all(), "a row is filed without element"
        assert not np.isin(columns.residue, elements.row).any(), (
            "a row of the residue is filed, too"
        )
        assert np.isin(elements.row, rows).all() and np.isin(columns.residue, rows).all()
        assert first_unsigned_row(columns) < 0, "a row is in no filter of a dimension it asks for"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The elements of the row's cover, and what it asks for."""
        columns = self._columns
        words = words_of_filing(compiled.predicates, vocabulary, self._elements, row)
        start, stop = columns.asked_start[row - columns.first_row[0] :][:2].tolist()
        dimensions = columns.dimension_of[columns.asked_slot[start:stop]].tolist()
        paths = [".".join(vocabulary.path(one >> FACET_BITS)) for one in dimensions[:PATHS_MAX]]
        return f"{words}, in filters of {', '.join(paths)}" if paths else words


class PSTBloom(Updatable):
    """One access predicate a subscription; any filter."""

    name = "pstbloom"
    paper = "Ji, Jacobsen: PS-Tree-based Efficient Boolean Expression Matching. PVLDB 12(3), 2018"
    summary = "files each subscription under one predicate; Bloom filters of spaces rule rows out"
    segment_type = LeafNodes


def _halves_of(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return (words >> _HALF).astype(np.int64), (words & _LOW).astype(np.int64)


def _tile(start: NDArray[np.int64], stop: NDArray[np.int64], size: int) -> bool:
    """Do these ranges cover 0 to `size`, each place once? Empty ones lie anywhere on the way."""
    order = np.lexsort((stop, start))
    bounds = np.concatenate(([0], stop[order]))
    return np.array_equal(bounds[:-1], start[order]) and int(bounds[-1]) == size


@leaf
def match_leaves(
    columns: LeafColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, Reached],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose candidates may not
    fit into `hits` any more, and how many more hits must fit before it is tried again.
    """
    memory, reached = memories
    for event in range(first_event, batch.entry_start.size - 1):
        part_count = event_parts(columns.divisions, batch, event, memory)
        node_count = _reach(columns, memory, reached, part_count)
        met, skipped = memory.counts[CANDIDATES], reached.skipped[0]
        count = _collect(columns, compiled.programs.start, memory, reached, event, node_count)
        has_room = hits.start[event] + count + columns.residue.size <= hits.hit.size
        if not has_room:
            forget_candidates(memory, count)
            memory.counts[CANDIDATES], reached.skipped[0] = met, skipped
        left_count = _rule_out(columns, memory, reached, count)
        for node in range(node_count):
            reached.head[reached.slot[node]] = -1
        if not has_room:
            return event, count + columns.residue.size
        memory.counts[CANDIDATES] += columns.residue.size
        left_count = add_residue(columns.residue, memory, left_count)
        verify_candidates(compiled, batch, memory, hits, event, left_count)
    return batch.entry_start.size - 1, 0


@inlined
def _reach(columns: LeafColumns, memory: Memory, reached: Reached, part_count: int) -> int:
    """Find the nodes of the event's spaces, chained by dimension; returns their number."""
    nodes = columns.nodes
    for at in range(part_count):
        prefetch(nodes, node_place(nodes, memory.part[at]) * NODE_FIELDS)
    count = 0
    for at in range(part_count):
        place = find_node(nodes, memory.part[at])
        if place < 0:
            continue
        slot = np.int64(nodes[place, SIGNED] >> _HALF)
        reached.slot[count] = slot
        reached.runs[count], reached.filter[count] = nodes[place, RUNS], nodes[place, FILTER]
        if slot > 0:
            reached.before[count] = reached.head[slot]
            reached.head[slot] = count
        count += 1
    memory.counts[PROBES] += count
    return count


@inlined
def _collect(
    columns: LeafColumns,
    program_start: NDArray[np.int64],
    memory: Memory,
    reached: Reached,
    event: int,
    node_count: int,
) -> int:
    """Fill memory.candidate with the rows at the nodes that are in a filter of the dimension they
    ask for first, each once; returns their number.
    """
    count = 0
    for node in range(node_count):
        runs = reached.runs[node]
        for run in range(np.int64(runs >> _HALF), np.int64(runs & _LOW)):
            slot = columns.run_slot[run]
            start, stop = columns.run_start[run], columns.run_start[run + 1]
            asked = reached.head[slot]
            if asked < 0 and slot > 0:
                reached.skipped[0] += stop - start
                continue
            memory.counts[CANDIDATES] += stop - start
            if slot == 0:
                for at in range(start, stop):
                    count = _take(columns, program_start, memory, event, columns.run_row[at], count)
            while asked >= 0:
                first, size = _filter_of(reached, asked)
                for at in range(start, stop):
                    row = columns.run_row[at]
                    if may_contain(columns.words, first, size, row_hash(row)):
                        count = _take(columns, program_start, memory, event, row, count)
                asked = reached.before[asked]
    return count


@inlined
def _take(
    columns: LeafColumns,
    program_start: NDArray[np.int64],
    memory: Memory,
    event: int,
    row: int,
    count: int,
) -> int:
    """Append a row unless it is a candidate already."""
    if memory.stamp[row] == event + 1:
        return count
    memory.stamp[row] = event + 1
    prefetch(columns.asked_start, row - columns.first_row[0])
    prefetch(program_start, row)
    memory.candidate[count] = row
    return count + 1


@inlined
def _filter_of(reached: Reached, node: int) -> tuple[int, int]:
    """The first word of a node's filter, and its words."""
    word = reached.filter[node]
    return int(np.int64(word >> _HALF)), int(np.int64(word & _LOW))


@inlined
def _rule_out(columns: LeafColumns, memory: Memory, reached: Reached, count: int) -> int:
    """Keep the candidates that are in filters of all dimensions they ask for; how many are left."""
    first_row = columns.first_row[0]
    left_count = 0
    for place in range(count):
        if place + _ASKED_AHEAD < count:
            ahead = memory.candidate[place + _ASKED_AHEAD]
            prefetch(columns.asked_slot, columns.asked_start[ahead - first_row])
        row = memory.candidate[place]
        start, stop = columns.asked_start[row - first_row], columns.asked_start[row - first_row + 1]
        value = row_hash(row)
        is_left = True
        for at in range(start + 1, stop):
            if not _is_signed(columns, reached, columns.asked_slot[at], value):
                is_left = False
                break
        if is_left:
            memory.candidate[left_count] = row
            left_count += 1
    return left_count


@inlined
def _is_signed(columns: LeafColumns, reached: Reached, slot: int, value: np.uint64) -> bool:
    """Is a row in the filter of a space of the dimension that the event reaches?"""
    node = reached.head[slot]
    while node >= 0:
        first, size = _filter_of(reached, node)
        if may_contain(columns.words, first, size, value):
            return True
        node = reached.before[node]
    return False
