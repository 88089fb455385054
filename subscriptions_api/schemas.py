"""What crosses HTTP: forms that are sent, documents that are answered, and the way between.

Bodies are read by the strict decoder of `index.filter_json`, because a filter's numbers and
duplicate keys must not be lost on the way; the models here then look at what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from index.errors import FilterError
from index.filter_json import loads_json, parse_json, to_json
from index.instants import parse_instant
from index.language import parse_text
from index.model import Filter, Or
from store.errors import InvalidName
from store.records import Mode, SubscriptionRecord, check_name
from subscriptions_api.errors import Problem, of_body, of_filter
from subscriptions_api.limits import FILTERS_MAX, LABEL_BYTES_MAX, LABELS_MAX

Label = Annotated[str, Field(max_length=LABEL_BYTES_MAX)]


class SubscriptionForm(BaseModel):
    """A subscription as its author writes it: exactly one of expr, filter and filters."""

    model_config = ConfigDict(extra="forbid", strict=True)

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
        return self


class SubscriptionDocument(BaseModel):
    """A subscription as the API shows it."""

    id: str
    tenant: str
    expr: str | None = None
    filters: list[Any]
    enabled: bool
    labels: dict[str, str]
    priority: int
    expiresat: str | None
    consumer_key: str | None
    mode: str
    revision: int
    epoch: int
    created_at: str
    updated_at: str


def load_object(body: bytes) -> dict[str, Any]:
    """A body that must be a JSON object; Problem if it is not."""
    try:
        tree = loads_json(body)
    except FilterError as error:
        raise of_body(error) from None
    if not isinstance(tree, dict):
        raise Problem("invalid_json", "the body is JSON but no object")
    return tree


def record_of(tree: Mapping[str, Any], tenant: str, known_id: str | None) -> SubscriptionRecord:
    """The record that a form describes; Problem with the place of what is refused.

    known_id is the id of the path, which a body may repeat but not change.
    """
    try:
        form = SubscriptionForm.model_validate(tree)
    except ValidationError as error:
        raise _refusal(error) from None
    subscription_id = form.id if known_id is None else known_id
    if known_id is not None and form.id not in (None, known_id):
        raise Problem(
            "invalid_subscription",
            f"the body has id {form.id!r}, the path {known_id!r}",
            "leave id out of the body",
            pointer="/id",
        )
    filters = [to_json(parsed) for parsed in filters_of(form)]
    return SubscriptionRecord(
        tenant=tenant,
        id=_name("id", subscription_id or uuid4().hex),
        filters=tuple(filters),
        expr=form.expr,
        enabled=form.enabled,
        labels=form.labels,
        priority=form.priority,
        expires_at=_instant(form.expiresat),
        consumer_key=None
        if form.consumer_key is None
        else _name("consumer_key", form.consumer_key),
        mode=_mode(form.mode),
    )


def filters_of(form: SubscriptionForm) -> list[Filter]:
    """The filters of a form, parsed; Problem with pointer and position on the first refused."""
    if form.expr is not None:
        return [parse_expr(form.expr)]
    trees = form.filters if form.filters is not None else [form.filter]
    pointers = ["/filter"] if form.filters is None else [f"/filters/{n}" for n in range(len(trees))]
    parsed = []
    for tree, pointer in zip(trees, pointers, strict=True):
        try:
            parsed.append(parse_json(tree))
        except FilterError as error:
            raise of_filter(error, pointer) from None
    return parsed


def parse_expr(text: str) -> Filter:
    """A filter written as text."""
    try:
        return parse_text(text)
    except FilterError as error:
        raise of_filter(error, "/expr") from None


def filter_of_record(record: SubscriptionRecord) -> Filter:
    """The one filter that a record amounts to."""
    parsed = tuple(parse_json(tree) for tree in record.filters)
    return parsed[0] if len(parsed) == 1 else Or(parsed)


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


def form_of(record: SubscriptionRecord) -> dict[str, Any]:
    """A record as its author could have sent it: what a merge patch is applied to."""
    written = {"filters": list(record.filters)} if record.expr is None else {"expr": record.expr}
    shown = document_of(record)
    kept = ("enabled", "labels", "priority", "expiresat", "consumer_key", "mode")
    return {**written, **{name: shown[name] for name in kept}}


def merge_patch(form: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396; a new filter in any of its three forms takes the place of the old one."""
    merged = dict(form)
    if {"expr", "filter", "filters"} & patch.keys():
        for name in ("expr", "filter", "filters"):
            merged.pop(name, None)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif name == "labels" and isinstance(value, dict):
            labels = {**merged.get("labels", {}), **value}
            merged["labels"] = {key: label for key, label in labels.items() if label is not None}
        else:
            merged[name] = value
    return merged


def etag(record: SubscriptionRecord) -> str:
    """The entity tag of a record: its revision, which never comes back."""
    return f'"{record.revision}"'


def _refusal(error: ValidationError) -> Problem:
    first = error.errors()[0]
    pointer = "".join(f"/{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(SubscriptionForm.model_fields)
        return Problem(
            "invalid_subscription",
            f"there is no member {first['loc'][-1]!r}",
            f"the members are {allowed}",
            pointer=pointer,
        )
    return Problem("invalid_subscription", first["msg"], pointer=pointer)


def _name(member: str, value: str) -> str:
    try:
        return check_name(member, value)
    except InvalidName as error:
        raise Problem("invalid_subscription", error.message, pointer=f"/{member}") from None


def _instant(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_instant(text)
        except ValueError as error:
            hint = "write it as in 2027-01-31T09:00:00Z"
            raise Problem(
                "invalid_subscription", f"expiresat: {error}", hint, pointer="/expiresat"
            ) from None
    return text


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        modes = ", ".join(mode.value for mode in Mode)
        raise Problem(
            "invalid_subscription", f"there is no mode {text!r}", f"choose {modes}", pointer="/mode"
        ) from None


def form_schema(media_type: str) -> dict[str, Any]:
    """How OpenAPI shows a body that is read by hand."""
    schema = SubscriptionForm.model_json_schema()
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
