"""The route that publishes events to Kafka."""

from __future__ import annotations

from fastapi import APIRouter, Request

from index.model import Path
from subscriptions_api.context import Body, Context, EventPublisher, Parts, media_type_of
from subscriptions_api.errors import Problem
from subscriptions_api.event_forms import MANY, MEDIA_TYPES, EventForm, events_of
from subscriptions_api.schemas import JsonAnswer, PublishedAddress, body_schema
from subscriptions_api.threads import run_in

router = APIRouter(prefix="/v1", tags=["events"])


@router.post(
    "/events",
    status_code=202,
    response_model=PublishedAddress | list[PublishedAddress],
    openapi_extra=body_schema(*MEDIA_TYPES),
)
async def publish(
    request: Request, parts: Parts, caller: EventPublisher, body: Body, key: str | None = None
) -> JsonAnswer:
    """Publish one event, or several as NDJSON or a CloudEvents batch; 202 once Kafka has them.

    An event may be plain JSON or a CloudEvent in binary or structured mode. One that would become
    a dead letter is refused, and with it the whole request. `key` is the Kafka key.
    """
    forms = await run_in(parts.threads.publishing, read_events, parts, request, body)
    parts.events.take(caller.tenant, len(forms))
    records = [form.record for form in forms]
    addresses = await run_in(parts.threads.publishing, parts.publisher.publish, records)
    parts.metrics.events_published.inc(len(addresses))
    told = [
        {"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in addresses
    ]
    return JsonAnswer(told if media_type_of(request) in MANY else told[0], 202)


def read_events(parts: Context, request: Request, body: bytes) -> list[EventForm]:
    """The events of a request; a refusal is counted by its reason."""
    prefix: Path = () if parts.settings.lift_data else ("data",)
    try:
        return events_of(request, body, prefix)
    except Problem as problem:
        parts.metrics.events_refused.labels(problem.members.get("reason", problem.code)).inc()
        raise
