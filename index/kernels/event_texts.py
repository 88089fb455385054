"""The text predicates that hold in an event, as bits of its words and as parts of its keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import ARRAY, PRESENT, EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.event_memory import WITH_TEXTS, EventMemory, enter_part
from index.kernels.lanes import TEXT_LANES, UNTESTED, LaneColumns
from index.kernels.text_runs import TextColumns, TextMemory, asks_texts

_STRING = int(ValueType.STRING)
_ALL_BITS = ~np.uint64(0)


@leaf
def enter_texts(
    lanes: LaneColumns,
    told: tuple[TextColumns, TextMemory],
    part_used: NDArray[np.uint64],
    batch: EventBatch,
    event: int,
    at: int,
    memory: EventMemory,
) -> None:
    """Show which text predicates hold of an event's strings, and enter their parts.

    told   the text predicates, and what is found to hold of the batch's strings

    To be called after `enter_words`: keys have the parts of texts behind all others.
    """
    texts, _ = told
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        if not asks_texts(texts, attribute) or batch.entry_flags[entry] & PRESENT == 0:
            continue
        memory.counts[WITH_TEXTS] = at + 1
        first, stop = batch.value_start[entry], batch.value_start[entry + 1]
        is_plain = stop - first == 1 and batch.entry_flags[entry] & ARRAY == 0
        is_string = is_plain and batch.value_type[first] == _STRING
        if is_string or not is_plain:
            words = at * lanes.first[UNTESTED]
            for lane in range(texts.lane_start[attribute], texts.lane_start[attribute + 1]):
                default = texts.default[lane - lanes.first[TEXT_LANES]]
                memory.word[words + lane] = default if is_plain else _ALL_BITS
        for value in range(first, stop):
            if batch.value_type[value] == _STRING:
                string = batch.value_string[value]
                _show_texts(lanes, told, part_used, memory, at, attribute, string, is_plain)


@inlined
def _show_texts(
    lanes: LaneColumns,
    told: tuple[TextColumns, TextMemory],
    part_used: NDArray[np.uint64],
    memory: EventMemory,
    at: int,
    attribute: int,
    string: int,
    is_plain: bool,
) -> None:
    """Flip the bits of what holds of a string of the attribute, and enter its parts."""
    texts, found = told
    first, stop = texts.first[attribute], texts.first[attribute + 1]
    words = at * lanes.first[UNTESTED]
    lane = texts.key_lane[attribute]
    part = lanes.part_start[lane] - first
    for place in range(found.run[string, 0], found.run[string, 1]):
        text = found.found[place]
        if first <= text < stop:
            if is_plain:
                memory.word[words + texts.lane[text]] ^= texts.flip[text]
            enter_part(part_used, memory, lane, part + text)
