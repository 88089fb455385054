"""Routes over many subscriptions that change nothing: list, export, validate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from index.canonical import canonical, filter_hash
from index.cost import filter_cost
from index.filter_json import to_json
from index.language import to_text
from index.model import Filter, predicates_of
from index.selectivity import expected_share
from store.base import PAGE_SIZE_MAX, Page
from subscriptions_api.context import Body, Parts, Subscriber, require_media_type
from subscriptions_api.errors import Problem
from subscriptions_api.forms import filters_of, form_from, form_of, load_object, record_of
from subscriptions_api.limits import PAGE_SIZE_DEFAULT
from subscriptions_api.schemas import (
    NDJSON,
    JsonAnswer,
    SubscriptionForm,
    SubscriptionPage,
    Validation,
    body_schema,
    document_of,
)

router = APIRouter(prefix="/v1", tags=["subscriptions"])

Labels = Annotated[
    Sequence[str], Query(description="name:value; only subscriptions that have all of them.")
]


@router.get("/subscriptions", response_model=SubscriptionPage)
def list_page(
    parts: Parts,
    caller: Subscriber,
    page_size: int = PAGE_SIZE_DEFAULT,
    page_token: str | None = None,
    label: Labels = (),
) -> Response:
    """Subscriptions in the store's order, a page at a time; `label=name:value` narrows it.

    One that exists during the whole listing is shown exactly once. A page may be short, even
    empty, although more follow: only a missing next_page_token ends the listing.
    """
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise Problem("invalid_parameter", f"page_size is 1 to {PAGE_SIZE_MAX}, not {page_size}")
    labels = labels_of(label)
    page = parts.store.list_page(caller.tenant, page_size, page_token, labels)
    shown: dict[str, Any] = {"subscriptions": [document_of(record) for record in page.records]}
    if page.next_token is not None:
        shown["next_page_token"] = page.next_token
    return JsonAnswer(shown)


@router.get(
    "/subscriptions:export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {}}, "description": "Lines as :batch takes them"}},
)
def export(parts: Parts, caller: Subscriber, label: Labels = ()) -> StreamingResponse:
    """Every subscription, one JSON document a line, as :batch takes them."""
    labels = labels_of(label)

    def page_after(token: str | None) -> Page:
        return parts.store.list_page(caller.tenant, PAGE_SIZE_MAX, token, labels)

    def lines(page: Page) -> Iterator[bytes]:
        while True:
            yield b"".join(
                orjson.dumps({"id": record.id, **form_of(record)}) + b"\n"
                for record in page.records
            )
            if page.next_token is None:
                return
            page = page_after(page.next_token)

    # The first page is read before the answer begins, so that a store that is away can be told.
    return StreamingResponse(lines(page_after(None)), media_type=NDJSON)


@router.post(
    "/subscriptions:validate",
    response_model=Validation,
    openapi_extra=body_schema("application/json", model=SubscriptionForm),
)
def validate(request: Request, parts: Parts, caller: Subscriber, body: Body) -> Response:
    """What a filter is to Herald: its tree, canonical form, cost and expected selectivity."""
    require_media_type(request, "application/json")
    tree = load_object(body)
    record_of(tree, caller.tenant, None, len(body))
    described = [describe(one) for one in filters_of(form_from(tree))]
    return JsonAnswer({"valid": True, "filters": described})


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


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """The labels of `label=name:value` parameters."""
    labels = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise Problem("invalid_parameter", f"label={text} is not of the form name:value")
        labels[name] = value
    return labels
