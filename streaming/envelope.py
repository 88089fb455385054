"""Envelopes: which part of a Kafka record is the event, and what stands beside it in headers.

    binary mode       headers `ce_*`; the value is the data
    structured mode   header `content-type: application/cloudevents+json`; the value is everything
    plain JSON        neither; the value is the event

Both CloudEvents modes give the same event: context attributes are strings (CloudEvents' canonical
text) at the root, the data lies below `data`. Data that is not JSON gives no attributes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from index.decode import parse_event
from index.errors import EventError
from index.limits import Limits

CONTENT_TYPE = "content-type"
ATTRIBUTE_PREFIX = "ce_"
CLOUDEVENTS_TYPE = "application/cloudevents"
HOPS_ATTRIBUTE = "heraldhops"
"""CloudEvents extension: how often the event has been a notification of Herald already."""
HOPS_DIGITS_MAX = 4

ENVELOPE_ERROR_REASONS = {
    "null_value": "the Kafka value is null",
    "unsupported_content_type": "a CloudEvents format other than JSON, or a batch of events",
    "invalid_context_attribute": "a context attribute that is no string, boolean or integer",
    "invalid_data": "data_base64 that is no base64, or data given twice",
    "too_many_hops": "the event came out of Herald's own notifications too often",
}
"""Reasons of dead letters beside those of `index.errors.EVENT_ERROR_REASONS`."""

RecordHeaders = Sequence[tuple[str, bytes | None]]


class Envelope(NamedTuple):
    """What is in a record.

    payload   the JSON that is the event (context None) or its data; empty: no data.
    context   CloudEvents attributes by name; None for plain JSON.
    """

    payload: bytes
    context: dict[str, str] | None


def open_envelope(value: bytes | None, headers: RecordHeaders, limits: Limits) -> Envelope:
    """Tell the three forms apart; EventError for a record that is none of them."""
    content_type = None
    context: dict[str, str] = {}
    for name, raw in headers:
        lowered = name.lower()
        if lowered == CONTENT_TYPE:
            content_type = _text(name, raw)
        elif lowered.startswith(ATTRIBUTE_PREFIX):
            attribute = name[len(ATTRIBUTE_PREFIX) :]
            if attribute in context:
                raise EventError("duplicate_key", f"header {name} is there twice")
            context[attribute] = _text(name, raw)
    if content_type is not None and content_type.lower().startswith(CLOUDEVENTS_TYPE):
        return _structured(value, content_type, limits)
    if context:
        if content_type is not None:
            context.setdefault("datacontenttype", content_type)
        has_json = value is not None and is_json(context.get("datacontenttype"))
        return Envelope(value if has_json and value is not None else b"", context)
    if value is None:
        raise EventError("null_value", "a record without a value")
    return Envelope(value, None)


def is_json(media_type: str | None) -> bool:
    """Whether data of this type is JSON; data without a type is taken for it."""
    if media_type is None:
        return True
    essence = media_type.partition(";")[0].strip().lower()
    subtype = essence.partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def hops_of(context: dict[str, str] | None) -> int:
    """How often the event has been a notification; a count that cannot be read is a huge one."""
    text = None if context is None else context.get(HOPS_ATTRIBUTE)
    if text is None:
        return 0
    if text.isascii() and text.isdigit() and len(text) <= HOPS_DIGITS_MAX:
        return int(text)
    return int("9" * HOPS_DIGITS_MAX)


def _structured(value: bytes | None, content_type: str, limits: Limits) -> Envelope:
    essence = content_type.partition(";")[0].strip().lower()
    if essence != f"{CLOUDEVENTS_TYPE}+json":
        raise EventError("unsupported_content_type", content_type)
    if value is None:
        raise EventError("null_value", "a record without a value")
    members = parse_event(value, limits)
    has_data, data = "data" in members, members.pop("data", None)
    encoded = members.pop("data_base64", None)
    context = {
        name: _canonical(name, member) for name, member in members.items() if member is not None
    }
    json_data = is_json(context.get("datacontenttype"))
    if encoded is not None:
        if has_data or not isinstance(encoded, str):
            raise EventError("invalid_data", "data_base64 needs a string, and no data beside it")
        payload = _decode_base64(encoded)
    else:
        payload = orjson.dumps(data) if has_data else b""
    return Envelope(payload if json_data else b"", context)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventError("invalid_data", f"data_base64: {error}") from None


def _canonical(name: str, member: object) -> str:
    """A context attribute as the text that binary mode would have."""
    match member:
        case bool():
            return "true" if member else "false"
        case int():
            return str(member)
        case str():
            return member
        case _:
            raise EventError(
                "invalid_context_attribute", f"{name} is no string, boolean or integer"
            )


def _text(name: str, raw: bytes | None) -> str:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError as error:
        raise EventError("invalid_utf8", f"header {name}: {error}") from None
