"""An HTTP request as events: the Kafka records to write, and each event as the stream will see it.

    application/json                      the body is the event
    any type, with ce-* headers           CloudEvent in binary mode: the body is its data
    application/cloudevents+json          CloudEvent in structured mode
    application/cloudevents-batch+json    a JSON array of them
    application/x-ndjson                  plain events, one a line

What would become a dead letter is refused here, with the dead letter's reason.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import orjson
from fastapi import Request

from index.decode import parse_event
from index.errors import EventError, cut
from index.model import Path
from index.payloads import Payloads
from subscriptions_api.context import media_type_of, require_media_type
from subscriptions_api.errors import Problem, of_event
from subscriptions_api.forms import load_json
from subscriptions_api.limits import EVENTS_MAX
from subscriptions_api.publisher import EventRecord
from subscriptions_api.schemas import NDJSON

PLAIN = "application/json"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
MEDIA_TYPES = (PLAIN, STRUCTURED, BATCH, NDJSON)
MANY = (BATCH, NDJSON)
"""Types of bodies with several events: the answer is a list, too."""

CONTENT_TYPE = "content-type"
HEADER_PREFIX = "ce-"
REQUIRED_ATTRIBUTES = ("id", "source", "specversion", "type")
_NAME = re.compile(r"[a-z0-9]+")


class EventForm(NamedTuple):
    """One event: what goes into Kafka, and what subscriptions are matched with."""

    record: EventRecord
    event: dict[str, object]


def events_of(request: Request, body: bytes, prefix: Path) -> list[EventForm]:
    """The events of a request; Problem if one of them would become a dead letter.

    prefix is where the stream puts a CloudEvent's data.
    """
    key_text = request.query_params.get("key")
    key = None if key_text is None else key_text.encode()
    media_type = media_type_of(request)
    if media_type not in (STRUCTURED, *MANY) and has_attributes(request):
        return [binary_event(request, body, key, prefix)]
    require_media_type(request, *MEDIA_TYPES)
    payloads = payloads_of(media_type, body)
    if not payloads:
        raise Problem("invalid_event", "there is no event in the body", reason="no_event")
    if len(payloads) > EVENTS_MAX:
        raise Problem("too_large", f"a request may have {EVENTS_MAX:,} events")
    forms = []
    for place, payload in enumerate(payloads):
        try:
            if media_type in (STRUCTURED, BATCH):
                forms.append(structured_event(payload, key, prefix))
            else:
                forms.append(EventForm(EventRecord(payload, key), parse_event(payload)))
        except EventError as error:
            pointer = f"/{place}" if media_type in MANY else None
            raise of_event(error, pointer=pointer) from None
    return forms


def payloads_of(media_type: str, body: bytes) -> Sequence[bytes]:
    """The events of a body, each as its bytes."""
    if media_type == NDJSON:
        return [line for line in body.split(b"\n") if line.strip()]
    if media_type != BATCH:
        return [body]
    events = load_json(body)
    if not isinstance(events, list):
        raise Problem("invalid_event", "a CloudEvents batch is a JSON array", reason="no_array")
    try:
        return [orjson.dumps(event) for event in events]
    except orjson.JSONEncodeError as error:  # its nesting is far beyond any event's limit
        raise Problem("invalid_event", str(error), reason="too_deep") from None


def has_attributes(request: Request) -> bool:
    """Whether headers carry CloudEvents attributes."""
    return any(name.startswith(HEADER_PREFIX) for name in request.headers)


def binary_event(request: Request, body: bytes, key: bytes | None, prefix: Path) -> EventForm:
    """A CloudEvent in HTTP's binary mode as one in Kafka's."""
    try:
        context = attributes_of(request)
        require_attributes(context)
        headers = [(f"ce_{name}", value.encode()) for name, value in context.items()]
        if content_type := request.headers.get(CONTENT_TYPE):
            headers.append((CONTENT_TYPE, content_type.encode()))
            context.setdefault("datacontenttype", content_type)
        event = placed(body, context, prefix)
    except EventError as error:
        raise of_event(error) from None
    return EventForm(EventRecord(body, key, tuple(headers)), event)


def attributes_of(request: Request) -> dict[str, str]:
    """CloudEvents attributes in headers: UTF-8, and percent-encoded where HTTP wants it."""
    context: dict[str, str] = {}
    for header, value in request.headers.items():
        name = header.removeprefix(HEADER_PREFIX)
        if name == header:
            continue
        if not _NAME.fullmatch(name) or name == "data":
            raise EventError("invalid_context_attribute", f"{cut(header)} is no attribute's header")
        if name in context:
            raise EventError("duplicate_key", f"header {cut(header)} is there twice")
        try:
            context[name] = unquote_to_bytes(value.encode("latin-1")).decode()
        except UnicodeDecodeError:
            raise EventError("invalid_utf8", f"header {cut(header)}") from None
    return context


def structured_event(payload: bytes, key: bytes | None, prefix: Path) -> EventForm:
    """A CloudEvent that is one JSON object."""
    members = parse_event(payload)
    data, encoded = members.pop("data", None), members.pop("data_base64", None)
    context = {
        name: canonical_text(name, value) for name, value in members.items() if value is not None
    }
    require_attributes(context)
    inner = b"" if data is None else orjson.dumps(data)
    if encoded is not None:
        inner = decoded(encoded, data)
    record = EventRecord(payload, key, ((CONTENT_TYPE, STRUCTURED.encode()),))
    return EventForm(record, placed(inner, context, prefix))


def canonical_text(name: str, value: object) -> str:
    """A context attribute as the text that binary mode has."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise EventError("invalid_context_attribute", f"{cut(name)} is no string, boolean or integer")


def decoded(encoded: object, data: object) -> bytes:
    """The data that `data_base64` stands for."""
    if data is not None or not isinstance(encoded, str):
        raise EventError("invalid_data", "data_base64 is a string, without data beside it")
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise EventError("invalid_data", f"data_base64: {error}") from None


def placed(data: bytes, context: dict[str, str], prefix: Path) -> dict[str, object]:
    """Attributes and data as one event; data that is not JSON gives it no attributes."""
    payload = data if is_json(context.get("datacontenttype")) else b""
    return Payloads.of([payload], context=[context], prefix=prefix).event(0)


def is_json(media_type: str | None) -> bool:
    """Whether data of this type is JSON; data without a type is taken for it."""
    if media_type is None:
        return True
    subtype = media_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def require_attributes(context: Mapping[str, str]) -> None:
    """Refuse a CloudEvent without a required context attribute."""
    for name in REQUIRED_ATTRIBUTES:
        if not context.get(name):
            raise EventError("missing_context_attribute", f"a CloudEvent needs {name}")
