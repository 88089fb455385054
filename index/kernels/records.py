"""Matching by records: the keys of a group of events, the buckets they lead to, the rows that pass.

    1  words and keys of each event; keys that a filter knows to be nobody's go at once
    2  the bucket of each key, its slot asked for while the next event is read
    3  (bucket, event) pairs by place of the bucket, so that memory is read in sequence, and a
       bucket that several events meet is read once
    4  the tests of each record of a bucket, on each of its events
    5  what passed, event by event: rows ascending, each once; programs decide what is open

An event alone is a group of one, and takes the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.event_words import (
    enter_words,
    forget_parts,
    forget_words,
)
from index.kernels.keys import find_bucket
from index.kernels.lanes import HASHED_LANES, UNTESTED, WIDE, passes_wide
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits, prefetch_ahead
from index.kernels.record_filing import MORE, OPEN, RECORD_WORDS, ROW_SHIFT, SPECIAL, TESTS
from index.kernels.record_memory import (
    BUCKETS,
    CANDIDATES,
    DIGIT_BITS,
    DIGITS,
    FOR_CANDIDATES,
    FOR_HITS,
    FOR_KEYS,
    GROUP_CANDIDATES_MAX,
    HITS,
    KEYS,
    VERIFIED,
    RecordColumns,
    RecordMemory,
)
from index.kernels.schemas import list_event_keys
from index.kernels.verify import NO, YES, enter_event, holds, leave_event
from index.kernels.words import trailing_zeros

_BUCKETS_AHEAD = 12
_INSERTED_MAX = 64
_LANE = np.uint64(0xFFFF)
_LANE_BITS = np.uint64(16)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ROW_MASK = (1 << 33) - 1
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_TWO, _THREE, _FOUR, _FIVE = np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)
_RECORD_WORDS, _LANES, _LAST = np.uint64(RECORD_WORDS), np.uint64(TESTS), np.uint64(TESTS + 1)


@leaf
def match_groups(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: RecordMemory,
    hits: Hits,
    first_event: int,
) -> tuple[int, int, int]:
    """Match from `first_event` on, group by group.

    Returns the event that is next, what there was too little room for, and how much it needs.
    """
    event_count = batch.entry_start.size - 1
    event = first_event
    while event < event_count:
        group, bucket_count = _find_buckets(columns, batch, memory, event)
        if group == 0:
            forget_words(memory.events, columns.lanes.first[HASHED_LANES])
            return event, FOR_KEYS, 2 * memory.key.size
        group, bucket_count, candidates = _close_group(memory, group, bucket_count)
        wanted = candidates + group * columns.residue.size
        if candidates > memory.passed.size or hits.start[event] + wanted > hits.hit.size:
            forget_words(memory.events, columns.lanes.first[HASHED_LANES])
            lacks_hits = candidates <= memory.passed.size
            return event, FOR_HITS if lacks_hits else FOR_CANDIDATES, wanted
        memory.counts[CANDIDATES] += wanted
        memory.counts[BUCKETS] += bucket_count
        _sort_buckets(memory, bucket_count)
        passed = _test_records(columns, memory, bucket_count)
        forget_words(memory.events, columns.lanes.first[HASHED_LANES])
        _order_by_event(memory, group, passed)
        for at in range(group):
            _finish_event(columns, compiled, batch, memory, hits, event + at, at)
        event += group
    return event_count, 0, 0


@leaf
def _find_buckets(
    columns: RecordColumns, batch: EventBatch, memory: RecordMemory, first_event: int
) -> tuple[int, int]:
    """Fill `found` with the buckets of a group of events; returns the events and the buckets.

    There is no event if not even the keys of the first fit.
    """
    event_count = batch.entry_start.size - 1
    group = min(memory.first.size - 1, event_count - first_event)
    count, asked, found = 0, 0, 0
    for at in range(group):
        enter_words(columns.lanes, columns.part_used, batch, first_event + at, at, memory.events)
        before = count
        count = list_event_keys(
            columns.trie,
            columns.key_filter,
            memory.events,
            memory.events.unsure[at],
            memory.key,
            count,
        )
        forget_parts(memory.events)
        if count < 0:
            found = _look_up(columns, memory, asked, before, found)
            return at, found
        for place in range(before, count):
            memory.key_event[place] = at
            slot = np.int64(memory.key[place] >> _HALF) & (columns.table.shape[0] - 1)
            prefetch(columns.table, 2 * slot)
        # The slots of the event before have had time to arrive.
        found = _look_up(columns, memory, asked, before, found)
        asked = before
    memory.counts[KEYS] += count
    return group, _look_up(columns, memory, asked, count, found)


@inlined
def _look_up(
    columns: RecordColumns, memory: RecordMemory, first: int, stop: int, found: int
) -> int:
    """Append the buckets of the keys first..stop; returns how many there are now."""
    for place in range(first, stop):
        start, end = find_bucket(columns.table, memory.key[place])
        memory.found[0, found] = np.uint64(start) << _HALF | np.uint64(end)
        memory.found_event[0, found] = memory.key_event[place]
        found += 1 if end > start else 0
    return found


@leaf
def _close_group(memory: RecordMemory, group: int, bucket_count: int) -> tuple[int, int, int]:
    """The first events of a group that have few enough candidates: events, buckets, candidates."""
    total, kept, at = 0, 0, 0
    while at < bucket_count:
        event = memory.found_event[0, at]
        stop, mine = at, 0
        while stop < bucket_count and memory.found_event[0, stop] == event:
            bounds = memory.found[0, stop]
            mine += int(np.int64((bounds & _LOW) - (bounds >> _HALF)))
            stop += 1
        if total + mine > GROUP_CANDIDATES_MAX and event > 0:
            return int(event), kept, total
        total += mine
        at = kept = stop
    return group, bucket_count, total


@leaf
def _sort_buckets(memory: RecordMemory, count: int) -> None:
    """Sort found[0] by the place of the bucket, events of one ascending: by digits, last first.

    A few are sorted by insertion: counting digits takes longer.
    """
    if count <= _INSERTED_MAX:
        for at in range(1, count):
            bounds, event, place = memory.found[0, at], memory.found_event[0, at], at
            while place > 0 and memory.found[0, place - 1] > bounds:
                memory.found[0, place] = memory.found[0, place - 1]
                memory.found_event[0, place] = memory.found_event[0, place - 1]
                place -= 1
            memory.found[0, place], memory.found_event[0, place] = bounds, event
        return
    highest = _ZERO
    for at in range(count):
        highest |= memory.found[0, at] >> _HALF
    shift = _HALF
    side = 0
    while highest:
        memory.digit[:] = 0
        for at in range(count):
            digit = np.int64(memory.found[side, at] >> shift & np.uint64(DIGITS - 1))
            memory.digit[digit + 1] += 1
        for each in range(DIGITS):
            memory.digit[each + 1] += memory.digit[each]
        for at in range(count):
            digit = np.int64(memory.found[side, at] >> shift & np.uint64(DIGITS - 1))
            place = memory.digit[digit]
            memory.digit[digit] = place + 1
            memory.found[1 - side, place] = memory.found[side, at]
            memory.found_event[1 - side, place] = memory.found_event[side, at]
        side = 1 - side
        shift += np.uint64(DIGIT_BITS)
        highest >>= np.uint64(DIGIT_BITS)
    if side == 1:
        for at in range(count):
            memory.found[0, at] = memory.found[1, at]
            memory.found_event[0, at] = memory.found_event[1, at]


@leaf
def _test_records(columns: RecordColumns, memory: RecordMemory, bucket_count: int) -> int:
    """Fill `passed` with the rows whose records pass; returns how many.

    Places are unsigned where they are used most: numba lets signed ones count from the end, too.
    """
    tested = np.uint64(columns.lanes.first[UNTESTED])
    count, at = 0, 0
    while at < bucket_count:
        bounds = memory.found[0, at]
        stop = at + 1
        while stop < bucket_count and memory.found[0, stop] == bounds:
            stop += 1
        if at + _BUCKETS_AHEAD < bucket_count:
            later = int(np.int64(memory.found[0, at + _BUCKETS_AHEAD] >> _HALF))
            prefetch(columns.record, later * RECORD_WORDS)
            prefetch(columns.record, (later + 1) * RECORD_WORDS)
        for record in range(bounds >> _HALF, bounds & _LOW):
            start = np.uint64(record) * _RECORD_WORDS
            last = columns.record[start + _LAST]
            for place in range(at, stop):
                event = np.uint64(memory.found_event[0, place])
                if last & SPECIAL == _ZERO:
                    passes = _passes(columns.record, memory.events.word, start, event * tested)
                else:
                    passes = _passes_slowly(columns, memory, start, event)
                if passes:
                    is_open = np.int64(memory.events.unsure[event] or last & OPEN != _ZERO)
                    row = np.int64(last >> ROW_SHIFT)
                    memory.passed[count] = np.int64(event) << 33 | row << 1 | is_open
                    count += 1
        at = stop
    return count


@inlined
def _passes(
    record: NDArray[np.uint64], word: NDArray[np.uint64], start: np.uint64, words: np.uint64
) -> bool:
    """Does an event, whose words begin at `words`, pass a record of narrow tests in one line?

    Two tests are made before the first branch, and the other four before the second: a branch that
    is foreseen wrongly costs more than four tests.
    """
    lanes = record[start + _LANES]
    first = word[words + (lanes & _LANE)] & record[start]
    second = word[words + (lanes >> _LANE_BITS & _LANE)] & record[start + _ONE]
    if (first == _ZERO) | (second == _ZERO):
        return False
    lanes >>= _HALF
    first = word[words + (lanes & _LANE)] & record[start + _TWO]
    second = word[words + (lanes >> _LANE_BITS)] & record[start + _THREE]
    lanes = record[start + _LAST]
    third = word[words + (lanes & _LANE)] & record[start + _FOUR]
    fourth = word[words + (lanes >> _LANE_BITS & _LANE)] & record[start + _FIVE]
    return bool((first != _ZERO) & (second != _ZERO) & (third != _ZERO) & (fourth != _ZERO))


@inlined
def _passes_slowly(
    columns: RecordColumns, memory: RecordMemory, start: np.uint64, event: np.uint64
) -> bool:
    """The same for records of any tests and any number of lines."""
    record, word = columns.record, memory.events.word
    first_wide = np.uint64(columns.lanes.first[WIDE])
    words = event * np.uint64(columns.lanes.first[UNTESTED])
    unsure = memory.events.unsure[event]
    while True:
        lanes, last = record[start + _LANES], record[start + _LAST]
        has_more = last & MORE != _ZERO
        for test in range(TESTS):
            if test == 4:
                lanes = last
            elif test == TESTS - 1 and has_more:
                break
            lane = lanes & _LANE
            lanes >>= _LANE_BITS
            shown, operand = word[words + lane], record[start + np.uint64(test)]
            if lane < first_wide:
                if shown & operand == _ZERO:
                    return False
            elif not passes_wide(shown, operand, unsure):
                return False
        if not has_more:
            return True
        start = record[start + _FIVE] * _RECORD_WORDS


@leaf
def _order_by_event(memory: RecordMemory, group: int, count: int) -> None:
    """Fill `by_event` with what passed, event after event, and `first` with their bounds."""
    memory.first[: group + 1] = 0
    for at in range(count):
        memory.first[(memory.passed[at] >> 33) + 1] += 1
    for event in range(group):
        memory.first[event + 1] += memory.first[event]
    for at in range(count):
        event = memory.passed[at] >> 33
        memory.by_event[memory.first[event]] = memory.passed[at] & _ROW_MASK
        memory.first[event] += 1
    for event in range(group, 0, -1):
        memory.first[event] = memory.first[event - 1]
    memory.first[0] = 0


@leaf
def _finish_event(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: RecordMemory,
    hits: Hits,
    event: int,
    at: int,
) -> None:
    """Append the hits of an event, the group's number `at`; there is room for them."""
    start, stop = memory.first[at], memory.first[at + 1]
    for place in range(columns.residue.size):
        _see(memory, int(columns.residue[place]) << 1 | 1)
    for place in range(start, stop):
        _see(memory, int(memory.by_event[place]))
    count, open_count = _take_seen(memory)
    if open_count:
        _run_programs(compiled, batch, memory, event, open_count)
    hit = hits.start[event]
    for place in range(count):
        hits.hit[hit] = np.int64(memory.row[place]) << VERDICT_BITS | memory.verdict[place]
        hit += 1 if memory.verdict[place] != NO else 0
    memory.counts[HITS] += hit - hits.start[event]
    hits.start[event + 1] = hit


@inlined
def _run_programs(
    compiled: Compiled, batch: EventBatch, memory: RecordMemory, event: int, open_count: int
) -> None:
    """Decide the open rows of an event."""
    enter_event(batch, event, memory.scratch.entry_of)
    for at in range(open_count):
        prefetch_ahead(compiled, memory.open_row, at, open_count)
        row = memory.open_row[at]
        verdict = holds(compiled.programs, compiled.predicates, batch, memory.scratch, row)
        memory.verdict[memory.open_place[at]] = verdict
    leave_event(batch, event, memory.scratch.entry_of)
    memory.counts[VERIFIED] += open_count


@inlined
def _see(memory: RecordMemory, found: int) -> None:
    """Note a row, given as row << 1 | is open."""
    word, bit = found >> 7, _ONE << np.uint64(found >> 1 & 63)
    memory.seen[word] |= bit
    if found & 1:
        memory.open[word] |= bit
    memory.any[word >> 6] |= _ONE << np.uint64(word & 63)


@inlined
def _take_seen(memory: RecordMemory) -> tuple[int, int]:
    """Fill `row` with the rows seen, ascending, and list the open ones: how many of both."""
    count = open_count = 0
    for upper in range(memory.any.size):
        words = memory.any[upper]
        memory.any[upper] = _ZERO
        while words:
            word = upper << 6 | trailing_zeros(words)
            words &= words - _ONE
            rows, is_open = memory.seen[word], memory.open[word]
            memory.seen[word] = _ZERO
            memory.open[word] = _ZERO
            while rows:
                bit = trailing_zeros(rows)
                rows &= rows - _ONE
                row = word << 6 | bit
                memory.row[count] = row
                memory.verdict[count] = YES
                memory.open_row[open_count] = row
                memory.open_place[open_count] = count
                open_count += 1 if is_open >> np.uint64(bit) & _ONE else 0
                count += 1
    return count, open_count
