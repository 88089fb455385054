"""Matching by records: the keys of a group of events, the buckets they lead to, the rows that pass.

    1  words and keys of each event; keys that a filter knows to be nobody's go at once
    2  the bucket of each key, its slot asked for some keys ahead
    3  (bucket, event) pairs by place of the bucket, so that memory is read in sequence, and a
       bucket that several events meet is read once
    4  the records of each bucket that pass by their digests, with each of its events; blocks of
       records at once where a bucket is dense
    5  the tests of each record, asked for some records ahead
    6  what passed of each event, sorted by row, each once; programs decide what is open

An event alone is a group of one, and takes the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.candidates import list_candidates
from index.kernels.event_memory import forget_parts, forget_words
from index.kernels.event_texts import enter_texts
from index.kernels.event_words import enter_words
from index.kernels.keys import find_bucket, first_slot
from index.kernels.lanes import UNTESTED, WIDE, passes_wide
from index.kernels.prefetch import prefetch
from index.kernels.probe import Compiled, Hits
from index.kernels.radix import sort_words
from index.kernels.record_filing import MORE, OPEN, RECORD_WORDS, ROW_SHIFT, SPECIAL, TESTS
from index.kernels.record_hits import finish_group
from index.kernels.record_memory import (
    BUCKETS,
    CANDIDATES,
    FOR_CANDIDATES,
    FOR_HITS,
    FOR_KEYS,
    GROUP_CANDIDATES_MAX,
    KEYS,
    RecordColumns,
    RecordMemory,
)
from index.kernels.schemas import list_event_keys
from index.kernels.text_runs import TextMemory
from index.kernels.words import bits_below

_KEYS_AHEAD, _RECORDS_AHEAD = 16, 24
_LANE = np.uint64(0xFFFF)
_LANE_BITS = np.uint64(16)
_LAST_LANE = np.uint64(48)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_TWO, _THREE, _FOUR, _FIVE = np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)
_RECORD_WORDS, _LANES, _LAST = np.uint64(RECORD_WORDS), np.uint64(TESTS), np.uint64(TESTS + 1)


@leaf
def match_groups(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    found: TextMemory,
    memory: RecordMemory,
    hits: Hits,
    first_event: int,
) -> tuple[int, int, int]:
    """Match from `first_event` on, group by group; `found` has what holds of the batch's strings.

    Returns the event that is next, what there was too little room for, and how much it needs.
    """
    event_count = batch.entry_start.size - 1
    event, most = first_event, memory.met.size
    while event < event_count:
        group, bucket_count = _find_buckets(columns, batch, found, memory, event, most)
        if group == 0:
            forget_words(memory.events, columns.lanes)
            return event, FOR_KEYS, 2 * memory.key.size
        asked = group
        residue_count = columns.residue.size
        group, bucket_count, wanted = _close_group(memory, group, bucket_count, residue_count)
        # The keys of events that do not fit are looked for again: ask for fewer.
        most = min(2 * group if group == asked else group + group // 4 + 1, memory.met.size)
        # One more is written where it is not known beforehand whether a row counts.
        if wanted >= memory.open_row.size:
            forget_words(memory.events, columns.lanes)
            return event, FOR_CANDIDATES, wanted + 1
        _sort_buckets(columns, memory, bucket_count)
        _test_candidates(columns, memory, list_candidates(columns, memory, bucket_count))
        room = group * residue_count
        for at in range(group):
            room += memory.stop[at] - memory.start[at]
        if hits.start[event] + room >= hits.hit.size:
            forget_words(memory.events, columns.lanes)
            return event, FOR_HITS, room + 1
        memory.counts[CANDIDATES] += wanted
        memory.counts[BUCKETS] += bucket_count
        finish_group(columns, compiled, batch, memory, hits, (event, group))
        forget_words(memory.events, columns.lanes)
        event += group
    return event_count, 0, 0


@leaf
def _find_buckets(
    columns: RecordColumns,
    batch: EventBatch,
    found: TextMemory,
    memory: RecordMemory,
    first_event: int,
    most: int,
) -> tuple[int, int]:
    """Fill `found` with the buckets of a group of `most` events; returns events and buckets.

    There is no event if not even the keys of the first fit.
    """
    event_count = batch.entry_start.size - 1
    group = min(most, event_count - first_event)
    has_texts = columns.texts.attribute.size > 0
    count = 0
    for at in range(group):
        event = first_event + at
        enter_words(columns.lanes, columns.part_used, batch, event, at, memory.events)
        if has_texts:
            texts = columns.texts, found
            enter_texts(columns.lanes, texts, columns.part_used, batch, event, at, memory.events)
        before = count
        count = list_event_keys(columns.trie, columns.key_filter, memory.events, memory.key, count)
        forget_parts(memory.events)
        if count < 0:
            return at, _look_up(columns, memory, before)
        for place in range(before, count):
            memory.key_event[place] = at
    memory.counts[KEYS] += count
    return group, _look_up(columns, memory, count)


@inlined
def _look_up(columns: RecordColumns, memory: RecordMemory, count: int) -> int:
    """Fill `found` with the buckets of so many keys; returns how many there are."""
    found = 0
    for place in range(min(_KEYS_AHEAD, count)):
        _ask_for_slot(columns.table, memory.key[place])
    for place in range(count):
        _ask_for_slot(columns.table, memory.key[min(place + _KEYS_AHEAD, count - 1)])
        start, end = find_bucket(columns.table, memory.key[place])
        memory.found[0, found] = np.uint64(start) << _HALF | np.uint64(found)
        memory.found_stop[found] = end
        memory.found_event[found] = memory.key_event[place]
        found += int(end > start)
    return found


@inlined
def _ask_for_slot(table: NDArray[np.uint64], key: np.uint64) -> None:
    prefetch(table, 2 * int(np.int64(first_slot(table, key))))


@leaf
def _close_group(
    memory: RecordMemory, group: int, bucket_count: int, residue_count: int
) -> tuple[int, int, int]:
    """The first events of a group that have few enough candidates: events, buckets, candidates.

    Each event gets places for its candidates and for rows without key.
    """
    total = at = 0
    for event in range(group):
        stop, mine = at, residue_count
        while stop < bucket_count and memory.found_event[stop] == event:
            mine += int(memory.found_stop[stop]) - int(np.int64(memory.found[0, stop] >> _HALF))
            stop += 1
        if total + mine > GROUP_CANDIDATES_MAX and event > 0:
            return event, at, total
        memory.start[event] = memory.stop[event] = total
        total += mine
        at = stop
    return group, bucket_count, total


@inlined
def _sort_buckets(columns: RecordColumns, memory: RecordMemory, bucket_count: int) -> None:
    """Sort `found` by the place of the bucket, events of one ascending."""
    stop = 32 + bits_below(columns.record.size // RECORD_WORDS)
    if sort_words(memory.found, memory.digit, (0, 0, bucket_count), 32, stop) == 1:
        for at in range(bucket_count):
            memory.found[0, at] = memory.found[1, at]


@leaf
def _test_candidates(columns: RecordColumns, memory: RecordMemory, count: int) -> None:
    """Fill `passed` with the rows whose records pass, of so many candidates.

    Places are unsigned where they are used most: numba lets signed ones count from the end, too.
    """
    tested = np.uint64(columns.lanes.first[UNTESTED])
    for at in range(min(_RECORDS_AHEAD, count)):
        _ask_for_record(columns, memory, at)
    for at in range(count):
        _ask_for_record(columns, memory, min(at + _RECORDS_AHEAD, count - 1))
        candidate = memory.candidate[at]
        start, event = (candidate >> _HALF) * _RECORD_WORDS, candidate & _LOW
        last = columns.record[start + _LAST]
        row = np.uint32(last >> ROW_SHIFT << _ONE | (_ONE if last & OPEN else _ZERO))
        if last & SPECIAL == _ZERO:
            passes = _passes(columns.record, memory.events.word, start, event * tested)
        else:
            passes = _passes_slowly(columns, memory, start, event)
        # Without a branch: a row that does not pass is overwritten by the next one.
        place = np.uint64(memory.stop[event])
        memory.passed[0, place] = row | np.uint32(memory.events.unsure[event])
        memory.stop[event] = np.int64(place) + int(passes)


@inlined
def _ask_for_record(columns: RecordColumns, memory: RecordMemory, at: int) -> None:
    prefetch(columns.record, int(np.int64(memory.candidate[at] >> _HALF)) * RECORD_WORDS)


@inlined
def _passes(
    record: NDArray[np.uint64], word: NDArray[np.uint64], start: np.uint64, words: np.uint64
) -> bool:
    """Does an event, whose words begin at `words`, pass a record of narrow tests in one line?

    Without a branch: one that is foreseen wrongly costs more than six tests.
    """
    lanes, last = record[start + _LANES], record[start + _LAST]
    passes = word[words + (lanes & _LANE)] & record[start] != _ZERO
    passes &= word[words + (lanes >> _LANE_BITS & _LANE)] & record[start + _ONE] != _ZERO
    passes &= word[words + (lanes >> _HALF & _LANE)] & record[start + _TWO] != _ZERO
    passes &= word[words + (lanes >> _LAST_LANE)] & record[start + _THREE] != _ZERO
    passes &= word[words + (last & _LANE)] & record[start + _FOUR] != _ZERO
    passes &= word[words + (last >> _LANE_BITS & _LANE)] & record[start + _FIVE] != _ZERO
    return bool(passes)


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
            # Which kind a test is cannot be foreseen, but most often whether it is passed.
            in_mask, in_run = shown & operand != _ZERO, passes_wide(shown, operand, unsure)
            if not (in_run if lane >= first_wide else in_mask):
                return False
        if not has_more:
            return True
        start = record[start + _FIVE] * _RECORD_WORDS
