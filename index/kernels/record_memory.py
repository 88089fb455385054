"""What matching by records reads, and what it works with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.cover import Elements
from index.kernels.event_words import EventMemory, new_event_memory
from index.kernels.lanes import UNTESTED, LaneColumns
from index.kernels.schemas import SchemaTrie
from index.kernels.scratch import Scratch, new_scratch

GROUP_EVENTS_MIN, GROUP_EVENTS_MAX = 8, 1_024
GROUP_WORDS_MAX = 1 << 15
"""A quarter of a megabyte of words of events stays in the cache, where tests look them up."""
GROUP_KEYS_MAX = 1 << 18
GROUP_CANDIDATES_MAX = 1 << 21
"""Rows that the events of a group may find before it is closed, unless its first finds more."""

KEYS_AT_FIRST = 256
"""Keys that there is room for at first, an event."""
FOR_KEYS, FOR_CANDIDATES, FOR_HITS = 1, 2, 3
"""What more room is needed for."""

COUNTS = 5
KEYS, BUCKETS, CANDIDATES, VERIFIED, HITS = range(COUNTS)
"""Places in `RecordMemory.counts`: keys looked for, buckets found, rows in them, programs run."""

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
"""Buckets are sorted by digits of so many bits."""


class RecordColumns(NamedTuple):
    """Rows by key, as records, and what leads to them."""

    lanes: LaneColumns
    trie: SchemaTrie
    part_used: NDArray[np.uint64]  # [parts / 64] bits of parts that keys are made of
    key_filter: NDArray[np.uint64]
    table: NDArray[np.uint64]  # [slots, 2] see index.kernels.keys; bounds count records
    record: NDArray[np.uint64]  # [filings * RECORD_WORDS] see index.kernels.record_filing
    residue: NDArray[np.int32]  # rows without key, tried on every event
    elements: Elements  # what each row is filed under, for `explain`


class RecordMemory(NamedTuple):
    """Working memory of one call."""

    events: EventMemory
    scratch: Scratch
    key: NDArray[np.uint64]  # keys of the group's events
    key_event: NDArray[np.int32]
    found: NDArray[np.uint64]  # [2, keys] start of a bucket << 32 | its stop, and room to sort
    found_event: NDArray[np.int32]  # [2, keys] numbers in the group
    digit: NDArray[np.int64]  # counts of the sort's digits
    passed: NDArray[np.int64]  # event << 33 | row << 1 | is open
    by_event: NDArray[np.int64]  # the same, event after event
    first: NDArray[np.int64]  # [group + 1] of each event in `by_event`
    seen: NDArray[np.uint64]  # [rows / 64] bits of the rows of the event at hand
    open: NDArray[np.uint64]  # [rows / 64] those that programs decide
    any: NDArray[np.uint64]  # [rows / 4096] words of `seen` that are not 0
    row: NDArray[np.int32]  # [rows] of the event at hand
    verdict: NDArray[np.uint8]  # [rows]
    open_row: NDArray[np.int32]  # [rows] those that programs decide
    open_place: NDArray[np.int32]  # [rows] their places in `row`
    counts: NDArray[np.int64]


def new_record_memory(
    columns: RecordColumns,
    batch: EventBatch,
    attribute_count: int,
    row_count: int,
) -> RecordMemory:
    """Memory for the events of a batch and rows below `row_count`."""
    event_count = batch.entry_start.size - 1
    group = max(GROUP_EVENTS_MIN, GROUP_WORDS_MAX // int(columns.lanes.first[UNTESTED]))
    group = max(min(group, GROUP_EVENTS_MAX, event_count), 1)
    words = (row_count >> 6) + 1
    memory = RecordMemory(
        new_event_memory(columns.lanes, batch, group),
        new_scratch(attribute_count),
        np.empty(0, np.uint64),
        np.empty(0, np.int32),
        np.empty((2, 0), np.uint64),
        np.empty((2, 0), np.int32),
        np.zeros(DIGITS + 1, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.zeros(group + 1, np.int64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros((words >> 6) + 1, np.uint64),
        np.empty(row_count + 1, np.int32),
        np.empty(row_count + 1, np.uint8),
        np.empty(row_count + 1, np.int32),
        np.empty(row_count + 1, np.int32),
        np.zeros(COUNTS, np.int64),
    )
    room = min(KEYS_AT_FIRST * group, GROUP_KEYS_MAX)
    return with_candidates(with_keys(memory, room), min(room, GROUP_CANDIDATES_MAX))


def with_keys(memory: RecordMemory, count: int) -> RecordMemory:
    """The same memory with room for so many keys."""
    return memory._replace(
        key=np.empty(count, np.uint64),
        key_event=np.empty(count, np.int32),
        found=np.empty((2, count), np.uint64),
        found_event=np.empty((2, count), np.int32),
    )


def with_candidates(memory: RecordMemory, count: int) -> RecordMemory:
    """The same memory with room for so many candidates."""
    return memory._replace(passed=np.empty(count, np.int64), by_event=np.empty(count, np.int64))
