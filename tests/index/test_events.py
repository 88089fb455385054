"""Events as columns: against the plain lookups of `index.decode`, and a batch's small print."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.columns import ARRAY, PRESENT, EventBatch, ValueType
from index.decode import exists, parse_event, values_at
from index.errors import EventError
from index.events import Events, decode_payloads, encode
from index.flatten import value_of
from index.vocabulary import Vocabulary

NAMES = ["a", "b", "items", "sku"]
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["UA", "", 0.5, -0.0])
nested = st.recursive(
    scalars,
    lambda child: (
        st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(NAMES), child, max_size=3)
    ),
    max_leaves=12,
)
event_lists = st.lists(st.dictionaries(st.sampled_from(NAMES), nested, max_size=4), max_size=4)
path_lists = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple))


def entries(columns: EventBatch, row: int) -> dict[int, tuple[int, list[Any]]]:
    """Attribute -> (flags, values); a value is (type, number, residual, text)."""
    found = {}
    for entry in range(columns.entry_start[row], columns.entry_start[row + 1]):
        values = []
        for at in range(columns.value_start[entry], columns.value_start[entry + 1]):
            text = None
            if (number := int(columns.value_string[at])) >= 0:
                start, stop = columns.string_start[number : number + 2]
                text = columns.text[start:stop].tobytes()
            values.append(
                (
                    int(columns.value_type[at]),
                    float(columns.value_number[at]),
                    int(columns.value_residual[at]),
                    text,
                )
            )
        found[int(columns.entry_attribute[entry])] = int(columns.entry_flags[entry]), values
    return found


@given(event_lists, path_lists)
def test_columns_hold_what_the_plain_lookups_find(
    events: list[dict[str, object]], paths: list[tuple[str, ...]]
) -> None:
    vocabulary = Vocabulary()
    for path in paths:
        vocabulary.attribute(path)
    payloads = [json.dumps(event).encode() for event in events]
    for batch in (encode(events, vocabulary), decode_payloads(payloads, vocabulary).events):
        for row, event in enumerate(events):
            found = entries(batch.columns, row)
            assert list(found) == sorted(found)
            for path in paths:
                present, values, array = values_at(event, path)
                flags, got = found.get(vocabulary.attribute(path), (None, []))
                assert (flags is not None) == exists(event, path)
                assert bool((flags or 0) & PRESENT) == present
                assert bool((flags or 0) & ARRAY) == array
                assert got == [tuple(value_of(value)) for value in values]


def test_the_drawing_of_the_column_module() -> None:
    vocabulary = Vocabulary()
    for name in ("carrier", "delay", "dest", "tags"):
        vocabulary.attribute((name,))
    vocabulary.string(b"UA")
    batch = encode(
        [{"dest": "SFO", "delay": 61, "carrier": "UA"}, {"tags": ["x", 7], "carrier": "AA"}],
        vocabulary,
    )
    columns = batch.columns
    assert columns.entry_start.tolist() == [0, 3, 5]
    assert columns.entry_attribute.tolist() == [0, 1, 2, 0, 3]
    assert columns.value_start.tolist() == [0, 1, 2, 3, 4, 6]
    assert columns.value_number.tolist() == [0, 61, 0, 0, 0, 7]
    strings = ValueType.STRING
    assert (columns.value_type == strings).tolist() == [True, False, True, True, True, False]
    codes = [columns.string_code[number] for number in columns.value_string if number >= 0]
    assert codes == [0, -1, -1, -1]


def test_strings_are_folded_only_when_some_predicate_asks() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a",))
    payload = '{"a":["STRASSE","Straße","ſK"]}'.encode()
    columns = decode_payloads([payload], vocabulary).events.columns
    assert columns.folded_text.size == 0
    assert columns.folded_start.tolist() == [0, 0, 0, 0]
    code = vocabulary.string("straße".encode(), folded=True)
    columns = decode_payloads([payload], vocabulary).events.columns
    assert columns.folded_text.tobytes().decode() == "strassestraßesk"
    assert columns.folded_code.tolist() == [-1, code, -1]
    assert columns.string_code.tolist() == [-1, -1, -1]


def test_events_are_renewed_only_if_the_vocabulary_grew() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a",))
    source = {"a": 1, "b": 2}
    batches = [encode([source], vocabulary), decode_payloads([b'{"a":1,"b":2}'], vocabulary).events]
    for events in batches:
        assert events.renewed(vocabulary) is events
    vocabulary.attribute(("b",))
    for events in batches:
        renewed = events.renewed(vocabulary)
        assert renewed.columns.entry_attribute.tolist() == [0, 1]
        assert events.columns.entry_attribute.tolist() == [0]


def test_one_event_is_parsed_once_and_with_its_context() -> None:
    vocabulary = Vocabulary()
    events = decode_payloads(
        [b'{"x":[1]}', b""], vocabulary, context=[{"type": "t"}, {"type": "u"}], prefix=("data",)
    ).events
    assert events.event(0) == {"type": "t", "data": {"x": [1]}}
    assert events.event(0) is events.event(0)
    assert events.event(1) == {"type": "u"}
    assert len(events) == 2 and events.decode_s > 0


def test_a_refused_event_keeps_its_row() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a",))
    batch = decode_payloads([b'{"a":1}', b'{"a":2', b'{"a":3}'], vocabulary)
    assert [(row, error.reason) for row, error in batch.rejected] == [(1, "invalid_json")]
    assert batch.events.columns.entry_start.tolist() == [0, 1, 1, 2]
    assert batch.events.columns.value_number.tolist() == [1, 3]
    with pytest.raises(EventError):
        batch.events.event(1)


def test_a_batch_knows_nothing_of_attributes_interned_while_it_is_decoded() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a", "b"))
    columns = vocabulary.columns()
    vocabulary.attribute(("a",))
    vocabulary.columns()  # writes to the arrays that `columns` shares
    assert columns.attribute_count == 1
    events = Events(encode([{"a": 1}], vocabulary).columns, [{"a": 1}], vocabulary, 0.0)
    assert events.columns.entry_attribute.tolist() == [1]


def test_big_batches_make_the_columns_grow() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a",))
    payloads = [
        json.dumps({"a": [f"string {row}/{number}" for number in range(60)]}).encode()
        for row in range(100)
    ]
    payloads += [json.dumps({"a": [0.30000000000000004] * 60}).encode()] * 100
    columns = decode_payloads(payloads, vocabulary).events.columns
    expected = encode([parse_event(payload) for payload in payloads], vocabulary).columns
    for got, wanted in zip(columns, expected, strict=True):
        assert np.array_equal(np.asarray(got), np.asarray(wanted))
