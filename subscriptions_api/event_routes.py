"""Routes of events: publish to Kafka, and try out what an event would match."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Request

from index.decode import parse_event
from index.errors import EventError, FilterError
from index.explain import Explanation, deciding, explain
from index.filter_json import loads_json
from index.instants import format_instant, parse_instant
from index.model import Instant
from store.records import SubscriptionRecord
from subscriptions_api.auth import Caller
from subscriptions_api.context import (
    Body,
    Context,
    EventPublisher,
    Parts,
    Subscriber,
    media_type_of,
    require_media_type,
)
from subscriptions_api.errors import Problem, of_body, of_event
from subscriptions_api.limits import EVENTS_MAX
from subscriptions_api.publisher import EventRecord
from subscriptions_api.schemas import filter_of_record
from subscriptions_api.subscription_routes import found

router = APIRouter(prefix="/v1", tags=["events"])

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
NDJSON = "application/x-ndjson"
CONTENT_TYPE = "content-type"
REQUIRED_ATTRIBUTES = ("id", "source", "specversion", "type")
MATCHES_EXPLAINED_MAX = 100


@router.post("/events", status_code=202)
def publish(
    request: Request, parts: Parts, caller: EventPublisher, body: Body
) -> dict[str, Any] | list[dict[str, Any]]:
    """Publish one event, or several as NDJSON or a CloudEvents batch; 202 once Kafka has them.

    An event may be plain JSON or a CloudEvent in binary or structured mode. One that would become
    a dead letter is refused, and with it the whole request. `key` is the Kafka key.
    """
    try:
        records = records_of(request, body)
    except Problem as problem:
        parts.metrics.events_refused.labels(problem.members.get("reason", problem.code)).inc()
        raise
    parts.events.take(caller.tenant, len(records))
    addresses = parts.publisher.publish(records)
    parts.metrics.events_published.inc(len(addresses))
    told = [
        {"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in addresses
    ]
    return told if media_type_of(request) in (BATCH, NDJSON) else told[0]


def records_of(request: Request, body: bytes) -> list[EventRecord]:
    """The Kafka records that a request stands for, each checked as the stream will check it."""
    key = request.query_params.get("key")
    key_bytes = None if key is None else key.encode()
    if any(name.startswith("ce-") for name in request.headers):
        return [binary_record(request, body, key_bytes)]
    media_type = require_media_type(request, "application/json", STRUCTURED, BATCH, NDJSON)
    if media_type == "application/json":
        checked(body)
        return [EventRecord(body, key_bytes)]
    payloads = [body] if media_type == STRUCTURED else payloads_of(media_type, body)
    if not payloads:
        raise Problem("invalid_event", "there is no event in the body")
    if len(payloads) > EVENTS_MAX:
        raise Problem("too_large", f"a request may have {EVENTS_MAX:,} events")
    headers: tuple[tuple[str, bytes], ...] = ()
    if media_type != NDJSON:
        headers = ((CONTENT_TYPE, STRUCTURED.encode()),)
    for place, payload in enumerate(payloads):
        event = checked(payload, pointer=f"/{place}")
        if media_type != NDJSON:
            require_attributes(event)
    return [EventRecord(payload, key_bytes, headers) for payload in payloads]


def payloads_of(media_type: str, body: bytes) -> Sequence[bytes]:
    """The events of a body that holds several."""
    if media_type == NDJSON:
        return [line for line in body.splitlines() if line.strip()]
    try:
        events = loads_json(body)
    except FilterError as error:
        raise of_body(error) from None
    if not isinstance(events, list):
        raise Problem("invalid_event", "a CloudEvents batch is a JSON array")
    return [orjson.dumps(event) for event in events]


def binary_record(request: Request, body: bytes, key: bytes | None) -> EventRecord:
    """A CloudEvent in HTTP's binary mode as one in Kafka's."""
    attributes = {
        name.removeprefix("ce-"): value
        for name, value in request.headers.items()
        if name.startswith("ce-")
    }
    require_attributes(attributes)
    headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
    if content_type := request.headers.get("content-type"):
        headers.append((CONTENT_TYPE, content_type.encode()))
    media_type = media_type_of(request)
    if body and (media_type in ("", "application/json") or media_type.endswith("+json")):
        try:
            parse_event(b'{"data":%b}' % body)
        except EventError as error:
            raise of_event(error) from None
    return EventRecord(body, key, tuple(headers))


def require_attributes(attributes: dict[str, Any]) -> None:
    """Refuse a CloudEvent without a required context attribute."""
    for name in REQUIRED_ATTRIBUTES:
        if not attributes.get(name):
            raise Problem(
                "invalid_event", f"a CloudEvent needs the attribute {name}", reason="no_attribute"
            )


def checked(payload: bytes, pointer: str | None = None) -> dict[str, object]:
    """The event, parsed as the stream will parse it; Problem if it would be a dead letter."""
    try:
        return parse_event(payload)
    except EventError as error:
        raise of_event(error, pointer=pointer) from None


@router.post("/events:match")
def dry_run(
    request: Request,
    parts: Parts,
    caller: Subscriber,
    body: Body,
    subscription: str | None = None,
    now: str | None = None,
) -> dict[str, Any]:
    """Which subscriptions of the caller's tenant the event in the body would notify, and why.

    With `subscription`, why that one would or would not. Nothing is published.
    """
    require_media_type(request, "application/json")
    event = checked(body)
    parts.dry_runs.take(caller.tenant)
    instant = instant_of(now)
    if subscription is not None:
        record = found(parts, caller.tenant, subscription)
        return {"now": format_instant(instant), **told(parts, record, event, instant)}
    run = parts.follower.match(caller.tenant, event, instant)
    records = existing(parts, caller, run.ids[:MATCHES_EXPLAINED_MAX])
    matched = [told(parts, record, event, instant) for record in records]
    return {
        "now": format_instant(instant),
        "epoch": run.epoch,
        "count": len(run.ids),
        "matches": [one for one in matched if one["matches"]],
    }


def existing(parts: Context, caller: Caller, ids: Sequence[str]) -> list[SubscriptionRecord]:
    """The records of ids; one deleted meanwhile is left out."""
    records = (parts.store.get(caller.tenant, name) for name in ids)
    return [record for record in records if record is not None]


def told(
    parts: Context, record: SubscriptionRecord, event: dict[str, object], now: Instant
) -> dict[str, Any]:
    """Whether a subscription matches an event, and what decides it."""
    explained = explain(filter_of_record(record), event, now)
    expired = record.expires_at is not None and parse_instant(record.expires_at) <= now
    matches = explained.truth is True and record.enabled and not expired
    return {
        "id": record.id,
        "revision": record.revision,
        "matches": matches,
        **({} if record.enabled else {"disabled": True}),
        **({"expired": True} if expired else {}),
        "because": [
            {"text": one.text, "truth": truth_name(one), "event": one.why}
            for one in deciding(explained)
        ],
        "filed": parts.follower.filing_of(record.tenant, record.id),
    }


def truth_name(explained: Explanation) -> str:
    """TRUE, FALSE or UNKNOWN."""
    return {True: "TRUE", False: "FALSE"}.get(explained.truth, "UNKNOWN")  # type: ignore[arg-type]


def instant_of(text: str | None) -> Instant:
    """The instant that NOW() shall be; the present one by default."""
    if text is None:
        return Instant(*divmod(time.time_ns(), 1_000_000_000))
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem("invalid_parameter", f"now: {error}") from None
