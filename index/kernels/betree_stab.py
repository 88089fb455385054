"""Stabbing a BE-Tree: which rows may an event satisfy, be it of values or of expressions?

An event is some intervals of keys for each of its attributes: a value is one of a single key. It
meets a bucket that any of them overlaps (algorithms 1 and 2), and a test of an entry that their
hull overlaps. Short keys of an attribute that the event lacks overlap nothing.

    queue     nodes whose bucket the event meets, asked for when they are appended
    visited   their l-nodes, asked for when the node is read
    candidate rows all of whose first tests are met, to be verified
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch
from index.kernels import inlined, leaf
from index.kernels.betree_keys import OTHER_KEY, SHORT_ABSENT, middle_of, short_key, value_keys
from index.kernels.betree_pool import (
    ATTRIBUTE,
    ENTRY_WORDS,
    PARTITION_WORDS,
    ROOT,
    TEST_WORDS,
    TOP,
    Tree,
)
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits, prefetch_ahead
from index.kernels.verify import NO, Scratch, enter_event, holds, leave_event

COUNTS = 4
VISITED, CANDIDATES, VERIFIED, HITS = range(COUNTS)
"""Places in `Memory.counts`: nodes, rows of their l-nodes, rows verified, hits."""

_LAG = 8
"""Nodes read before the directory of the first of them is searched."""
_LEAVES_AHEAD = 8
_DIRECTORY_SCANNED = 4
"""A directory of up to that many times the event's attributes is read from end to end."""
_DISCARDED_MAX = 2**30


class Memory(NamedTuple):
    """Working memory of one call: the intervals of the event at hand, and what they lead to."""

    place: NDArray[np.int32]  # attribute -> its number among the event's, or -1
    hull: NDArray[np.int32]  # [attributes, 2] short keys
    attribute: NDArray[np.int32]  # [m] ascending
    first: NDArray[np.int32]  # [m+1] intervals of the m-th are first[m]..first[m+1]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    queue: NDArray[np.int32]  # [nodes]
    visited: NDArray[np.int32]  # [nodes]
    candidate: NDArray[np.int32]  # [rows]
    counts: NDArray[np.int64]  # [COUNTS]


@leaf
def match_values(
    tree: Tree,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, Scratch],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    memory, scratch = memories
    for event in range(first_event, batch.entry_start.size - 1):
        attribute_count = _enter_values(batch, event, memory)
        candidate_count = _find_candidates(tree, compiled, memory, attribute_count)
        _leave(memory, attribute_count)
        hit_count = hits.start[event]
        if hits.hit.size - hit_count < candidate_count:
            return event, candidate_count
        enter_event(batch, event, scratch.entry_of)
        for at in range(candidate_count):
            prefetch_ahead(compiled, memory.candidate, at, candidate_count)
            row = memory.candidate[at]
            verdict = holds(compiled.programs, compiled.predicates, batch, scratch, row)
            if verdict != NO:
                hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | verdict
                hit_count += 1
        leave_event(batch, event, scratch.entry_of)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@leaf
def stab(
    tree: Tree,
    compiled: Compiled,
    intervals: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    memory: Memory,
) -> int:
    """Fill memory.candidate with the rows whose tests an expression's intervals meet, one interval
    an attribute, attributes ascending; returns their number.
    """
    attribute, low, high = intervals
    count = 0
    for at in range(attribute.size):
        count = _open(memory, attribute[at], count)
        _push(memory, count, low[at], high[at])
        count += 1
    candidate_count = _find_candidates(tree, compiled, memory, count)
    _leave(memory, count)
    return candidate_count


@inlined
def _enter_values(batch: EventBatch, event: int, memory: Memory) -> int:
    """Set the intervals of an event of values; returns how many attributes it has."""
    count = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = batch.entry_attribute[entry]
        if attribute >= memory.place.size:
            continue
        count = _open(memory, attribute, count)
        if batch.entry_flags[entry] & PRESENT:
            for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
                key, other = value_keys(batch, value)
                _push(memory, count, key, key)
                if other != key:
                    _push(memory, count, other, other)
        if memory.first[count + 1] == memory.first[count]:
            _push(memory, count, OTHER_KEY, OTHER_KEY)
        count += 1
    return count


@inlined
def _open(memory: Memory, attribute: int, count: int) -> int:
    """Begin the intervals of the next attribute; `count` is its number, and is returned."""
    if count == 0:
        memory.first[0] = 0
    memory.place[attribute] = count
    memory.attribute[count] = attribute
    memory.first[count + 1] = memory.first[count]
    return count


@inlined
def _push(memory: Memory, count: int, low: int, high: int) -> None:
    """Add an interval to those of attribute number `count`, and to their hull."""
    at = memory.first[count + 1]
    memory.low[at], memory.high[at] = low, high
    memory.first[count + 1] = at + 1
    hull, attribute = memory.hull, memory.attribute[count]
    hull[attribute, 0] = min(hull[attribute, 0], np.int32(short_key(low)))
    hull[attribute, 1] = max(hull[attribute, 1], np.int32(short_key(high)))


@inlined
def _leave(memory: Memory, count: int) -> None:
    """Forget the attributes of the event."""
    for at in range(count):
        attribute = memory.attribute[at]
        memory.place[attribute] = -1
        memory.hull[attribute, 0], memory.hull[attribute, 1] = SHORT_ABSENT, -SHORT_ABSENT


@leaf
def _find_candidates(tree: Tree, compiled: Compiled, memory: Memory, attribute_count: int) -> int:
    """Fill memory.candidate with the rows that the entered event may satisfy."""
    queue, visited = memory.queue, memory.visited
    queue[0] = ROOT
    read, searched, appended, leaf_count = 0, 0, 1, 0
    while searched < appended:
        if read < appended and read - searched < _LAG:
            node = queue[read]
            read += 1
            meets, left, right = _sides(tree, memory, node)
            if not meets:
                queue[read - 1] = -1
                continue
            record = tree.node[node]
            if record["size"] > 0:
                prefetch(tree.entry, record["leaf"] * ENTRY_WORDS)
                visited[leaf_count] = node
                leaf_count += 1
            if record["partition_count"] > 0:
                prefetch(tree.partition, record["partition"] * PARTITION_WORDS)
            for child in (left, right):
                if child >= 0:
                    prefetch(tree.node, child)
                    queue[appended] = child
                    appended += 1
        else:
            node = queue[searched]
            searched += 1
            if node >= 0 and tree.node[node]["partition_count"] > 0:
                appended = _search_directory(tree, memory, node, attribute_count, appended)
    memory.counts[VISITED] += appended
    return _test_entries(tree, compiled, memory, leaf_count)


@inlined
def _sides(tree: Tree, memory: Memory, node: int) -> tuple[bool, int, int]:
    """Does the event meet a bucket, and its children on the sides that it meets, or -1."""
    record = tree.node[node]
    attribute = record["attribute"]
    if attribute < 0:
        return True, -1, -1
    low, high = record["low"], record["high"]
    middle = middle_of(low, high)
    meets, meets_left, meets_right = False, False, False
    number = memory.place[attribute]
    for at in range(memory.first[number], memory.first[number + 1]):
        first, last = memory.low[at], memory.high[at]
        if first <= high and last >= low:
            meets = True
            meets_left = meets_left or first <= middle
            meets_right = meets_right or last > middle
    return meets, record["left"] if meets_left else -1, record["right"] if meets_right else -1


@inlined
def _search_directory(
    tree: Tree, memory: Memory, node: int, attribute_count: int, appended: int
) -> int:
    """Append the top buckets of the p-nodes whose attribute the event has; returns the queue's end.

    A small directory is read from end to end; in a large one each of the event's attributes is
    searched for, the next one beyond the last.
    """
    queue, partition = memory.queue, tree.partition
    start = tree.node[node]["partition"]
    stop = start + tree.node[node]["partition_count"]
    if stop - start <= _DIRECTORY_SCANNED * attribute_count:
        for at in range(start, stop):
            if memory.place[partition[at, ATTRIBUTE]] >= 0:
                prefetch(tree.node, partition[at, TOP])
                queue[appended] = partition[at, TOP]
                appended += 1
        return appended
    for number in range(attribute_count):
        attribute, end = memory.attribute[number], stop
        while start < end:
            middle = (start + end) >> 1
            if partition[middle, ATTRIBUTE] < attribute:
                start = middle + 1
            else:
                end = middle
        if start < stop and partition[start, ATTRIBUTE] == attribute:
            prefetch(tree.node, partition[start, TOP])
            queue[appended] = partition[start, TOP]
            appended += 1
    return appended


@inlined
def _test_entries(tree: Tree, compiled: Compiled, memory: Memory, leaf_count: int) -> int:
    """Append the rows of visited l-nodes whose tests are met to memory.candidate."""
    entry, hull = tree.entry, memory.hull
    count, row_count = 0, 0
    for number in range(leaf_count):
        if number + _LEAVES_AHEAD < leaf_count:
            ahead = tree.node[memory.visited[number + _LEAVES_AHEAD]]
            for line in range(1, min(ahead["size"], 8)):
                prefetch(entry, (ahead["leaf"] + line) * ENTRY_WORDS)
        record = tree.node[memory.visited[number]]
        start, stop, discarded = record["leaf"], record["leaf"] + record["size"], 0
        row_count += stop - start
        for at in range(start, stop):
            met = True
            for word in range(1, ENTRY_WORDS, TEST_WORDS):
                attribute = entry[at, word]
                if attribute < 0:
                    break
                # One branch for both ends: which of them fails cannot be foretold.
                above = hull[attribute, 0] > entry[at, word + 2]
                if above | (hull[attribute, 1] < entry[at, word + 1]):
                    met = False
                    discarded += word // TEST_WORDS + 1
                    break
            if met:
                row = entry[at, 0]
                prefetch(compiled.programs.start, row)
                memory.candidate[count] = row
                count += 1
        record["discarded"] = min(record["discarded"] + discarded, _DISCARDED_MAX)
    memory.counts[CANDIDATES] += row_count
    memory.counts[VERIFIED] += count
    return count
