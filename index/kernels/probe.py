"""Probing: the candidates of an event by way of its predicate spaces, and which of them match.

    spaces of an event's values -> keys of one and of two spaces -> rows -> signatures -> verify

Most keys that an event could have are nobody's. Three bit filters, each smaller than the next, let
them go early: spaces that are part of no key, pairs of dimensions that no subscription combines,
keys that are not in the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.event_parts import (
    CANDIDATES,
    HITS,
    PROBES,
    VERIFIED,
    KeyColumns,
    Memory,
    event_parts,
    forget_codes,
)
from index.kernels.filing import dimension_pair
from index.kernels.keys import find_bucket, has_bit, pair_of
from index.kernels.prefetch import prefetch
from index.kernels.signature import SIGNATURE_WORDS, Signed, may_match
from index.kernels.verify import NO, enter_event, holds, leave_event
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS

VERDICT_BITS = 2
"""A hit is row << VERDICT_BITS | verdict, with the verdict of `index.kernels.verify`."""

_PROGRAMS_AHEAD, _PREDICATES_AHEAD, _SETS_AHEAD = 24, 16, 8
_IN = int(PredicateKind.IN)
_PREFETCHED_LEAVES = 8
_FACET_MASK = (1 << FACET_BITS) - 1


class Compiled(NamedTuple):
    """What verification reads."""

    programs: Programs
    predicates: PredicateColumns


class Hits(NamedTuple):
    """Hits of the events so far; those of event e are hit[start[e]:start[e+1]], in any order."""

    start: NDArray[np.int64]  # [n+1]
    hit: NDArray[np.int64]


@leaf
def match_events(
    keys: KeyColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: Memory,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose candidates may not
    fit into `hits` any more, and how many more hits must fit before it is tried again.
    """
    for event in range(first_event, batch.entry_start.size - 1):
        part_count = event_parts(keys, batch, event, memory)
        count = probe(keys, memory, event, part_count, 0)
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
def verify_candidates(
    compiled: Compiled,
    batch: EventBatch,
    memory: Memory,
    hits: Hits,
    event: int,
    candidate_count: int,
) -> None:
    """Append the candidates that hold, or may, to the hits of the event, which have room."""
    hit_count = hits.start[event]
    enter_event(batch, event, memory.scratch.entry_of)
    for place in range(candidate_count):
        prefetch_ahead(compiled, memory.candidate, place, candidate_count)
        row = memory.candidate[place]
        verdict = holds(compiled.programs, compiled.predicates, batch, memory.scratch, row)
        if verdict != NO:
            hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | verdict
            hit_count += 1
    leave_event(batch, event, memory.scratch.entry_of)
    memory.counts[VERIFIED] += candidate_count
    memory.counts[HITS] += hit_count - hits.start[event]
    hits.start[event + 1] = hit_count


@inlined
def add_residue(residue: NDArray[np.int32], memory: Memory, count: int) -> int:
    """Append the rows without key to the candidates, which they are of every event."""
    for place in range(residue.size):
        memory.candidate[count + place] = residue[place]
    return count + residue.size


@inlined
def forget_candidates(memory: Memory, count: int) -> None:
    """Let no row be a candidate of the event at hand, so that it can be tried again."""
    for place in range(count):
        memory.stamp[memory.candidate[place]] = 0


@inlined
def rule_out(keys: KeyColumns, compiled: Compiled, memory: Memory, candidate_count: int) -> int:
    """Keep the candidates whose signature lets them match; returns how many are left."""
    left_count = 0
    for place in range(candidate_count):
        row = memory.candidate[place]
        if may_match(keys.signed, memory.event_mask, row):
            prefetch(compiled.programs.start, row)
            memory.candidate[left_count] = row
            left_count += 1
    return left_count


@inlined
def prefetch_ahead(
    compiled: Compiled, candidate: NDArray[np.int32], place: int, count: int
) -> None:
    """Ask for the program of a later candidate, for the predicates of a nearer one whose program
    has arrived by now, and for the sets of one nearer still.
    """
    start, code, predicates = compiled.programs.start, compiled.programs.code, compiled.predicates
    if place + _PROGRAMS_AHEAD < count:
        prefetch(code, start[candidate[place + _PROGRAMS_AHEAD]])
    if place + _PREDICATES_AHEAD < count:
        row = candidate[place + _PREDICATES_AHEAD]
        for at in range(start[row], min(start[row] + _PREFETCHED_LEAVES, start[row + 1])):
            prefetch(predicates.record, code[at] >> POLARITY_BITS)
    if place + _SETS_AHEAD < count:
        row = candidate[place + _SETS_AHEAD]
        for at in range(start[row], min(start[row] + _PREFETCHED_LEAVES, start[row + 1])):
            number = code[at] >> POLARITY_BITS  # or a word of a gate, which may be any number
            if 0 <= number < predicates.record.size:
                record = predicates.record[number]
                if record["kind"] == _IN:
                    prefetch(predicates.member_number, record["start"])
                    prefetch(predicates.member_mark, record["start"])


@inlined
def probe(keys: KeyColumns, memory: Memory, event: int, part_count: int, count: int) -> int:
    """Append the rows under the event's keys of one and two spaces to the `count` candidates there
    are, each once; returns how many there are now. Changes the order of the event's spaces.
    """
    single, paired = keys.dimensions.single, keys.dimensions.paired
    pair_filter = keys.dimensions.pair_filter
    rows = keys.key_filter, keys.table, keys.bucket_row
    pairable = 0
    for one in range(part_count):
        dimension, part = memory.dimension[one], memory.part[one]
        attribute, facet = dimension >> FACET_BITS, dimension & _FACET_MASK
        if single[attribute] >> facet & 1:
            memory.counts[PROBES] += 1
            count = collect(rows, keys.signed, memory, event, part, count)
        if paired[attribute] >> facet & 1:
            for other in range(pairable):
                earlier = memory.dimension[other]
                if earlier >> FACET_BITS == attribute:
                    break
                if has_bit(pair_filter, dimension_pair(earlier, dimension)):
                    memory.counts[PROBES] += 1
                    key = pair_of(memory.part[other], part)
                    count = collect(rows, keys.signed, memory, event, key, count)
            memory.dimension[pairable], memory.part[pairable] = dimension, part
            pairable += 1
    return count


@inlined
def collect(
    rows: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32]],
    signed: Signed,
    memory: Memory,
    event: int,
    key: np.uint64,
    count: int,
) -> int:
    """Append the rows of a key that are not yet candidates of the event.

    rows   key filter, table and buckets, see KeyColumns
    """
    key_filter, table, bucket_row = rows
    if not has_bit(key_filter, key):
        return count
    start, stop = find_bucket(table, key)
    for at in range(start, stop):
        row = bucket_row[at]
        if memory.stamp[row] != event + 1:
            place = (row - signed.first_row[0]) * SIGNATURE_WORDS
            prefetch(signed.signature, place)
            memory.stamp[row] = event + 1
            memory.candidate[count] = row
            count += 1
    return count
