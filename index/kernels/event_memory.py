"""Memory for what events of a group show: a word for each lane, and parts of keys.

Words of the events of a group lie one after the other. Between groups every word is that of an
event without attributes; an event changes those of its own attributes only, and `forget_words` puts
them back, so an event costs its own size and never the number of lanes. Where lanes are few, to put
back all of them costs less than to note which have changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.lanes import (
    ALL_LANES,
    ALWAYS_LANE,
    HASHED_LANES,
    NOTHING,
    TEXT_LANES,
    UNTESTED,
    WIDE,
    LaneColumns,
    is_used,
)

_ONE, _ZERO, _ALL_BITS = np.uint64(1), np.uint64(0), ~np.uint64(0)
_NOTHING = _ONE << np.uint64(NOTHING)


class EventMemory(NamedTuple):
    """Working memory for a group of events."""

    word: NDArray[np.uint64]  # [group * lanes with tests]
    default: NDArray[np.uint64]  # [lanes with tests] those of an event without attributes
    touched: NDArray[np.int64]  # places in `word` that are changed, apart from lanes of texts; has
    touched_lane: NDArray[np.int32]  # no room where all words are put back
    unsure: NDArray[np.bool_]  # [group] values that the words cannot show
    lane: NDArray[np.int32]  # parts of the event at hand: dimensions ascending, texts last
    part: NDArray[np.int64]
    place_of: NDArray[np.int32]  # [lanes] place of the lane's last part plus one; 0 for none
    next_of: NDArray[np.int32]  # [parts] place of the lane's part before, plus one; 0 for none
    counts: NDArray[np.int64]  # [COUNTS] see below


COUNTS = 4
TOUCHED, PARTS, WITH_TEXTS, ENTERED = range(COUNTS)
"""Places in `counts`: places touched, parts of the event at hand, events with texts, and events of
the group so far."""
FEW_LANES = 256
"""With so many lanes, their words are put back all together."""


def new_event_memory(
    lanes: LaneColumns, batch: EventBatch, texts_of_event: int, group: int
) -> EventMemory:
    """Memory for groups of that many events as large as those of the batch, of each of which no
    more than so many text predicates hold.
    """
    tested = int(lanes.first[UNTESTED])
    default = np.zeros(tested, np.uint64)
    default[: int(lanes.first[HASHED_LANES])] = _NOTHING
    default[ALWAYS_LANE] = _ALL_BITS
    # The next batches have events that are somewhat larger.
    most = _most_of_an_event(batch, texts_of_event)
    touched, parts = (1 << size.bit_length() for size in most)
    touched = 0 if tested <= FEW_LANES else touched * group
    return EventMemory(
        np.tile(default, group),
        default,
        np.empty(touched, np.int64),
        np.empty(touched, np.int32),
        np.zeros(group, np.bool_),
        np.empty(parts, np.int32),
        np.empty(parts, np.int64),
        np.zeros(int(lanes.first[ALL_LANES]), np.int32),
        np.empty(parts, np.int32),
        np.zeros(COUNTS, np.int64),
    )


def suits_events(memory: EventMemory, batch: EventBatch, texts_of_event: int) -> bool:
    """Has memory of the same lanes room for the events of a batch?"""
    touched, parts = _most_of_an_event(batch, texts_of_event)
    if parts > memory.part.size:
        return False
    return not memory.touched.size or touched * memory.unsure.size <= memory.touched.size


@leaf
def _most_of_an_event(batch: EventBatch, texts: int) -> tuple[int, int]:
    """At most so many words are changed by an event, and so many parts are its own."""
    words, parts = 0, 0
    for event in range(batch.entry_start.size - 1):
        start, stop = int(batch.entry_start[event]), int(batch.entry_start[event + 1])
        entries = stop - start
        values = int(batch.value_start[stop] - batch.value_start[start])
        # Existence and presence of an attribute; a point and at most two cells of a number, or two
        # points and a cell of a string.
        words, parts = max(words, 8 * entries), max(parts, 2 * entries + 3 * values)
    return words, parts + texts


@leaf
def forget_words(memory: EventMemory, lanes: LaneColumns) -> None:
    """Let all events of the group be without attributes."""
    if memory.touched.size == 0:
        for at in range(memory.counts[ENTERED]):
            for lane in range(memory.default.size):
                memory.word[at * memory.default.size + lane] = memory.default[lane]
        memory.counts[ENTERED] = memory.counts[WITH_TEXTS] = 0
        return
    first_hashed = lanes.first[HASHED_LANES]
    for at in range(memory.counts[TOUCHED]):
        is_narrow = memory.touched_lane[at] < first_hashed
        memory.word[memory.touched[at]] = _NOTHING if is_narrow else _ZERO
    memory.counts[TOUCHED] = 0
    for at in range(memory.counts[WITH_TEXTS]):
        words = at * lanes.first[UNTESTED]
        for lane in range(lanes.first[TEXT_LANES], first_hashed):
            memory.word[words + lane] = _NOTHING
    memory.counts[WITH_TEXTS] = 0


@leaf
def forget_parts(memory: EventMemory) -> None:
    """Let the event at hand have no parts."""
    for at in range(memory.counts[PARTS]):
        memory.place_of[memory.lane[at]] = 0
    memory.counts[PARTS] = 0


@inlined
def set_word(lanes: LaneColumns, memory: EventMemory, at: int, lane: int, word: np.uint64) -> None:
    """Let an event show a word on a lane."""
    place = at * lanes.first[UNTESTED] + lane
    memory.word[place] = word
    if memory.touched.size > 0:
        memory.touched[memory.counts[TOUCHED]] = place
        memory.touched_lane[memory.counts[TOUCHED]] = lane
        memory.counts[TOUCHED] += 1


@inlined
def show_code(lanes: LaneColumns, memory: EventMemory, at: int, lane: int, code: int) -> None:
    """Show a code on a lane, if tests are made on it."""
    if lane < lanes.first[WIDE]:
        set_word(lanes, memory, at, lane, _ONE << np.uint64(code))
    elif lane < lanes.first[UNTESTED]:
        set_word(lanes, memory, at, lane, np.uint64(code + 1))


@inlined
def enter_part(part_used: NDArray[np.uint64], memory: EventMemory, lane: int, part: int) -> None:
    """Enter a part of the event at hand if keys are made of it."""
    if is_used(part_used, part):
        add_part(memory, lane, part)


@inlined
def add_part(memory: EventMemory, lane: int, part: int) -> None:
    """Enter a part that keys are known to be made of."""
    count = memory.counts[PARTS]
    memory.lane[count] = lane
    memory.part[count] = part
    memory.next_of[count] = memory.place_of[lane]
    memory.place_of[lane] = count + 1
    memory.counts[PARTS] = count + 1
