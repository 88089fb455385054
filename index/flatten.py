"""The plain way from decoded events to columns: what the byte-level kernel must reproduce.

{"carrier": "UA", "legs": [{"to": "SFO"}, {"to": "LAX"}]}      has the entries
carrier 'UA'     legs object, object     legs.to 'SFO', 'LAX'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.casefold import fold_utf8
from index.columns import ARRAY, PRESENT, EventBatch, ValueType
from index.decode import has_attribute
from index.numbers import split
from index.vocabulary import Vocabulary


class Entry(NamedTuple):
    """What one event has at one attribute; the values are scalars, and dicts for array objects."""

    attribute: int
    flags: int
    values: list[object]


class Value(NamedTuple):
    """One value as the columns hold it; `text` only where it is a string."""

    type: ValueType
    number: float = 0.0
    residual: int = 0
    text: bytes | None = None


def entries_of(event: Mapping[str, object], vocabulary: Vocabulary) -> list[Entry]:
    """Entries of an event by ascending attribute number, values in the order of the document."""
    walk = _Walk(vocabulary)
    walk.members(event, 0, 0)
    return [walk.found[attribute] for attribute in sorted(walk.found)]


def value_of(value: object) -> Value:
    """A decoded JSON value, or an object inside an array, as the columns hold it."""
    match value:
        case None:
            return Value(ValueType.NULL)
        case bool():
            return Value(ValueType.BOOLEAN, float(value))
        case int() | float():
            return Value(ValueType.NUMBER, *split(value))
        case str():
            return Value(ValueType.STRING, text=value.encode())
        case _:
            return Value(ValueType.OBJECT)


def columns_of(rows: Iterable[list[Entry]], vocabulary: Vocabulary) -> EventBatch:
    """The columns of a batch, row by row, from the entries of each event."""
    entry_start, value_start = [0], [0]
    attributes: list[int] = []
    flags: list[int] = []
    values: list[Value] = []
    strings: dict[bytes, int] = {}
    for row in rows:
        for entry in row:
            attributes.append(entry.attribute)
            flags.append(entry.flags)
            values += map(value_of, entry.values)
            value_start.append(len(values))
        entry_start.append(len(attributes))
    numbers = [
        -1 if value.text is None else strings.setdefault(value.text, len(strings))
        for value in values
    ]
    folded = [fold_utf8(text) for text in strings] if vocabulary.folds else []
    return EventBatch(
        entry_start=np.array(entry_start, np.int32),
        entry_attribute=np.array(attributes, np.int32),
        entry_flags=np.array(flags, np.uint8),
        value_start=np.array(value_start, np.int32),
        value_type=np.array([value.type for value in values], np.uint8),
        value_number=np.array([value.number for value in values], np.float64),
        value_residual=np.array([value.residual for value in values], np.int16),
        value_string=np.array(numbers, np.int32),
        string_start=_starts(strings),
        text=_text(strings),
        string_code=_codes(strings, vocabulary),
        folded_start=_starts(folded or [b""] * len(strings)),
        folded_text=_text(folded),
        folded_code=_codes(folded, vocabulary) if folded else np.full(len(strings), -1, np.int32),
    )


def _starts(texts: Iterable[bytes]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, texts)], dtype=np.int64)


def _text(texts: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(b"".join(texts)), np.uint8)


def _codes(texts: Iterable[bytes], vocabulary: Vocabulary) -> NDArray[np.int32]:
    codes = (vocabulary.string_or_none(text) for text in texts)
    return np.array([-1 if code is None else code for code in codes], np.int32)


class _Walk:
    """One pass over an event along the vocabulary's trie."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.found: dict[int, Entry] = {}

    def members(self, members: Mapping[str, object], node: int, array: int) -> None:
        """The members of an object at a node; `array` is ARRAY below an array, else 0."""
        for name, value in members.items():
            child = self.vocabulary.child(node, name.encode())
            if child < 0:
                continue
            if isinstance(value, dict):
                if has_attribute(value):
                    self.note(child, 0)
                self.members(value, child, array)
            elif isinstance(value, list):
                self.note(child, PRESENT | ARRAY)
                self.elements(value, child)
            else:
                self.note(child, PRESENT | array, value)

    def elements(self, elements: list[object], node: int) -> None:
        """The elements of an array at a node, nested arrays in their place."""
        for element in elements:
            if isinstance(element, list):
                self.elements(element, node)
                continue
            self.note(node, PRESENT | ARRAY, element)
            if isinstance(element, dict):
                self.members(element, node, ARRAY)

    def note(self, node: int, flags: int, *values: object) -> None:
        """Add to what the event has at the attribute that ends at a node, if one does."""
        attribute = self.vocabulary.attribute_of_node(node)
        if attribute >= 0:
            entry = self.found.get(attribute, Entry(attribute, 0, []))
            entry.values.extend(values)
            self.found[attribute] = entry._replace(flags=entry.flags | flags)
