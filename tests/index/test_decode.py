"""The plain decoder against docs/semantics.md section 1."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.decode import elements_at, exists, parse_event, parse_value, values_at
from index.errors import EVENT_ERROR_REASONS, EventError
from index.limits import LIMITS
from tests.strategies import events_near, filters, payload_of

REFUSED = [
    ("not_an_object", b"[1]"),
    ("not_an_object", b'"text"'),
    ("not_an_object", b"null"),
    ("not_an_object", b" true "),
    ("not_an_object", b"3"),
    ("invalid_json", b""),
    ("invalid_json", b" "),
    ("invalid_json", b'{"a": 1'),
    ("invalid_json", b'{"a": 1} 2'),
    ("invalid_json", b'{"a": 1}{}'),
    ("invalid_json", b'{"a": 1,}'),
    ("invalid_json", b'{"a": [1,]}'),
    ("invalid_json", b"{'a': 1}"),
    ("invalid_json", b"{a: 1}"),
    ("invalid_json", b'{"a": 01}'),
    ("invalid_json", b'{"a": +1}'),
    ("invalid_json", b'{"a": .5}'),
    ("invalid_json", b'{"a": 1.}'),
    ("invalid_json", b'{"a": 1e}'),
    ("invalid_json", b'{"a": 0x10}'),
    ("invalid_json", b'{"a": -}'),
    ("invalid_json", '{"a": ١}'.encode()),
    ("invalid_json", b'{"a": True}'),
    ("invalid_json", b'{"a": "line\nbreak"}'),
    ("invalid_json", b'{"a": "\x00"}'),
    ("invalid_json", b'{"a": "\\x41"}'),
    ("invalid_json", b'{"a": "\\u12"}'),
    ("invalid_json", b'{"a": /* no */ 1}'),
    ("invalid_json", b"\xef\xbb\xbf{}"),
    ("invalid_json", "{\u00a0}".encode()),
    ("invalid_utf8", b'{"a": "\xff"}'),
    ("invalid_utf8", b'{"a": "\xc0\xaf"}'),
    ("invalid_utf8", b'{"a": "\xed\xa0\x80"}'),
    ("invalid_utf8", b'{"a": "\xe9"}'),
    ("lone_surrogate", b'{"a": "\\ud800"}'),
    ("lone_surrogate", b'{"a": "\\udc00\\ud800"}'),
    ("lone_surrogate", b'{"\\udfff": 1}'),
    ("lone_surrogate", b'{"a": [{"b": ["x\\ud83d"]}]}'),
    ("duplicate_key", b'{"a": 1, "a": 1}'),
    ("duplicate_key", b'{"a": 1, "\\u0061": 2}'),
    ("duplicate_key", b'{"x": [[{"a": {"b": 1, "b": 2}}]]}'),
    ("invalid_number", b'{"a": NaN}'),
    ("invalid_number", b'{"a": Infinity}'),
    ("invalid_number", b'{"a": [-Infinity]}'),
    ("invalid_number", b'{"a": 1e400}'),
    ("invalid_number", b'{"a": -1e309}'),
    ("invalid_number", b'{"a": ' + b"9" * 400 + b"}"),
]


@pytest.mark.parametrize(("reason", "payload"), REFUSED, ids=lambda part: str(part)[:40])
def test_refused(reason: str, payload: bytes) -> None:
    with pytest.raises(EventError) as caught:
        parse_event(payload)
    assert caught.value.reason == reason
    assert reason in EVENT_ERROR_REASONS


def test_every_reason_has_an_example() -> None:
    limits = {"too_large", "too_deep", "too_many_values"}
    assert {reason for reason, _ in REFUSED} | limits == set(EVENT_ERROR_REASONS)


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("35", 35),
        ("35.0", 35.0),
        ("3.5e1", 35.0),
        ("-0", 0),
        ("-0.0", -0.0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", float(2**63)),
        ("-9223372036854775809", -float(2**63)),
        ("18446744073709551615", 18446744073709551616.0),
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993.0", float(2**53)),
        ("0.1000000000000000055", 0.1),
        ("1e-400", 0.0),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("0." + "0" * 5000 + "1", 0.0),
        ("1" + "0" * 300, 1e300),
    ],
)
def test_numbers_are_int64_or_the_nearest_double(token: str, value: float) -> None:
    found = parse_event(b'{"a": %s}' % token.encode())["a"]
    assert found == value
    assert type(found) is type(value)


def test_unusual_but_valid_text() -> None:
    payload = '\t{ "\\u00e9\\/" : "\\ud83d\\ude00\x7f\u2028" , "" : [ ] }\r\n'.encode()
    assert parse_event(payload) == {"é/": "😀\x7f\u2028", "": []}


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def nested_in_arrays(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def with_values(count: int) -> bytes:
    return json.dumps({"a": list(range(count - 2)), "b": "x", "c": [[None]]}).encode()


def of_size(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


@pytest.mark.parametrize(
    ("reason", "limit", "payload_at"),
    [
        ("too_deep", LIMITS.event_depth, nested),
        ("too_deep", LIMITS.event_depth, nested_in_arrays),
        ("too_many_values", LIMITS.event_values, with_values),
        ("too_large", LIMITS.event_bytes, of_size),
    ],
)
def test_limits_hold_at_the_limit_and_one_beyond(reason: str, limit: int, payload_at: Any) -> None:
    parse_event(payload_at(limit))
    with pytest.raises(EventError) as caught:
        parse_event(payload_at(limit + 1))
    assert caught.value.reason == reason


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"a":['])
def test_a_bomb_of_brackets_is_a_dead_letter(opening: bytes) -> None:
    with pytest.raises(EventError):
        parse_event(opening * (LIMITS.event_bytes // len(opening)))


def test_a_bomb_of_keys_is_judged_in_linear_time() -> None:
    names = b",".join(b'"%d":{}' % number for number in range(60_000))
    assert len(parse_event(b"{" + names[:-2] + b"0}")) == 60_000
    with pytest.raises(EventError, match="duplicate_key"):
        parse_event(b"{" + names + b',"7":1}')


def test_a_value_inside_others_counts_their_depth() -> None:
    limits = replace(LIMITS, event_depth=3)
    assert parse_value(b"[[5]]", limits, depth=1) == [[5]]
    with pytest.raises(EventError, match="too_deep"):
        parse_value(b"[[5]]", limits, depth=2)


@given(filters().flatmap(lambda node: events_near(node)))
def test_an_event_reads_back_as_it_was_written(event: dict[str, Any]) -> None:
    assert parse_event(payload_of(event)) == event


@given(st.binary(max_size=40) | st.text('{}[]":,\\u0d8eE+-.1 \n', max_size=30).map(str.encode))
def test_any_bytes_are_an_event_or_a_dead_letter(payload: bytes) -> None:
    try:
        event = parse_event(payload)
    except EventError as error:
        assert error.reason in EVENT_ERROR_REASONS
    else:
        assert json.loads(payload) == event


PATHS: list[tuple[str, str, dict[str, Any], tuple[bool, list[Any], bool], bool]] = [
    # name, path, event, values_at, exists
    ("scalar", "a", {"a": 1}, (True, [1], False), True),
    ("null is a value", "a", {"a": None}, (True, [None], False), True),
    ("absent", "a", {"b": 1}, (False, [], False), False),
    ("nested", "a.b", {"a": {"b": 1}}, (True, [1], False), True),
    ("an object is no value", "a", {"a": {"b": 1}}, (False, [], False), True),
    ("an empty object adds nothing", "a", {"a": {}}, (False, [], False), False),
    ("not even deep down", "a", {"a": {"b": {"c": {}}}}, (False, [], False), False),
    ("a dotted name is one name", "a.b", {"a.b": 1}, (False, [], False), False),
    ("names are case-sensitive", "a", {"A": 1}, (False, [], False), False),
    ("array", "a", {"a": [1, "x"]}, (True, [1, "x"], True), True),
    ("array of one", "a", {"a": [1]}, (True, [1], True), True),
    ("empty array", "a", {"a": []}, (True, [], True), True),
    ("nested arrays", "a", {"a": [[1, [2]], [], 3]}, (True, [1, 2, 3], True), True),
    ("object in array", "a", {"a": [{"b": 1}]}, (True, [{"b": 1}], True), True),
    ("empty object in array", "a", {"a": [{}]}, (True, [{}], True), True),
    ("below an empty array", "a.b", {"a": []}, (False, [], False), False),
    ("through an array", "a.b", {"a": [{"b": 1}, {"b": 2}]}, (True, [1, 2], True), True),
    ("one of two", "a.b", {"a": [{"c": 1}, {"b": 2}, 7]}, (True, [2], True), True),
    ("through nested arrays", "a.b", {"a": [[{"b": 1}]]}, (True, [1], True), True),
    ("array in array", "a.b", {"a": [{"b": [1, 2]}, {"b": 3}]}, (True, [1, 2, 3], True), True),
    ("empty array in array", "a.b", {"a": [{"b": []}]}, (True, [], True), True),
    ("object below array", "a.b", {"a": [{"b": {"c": 1}}]}, (False, [], False), True),
    ("empty object below array", "a.b", {"a": [{"b": {}}]}, (False, [], False), False),
    ("through a scalar", "a.b", {"a": 1}, (False, [], False), False),
    ("through null", "a.b", {"a": None}, (False, [], False), False),
    ("digits are names, not places", "a.0", {"a": [5]}, (False, [], False), False),
]


@pytest.mark.parametrize(("name", "path", "event", "values", "there"), PATHS)
def test_paths(name: str, path: str, event: dict[str, Any], values: Any, there: bool) -> None:
    steps = tuple(path.split("."))
    assert values_at(event, steps) == values
    assert exists(event, steps) is there


@pytest.mark.parametrize(
    ("event", "elements"),
    [
        ({}, (False, [])),
        ({"p": {}}, (False, [])),
        ({"p": []}, (True, [])),
        ({"p": {"a": 1}}, (True, [{"a": 1}])),
        ({"p": 3}, (True, [{}])),
        ({"p": None}, (True, [{}])),
        ({"p": [{"a": 1}, {}, 3, [{"a": 2}]]}, (True, [{"a": 1}, {}, {}, {"a": 2}])),
    ],
)
def test_elements(event: dict[str, Any], elements: Any) -> None:
    assert elements_at(event, ("p",)) == elements
