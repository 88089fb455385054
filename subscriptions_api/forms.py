"""From what is sent to what is stored: a subscription's form, its filters, a merge patch.

Bodies are read by the strict decoder of `index.filter_json`, because a filter's numbers and
duplicate keys must not be lost on the way; the form's model then looks at what it gives. A filter
is stored as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import ValidationError

from index.errors import FilterError, cut
from index.filter_json import check_size, loads_json, parse_json, to_json
from index.instants import parse_instant
from index.language import parse_text
from index.limits import LIMITS
from index.model import Filter, Or
from store.errors import InvalidName
from store.records import Mode, SubscriptionRecord, check_name
from subscriptions_api.errors import Problem, of_body, of_filter
from subscriptions_api.limits import BODY_BYTES_MAX, LABEL_BYTES_MAX
from subscriptions_api.schemas import SubscriptionForm, document_of

BODY_LIMITS = replace(LIMITS, filter_bytes=BODY_BYTES_MAX)
"""Of a body as a whole; what it holds has narrower limits of its own."""
JSON_GROWTH_MAX = 5
"""Compact JSON of a decoded value is at most so many times what was sent: 1E15 is the worst."""
FILTER_MEMBERS = ("expr", "filter", "filters")
UNREACHABLE_IDS = (".", "..")
"""HTTP clients take these out of a path."""

R = TypeVar("R")


def load_json(body: bytes) -> Any:
    """A JSON body; Problem if it is not."""
    try:
        return loads_json(body, BODY_LIMITS)
    except FilterError as error:
        raise of_body(error) from None


def load_object(body: bytes) -> dict[str, Any]:
    """A body that must be a JSON object; Problem if it is not."""
    tree = load_json(body)
    if not isinstance(tree, dict):
        raise Problem("invalid_json", "the body is JSON but no object")
    return tree


def record_of(
    tree: Mapping[str, Any], tenant: str, known_id: str | None, size: int = BODY_BYTES_MAX
) -> SubscriptionRecord:
    """The record that a form describes; Problem with the place of what is refused.

    known_id is the id of the path, which a body may repeat but not change; size is that of the
    body in bytes, by which a small one needs no further measuring.
    """
    form = form_from(tree)
    if known_id is not None and form.id not in (None, known_id):
        raise Problem(
            "invalid_subscription",
            f"the body has id {cut(str(form.id))!r}, the path {known_id!r}",
            "leave id out of the body",
            pointer="/id",
        )
    subscription_id = form.id if known_id is None else known_id
    key = form.consumer_key
    return SubscriptionRecord(
        tenant=tenant,
        id=uuid4().hex if subscription_id is None else checked_id(subscription_id),
        filters=trees_of(form, size),
        expr=form.expr,
        enabled=form.enabled,
        labels=_labels(form.labels),
        priority=form.priority,
        expires_at=_instant(form.expiresat),
        consumer_key=None if key is None else checked_name("consumer_key", key),
        mode=_mode(form.mode),
    )


def form_from(tree: Mapping[str, Any]) -> SubscriptionForm:
    """The form that JSON holds; Problem that names the member it fails by."""
    try:
        return SubscriptionForm.model_validate(tree)
    except ValidationError as error:
        raise _refusal(error) from None


def trees_of(form: SubscriptionForm, size: int) -> tuple[Any, ...]:
    """The filters of a form in JSON, each proved to be one."""
    if form.expr is not None:
        return (to_json(parse_at("/expr", parse_text, form.expr)),)
    given = filters_in(form)
    for pointer, tree in given:
        parse_at(pointer, parse_json, tree)
        if size * JSON_GROWTH_MAX > LIMITS.filter_bytes:
            parse_at(pointer, check_size, tree)
    return tuple(tree for _, tree in given)


def filters_of(form: SubscriptionForm) -> list[Filter]:
    """The filters of a form, parsed."""
    if form.expr is not None:
        return [parse_at("/expr", parse_text, form.expr)]
    return [parse_at(pointer, parse_json, tree) for pointer, tree in filters_in(form)]


def filters_in(form: SubscriptionForm) -> list[tuple[str, Any]]:
    """Filters that were given in JSON, each with the pointer to it."""
    if form.filters is None:
        return [("/filter", form.filter)]
    return [(f"/filters/{place}", tree) for place, tree in enumerate(form.filters)]


def parse_at(pointer: str, parse: Callable[[Any], R], given: Any) -> R:
    """What `parse` makes of a member; Problem with the member's place if it refuses it."""
    try:
        return parse(given)
    except FilterError as error:
        raise of_filter(error, pointer) from None


def filter_of_record(record: SubscriptionRecord) -> Filter:
    """The one filter that a record amounts to."""
    parsed = tuple(parse_json(tree) for tree in record.filters)
    return parsed[0] if len(parsed) == 1 else Or(parsed)


def form_of(record: SubscriptionRecord) -> dict[str, Any]:
    """A record as its author could have sent it: what a merge patch is applied to."""
    written = {"filters": list(record.filters)} if record.expr is None else {"expr": record.expr}
    shown = document_of(record)
    kept = ("enabled", "labels", "priority", "expiresat", "consumer_key", "mode")
    return {**written, **{name: shown[name] for name in kept}}


def merge_patch(form: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396; a new filter in any of its three forms takes the place of the old one."""
    merged = dict(form)
    if any(patch.get(name) is not None for name in FILTER_MEMBERS):
        for name in FILTER_MEMBERS:
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


def checked_name(member: str, value: str) -> str:
    """A name that can be stored; Problem if it cannot."""
    try:
        return check_name(member, value)
    except InvalidName as error:
        raise Problem("invalid_subscription", error.message, pointer=f"/{member}") from None


def checked_id(value: str) -> str:
    """An id that can be stored and asked for by its path."""
    if value in UNREACHABLE_IDS:
        raise Problem(
            "invalid_subscription",
            f"no request could reach an id {value!r}",
            "choose another",
            pointer="/id",
        )
    return checked_name("id", value)


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        if max(len(name.encode()), len(value.encode())) > LABEL_BYTES_MAX:
            raise Problem(
                "invalid_subscription",
                f"the label {cut(name)!r} is over the limit",
                f"a label's name and its value may each have {LABEL_BYTES_MAX} bytes of UTF-8",
                pointer="/labels",
            )
    return labels


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
            "invalid_subscription",
            f"there is no mode {cut(text)!r}",
            f"choose {modes}",
            pointer="/mode",
        ) from None


def _refusal(error: ValidationError) -> Problem:
    first = error.errors()[0]
    pointer = "".join(f"/{escaped(str(part))}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(SubscriptionForm.model_fields)
        return Problem(
            "invalid_subscription",
            f"there is no member {cut(str(first['loc'][-1]))!r}",
            f"the members are {allowed}",
            pointer=cut(pointer, 200),
        )
    raised = first.get("ctx", {}).get("error")
    return Problem("invalid_subscription", str(raised or first["msg"]), pointer=cut(pointer, 200))


def escaped(name: str) -> str:
    """A name as RFC 6901 writes it in a pointer."""
    return name.replace("~", "~0").replace("/", "~1")
