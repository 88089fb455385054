"""The candidates of a group: the records of the buckets found, each with each event that meets it.

    candidate   record << 32 | number of the event in the group

They are listed in the order in which records lie. What fails by its digest is left out; and the
rows of blocks, of which is known at once whether they pass, are none.
"""

from __future__ import annotations

import numpy as np

from index.kernels import inlined, leaf
from index.kernels.blocks import BLOCK_MIN, BLOCK_ROWS, first_block, rows_passing
from index.kernels.digests import passes_digest
from index.kernels.lanes import UNTESTED
from index.kernels.prefetch import prefetch
from index.kernels.record_memory import DIGESTS, DIGESTS_PASSED, RecordColumns, RecordMemory
from index.kernels.words import trailing_zeros

_DIGESTS_AHEAD = 96
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_BLOCK_MIN, _BLOCK_ROWS = np.uint64(BLOCK_MIN), np.uint64(BLOCK_ROWS)


@leaf
def list_candidates(columns: RecordColumns, memory: RecordMemory, bucket_count: int) -> int:
    """List those of the buckets in `found`, and append to `passed` what passes blocks.

    Returns how many candidates there are.
    """
    count = at = 0
    while at < bucket_count:
        first = memory.found[0, at] >> _HALF
        stop = np.uint64(memory.found_stop[memory.found[0, at] & _LOW])
        event_count = 0
        while at < bucket_count and memory.found[0, at] >> _HALF == first:
            memory.met[event_count] = memory.found_event[memory.found[0, at] & _LOW]
            event_count += 1
            at += 1
        if stop - first >= _BLOCK_MIN:
            block = first_block(columns.blocks, first)
            if block >= 0:
                blocks = block, stop
                first, count = _list_blocks(columns, memory, blocks, event_count, count)
        count = _list_records(memory, (first, stop), event_count, count)
    # Where most pass, as they have so far in this call, digests cost more than they spare.
    if 8 * memory.counts[DIGESTS_PASSED] > 5 * memory.counts[DIGESTS]:
        return count
    memory.counts[DIGESTS] += count
    count = _passing(columns, memory, count)
    memory.counts[DIGESTS_PASSED] += count
    return count


@inlined
def _list_records(
    memory: RecordMemory, bounds: tuple[np.uint64, np.uint64], event_count: int, count: int
) -> int:
    """Append these records, each with the events in `met`; returns how many there are then."""
    if event_count == 1:  # most often, and without a loop within the loop
        return int(_list_for_event(memory, bounds, np.uint64(memory.met[0]), count))
    place = np.uint64(count)
    for record in range(bounds[0], bounds[1]):
        for each in range(event_count):
            memory.candidate[place] = np.uint64(record) << _HALF | np.uint64(memory.met[each])
            place += _ONE
    return int(np.int64(place))


@inlined
def _list_for_event(
    memory: RecordMemory, bounds: tuple[np.uint64, np.uint64], event: np.uint64, count: int
) -> int:
    """The same for one event."""
    place = np.uint64(count)
    for record in range(bounds[0], bounds[1]):
        memory.candidate[place] = np.uint64(record) << _HALF | event
        place += _ONE
    return int(np.int64(place))


@inlined
def _passing(columns: RecordColumns, memory: RecordMemory, count: int) -> int:
    """Leave out the candidates that fail by their digests; returns how many are left."""
    tested, place = np.uint64(columns.lanes.first[UNTESTED]), np.uint64(0)
    for at in range(count):
        later = memory.candidate[min(at + _DIGESTS_AHEAD, count - 1)]
        prefetch(columns.digest, int(np.int64(later >> _HALF)))
        candidate = memory.candidate[at]
        event = candidate & _LOW
        digest = columns.digest[candidate >> _HALF]
        passes = passes_digest(digest, memory.events.word, event * tested)
        # Words do not tell of all values of such an event.
        passes |= memory.events.unsure[event]
        memory.candidate[place] = candidate
        place += _ONE if passes else _ZERO
    return int(np.int64(place))


@inlined
def _list_blocks(
    columns: RecordColumns,
    memory: RecordMemory,
    bounds: tuple[int, np.uint64],
    event_count: int,
    count: int,
) -> tuple[np.uint64, int]:
    """Append what passes the blocks of a dense bucket, given as its first block and its end.

    Records are candidates of events that show more than one value somewhere: all that passes of
    these is open. Returns the first record that is in no block, and how many candidates there are.
    """
    block, record_stop = bounds
    blocks = columns.blocks
    stop = np.uint64(blocks.first[block])
    while block < blocks.first.size and blocks.first[block] < np.int64(record_stop):
        first = np.uint64(blocks.first[block])
        stop = min(first + _BLOCK_ROWS, record_stop)
        for each in range(event_count):
            event = int(memory.met[each])
            if memory.events.unsure[event]:
                count = _list_for_event(memory, (first, stop), np.uint64(event), count)
            else:
                _pass_block(columns, memory, block, event)
        block += 1
    return stop, count


@inlined
def _pass_block(columns: RecordColumns, memory: RecordMemory, block: int, event: int) -> None:
    """Append the rows of a block that an event passes to `passed`."""
    blocks, lanes = columns.blocks, columns.lanes
    words = event * int(lanes.first[UNTESTED])
    left = rows_passing(blocks, lanes, block, memory.events.word, words)
    place = np.uint64(memory.stop[event])
    while left != _ZERO:
        memory.passed[0, place] = blocks.row[block * BLOCK_ROWS + trailing_zeros(left)]
        place += _ONE
        left &= left - _ONE
    memory.stop[event] = np.int64(place)
