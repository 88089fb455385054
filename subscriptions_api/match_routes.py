"""The route that tries an event out: who would be notified, and why or why not."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request

from index.explain import deciding, explain
from index.instants import format_instant, parse_instant
from index.model import Instant
from store.records import SubscriptionRecord
from subscriptions_api.context import Body, Context, Parts, Subscriber
from subscriptions_api.errors import Problem
from subscriptions_api.event_forms import MEDIA_TYPES
from subscriptions_api.event_routes import read_events
from subscriptions_api.follower import has_expired
from subscriptions_api.forms import filter_of_record
from subscriptions_api.schemas import DryRunAnswer, JsonAnswer, Verdict, body_schema
from subscriptions_api.subscription_routes import found
from subscriptions_api.threads import run_in

router = APIRouter(prefix="/v1", tags=["events"])

MATCHES_EXPLAINED_MAX = 100
REASONS_MAX = 50
TRUTHS = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


@router.post(
    "/events:match",
    response_model=DryRunAnswer | Verdict,
    openapi_extra=body_schema(*MEDIA_TYPES),
)
async def dry_run(
    request: Request,
    parts: Parts,
    caller: Subscriber,
    body: Body,
    subscription: str | None = None,
    now: str | None = None,
) -> JsonAnswer:
    """Which subscriptions of the caller's tenant the event in the body would notify, and why.

    With `subscription`, why that one would or would not. Nothing is published. The event is sent
    as to /v1/events; `now` is the instant that NOW() stands for.
    """
    parts.dry_runs.take(caller.tenant)
    instant = instant_of(now)
    return await run_in(
        parts.threads.dry_runs, tried, parts, request, body, caller.tenant, subscription, instant
    )


def tried(
    parts: Context,
    request: Request,
    body: bytes,
    tenant: str,
    subscription: str | None,
    now: Instant,
) -> JsonAnswer:
    """The answer for all subscriptions of a tenant, or for one."""
    forms = read_events(parts, request, body)
    if len(forms) > 1:
        raise Problem("too_large", "one event at a time can be tried")
    event = forms[0].event
    if subscription is not None:
        record = found(parts, tenant, subscription)
        return JsonAnswer({"now": format_instant(now), **verdict(parts, record, event, now)})
    run = parts.follower.match(tenant, event, now)
    records = (parts.store.get(tenant, name) for name in run.ids[:MATCHES_EXPLAINED_MAX])
    verdicts = [verdict(parts, record, event, now) for record in records if record is not None]
    return JsonAnswer(
        {
            "now": format_instant(now),
            "epoch": run.epoch,
            "count": len(run.ids),
            # One that changed since that epoch is left out: its reasons would be of another filter.
            "matches": [one for one in verdicts if one["matches"]],
        }
    )


def verdict(
    parts: Context, record: SubscriptionRecord, event: dict[str, object], now: Instant
) -> dict[str, Any]:
    """Whether a subscription matches an event, and what decides it."""
    explained = explain(filter_of_record(record), event, now)
    expired = has_expired(record.expires_at, now)
    reasons = [
        {"text": one.text, "truth": TRUTHS[one.truth], "event": one.why}
        for one in deciding(explained)
    ]
    return {
        "id": record.id,
        "revision": record.revision,
        "matches": explained.truth is True and record.enabled and not expired,
        "truth": TRUTHS[explained.truth],
        **({} if record.enabled else {"disabled": True}),
        **({"expired": True} if expired else {}),
        "because": reasons[:REASONS_MAX],
        "filed": parts.follower.filing_of(record.tenant, record.id),
    }


def instant_of(text: str | None) -> Instant:
    """The instant that NOW() shall be; the present one by default."""
    if text is None:
        return Instant(*divmod(time.time_ns(), 1_000_000_000))
    try:
        return parse_instant(text)
    except ValueError as error:
        raise Problem("invalid_parameter", f"now: {error}") from None
