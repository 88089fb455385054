"""What matching by records reads, and what it works with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.blocks import Blocks
from index.kernels.cover import Elements
from index.kernels.event_memory import EventMemory, new_event_memory, suits_events
from index.kernels.lanes import UNTESTED, LaneColumns
from index.kernels.radix import DIGITS
from index.kernels.schemas import SchemaTrie
from index.kernels.scratch import Scratch, new_scratch
from index.kernels.text_runs import TextColumns
from index.kernels.word_programs import WordPrograms

GROUP_EVENTS_MIN, GROUP_EVENTS_MAX = 2, 1_024
GROUP_WORDS_MAX = 1 << 15
"""256 KiB of words of events: more events share what is read of records, but their words, which
tests look up, should stay in the cache of the core."""
GROUP_KEYS_MAX = 1 << 18
GROUP_CANDIDATES_MAX = 1 << 18
"""Rows that the events of a group may find before it is closed, unless its first finds more."""

KEYS_AT_FIRST = 64
"""Keys that there is room for at first, an event."""
FOR_KEYS, FOR_CANDIDATES, FOR_HITS = 1, 2, 3
"""What more room is needed for."""

COUNTS = 7
KEYS, BUCKETS, CANDIDATES, DIGESTS, DIGESTS_PASSED, VERIFIED, HITS = range(COUNTS)
"""Places in `RecordMemory.counts`: keys looked for, buckets found, rows in them, digests looked at
and those that passed, programs run, hits."""


class RecordColumns(NamedTuple):
    """Rows by key, as records, and what leads to them."""

    lanes: LaneColumns
    trie: SchemaTrie
    part_used: NDArray[np.uint64]  # [parts / 64] bits of parts that keys are made of
    key_filter: NDArray[np.uint64]
    table: NDArray[np.uint64]  # [slots, 2] see index.kernels.keys; bounds count records
    record: NDArray[np.uint64]  # [lines * RECORD_WORDS] see index.kernels.record_filing
    digest: NDArray[np.uint64]  # [filings] see index.kernels.digests
    residue: NDArray[np.int32]  # rows without key, tried on every event
    elements: Elements  # what each row is filed under, for `explain`
    met: NDArray[np.float32]  # [elements] share of events that are expected to have the key
    texts: TextColumns
    programs: WordPrograms  # of rows that are open
    blocks: Blocks  # of dense buckets


class RecordMemory(NamedTuple):
    """Working memory of one call."""

    events: EventMemory
    scratch: Scratch
    key: NDArray[np.uint64]  # keys of the group's events
    key_event: NDArray[np.int32]
    found: NDArray[np.uint64]  # [2, keys] start of a bucket << 32 | its place in the next two
    found_stop: NDArray[np.int64]
    found_event: NDArray[np.int32]  # numbers in the group
    met: NDArray[np.int32]  # [group] the events that meet a bucket
    digit: NDArray[np.int64]  # [DIGITS + 1] to sort with
    start: NDArray[np.int64]  # [group] where `passed` has the rows of each event
    stop: NDArray[np.int64]  # [group] and where they end by now
    candidate: NDArray[np.uint64]  # [candidates] see index.kernels.candidates
    passed: NDArray[np.uint32]  # [2, candidates] see index.kernels.record_hits, and room to sort
    open_row: NDArray[np.int32]  # [candidates] those of an event that programs decide
    open_place: NDArray[np.int64]  # [candidates] places of their hits
    counts: NDArray[np.int64]


def new_record_memory(
    columns: RecordColumns, batch: EventBatch, texts_of_event: int, attribute_count: int
) -> RecordMemory:
    """Memory for the events of a batch, and of others like it."""
    group = max(GROUP_EVENTS_MIN, GROUP_WORDS_MAX // int(columns.lanes.first[UNTESTED]))
    group = min(group, GROUP_EVENTS_MAX)
    group = max(min(group, GROUP_CANDIDATES_MAX // (columns.residue.size + 1)), 1)
    memory = RecordMemory(
        new_event_memory(columns.lanes, batch, texts_of_event, group),
        new_scratch(attribute_count),
        np.empty(0, np.uint64),
        np.empty(0, np.int32),
        np.empty((2, 0), np.uint64),
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        np.empty(group, np.int32),
        np.empty(DIGITS + 1, np.int64),
        np.empty(group, np.int64),
        np.empty(group, np.int64),
        np.empty(0, np.uint64),
        np.empty((2, 0), np.uint32),
        np.empty(0, np.int32),
        np.empty(0, np.int64),
        np.zeros(COUNTS, np.int64),
    )
    room = min(KEYS_AT_FIRST * group, GROUP_KEYS_MAX)
    return with_candidates(with_keys(memory, room), min(room, GROUP_CANDIDATES_MAX))


def suits(
    memory: RecordMemory, batch: EventBatch, texts_of_event: int, attribute_count: int
) -> bool:
    """Can a batch be matched with memory that an earlier call on the same columns had?"""
    known = memory.scratch.entry_of.size
    return known == attribute_count and suits_events(memory.events, batch, texts_of_event)


def with_keys(memory: RecordMemory, count: int) -> RecordMemory:
    """The same memory with room for so many keys."""
    return memory._replace(
        key=np.empty(count, np.uint64),
        key_event=np.empty(count, np.int32),
        found=np.zeros((2, count), np.uint64),
        found_stop=np.empty(count, np.int64),
        found_event=np.empty(count, np.int32),
    )


def with_candidates(memory: RecordMemory, count: int) -> RecordMemory:
    """The same memory with room for so many candidates."""
    return memory._replace(
        candidate=np.empty(count, np.uint64),
        passed=np.empty((2, count), np.uint32),
        open_row=np.empty(count, np.int32),
        open_place=np.empty(count, np.int64),
    )
