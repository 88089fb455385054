"""Triples: keys of three predicate spaces, for rows that are filed under three access predicates.

The paper always takes two (section 6); with three, fewer rows are candidates of an event, and more
combinations of its spaces are looked up. Most are let go two spaces at a time: pairs of dimensions
and pairs of spaces that begin no key.

    key   pair of (pair of (part, part), part), parts in ascending order of their attributes
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.cover import Elements, LeafCosts
from index.kernels.event_parts import (
    CANDIDATES,
    PROBES,
    KeyColumns,
    Memory,
    event_parts,
    forget_codes,
)
from index.kernels.filing import Parts, dimension_pair, enter_dimension, leaf_parts
from index.kernels.keys import has_bit, pair_of, set_bit
from index.kernels.probe import (
    Compiled,
    Hits,
    add_residue,
    collect,
    forget_candidates,
    probe,
    rule_out,
    verify_candidates,
)
from index.predicates import PredicateColumns
from index.spaces import FACET_BITS, Covers

_FACET_MASK = (1 << FACET_BITS) - 1


class TripleDimensions(NamedTuple):
    """Which dimensions of `a` attributes have keys of three spaces, and what these consist of."""

    tripled: NDArray[np.uint8]  # [a] bits 1 << facet
    pair_filter: NDArray[np.uint64]  # the first two dimensions of keys
    triple_filter: NDArray[np.uint64]  # all three
    prefix_filter: NDArray[np.uint64]  # the first two spaces
    part_filter: NDArray[np.uint64]  # spaces


class TripleColumns(NamedTuple):
    """Rows by keys of three spaces, and the filters in front of them."""

    dimensions: TripleDimensions
    key_filter: NDArray[np.uint64]
    table: NDArray[np.uint64]  # [slots, 2] see index.kernels.keys
    bucket_row: NDArray[np.int32]


class TripleMemory(NamedTuple):
    """The spaces of the event at hand that may be part of a key. Working memory of one thread."""

    dimension: NDArray[np.int64]
    part: NDArray[np.uint64]


@leaf
def list_triples(
    filed: tuple[PredicateColumns, LeafCosts, Covers, Elements],
    memory: tuple[Parts, Parts, Parts],
    dimensions: TripleDimensions,
    listed: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> None:
    """Fill `listed` with (key, row) of every key, and `dimensions` with what they are made of.

    On entry every element has three leaves, of different attributes.
    """
    predicates, costs, covers, elements = filed
    total = 0
    for at in range(elements.row.size):
        coarse = elements.coarse[at]
        low, middle, high = memory
        leaves = elements.leaf
        low_count = leaf_parts(predicates, costs, covers, leaves[at, 0], coarse, low)
        middle_count = leaf_parts(predicates, costs, covers, leaves[at, 1], coarse, middle)
        high_count = leaf_parts(predicates, costs, covers, leaves[at, 2], coarse, high)
        if low_count == 0 or middle_count == 0 or high_count == 0:
            continue
        if low.dimension[0] > middle.dimension[0]:
            low, middle, low_count, middle_count = middle, low, middle_count, low_count
        if middle.dimension[0] > high.dimension[0]:
            middle, high, middle_count, high_count = high, middle, high_count, middle_count
        if low.dimension[0] > middle.dimension[0]:
            low, middle, low_count, middle_count = middle, low, middle_count, low_count
        for first in range(low_count):
            for second in range(middle_count):
                prefix = pair_of(low.part[first], middle.part[second])
                set_bit(dimensions.prefix_filter, prefix)
                for third in range(high_count):
                    listed[0][total] = pair_of(prefix, high.part[third])
                    listed[1][total] = elements.row[at]
                    total += 1
        _enter_parts(dimensions, low, low_count)
        _enter_parts(dimensions, middle, middle_count)
        _enter_parts(dimensions, high, high_count)
        _enter_triples(dimensions, (low, middle, high), (low_count, middle_count, high_count))


@inlined
def _enter_parts(dimensions: TripleDimensions, parts: Parts, count: int) -> None:
    for at in range(count):
        set_bit(dimensions.part_filter, parts.part[at])
        enter_dimension(dimensions.tripled, parts.dimension[at])


@leaf
def _enter_triples(
    dimensions: TripleDimensions, parts: tuple[Parts, Parts, Parts], counts: tuple[int, int, int]
) -> None:
    """Enter the combinations of dimensions; a leaf's spaces lie in one or two of them."""
    low, middle, high = parts
    for first in range(counts[0]):
        if first and low.dimension[first] == low.dimension[first - 1]:
            continue
        for second in range(counts[1]):
            if second and middle.dimension[second] == middle.dimension[second - 1]:
                continue
            pair = dimension_pair(low.dimension[first], middle.dimension[second])
            set_bit(dimensions.pair_filter, pair)
            for third in range(counts[2]):
                if third == 0 or high.dimension[third] != high.dimension[third - 1]:
                    set_bit(dimensions.triple_filter, _with_third(pair, high.dimension[third]))


@inlined
def _with_third(pair: np.uint64, dimension: int) -> np.uint64:
    """The hash of three dimensions from that of the first two."""
    return pair_of(pair, np.uint64(dimension))


@leaf
def match_events_by_triples(
    filed: tuple[KeyColumns, TripleColumns],
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, TripleMemory],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """The same as `index.kernels.probe.match_events`, with keys of three spaces, too."""
    keys, memory = filed[0], memories[0]
    for event in range(first_event, batch.entry_start.size - 1):
        part_count = event_parts(keys, batch, event, memory)
        count = _probe_triples(filed, memories, event, part_count)
        count = probe(keys, memory, event, part_count, count)
        if hits.start[event] + count + keys.residue.size > hits.hit.size:
            forget_candidates(memory, count)
            forget_codes(memory)
            return event, count + keys.residue.size
        memory.counts[CANDIDATES] += count + keys.residue.size
        count = rule_out(keys, compiled, memory, count)
        forget_codes(memory)
        count = add_residue(keys.residue, memory, count)
        verify_candidates(compiled, batch, memory, hits, event, count)
    return batch.entry_start.size - 1, 0


@inlined
def _probe_triples(
    filed: tuple[KeyColumns, TripleColumns],
    memories: tuple[Memory, TripleMemory],
    event: int,
    part_count: int,
) -> int:
    """Fill memory.candidate with the rows under keys of three of the event's spaces, each once;
    returns their number.
    """
    keys, triples = filed
    memory, tripled = memories
    dimensions = triples.dimensions
    size = 0
    for at in range(part_count):
        dimension, part = memory.dimension[at], memory.part[at]
        if dimensions.tripled[dimension >> FACET_BITS] >> (dimension & _FACET_MASK) & 1 == 0:
            continue
        if has_bit(dimensions.part_filter, part):
            tripled.dimension[size], tripled.part[size] = dimension, part
            size += 1
    rows = triples.key_filter, triples.table, triples.bucket_row
    count = 0
    for low in range(size):
        for middle in range(low + 1, size):
            if _attribute(tripled, low) == _attribute(tripled, middle):
                continue
            pair = dimension_pair(tripled.dimension[low], tripled.dimension[middle])
            if not has_bit(dimensions.pair_filter, pair):
                continue
            prefix = pair_of(tripled.part[low], tripled.part[middle])
            if not has_bit(dimensions.prefix_filter, prefix):
                continue
            for high in range(middle + 1, size):
                if _attribute(tripled, middle) == _attribute(tripled, high):
                    continue
                if has_bit(dimensions.triple_filter, _with_third(pair, tripled.dimension[high])):
                    memory.counts[PROBES] += 1
                    key = pair_of(prefix, tripled.part[high])
                    count = collect(rows, keys.signed, memory, event, key, count)
    return count


@inlined
def _attribute(tripled: TripleMemory, at: int) -> int:
    return int(tripled.dimension[at] >> FACET_BITS)
