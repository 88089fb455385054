"""The rows of a batch: context and payload of each event, read, held and filed.

Before a row is read the columns must have room for whatever it may hold, so that nothing is checked
or allocated on the way. A row that is given up has filed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, ValueType
from index.kernels import inlined, leaf
from index.kernels.batch import (
    ADDED,
    ENTRIES,
    LATE,
    ROW,
    STAMP,
    STRINGS,
    VALUES,
    Filed,
    Strings,
    begin_event,
    file_event,
    hold,
    number_string,
    touch,
)
from index.kernels.json_document import (
    ALONE,
    PLACED,
    PLAIN,
    Source,
    Workspace,
    attribute_of,
    read_document,
)

if TYPE_CHECKING:
    from index.vocabulary import VocabularyColumns

DONE, GIVEN_UP, NO_ROOM = 0, 1, 2
"""Why the kernel came back: all rows are read; the plain decoder must read one; arrays are full."""

_STRING = int(ValueType.STRING)


@leaf
def decode_rows(
    source: Source, vocabulary: VocabularyColumns, work: Workspace, filed: Filed
) -> int:
    """Decode from row counters[ROW] on; on return counters[ROW] is the first row not decoded."""
    counters = work.counters
    for row in range(counters[ROW], source.offsets.size - 1):
        counters[ROW] = row
        if not _has_room(source, work.strings, filed, counters):
            return NO_ROOM
        begin_event(counters)
        if not _read_row(source, vocabulary, work, row):
            return GIVEN_UP
        file_event(work.held, filed, counters)
        filed.entry_start[row + 1] = counters[ENTRIES]
    counters[ROW] = source.offsets.size - 1
    return DONE


@inlined
def _has_room(source: Source, strings: Strings, filed: Filed, counters: NDArray[np.int64]) -> bool:
    """Whether the columns can take whatever the row at hand may hold."""
    row = counters[ROW]
    size = source.offsets[row + 1] - source.offsets[row]
    if size > source.bytes_max:
        return True
    context_size = 0
    for at in range(source.context_start[row], source.context_start[row + 1]):
        context_size += source.context[at, 2] - source.context[at, 1]
    context_count = source.context_start[row + 1] - source.context_start[row]
    value_count = row_values_max(size, context_count, source.prefix_node.size)
    string_count = counters[STRINGS] + value_count
    return bool(
        counters[VALUES] + value_count <= filed.value_type.size
        and counters[ENTRIES] + value_count < filed.value_start.size
        and counters[LATE] + value_count <= filed.late.shape[0]
        and string_count < strings.start.size
        and 2 * string_count <= strings.slot.size
        and strings.start[counters[STRINGS]] + size + context_size <= strings.text.size
    )


@leaf
def row_values_max(size: int, context_count: int, prefix_count: int) -> int:
    """More entries or values than an event of `size` bytes can have: each takes two bytes."""
    return size // 2 + 2 + context_count + prefix_count


@inlined
def _read_row(source: Source, vocabulary: VocabularyColumns, work: Workspace, row: int) -> bool:
    """Hold all that one event has; False if it is not plain."""
    start, stop = source.offsets[row], source.offsets[row + 1]
    mode = source.mode[row]
    if mode == PLAIN or stop - start > source.bytes_max:
        return False
    if mode != ALONE:
        for at in range(source.context_start[row], source.context_start[row + 1]):
            _hold_context(source, vocabulary, work, at)
        if start == stop:
            return True
    if not read_document(source, vocabulary, work, row):
        return False
    if mode == PLACED and work.counters[ADDED]:
        for node in source.prefix_node:
            attribute = attribute_of(vocabulary, node)
            if attribute >= 0:
                touch(work.held, work.counters, attribute, 0)
    return True


@inlined
def _hold_context(source: Source, vocabulary: VocabularyColumns, work: Workspace, at: int) -> None:
    counters, node = work.counters, source.context[at, 0]
    work.node_stamp[node] = counters[STAMP]
    attribute = attribute_of(vocabulary, node)
    if attribute >= 0:
        start, stop = source.context[at, 1], source.context[at, 2]
        seed = vocabulary.seed
        string = number_string(work.strings, counters, seed, source.data, start, stop)
        place = touch(work.held, counters, attribute, PRESENT)
        hold(work.held, counters, place, _STRING, string)
