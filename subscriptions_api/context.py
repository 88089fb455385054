"""What every route works with, and how a request becomes a caller and a body."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from store.base import Idempotency, SubscriptionStore
from store.errors import InvalidName
from store.records import check_name
from subscriptions_api.auth import Caller, KeyRing, Scope, key_of
from subscriptions_api.errors import Problem
from subscriptions_api.follower import Follower
from subscriptions_api.limits import (
    BODY_BYTES_MAX,
    DISCARDED_BYTES_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX,
    RateLimit,
)
from subscriptions_api.metrics import Metrics
from subscriptions_api.publisher import Publisher
from subscriptions_api.settings import ApiSettings, is_loopback
from subscriptions_api.threads import Threads


@dataclass(frozen=True)
class Context:
    """The parts of one application."""

    settings: ApiSettings
    store: SubscriptionStore
    publisher: Publisher
    follower: Follower
    keys: KeyRing
    metrics: Metrics
    writes: RateLimit
    events: RateLimit
    dry_runs: RateLimit
    threads: Threads


def context_of(request: Request) -> Context:
    """The application's parts."""
    context = request.app.state.context
    assert isinstance(context, Context), "create_app sets it"
    return context


def caller_of(request: Request) -> Caller:
    """Who asks, by the key that was sent."""
    headers, keys = request.headers, context_of(request).keys
    if not keys.required and not is_loopback(request.url.hostname or ""):
        # A page that resolves its own name to 127.0.0.1 is no caller from this machine.
        raise Problem(
            "forbidden",
            "without API keys only requests to 127.0.0.1 or localhost are served",
            "set HERALD_API_KEYS_FILE",
        )
    return keys.caller(key_of(headers.get("authorization"), headers.get("x-api-key")))


def subscriber_of(request: Request) -> Caller:
    """Who asks, allowed to read and write subscriptions."""
    caller = caller_of(request)
    caller.require(Scope.SUBSCRIBE)
    return caller


def publisher_of(request: Request) -> Caller:
    """Who asks, allowed to publish events."""
    caller = caller_of(request)
    caller.require(Scope.PUBLISH)
    return caller


async def body_of(request: Request) -> bytes:
    """The whole body, of which no more than the limit is kept."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= BODY_BYTES_MAX:
            parts.append(part)
        elif size > DISCARDED_BYTES_MAX:
            break
    if size > BODY_BYTES_MAX:
        raise Problem("too_large", f"a body may have {BODY_BYTES_MAX:,} bytes")
    return b"".join(parts)


def media_type_of(request: Request) -> str:
    """The media type of the body, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_media_type(request: Request, *allowed: str) -> str:
    """The media type, which must be one of these."""
    found = media_type_of(request)
    if found not in allowed:
        raise Problem(
            "unsupported_media_type",
            f"the content type is {found or 'not given'}",
            f"send {' or '.join(allowed)}",
        )
    return found


def idempotency_of(
    request: Request, caller: Caller, body: bytes, suffix: str = ""
) -> Idempotency | None:
    """The client's key for this request, with a digest of what it asks.

    `suffix` tells parts of a request apart that are written one by one.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    try:
        check_name("Idempotency-Key", key)
    except InvalidName as error:
        raise Problem("invalid_parameter", error.message) from None
    if len(key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
        raise Problem(
            "invalid_parameter", f"an Idempotency-Key may have {IDEMPOTENCY_KEY_BYTES_MAX} bytes"
        )
    asked = f"{request.method} {request.url.path}\n".encode() + body
    digest = hashlib.blake2b(asked, digest_size=16).hexdigest()
    return Idempotency(caller.tenant, key + suffix, digest)


Parts = Annotated[Context, Depends(context_of)]
Subscriber = Annotated[Caller, Depends(subscriber_of)]
EventPublisher = Annotated[Caller, Depends(publisher_of)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
Body = Annotated[bytes, Depends(body_of)]
