"""Routes of single subscriptions: create, read, replace, patch, delete."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from store.base import ABSENT, ANY, Delete, Expected, Idempotency, Operation, Put, Status
from store.records import SubscriptionRecord
from subscriptions_api.auth import Caller
from subscriptions_api.context import (
    Body,
    Context,
    Parts,
    Subscriber,
    idempotency_of,
    require_media_type,
)
from subscriptions_api.errors import Problem
from subscriptions_api.forms import form_of, load_object, merge_patch, record_of
from subscriptions_api.schemas import (
    JsonAnswer,
    SubscriptionDocument,
    SubscriptionForm,
    body_schema,
    document_of,
    etag,
)
from subscriptions_api.writing import already_exists, not_found, problem_of, revision_of, write

router = APIRouter(prefix="/v1", tags=["subscriptions"])

PATCH_TYPES = ("application/merge-patch+json", "application/json")
PATCH_ATTEMPTS = 8
"""A patch without If-Match is applied anew when the subscription changes under it."""
ONE = "/subscriptions/{subscription_id:path}"
"""An id may hold a slash, which arrives decoded."""


@router.post(
    "/subscriptions",
    status_code=201,
    response_model=SubscriptionDocument,
    openapi_extra=body_schema("application/json", model=SubscriptionForm),
)
def create(request: Request, parts: Parts, caller: Subscriber, body: Body) -> Response:
    """Register a subscription; 201 once it is durable. Idempotency-Key is honoured."""
    require_media_type(request, "application/json")
    record = record_of(load_object(body), caller.tenant, None, len(body))
    key = idempotency_of(request, caller, body)
    try:
        return answer(write_one(parts, caller, Put(record, ABSENT), key))
    except Problem as problem:
        if problem.code != "precondition_failed":
            raise
    raise already_exists(record.id)


@router.get(ONE, response_model=SubscriptionDocument)
def read(subscription_id: str, request: Request, parts: Parts, caller: Subscriber) -> Response:
    """One subscription; 304 if it is still that of If-None-Match."""
    record = found(parts, caller.tenant, subscription_id)
    headers = {"ETag": etag(record)}
    if headers["ETag"] == request.headers.get("if-none-match"):
        return Response(status_code=304, headers=headers)
    return JsonAnswer(document_of(record), headers=headers)


@router.put(
    ONE,
    response_model=SubscriptionDocument,
    responses={201: {"model": SubscriptionDocument, "description": "Created"}},
    openapi_extra=body_schema("application/json", model=SubscriptionForm),
)
def put_one(
    subscription_id: str, request: Request, parts: Parts, caller: Subscriber, body: Body
) -> Response:
    """Create a subscription under this id, or replace it; If-Match and If-None-Match hold it."""
    require_media_type(request, "application/json")
    record = record_of(load_object(body), caller.tenant, subscription_id, len(body))
    expected: int | Expected
    if "if-none-match" in request.headers:
        expected = absence(request)
    else:
        expected = expectation(request, parts, caller.tenant, subscription_id)
    key = idempotency_of(request, caller, body)
    return answer(write_one(parts, caller, Put(record, expected), key))


@router.patch(
    ONE,
    response_model=SubscriptionDocument,
    openapi_extra=body_schema("application/merge-patch+json"),
)
def patch(
    subscription_id: str, request: Request, parts: Parts, caller: Subscriber, body: Body
) -> Response:
    """Change some members by a JSON merge patch (RFC 7396)."""
    require_media_type(request, *PATCH_TYPES)
    change = load_object(body)
    wanted = expectation(request, parts, caller.tenant, subscription_id)
    for _ in range(PATCH_ATTEMPTS):
        before = found(parts, caller.tenant, subscription_id)
        expected = before.revision if wanted is ANY else wanted
        record = record_of(merge_patch(form_of(before), change), caller.tenant, subscription_id)
        try:
            return answer(write_one(parts, caller, Put(record, expected), None))
        except Problem as problem:
            if problem.code != "precondition_failed" or wanted is not ANY:
                raise
    raise Problem("conflict", f"{subscription_id!r} changed {PATCH_ATTEMPTS} times meanwhile")


@router.delete(ONE, status_code=204)
def delete(subscription_id: str, request: Request, parts: Parts, caller: Subscriber) -> Response:
    """Remove a subscription; the header Herald-Epoch tells from which epoch on."""
    expected = expectation(request, parts, caller.tenant, subscription_id)
    key = idempotency_of(request, caller, b"")
    done = write_one(parts, caller, Delete(caller.tenant, subscription_id, expected), key)
    return Response(status_code=204, headers=done.headers)


class Written:
    """A write that was accepted: the headers that tell of it, the record, and if it is new."""

    def __init__(
        self, record: SubscriptionRecord | None, epoch: int, replayed: bool, created: bool
    ) -> None:
        self.record = record
        self.created = created
        self.headers = {"Herald-Epoch": str(epoch)}
        if replayed:
            self.headers["Idempotency-Replayed"] = "true"


def write_one(
    parts: Context, caller: Caller, operation: Operation, idempotency: Idempotency | None
) -> Written:
    """Write one operation and count it; Problem if it changed nothing."""
    parts.writes.take(caller.tenant)
    result = write(parts, caller.tenant, [operation], idempotency)
    outcome = result.outcomes[0]
    problem = problem_of(parts, operation, outcome)
    parts.metrics.writes.labels(outcome.status.value if problem is None else problem.code).inc()
    if problem is not None:
        raise problem
    return Written(outcome.record, result.epoch, result.replayed, outcome.status is Status.CREATED)


def found(parts: Context, tenant: str, subscription_id: str) -> SubscriptionRecord:
    """The subscription, or Problem `not_found`, also when it is another tenant's."""
    record = parts.store.get(tenant, subscription_id)
    if record is None:
        raise not_found(subscription_id)
    return record


def expectation(
    request: Request, parts: Context, tenant: str, subscription_id: str
) -> int | Expected:
    """What If-Match wants to find."""
    if "if-none-match" in request.headers:
        raise Problem("invalid_parameter", f"If-None-Match has no meaning for {request.method}")
    tag = request.headers.get("if-match", "").strip()
    if not tag:
        return ANY
    if tag == "*":
        return found(parts, tenant, subscription_id).revision
    quoted = len(tag) > 2 and tag[0] == tag[-1] == '"'
    revision = revision_of(tag[1:-1]) if quoted else None
    if revision is None:
        raise Problem("precondition_failed", f"If-Match {tag} is no ETag that was given out")
    return revision


def absence(request: Request) -> Expected:
    """What If-None-Match wants to find: nothing."""
    if request.headers["if-none-match"].strip() != "*" or "if-match" in request.headers:
        raise Problem("invalid_parameter", "If-None-Match can only be *, without If-Match")
    return ABSENT


def answer(written: Written) -> JsonAnswer:
    """The subscription that was written, with its place if it is new."""
    record = written.record
    assert record is not None, "it was created or replaced"
    headers = {"ETag": etag(record), **written.headers}
    if written.created:
        headers["Location"] = f"/v1/subscriptions/{quote(record.id, safe='')}"
    return JsonAnswer(document_of(record), 201 if written.created else 200, headers)
