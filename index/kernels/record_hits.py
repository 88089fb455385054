"""What passed the tests of records, as hits: event by event, rows ascending, each once.

A row that passed is row << 1 | is open; programs decide the open ones.
"""

from __future__ import annotations

import numpy as np

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.lanes import UNTESTED
from index.kernels.probe import VERDICT_BITS, Compiled, Hits, prefetch_ahead
from index.kernels.radix import sort_words
from index.kernels.record_memory import HITS, VERIFIED, RecordColumns, RecordMemory
from index.kernels.verify import NO, YES, enter_event, holds, leave_event
from index.kernels.word_programs import ask_for_program, words_hold
from index.kernels.words import bits_below

_ONE = np.uint32(1)


@leaf
def finish_group(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: RecordMemory,
    hits: Hits,
    events: tuple[int, int],
) -> None:
    """Append the hits of a group, given as first event and number of events; there is room."""
    first_event, group = events
    # The bit below the row's: rows that are not open come before open ones that are the same.
    row_stop = 1 + bits_below(compiled.programs.start.size)
    for at in range(group):
        start, stop = int(memory.start[at]), int(memory.stop[at])
        if start == stop and columns.residue.size == 0:
            hits.start[first_event + at + 1] = hits.start[first_event + at]
            continue
        for place in range(columns.residue.size):
            memory.passed[0, stop] = np.uint32(columns.residue[place]) << _ONE | _ONE
            stop += 1
        mine = sort_words(memory.passed, memory.digit, (0, start, stop), 0, row_stop)
        run = mine, start, stop
        _finish_event(columns, compiled, batch, memory, hits, (first_event, at), run)


@inlined
def _finish_event(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: RecordMemory,
    hits: Hits,
    place_of_event: tuple[int, int],
    run: tuple[int, int, int],
) -> None:
    """Append the hits of an event, given as first of its group and number in it, whose sorted rows
    are passed[side, start:stop].
    """
    side, start, stop = run
    event = place_of_event[0] + place_of_event[1]
    first = int(hits.start[event])
    count, open_count = first, 0
    last = ~np.uint32(0)
    for place in range(start, stop):
        found = memory.passed[side, place]
        row = found >> _ONE
        hits.hit[count] = np.int64(row) << VERDICT_BITS | YES
        is_new = row != last
        memory.open_row[open_count] = np.int32(row)
        memory.open_place[open_count] = count
        open_count += int(is_new & (found & _ONE != np.uint32(0)))
        count += int(is_new)
        last = row
    if open_count:
        places = count, open_count
        count = _run_programs(columns, compiled, batch, memory, hits, place_of_event, places)
    memory.counts[HITS] += count - first
    hits.start[event + 1] = count


@inlined
def _run_programs(
    columns: RecordColumns,
    compiled: Compiled,
    batch: EventBatch,
    memory: RecordMemory,
    hits: Hits,
    place_of_event: tuple[int, int],
    places: tuple[int, int],
) -> int:
    """Decide the open rows of an event.

    places   where its hits end, and how many rows are open; returns where the hits end then
    """
    stop, open_count = places
    first_event, number = place_of_event
    event, words = first_event + number, number * int(columns.lanes.first[UNTESTED])
    enter_event(batch, event, memory.scratch.entry_of)
    for at in range(open_count):
        row = memory.open_row[at]
        if memory.events.unsure[number]:
            prefetch_ahead(compiled, memory.open_row, at, open_count)
            verdict = holds(compiled.programs, compiled.predicates, batch, memory.scratch, row)
        else:
            ask_for_program(columns.programs, memory.open_row, at, open_count)
            verdict = words_hold(
                columns.programs,
                row,
                memory.events.word,
                words,
                compiled.predicates,
                batch,
                memory.scratch,
            )
        hits.hit[memory.open_place[at]] = np.int64(row) << VERDICT_BITS | verdict
    leave_event(batch, event, memory.scratch.entry_of)
    memory.counts[VERIFIED] += open_count
    count = memory.open_place[0]
    for place in range(memory.open_place[0], stop):
        hits.hit[count] = hits.hit[place]
        count += np.int64(hits.hit[place] & ((1 << VERDICT_BITS) - 1) != NO)
    return int(count)
