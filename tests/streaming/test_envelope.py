from __future__ import annotations

import base64

import orjson
import pytest

from index.errors import EVENT_ERROR_REASONS, EventError
from index.limits import LIMITS
from streaming.envelope import ENVELOPE_ERROR_REASONS, hops_of, is_json, open_envelope

BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_type", b"t"), ("ce_count", b"3")]
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=utf-8")]


def structured(**members: object) -> bytes:
    return orjson.dumps({"specversion": "1.0", "id": "7", "type": "t", **members})


def reason_of(value: bytes | None, headers: list[tuple[str, bytes | None]]) -> str:
    with pytest.raises(EventError) as caught:
        open_envelope(value, headers, LIMITS)
    assert caught.value.reason in EVENT_ERROR_REASONS | ENVELOPE_ERROR_REASONS
    return caught.value.reason


def test_plain_json_is_the_event_itself_whatever_its_other_headers() -> None:
    envelope = open_envelope(b'{"a":1}', [("trace", b"x"), ("content-type", b"text/plain")], LIMITS)
    assert envelope.payload == b'{"a":1}'
    assert envelope.context is None


def test_both_modes_give_the_same_event() -> None:
    binary = open_envelope(b'{"a":1}', BINARY, LIMITS)
    other = open_envelope(structured(count=3, data={"a": 1}), STRUCTURED, LIMITS)
    assert binary == other
    assert binary.context == {"specversion": "1.0", "id": "7", "type": "t", "count": "3"}


def test_context_attributes_of_structured_mode_become_canonical_text() -> None:
    value = structured(yes=True, no=False, negative=-4, unset=None)
    context = open_envelope(value, STRUCTURED, LIMITS).context
    assert context is not None
    assert (context["yes"], context["no"], context["negative"]) == ("true", "false", "-4")
    assert "unset" not in context


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "image/png"])
def test_data_that_is_not_json_gives_no_payload_in_either_mode(media_type: str) -> None:
    header = ("content-type", media_type.encode())
    assert open_envelope(b"{}", [*BINARY, header], LIMITS).payload == b""
    value = structured(datacontenttype=media_type, data="{}")
    assert open_envelope(value, STRUCTURED, LIMITS).payload == b""


def test_base64_data_is_decoded() -> None:
    encoded = base64.b64encode(b'{"a":1}').decode()
    assert open_envelope(structured(data_base64=encoded), STRUCTURED, LIMITS).payload == b'{"a":1}'


def test_numbers_of_structured_data_survive_the_way_through() -> None:
    value = b'{"id":"1","data":{"big":9223372036854775807,"f":9007199254740992.0,"e":1e22}}'
    payload = open_envelope(value, STRUCTURED, LIMITS).payload
    assert orjson.loads(payload) == {"big": 9223372036854775807, "f": 9007199254740992.0, "e": 1e22}
    assert b"9007199254740992.0" in payload


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (None, [], "null_value"),
        (None, STRUCTURED, "null_value"),
        (
            b"[]",
            [("content-type", b"application/cloudevents-batch+json")],
            "unsupported_content_type",
        ),
        (b"", [("content-type", b"application/cloudevents+avro")], "unsupported_content_type"),
        (b"{}", [("ce_id", b"\xff")], "invalid_utf8"),
        (b"{}", [("ce_id", b"1"), ("ce_id", b"2")], "duplicate_key"),
        (structured(a=1.5), STRUCTURED, "invalid_context_attribute"),
        (structured(a={}), STRUCTURED, "invalid_context_attribute"),
        (structured(data=1, data_base64="YQ=="), STRUCTURED, "invalid_data"),
        (structured(data_base64="?"), STRUCTURED, "invalid_data"),
        (structured(data_base64=3), STRUCTURED, "invalid_data"),
        (b"[]", STRUCTURED, "not_an_object"),
        (b"{", STRUCTURED, "invalid_json"),
    ],
)
def test_what_is_none_of_the_three_forms_has_a_reason(
    value: bytes | None, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    assert reason_of(value, headers) == reason


def test_a_cloudevent_without_data_is_an_event() -> None:
    assert open_envelope(None, BINARY, LIMITS).payload == b""


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        (None, True),
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("text/json", True),
        ("text/plain", False),
        ("json", False),
    ],
)
def test_which_media_types_are_json(media_type: str | None, expected: bool) -> None:
    assert is_json(media_type) is expected


def test_hops_that_cannot_be_read_count_as_very_many() -> None:
    assert hops_of(None) == hops_of({}) == 0
    assert hops_of({"heraldhops": "3"}) == 3
    assert all(hops_of({"heraldhops": text}) == 9999 for text in ("", "-1", "x", "٣", "1" * 9))
