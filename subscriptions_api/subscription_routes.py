"""Routes of single subscriptions: create, read, replace, patch, delete, list, export, validate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from index.canonical import canonical, filter_hash
from index.cost import filter_cost
from index.filter_json import to_json
from index.language import to_text
from index.model import Filter, predicates_of
from index.selectivity import expected_share
from store.base import (
    ABSENT,
    ANY,
    PAGE_SIZE_MAX,
    Delete,
    Expected,
    Idempotency,
    Put,
    Status,
    WriteResult,
)
from store.records import SubscriptionRecord
from subscriptions_api.context import (
    Body,
    Context,
    Parts,
    Subscriber,
    idempotency_of,
    require_media_type,
)
from subscriptions_api.errors import Problem
from subscriptions_api.limits import PAGE_SIZE_DEFAULT
from subscriptions_api.schemas import (
    SubscriptionDocument,
    SubscriptionForm,
    document_of,
    etag,
    filters_of,
    form_of,
    form_schema,
    load_object,
    merge_patch,
    record_of,
)

router = APIRouter(prefix="/v1", tags=["subscriptions"])

PATCH_TYPES = ("application/merge-patch+json", "application/json")
PATCH_ATTEMPTS = 8
"""A patch without If-Match is applied anew when the subscription changes under it."""


@router.post(
    "/subscriptions",
    status_code=201,
    response_model=SubscriptionDocument,
    openapi_extra={
        "requestBody": {
            "content": {"application/json": {"schema": SubscriptionForm.model_json_schema()}}
        }
    },
)
def create(request: Request, parts: Parts, caller: Subscriber, body: Body) -> Response:
    """Register a subscription; 201 once it is durable. Idempotency-Key is honoured."""
    require_media_type(request, "application/json")
    record = record_of(load_object(body), caller.tenant, None)
    parts.writes.take(caller.tenant)
    refuse_beyond_quota(parts, caller.tenant, 1)
    idempotency = idempotency_of(request, caller, body)
    result = put(parts, record, ABSENT, idempotency)
    written = result.outcomes[0]
    if written.status is Status.EXISTS:
        raise Problem(
            "already_exists",
            f"there is a subscription {record.id!r}",
            "PUT replaces it; leave id out to get a new one",
        )
    return answer(written.record or record, 201, result)


@router.get("/subscriptions/{subscription_id}", response_model=SubscriptionDocument)
def read(subscription_id: str, parts: Parts, caller: Subscriber) -> Response:
    """One subscription."""
    return answer(found(parts, caller.tenant, subscription_id), 200)


@router.put(
    "/subscriptions/{subscription_id}",
    response_model=SubscriptionDocument,
    openapi_extra=form_schema("application/json"),
)
def put_one(
    subscription_id: str, request: Request, parts: Parts, caller: Subscriber, body: Body
) -> Response:
    """Create a subscription under this id, or replace it; If-Match and If-None-Match hold it."""
    require_media_type(request, "application/json")
    record = record_of(load_object(body), caller.tenant, subscription_id)
    parts.writes.take(caller.tenant)
    expected = expectation(request, parts, caller.tenant, subscription_id)
    if expected is ABSENT or (
        expected is ANY and parts.store.get(caller.tenant, subscription_id) is None
    ):
        refuse_beyond_quota(parts, caller.tenant, 1)
    result = put(parts, record, expected, idempotency_of(request, caller, body))
    written = result.outcomes[0]
    refuse_unmet(written.status, subscription_id)
    return answer(
        written.record or record, 201 if written.status is Status.CREATED else 200, result
    )


@router.patch("/subscriptions/{subscription_id}", response_model=SubscriptionDocument)
def patch(
    subscription_id: str, request: Request, parts: Parts, caller: Subscriber, body: Body
) -> Response:
    """Change some members by a JSON merge patch (RFC 7396)."""
    require_media_type(request, *PATCH_TYPES)
    change = load_object(body)
    parts.writes.take(caller.tenant)
    wanted = request.headers.get("if-match")
    for _ in range(PATCH_ATTEMPTS):
        before = found(parts, caller.tenant, subscription_id)
        if wanted not in (None, "*", etag(before)):
            refuse_unmet(Status.CONFLICT, subscription_id)
        record = record_of(merge_patch(form_of(before), change), caller.tenant, subscription_id)
        result = put(parts, record, before.revision, None)
        written = result.outcomes[0]
        if written.accepted:
            return answer(written.record or record, 200, result)
        if wanted not in (None, "*"):
            refuse_unmet(written.status, subscription_id)
    raise Problem("conflict", f"{subscription_id!r} changed {PATCH_ATTEMPTS} times meanwhile")


@router.delete("/subscriptions/{subscription_id}", status_code=204)
def delete(subscription_id: str, request: Request, parts: Parts, caller: Subscriber) -> Response:
    """Remove a subscription; the header Herald-Epoch tells from which epoch on."""
    parts.writes.take(caller.tenant)
    expected = expectation(request, parts, caller.tenant, subscription_id)
    if expected is ABSENT:
        raise Problem("invalid_parameter", "If-None-Match has no meaning for DELETE")
    result = parts.store.write(
        [Delete(caller.tenant, subscription_id, expected)], idempotency_of(request, caller, b"")
    )
    status = result.outcomes[0].status
    parts.metrics.writes.labels(status.value).inc()
    refuse_unmet(status, subscription_id)
    parts.metrics.epoch.set(result.epoch)
    return Response(status_code=204, headers=result_headers(result))


@router.get("/subscriptions")
def list_page(
    request: Request,
    parts: Parts,
    caller: Subscriber,
    page_size: int = PAGE_SIZE_DEFAULT,
    page_token: str | None = None,
) -> dict[str, Any]:
    """Subscriptions in the store's order, a page at a time; `label=name:value` narrows it.

    One that exists during the whole listing is shown exactly once. A page may be short, even
    empty, although more follow: only a missing next_page_token ends the listing.
    """
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise Problem("invalid_parameter", f"page_size is 1 to {PAGE_SIZE_MAX}, not {page_size}")
    labels = labels_of(request.query_params.getlist("label"))
    page = parts.store.list_page(caller.tenant, page_size, page_token, labels)
    shown: dict[str, Any] = {"subscriptions": [document_of(record) for record in page.records]}
    if page.next_token is not None:
        shown["next_page_token"] = page.next_token
    return shown


@router.get("/subscriptions:export")
def export(request: Request, parts: Parts, caller: Subscriber) -> Response:
    """Every subscription, one JSON document a line, as :batch takes them."""
    labels = labels_of(request.query_params.getlist("label"))

    def lines() -> Iterator[bytes]:
        token: str | None = None
        while True:
            page = parts.store.list_page(caller.tenant, PAGE_SIZE_MAX, token, labels)
            for record in page.records:
                yield orjson.dumps({"id": record.id, **form_of(record)}) + b"\n"
            token = page.next_token
            if token is None:
                return

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.post("/subscriptions:validate")
def validate(request: Request, parts: Parts, caller: Subscriber, body: Body) -> dict[str, Any]:
    """What a filter is to Herald: its tree, canonical form, cost and expected selectivity."""
    require_media_type(request, "application/json")
    form = load_object(body)
    record_of({**form, "id": "validate"}, caller.tenant, "validate")
    parsed = filters_of(SubscriptionForm.model_validate(form))
    return {"valid": True, "filters": [describe(one) for one in parsed]}


def describe(node: Filter) -> dict[str, Any]:
    """One filter of a validation."""
    return {
        "filter": to_json(node),
        "expr": to_text(node),
        "canonical": to_json(canonical(node)),
        "hash": filter_hash(node),
        "predicates": sum(1 for _ in predicates_of(node)),
        "cost": filter_cost(node),
        "expected_share": expected_share(node),
    }


def found(parts: Context, tenant: str, subscription_id: str) -> SubscriptionRecord:
    """The subscription, or Problem `not_found`, also when it is another tenant's."""
    record = parts.store.get(tenant, subscription_id)
    if record is None:
        raise not_found(subscription_id)
    return record


def not_found(subscription_id: str) -> Problem:
    """That there is no such subscription."""
    return Problem("not_found", f"there is no subscription {subscription_id!r}")


def put(
    parts: Context,
    record: SubscriptionRecord,
    expected: int | Expected,
    idempotency: Idempotency | None,
) -> WriteResult:
    """Write one record and count it."""
    result = parts.store.write([Put(record, expected)], idempotency)
    parts.metrics.writes.labels(result.outcomes[0].status.value).inc()
    if result.outcomes[0].accepted:
        parts.metrics.epoch.set(result.epoch)
    return result


def expectation(
    request: Request, parts: Context, tenant: str, subscription_id: str
) -> int | Expected:
    """What If-Match and If-None-Match want to find."""
    if_match, if_none_match = (request.headers.get(n) for n in ("if-match", "if-none-match"))
    if if_none_match is not None:
        if if_none_match.strip() != "*" or if_match is not None:
            raise Problem("invalid_parameter", "If-None-Match can only be *, without If-Match")
        return ABSENT
    if if_match is None:
        return ANY
    if if_match.strip() == "*":
        record = parts.store.get(tenant, subscription_id)
        if record is None:
            raise not_found(subscription_id)
        return record.revision
    tag = if_match.strip()
    if len(tag) < 3 or tag[0] != '"' or tag[-1] != '"' or not tag[1:-1].isdigit():
        raise Problem("precondition_failed", f"If-Match {tag} is no ETag that was given out")
    return int(tag[1:-1])


def refuse_unmet(status: Status, subscription_id: str) -> None:
    """Raise what an outcome that changed nothing means over HTTP."""
    if status in (Status.CONFLICT, Status.EXISTS):
        raise Problem(
            "precondition_failed",
            f"{subscription_id!r} is at another revision",
            "GET it, look at what changed, and try again with its ETag",
        )
    if status is Status.ABSENT:
        raise not_found(subscription_id)


def refuse_beyond_quota(parts: Context, tenant: str, more: int) -> None:
    """Refuse what would take a tenant over its quota."""
    limit = parts.settings.subscriptions_max
    if parts.store.count(tenant) + more > limit:
        raise Problem(
            "quota_exceeded", f"a tenant may have {limit:,} subscriptions", "delete some first"
        )


def labels_of(given: list[str]) -> dict[str, str]:
    """The labels of `label=name:value` parameters."""
    labels = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise Problem("invalid_parameter", f"label={text} is not of the form name:value")
        labels[name] = value
    return labels


def answer(
    record: SubscriptionRecord, status: int, result: WriteResult | None = None
) -> JSONResponse:
    """A subscription with its ETag, and its place if it is new."""
    headers = {"ETag": etag(record)}
    if result is not None:
        headers |= result_headers(result)
    if status == 201:
        headers["Location"] = f"/v1/subscriptions/{quote(record.id, safe='')}"
    return JSONResponse(document_of(record), status, headers)


def result_headers(result: WriteResult) -> dict[str, str]:
    """Headers that tell of a write."""
    replayed = {"Idempotency-Replayed": "true"} if result.replayed else {}
    return {"Herald-Epoch": str(result.epoch), **replayed}
