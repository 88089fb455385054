"""What crosses HTTP, as OpenAPI shows it: forms that are sent and documents that are answered."""

from __future__ import annotations

from typing import Annotated, Any, Self

import orjson
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from store.records import Mode, SubscriptionRecord
from subscriptions_api.limits import FILTERS_MAX, LABEL_BYTES_MAX, LABELS_MAX

Label = Annotated[str, Field(max_length=LABEL_BYTES_MAX)]
NDJSON = "application/x-ndjson"


class SubscriptionForm(BaseModel):
    """A subscription as its author writes it: exactly one of expr, filter and filters."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"id": "late", "expr": "delay > 60 AND carrier = 'UA'"}},
    )

    id: str | None = Field(default=None, description="Unique in the tenant; made if left out.")
    expr: str | None = Field(default=None, description="The filter as text.")
    filter: Any = Field(default=None, description="The filter as JSON.")
    filters: list[Any] | None = Field(
        default=None, min_length=1, max_length=FILTERS_MAX, description="Any of them may match."
    )
    enabled: bool = Field(default=True, description="false: kept, but never notified.")
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=LABELS_MAX)
    priority: int = Field(default=0, ge=-(2**31), le=2**31 - 1)
    expiresat: str | None = Field(default=None, description="RFC 3339; no match from then on.")
    consumer_key: str | None = Field(
        default=None,
        min_length=1,
        description="Kafka key of its notifications; its id if left out.",
    )
    mode: str = Field(default=Mode.THIN.value, description="thin, full or compact.")

    @model_validator(mode="after")
    def _one_filter(self) -> Self:
        given = self.model_fields_set & {"expr", "filter", "filters"}
        if len(given) != 1:
            raise ValueError(
                "exactly one of expr, filter and filters is needed"
                + (f", not {' and '.join(sorted(given))}" if given else "")
            )
        if "filter" not in given and self.expr is None and self.filters is None:
            raise ValueError(f"{given.pop()} may not be null")
        return self


class SubscriptionDocument(BaseModel):
    """A subscription as the API shows it."""

    id: str
    tenant: str
    expr: str | None = Field(default=None, description="The filter's text, if text was sent.")
    filters: list[Any] = Field(description="Filters as JSON; any of them may match.")
    enabled: bool
    labels: dict[str, str]
    priority: int
    expiresat: str | None
    consumer_key: str | None
    mode: str
    revision: int = Field(description="Grows with every write; the ETag is it in quotes.")
    epoch: int = Field(description="Version of all subscriptions since which it is like this.")
    created_at: str
    updated_at: str


class SubscriptionPage(BaseModel):
    """Part of a listing; only a missing next_page_token ends it."""

    subscriptions: list[SubscriptionDocument]
    next_page_token: str | None = None


class FilterDescription(BaseModel):
    """What a filter is to Herald."""

    filter: Any = Field(description="Its tree.")
    expr: str = Field(description="Its text.")
    canonical: Any = Field(description="Its canonical form; equal ones mean the same.")
    hash: str = Field(description="SHA-256 of the canonical form.")
    predicates: int
    cost: int = Field(description="Steps that one event costs at most.")
    expected_share: float = Field(description="Share of events expected to match, by operators.")


class Validation(BaseModel):
    """A subscription that would be accepted, and its filters."""

    valid: bool
    filters: list[FilterDescription]


class PublishedAddress(BaseModel):
    """Where an event lies in Kafka."""

    topic: str
    partition: int
    offset: int


class Reason(BaseModel):
    """A predicate that decides."""

    text: str
    truth: str = Field(description="TRUE, FALSE or UNKNOWN.")
    event: str = Field(description="What the event has there.")


class Verdict(BaseModel):
    """Whether one subscription would be notified of the event, and why."""

    id: str
    revision: int
    matches: bool
    truth: str = Field(description="Of the filter: TRUE, FALSE or UNKNOWN.")
    disabled: bool | None = None
    expired: bool | None = None
    because: list[Reason]
    filed: str = Field(description="Where the index keeps it.")
    now: str | None = Field(default=None, description="The instant that NOW() stood for.")


class DryRunAnswer(BaseModel):
    """Who would be notified of an event: the first hundred of them with reasons."""

    now: str = Field(description="The instant that NOW() stood for.")
    epoch: int = Field(description="Version of the subscriptions that was asked.")
    count: int
    matches: list[Verdict]


class QueryEpoch(BaseModel):
    """A streaming query and the epoch it matches at."""

    name: str
    epoch: int


class EpochAnswer(BaseModel):
    """The newest epoch and the one that is live everywhere."""

    epoch: int
    live: int | None = Field(description="Every running query has reached it; null: none runs.")
    queries: list[QueryEpoch]


class ServiceStatus(BaseModel):
    """Whether the service can work, and what it waits for."""

    status: str
    waiting_for: str | None = None


class JsonAnswer(Response):
    """A JSON answer of plain values."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Bytes of the body."""
        return orjson.dumps(content)


def document_of(record: SubscriptionRecord) -> dict[str, Any]:
    """A record as the API shows it."""
    return {
        "id": record.id,
        "tenant": record.tenant,
        **({} if record.expr is None else {"expr": record.expr}),
        "filters": list(record.filters),
        "enabled": record.enabled,
        "labels": dict(record.labels),
        "priority": record.priority,
        "expiresat": record.expires_at,
        "consumer_key": record.consumer_key,
        "mode": record.mode.value,
        "revision": record.revision,
        "epoch": record.epoch,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


def etag(record: SubscriptionRecord) -> str:
    """The entity tag of a record: its revision, which never comes back."""
    return f'"{record.revision}"'


def body_schema(*media_types: str, model: type[BaseModel] | None = None) -> dict[str, Any]:
    """How OpenAPI shows a body that is read by hand."""
    schema = {} if model is None else model.model_json_schema()
    content = {media_type: {"schema": schema} for media_type in media_types}
    return {"requestBody": {"required": True, "content": content}}
