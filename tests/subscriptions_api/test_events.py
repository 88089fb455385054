"""Events into Kafka: what is written, in which mode, and what is refused before it."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from subscriptions_api.publisher import EventRecord, MemoryPublisher
from tests.subscriptions_api.client import Api, problem

EVENTS = "/v1/events"
PLAIN = {"content-type": "application/json"}
STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
NDJSON = {"content-type": "application/x-ndjson"}
CONTEXT = {"id": "1", "source": "/s", "specversion": "1.0", "type": "t"}
BINARY = {f"ce-{name}": value for name, value in CONTEXT.items()}


def published(api: Api) -> list[EventRecord]:
    assert isinstance(api.publisher, MemoryPublisher)
    return api.publisher.records


def test_a_plain_event_is_written_as_it_is(api: Api) -> None:
    body = b'{ "x": 1.0 }'
    answer = api.post(f"{EVENTS}?key=k%C3%A9", content=body, headers=PLAIN)
    assert (answer.status_code, answer.json()) == (
        202,
        {"topic": "events", "partition": 0, "offset": 0},
    )
    assert published(api) == [EventRecord(body, "ké".encode())]


def test_lines_are_events(api: Api) -> None:
    answer = api.post(EVENTS, content=b'{"x":1}\n\n{"x":2}\r\n', headers=NDJSON)
    assert [one["offset"] for one in answer.json()] == [0, 1]
    assert [one.value for one in published(api)] == [b'{"x":1}', b'{"x":2}\r']
    one = api.post(EVENTS, content=b'{"x":3}', headers=NDJSON)
    assert [address["offset"] for address in one.json()] == [2]


def test_a_structured_event_is_written_as_it_is(api: Api) -> None:
    body = orjson.dumps({**CONTEXT, "data": {"x": 1}})
    headers = {"content-type": "application/cloudevents+json; charset=utf-8", **BINARY}
    assert api.post(EVENTS, content=body, headers=headers).status_code == 202
    kept = (("content-type", b"application/cloudevents+json"),)
    assert published(api) == [EventRecord(body, None, kept)]


def test_a_batch_of_events_becomes_structured_ones(api: Api) -> None:
    events = [{**CONTEXT, "data": 9007199254740993}, {**CONTEXT, "id": "2", "data": 1.5}]
    answer = api.post(EVENTS, content=orjson.dumps(events), headers=BATCH)
    assert [one["offset"] for one in answer.json()] == [0, 1]
    assert [orjson.loads(one.value) for one in published(api)] == events
    assert {one.headers for one in published(api)} == {
        (("content-type", b"application/cloudevents+json"),)
    }


def test_a_binary_event_keeps_its_attributes_as_headers(api: Api) -> None:
    headers = {**BINARY, "ce-subject": "caf%C3%A9 %25", "Content-Type": "text/plain"}
    assert api.post(EVENTS, content=b"\xff", headers=headers).status_code == 202
    (record,) = published(api)
    assert record.value == b"\xff"
    assert dict(record.headers) == {
        "ce_subject": "café %".encode(),
        "content-type": b"text/plain",
        **{f"ce_{name}": value.encode() for name, value in CONTEXT.items()},
    }


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "invalid_json"),
        (b"[]", "not_an_object"),
        (b'{"x":1,"x":2}', "duplicate_key"),
        (b'{"x":1e400}', "invalid_number"),
        (b'{"x":"\\ud800"}', "lone_surrogate"),
        (b'{"x":"\xff"}', "invalid_utf8"),
        (b'{"x":' + b"[" * 32 + b"]" * 32 + b"}", "too_deep"),
        (b'{"x":[' + b"1," * 4096 + b"1]}", "too_many_values"),
    ],
)
def test_what_would_be_a_dead_letter_is_refused(api: Api, body: bytes, reason: str) -> None:
    refused = api.post(EVENTS, content=body, headers=PLAIN)
    assert problem(refused, 422, "invalid_event")["reason"] == reason
    lines = b'{"x":1}\n' + (body or b"1")
    if reason not in ("invalid_json", "not_an_object"):
        refused = api.post(EVENTS, content=lines, headers=NDJSON)
        document = problem(refused, 422, "invalid_event")
        assert (document["reason"], document["pointer"]) == (reason, "/1")
    assert published(api) == []
    assert f'reason="{reason}"' in api.get("/metrics").text


def structured(**members: Any) -> tuple[dict[str, str], bytes]:
    return STRUCTURED, orjson.dumps({**CONTEXT, **members})


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (structured(type=None), "missing_context_attribute"),
        (structured(type=""), "missing_context_attribute"),
        (structured(other=1.5), "invalid_context_attribute"),
        (structured(other=[]), "invalid_context_attribute"),
        (structured(data=1, data_base64="MQ=="), "invalid_data"),
        (structured(data_base64="?"), "invalid_data"),
        (structured(data_base64=1), "invalid_data"),
        (structured(data_base64=base64.b64encode(b"{").decode()), "invalid_json"),
        ((BATCH, b"{}"), "no_array"),
        ((BATCH, b"[]"), "no_event"),
        ((BATCH, b"[" * 600 + b"]" * 600), "too_deep"),
        ((NDJSON, b"\n"), "no_event"),
        (({"ce-id": "1"}, b"{}"), "missing_context_attribute"),
        (({**BINARY, "ce-data": "1"}, b"{}"), "invalid_context_attribute"),
        (({**BINARY, "ce-a_b": "1"}, b"{}"), "invalid_context_attribute"),
        (({**BINARY, "ce-subject": "%ff"}, b"{}"), "invalid_utf8"),
        ((BINARY, b'1,"x":2'), "invalid_json"),
        ((BINARY, b'1}, {"x":2'), "invalid_json"),
    ],
)
def test_a_broken_envelope_is_refused(
    api: Api, sent: tuple[dict[str, str], bytes], reason: str
) -> None:
    headers, body = sent
    refused = api.post(EVENTS, content=body, headers=headers)
    assert problem(refused, 422, "invalid_event")["reason"] == reason
    assert published(api) == []


def test_a_repeated_attribute_is_refused(api: Api) -> None:
    headers = [*BINARY.items(), ("ce-id", "2")]
    refused = api.post(EVENTS, content=b"{}", headers=headers)
    assert problem(refused, 422, "invalid_event")["reason"] == "duplicate_key"


def test_sizes_are_held_to_their_limits(api: Api) -> None:
    def of_size(size: int) -> bytes:
        return b'{"x":"' + b"x" * (size - 8) + b'"}'

    assert api.post(EVENTS, content=of_size(1_048_576), headers=PLAIN).status_code == 202
    over = api.post(EVENTS, content=of_size(1_048_577), headers=PLAIN)
    assert problem(over, 413, "too_large")["reason"] == "too_large"
    lines = b'{"x":1}\n' * 1_000
    assert len(api.post(EVENTS, content=lines, headers=NDJSON).json()) == 1_000
    problem(api.post(EVENTS, content=lines + b"{}", headers=NDJSON), 413, "too_large")
    batch = orjson.dumps([{**CONTEXT, "data": "x" * 900_000}] * 4)
    assert len(api.post(EVENTS, content=batch, headers=BATCH).json()) == 4


def test_other_content_is_refused(api: Api) -> None:
    for headers in ({}, {"content-type": "text/plain"}):
        refused = api.post(EVENTS, content=b"{}", headers=headers)
        problem(refused, 415, "unsupported_media_type")
    # With attributes in headers any content will do.
    headers = {**BINARY, "content-type": "text/plain"}
    assert api.post(EVENTS, content=b"{}", headers=headers).status_code == 202
