"""The fast decoder: drives the byte-level kernel over a batch, and helps out where it gives up.

The kernel runs from row to row until all are read, a column is full, or an event is not plain.
Then the columns grow, or the plain decoder reads that one event and its entries are filed, and the
kernel goes on with the next row. So rows stay in order, and only the plain decoder refuses events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.errors import EventError
from index.flatten import Entry, entries_of, value_of
from index.kernels.batch import (
    COUNTER_COUNT,
    ENTRIES,
    HELD_FIELDS,
    LATE,
    ROW,
    STRINGS,
    TOUCHED_FIELDS,
    VALUES,
    Filed,
    Held,
    Strings,
    file_strings,
    number_string,
)
from index.kernels.folding import find_codes, fold_strings, folded_bytes_max
from index.kernels.json_document import (
    ALONE,
    LEVEL_FIELDS,
    LIFTED,
    PLACED,
    PLAIN,
    Source,
    Workspace,
)
from index.kernels.json_event import DONE, NO_ROOM, decode_rows, row_values_max
from index.numbers import split
from index.payloads import Payloads, is_text
from index.vocabulary import Vocabulary, VocabularyColumns

_KEY_SLOTS = 1 << 12
# First guesses; a batch that needs more has its columns doubled.
_VALUES_PER_EVENT = 24
_STRINGS_PER_EVENT = 4
_TEXT_BYTES_PER_STRING = 12
_BATCH_BYTES_MAX = 2**31 - 1


class Decoder:
    """Decodes one batch; made for it and thrown away with it."""

    def __init__(self, payloads: Payloads, vocabulary: Vocabulary) -> None:
        self.payloads = payloads
        self.vocabulary = vocabulary
        self.columns = vocabulary.columns()
        self.source = _source_of(payloads, vocabulary)
        self.work, self.filed = _room_for(self.source, self.columns)
        self.rejected: list[tuple[int, EventError]] = []

    def run(self) -> EventBatch:
        """The columns of the batch; `rejected` then has the rows that are dead letters."""
        while True:
            status = decode_rows(self.source, self.columns, self.work, self.filed)
            if status == DONE:
                break
            if status == NO_ROOM:
                self._grow()
            else:
                self._decode_plainly(int(self.work.counters[ROW]))
        self._read_late_numbers()
        return self._batch()

    def _grow(self) -> None:
        """Twice the room for whatever grows from row to row."""
        filed = {name: _doubled(array) for name, array in self.filed._asdict().items()}
        self.filed = Filed(**{**filed, "entry_start": self.filed.entry_start})
        former = self.work.strings
        strings = Strings(
            slot=np.zeros(2 * former.slot.size, np.uint64),
            hash=_doubled(former.hash),
            start=_doubled(former.start),
            text=_doubled(former.text),
        )
        file_strings(strings, int(self.work.counters[STRINGS]))
        self.work = self.work._replace(strings=strings)

    def _decode_plainly(self, row: int) -> None:
        """Read one row by the plain decoder, and file what it has."""
        counters = self.work.counters
        try:
            entries = entries_of(self.payloads.event(row), self.vocabulary)
        except EventError as error:
            self.rejected.append((row, error))
            entries = []
        for entry in entries:
            if entry.attribute < self.columns.attribute_count:
                self._file(entry)
        self.filed.entry_start[row + 1] = counters[ENTRIES]
        counters[ROW] = row + 1

    def _file(self, entry: Entry) -> None:
        filed, counters = self.filed, self.work.counters
        at, stop = int(counters[ENTRIES]), int(counters[VALUES])
        filed.entry_attribute[at] = entry.attribute
        filed.entry_flags[at] = entry.flags
        for value in map(value_of, entry.values):
            filed.value_type[stop] = value.type
            filed.value_number[stop] = value.number
            filed.value_residual[stop] = value.residual
            filed.value_string[stop] = -1 if value.text is None else self._number(value.text)
            stop += 1
        filed.value_start[at + 1] = stop
        counters[ENTRIES], counters[VALUES] = at + 1, stop

    def _number(self, text: bytes) -> int:
        """The number of a string among those of the batch."""
        strings, counters, seed = self.work.strings, self.work.counters, self.columns.seed
        data = np.frombuffer(bytearray(text), np.uint8)
        return number_string(strings, counters, seed, data, 0, data.size)

    def _read_late_numbers(self) -> None:
        """Have Python round the numbers that one operation could not."""
        for value, start, stop in self.filed.late[: self.work.counters[LATE]].tolist():
            token = self.source.data[start:stop].tobytes()
            self.filed.value_number[value], _ = split(float(token))

    def _batch(self) -> EventBatch:
        filed, strings = self.filed, self.work.strings
        entries, values, count = self.work.counters[[ENTRIES, VALUES, STRINGS]].tolist()
        start = strings.start[: count + 1]
        text = strings.text[: start[-1]]
        code = np.full(count, -1, np.int32)
        find_codes(self.columns, strings.hash[:count], (start, text), code)
        folded_code = np.full(count, -1, np.int32)
        folded_start = np.zeros(count + 1, np.int64)
        folded_text = np.empty(0, np.uint8)
        if self.columns.folds:
            folded_text = np.empty(folded_bytes_max(text.size), np.uint8)
            fold_strings(self.columns, (start, text), (folded_start, folded_text), folded_code)
        return EventBatch(
            entry_start=filed.entry_start,
            entry_attribute=filed.entry_attribute[:entries],
            entry_flags=filed.entry_flags[:entries],
            value_start=filed.value_start[: entries + 1],
            value_type=filed.value_type[:values],
            value_number=filed.value_number[:values],
            value_residual=filed.value_residual[:values],
            value_string=filed.value_string[:values],
            string_start=start,
            text=text,
            string_code=code,
            folded_start=folded_start,
            folded_text=folded_text[: folded_start[-1]],
            folded_code=folded_code,
        )


def _source_of(payloads: Payloads, vocabulary: Vocabulary) -> Source:
    """The payloads for the kernel; context is reduced to what the vocabulary knows."""
    offsets = payloads.offsets.astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if size > _BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {size} bytes; decode at most {_BATCH_BYTES_MAX} at once")
    mode, context_start, context, texts = _context_of(payloads, vocabulary)
    context[:, 1:] += size
    prefix = [0]
    for name in payloads.prefix:
        prefix.append(vocabulary.child(prefix[-1], name.encode()))
    room_start = size + len(texts)
    room = int(np.diff(offsets).max(initial=0))
    data = np.empty(room_start + room, np.uint8)
    data[:size] = payloads.data[first : first + size]
    data[size:room_start] = np.frombuffer(texts, np.uint8)
    return Source(
        data=data,
        offsets=offsets - first,
        mode=mode,
        context_start=context_start,
        context=context,
        prefix_node=np.array(prefix[1:], np.int64),
        room_start=room_start,
        bytes_max=payloads.limits.event_bytes,
        depth_max=payloads.limits.event_depth,
        values_max=payloads.limits.event_values,
    )


def _context_of(
    payloads: Payloads, vocabulary: Vocabulary
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], bytes]:
    """(mode of each row, start of its context, (node, start, stop) of each attribute, the text)."""
    mode = np.full(len(payloads), ALONE, np.uint8)
    start = np.zeros(len(payloads) + 1, np.int64)
    triples: list[tuple[int, int, int]] = []
    text = bytearray()
    nodes: dict[str, int] = {}
    for row, attributes in enumerate(payloads.context or ()):
        if attributes is not None:
            mode[row] = LIFTED if not payloads.prefix else PLACED
            if payloads.prefix and payloads.prefix[0] in attributes:
                mode[row] = PLAIN  # the attribute hides the whole payload
            if not is_text(attributes):
                mode[row] = PLAIN
                attributes = {}
            for name, value in attributes.items():
                node = nodes.get(name)
                if node is None:
                    node = nodes[name] = vocabulary.child(0, name.encode())
                if node >= 0:
                    begin = len(text)
                    text += value.encode()
                    triples.append((node, begin, len(text)))
        start[row + 1] = len(triples)
    return mode, start, np.array(triples, np.int64).reshape(-1, 3), bytes(text)


def _room_for(source: Source, columns: VocabularyColumns) -> tuple[Workspace, Filed]:
    """Room for every row's own needs, and for what the batch will probably need in all."""
    row_count = source.offsets.size - 1
    row_bytes = min(source.data.size - source.room_start, source.bytes_max)
    context_count = int(np.diff(source.context_start).max(initial=0))
    context_bytes = int(np.diff(source.context[:, 1:]).max(initial=0)) * context_count
    row_values = row_values_max(row_bytes, context_count, source.prefix_node.size)
    values = row_values + _VALUES_PER_EVENT * row_count
    string_count = row_values + _STRINGS_PER_EVENT * row_count
    text_bytes = row_bytes + context_bytes + _TEXT_BYTES_PER_STRING * string_count
    work = Workspace(
        counters=np.zeros(COUNTER_COUNT, np.int64),
        held=_held(columns.attribute_count, row_values),
        strings=Strings(
            slot=np.zeros(_slot_count(string_count), np.uint64),
            hash=np.empty(string_count, np.uint64),
            start=np.zeros(string_count + 1, np.int64),
            text=np.empty(text_bytes, np.uint8),
        ),
        level=np.zeros((source.depth_max + source.prefix_node.size + 2, LEVEL_FIELDS), np.int64),
        keys=np.zeros((_KEY_SLOTS, 2), np.uint64),
        node_stamp=np.zeros(columns.node.shape[0], np.int64),
    )
    return work, _filed(row_count, values, row_values + row_count)


def _held(attribute_count: int, row_values: int) -> Held:
    return Held(
        mark=np.zeros(attribute_count, np.int64),
        order=np.empty(row_values, np.int64),
        touched=np.empty((row_values, TOUCHED_FIELDS), np.int64),
        value=np.empty((row_values, HELD_FIELDS), np.int64),
        number=np.empty(row_values, np.float64),
    )


def _filed(row_count: int, values: int, late_count: int) -> Filed:
    return Filed(
        entry_start=np.zeros(row_count + 1, np.int32),
        entry_attribute=np.empty(values, np.int32),
        entry_flags=np.empty(values, np.uint8),
        value_start=np.zeros(values + 1, np.int32),
        value_type=np.empty(values, np.uint8),
        value_number=np.empty(values, np.float64),
        value_residual=np.empty(values, np.int16),
        value_string=np.empty(values, np.int32),
        late=np.empty((late_count, 3), np.int64),
    )


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    doubled = np.empty((2 * array.shape[0], *array.shape[1:]), array.dtype)
    doubled[: array.shape[0]] = array
    return doubled


def _slot_count(string_count: int) -> int:
    """A power of two, at least twice the number of strings."""
    return 1 << (2 * string_count).bit_length()
