"""Profile vectors: sets of rows found attribute by attribute, joined by AND, block after block.

Each attribute an event has leads to a set of rows; rows that do not name the attribute pass. What
passes all of an event's attributes names none that the event lacks, or does not match. A block
meets all events before the next one does, so that its trees stay in the cache.

    block 0    places whose pivot the event has   1 1 1 1 0 0
               a = 3: found or not named          1 0 1 1 1 0
               b = 7: found or not named          1 1 0 1 1 1
               left                               1 0 0 1 0 0      each is settled
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch
from index.kernels import inlined, leaf
from index.kernels.ordered_domains import (
    CANDIDATES,
    COUNTS,
    DOMAIN_KINDS,
    EVALUATIONS,
    HITS,
    Asked,
    Points,
    order_of,
    side_of,
)
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.kernels.words import trailing_zeros

WORD_BITS = 6
BLOCK_WORDS = 64
BLOCK_ROWS = BLOCK_WORDS << WORD_BITS
"""A vector has a bit for each row of a block, so memory grows with rows times this."""

_ALL, _NONE, _ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(1)


class Searches(NamedTuple):
    """The search trees of t domains: k keys, then l leaves, then c pieces of domains."""

    root: NDArray[np.int32]  # [t] number of a key's node, or ~ number of a leaf
    key: NDArray[np.int32]  # [k] end point: what lies before it is left
    child: NDArray[np.int32]  # [2k] left and right, as roots
    leaf_start: NDArray[np.int32]  # [l+1] the pieces of a leaf; leaves of a tree from left to right
    first: NDArray[np.int32]  # [c] elementary intervals that a piece has
    last: NDArray[np.int32]  # [c] if more than one, its set may match and its leaf has no other


class Sets(NamedTuple):
    """The rows found in each of c pieces: few as a list of places in their block, else a vector."""

    size: NDArray[np.int32]  # [c] of a list, or -1
    at: NDArray[np.int64]  # [c] where it begins in `member`, or in `vector`
    member: NDArray[np.uint16]
    vector: NDArray[np.uint64]


class Named(NamedTuple):
    """Which rows name which attributes; a mention is of an attribute by some rows of a block."""

    rank: NDArray[np.int32]  # [a] attributes from rare to common
    kinds: NDArray[np.uint8]  # [a] kinds of trees that the attribute has, as bits
    pivot: NDArray[np.int32]  # [a+1] rank -> the places whose rarest attribute it is
    mention: NDArray[np.int32]  # [blocks * a] block, rank -> mention, or -1
    tree: NDArray[np.int32]  # [m * DOMAIN_KINDS] trees of a mention, or -1
    vector: NDArray[np.uint64]  # [m * BLOCK_WORDS] rows of a mention
    names: NDArray[np.int64]  # [n+1] place -> its attributes
    name: NDArray[np.int32]


class VectorColumns(NamedTuple):
    """The trees of n rows in blocks."""

    points: Points
    searches: Searches
    sets: Sets
    named: Named
    row: NDArray[np.int32]  # [n] place -> row


class VectorMemory(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    asked: Asked  # what is searched for, of the whole batch
    left: NDArray[np.uint64]  # [BLOCK_WORDS] rows of the block that can still match the event
    found: NDArray[np.uint64]  # [BLOCK_WORDS]
    counts: NDArray[np.int64]  # [COUNTS]


def new_vector_memory(asked: Asked, attribute_count: int) -> VectorMemory:
    """Memory for a batch."""
    return VectorMemory(
        new_scratch(attribute_count),
        asked,
        np.zeros(BLOCK_WORDS, np.uint64),
        np.zeros(BLOCK_WORDS, np.uint64),
        np.zeros(COUNTS, np.int64),
    )


@leaf
def join_blocks(
    columns: VectorColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: VectorMemory,
    hits: Hits,
    first_turn: int,
) -> tuple[int, int]:
    """Let blocks meet events, from `first_turn` on: turn b * events + e is block b's with event e.

    Returns (number of turns, 0), or the turn whose hits may not fit any more, and how many must.
    """
    asked, scratch = memory.asked, memory.scratch
    event_count = asked.start.size - 1
    hit_count = hits.start[first_turn]
    for turn in range(first_turn, hits.start.size - 1):
        if hits.hit.size - hit_count < BLOCK_ROWS:
            return turn, BLOCK_ROWS
        block, event = turn // event_count, turn % event_count
        low, high, doubt = _join(columns, batch, memory, block, event)
        if low < high:
            enter_event(batch, event, scratch.entry_of)
            words = block * BLOCK_WORDS, low, high
            hit_count = _settle(columns, compiled, batch, memory, hits, (words, doubt, hit_count))
            leave_event(batch, event, scratch.entry_of)
        memory.counts[HITS] += hit_count - hits.start[turn]
        hits.start[turn + 1] = hit_count
    return hits.start.size - 1, 0


@inlined
def _join(
    columns: VectorColumns, batch: EventBatch, memory: VectorMemory, block: int, event: int
) -> tuple[int, int, bool]:
    """Fill memory.left with the rows of a block that pass all attributes of an event.

    Returns (low, high, doubt): only words low..high are filled, and whether some may not match.
    """
    asked, named, left = memory.asked, columns.named, memory.left
    doubt = False
    stop = asked.start[event + 1]
    begin, others, low, high = _begin(columns, asked, block, event, left)
    # Pivots first, for they leave few rows, and then from common to rare.
    for step in range(stop - begin):
        if low == high:
            break
        at = begin + step
        if at >= others:
            at = stop - 1 - (at - others)
        mention = named.mention[block * named.kinds.size + asked.rank[at]]
        if mention < 0:
            continue
        doubt |= _find(columns, batch, memory, mention, at, (low, high))
        for word in range(low, high):
            left[word] &= memory.found[word]
        while low < high and left[low] == _NONE:
            low += 1
        while low < high and left[high - 1] == _NONE:
            high -= 1
    return low, high, doubt


@inlined
def _begin(
    columns: VectorColumns, asked: Asked, block: int, event: int, left: NDArray[np.uint64]
) -> tuple[int, int, int, int]:
    """Let the rows be left whose pivot is asked for. Returns (begin, others, low, high): attributes
    from `begin` on are asked of this block, from `others` on none is a pivot of it, and only words
    low..high of `left` are filled.
    """
    pivot = columns.named.pivot
    first_place = block * BLOCK_ROWS
    stop_place = min(first_place + BLOCK_ROWS, columns.row.size)
    begin, stop = int(asked.start[event]), int(asked.start[event + 1])
    while begin < stop and pivot[asked.rank[begin] + 1] <= first_place:
        begin += 1
    others = begin
    low, high = BLOCK_WORDS, 0
    while others < stop and pivot[asked.rank[others]] < stop_place:
        start = max(int(pivot[asked.rank[others]]), first_place) - first_place
        end = min(int(pivot[asked.rank[others] + 1]), stop_place) - first_place
        others += 1
        if start < end:
            first, last = start >> WORD_BITS, (end - 1) >> WORD_BITS
            low = min(low, first)
            while high <= last:
                left[high] = _NONE
                high += 1
            for word in range(first, last + 1):
                bits = _ALL
                if word == first:
                    bits &= _ALL << np.uint64(start & 63)
                if word == last:
                    bits &= _ALL >> np.uint64(~(end - 1) & 63)
                left[word] |= bits
    return begin, others, min(low, high), high


@inlined
def _find(
    columns: VectorColumns,
    batch: EventBatch,
    memory: VectorMemory,
    mention: int,
    at: int,
    words: tuple[int, int],
) -> bool:
    """Fill words of `found` with the rows that pass what is asked at[..] of a mention's attribute.

    Returns whether some of them may not match.
    """
    named, asked, found = columns.named, memory.asked, memory.found
    low, high = words
    doubt = False
    for word in range(low, high):
        found[word] = ~named.vector[mention * BLOCK_WORDS + word]
    for probe in range(asked.probe_start[at], asked.probe_start[at + 1]):
        tree = named.tree[mention * DOMAIN_KINDS + asked.probes.kind[probe]]
        if tree < 0:
            continue
        piece = _find_piece(columns, tree, batch, memory, probe)
        if piece < 0:
            continue
        doubt |= columns.searches.first[piece] < columns.searches.last[piece]
        size, start = columns.sets.size[piece], columns.sets.at[piece]
        if size < 0:
            for word in range(low, high):
                found[word] |= columns.sets.vector[start + word]
        for member in range(start, start + size):
            local = np.uint64(columns.sets.member[member])
            found[local >> np.uint64(WORD_BITS)] |= _ONE << (local & np.uint64(63))
    return doubt


@inlined
def _find_piece(
    columns: VectorColumns, tree: int, batch: EventBatch, memory: VectorMemory, probe: int
) -> int:
    """The piece of a domain that a probe lies in, or -1 if that has no rows."""
    points, searches, probes = columns.points, columns.searches, memory.asked.probes
    evaluations = 0
    node = searches.root[tree]
    while node >= 0:
        evaluations += 1
        side = order_of(points, searches.key[node], batch, probes, probe) >= 0
        node = searches.child[2 * node + side]
    low, high = int(searches.leaf_start[~node]), int(searches.leaf_start[~node + 1])
    piece = -1
    if low < high and searches.first[low] < searches.last[low]:
        piece, high = low, low
    while low < high:
        evaluations += 1
        middle = (low + high - 1) >> 1
        order = side_of(points, tree, searches.first[middle], batch, probes, probe)
        if order < 0:
            high = middle
        elif order > 0:
            low = middle + 1
        else:
            piece, high = middle, low
    memory.counts[EVALUATIONS] += evaluations
    return piece


@leaf
def _settle(
    columns: VectorColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: VectorMemory,
    hits: Hits,
    at: tuple[tuple[int, int, int], bool, int],
) -> int:
    """Append the rows left that match; returns the hits so far."""
    (first_word, low, high), doubt, hit_count = at
    for word in range(low, high):
        bits = memory.left[word]
        while bits != _NONE:
            place = (first_word + word) << WORD_BITS | trailing_zeros(bits)
            bits &= bits - _ONE
            memory.counts[CANDIDATES] += 1
            row = columns.row[place]
            if doubt:
                holds = _leaves_hold(compiled, batch, memory, row)
            else:
                holds = _has_all(columns.named, batch, memory.scratch, place)
            if holds:
                hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | YES
                hit_count += 1
    return hit_count


@inlined
def _has_all(named: Named, batch: EventBatch, scratch: Scratch, place: int) -> bool:
    """Has the event all attributes that a row names?"""
    for at in range(named.names[place], named.names[place + 1]):
        entry = scratch.entry_of[named.name[at]]
        if entry < 0 or batch.entry_flags[entry] & PRESENT == 0:
            return False
    return True


@inlined
def _leaves_hold(compiled: Compiled, batch: EventBatch, memory: VectorMemory, row: int) -> bool:
    """Do all leaves of a row hold? They are tested one by one up to the first that does not."""
    programs = compiled.programs
    for at in range(programs.start[row], programs.start[row + 1]):
        memory.counts[EVALUATIONS] += 1
        if leaf_holds(compiled.predicates, programs.code[at], batch, memory.scratch) != YES:
            return False
    return True
