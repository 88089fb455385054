"""Every error of the API, once: a stable code, its status, and a sentence.

Errors are RFC 9457 problem documents, `application/problem+json`:

    {"type": "urn:herald:problem:not_found", "title": "...", "status": 404, "code": "not_found",
     "detail": "there is no subscription 'x'", "hint": "...", "pointer": "/filter/value", ...}

A filter that is refused has the code `invalid_filter` and, as `reason`, one of the codes of
docs/language.md with the place: `position`, `line` and `column` in the text, `pointer` in JSON.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

from index.errors import EventError, FilterError, cut
from store.errors import (
    IdempotencyMismatch,
    InvalidName,
    InvalidPageToken,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    WriteTooLarge,
)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
DETAIL_LENGTH_MAX = 500
"""What a problem may quote of what was sent."""


class Kind(NamedTuple):
    """One kind of problem."""

    status: int
    title: str


PROBLEMS = {
    "invalid_json": Kind(400, "The body is not JSON, or names one key twice."),
    "invalid_parameter": Kind(400, "A parameter of the request cannot be read."),
    "invalid_page_token": Kind(400, "The page token was not given out by this listing."),
    "unauthorized": Kind(401, "An API key is needed, and this one is not known."),
    "forbidden": Kind(403, "The API key does not have the scope that this needs."),
    "not_found": Kind(404, "There is no such subscription."),
    "no_route": Kind(404, "There is no such path."),
    "method_not_allowed": Kind(405, "The path does not take this method."),
    "already_exists": Kind(409, "There is a subscription of this id already."),
    "conflict": Kind(409, "The subscription kept changing while this was tried."),
    "idempotency_mismatch": Kind(409, "The idempotency key was used for another request."),
    "precondition_failed": Kind(412, "The subscription is not at the revision of If-Match."),
    "too_large": Kind(413, "The body, or a line of it, is over the limit."),
    "unsupported_media_type": Kind(415, "The content type is not one that this path takes."),
    "invalid_filter": Kind(422, "The filter is refused."),
    "invalid_subscription": Kind(422, "A member of the subscription is refused."),
    "invalid_event": Kind(422, "The event is refused: it would become a dead letter."),
    "quota_exceeded": Kind(429, "The tenant has as many subscriptions as it may."),
    "rate_limited": Kind(429, "The tenant asks more a second than it may."),
    "internal": Kind(500, "Something went wrong here; the log has it."),
    "store_unavailable": Kind(503, "The subscription store cannot be reached."),
    "kafka_unavailable": Kind(503, "Kafka did not acknowledge the event."),
    "index_loading": Kind(503, "The index of dry runs is not loaded yet."),
    "epoch_timeout": Kind(504, "The epoch was not live in every query within the timeout."),
    "store_full": Kind(507, "The subscription store has no room; nothing was written."),
}
"""Every code with its meaning; docs/rest.md has the same table."""

RETRIED_STATUSES = frozenset({429, 503, 504})


class Problem(Exception):
    """An answer other than success.

    members     further members of the document, such as pointer, position or reason
    retry_after seconds after which it may be tried again, if it may
    """

    def __init__(self, code: str, detail: str, hint: str = "", **members: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = cut(detail, DETAIL_LENGTH_MAX)
        self.hint = hint
        self.members = {name: value for name, value in members.items() if value is not None}
        self.retry_after: float = RETRY_AFTER_S

    def after(self, seconds: float) -> Self:
        """The same, to be tried again after some seconds."""
        self.retry_after = seconds
        return self

    @property
    def status(self) -> int:
        """The HTTP status."""
        return PROBLEMS[self.code].status

    def document(self) -> dict[str, Any]:
        """The problem document."""
        title = PROBLEMS[self.code].title
        return {"type": f"urn:herald:problem:{self.code}", "title": title, **self.short()}

    def short(self) -> dict[str, Any]:
        """The problem document without what its code already says."""
        hint = {"hint": self.hint} if self.hint else {}
        return {
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **hint,
            **self.members,
        }

    def headers(self) -> dict[str, str]:
        """Headers that go with the document."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.status in RETRIED_STATUSES and self.code != "quota_exceeded":
            return {"Retry-After": str(math.ceil(self.retry_after))}
        return {}


def of_filter(error: FilterError, pointer: str) -> Problem:
    """The problem of a refused filter; `pointer` leads to the member that holds it."""
    place = pointer if error.pointer is None else pointer + error.pointer
    return Problem(
        "invalid_filter",
        error.message,
        error.hint,
        reason=error.code,
        pointer=place,
        position=error.position,
        line=error.line,
        column=error.column,
        excerpt=error.excerpt,
    )


def of_body(error: FilterError) -> Problem:
    """The problem of a body that the strict JSON decoder refuses."""
    if error.code == "too_large":
        return Problem("too_large", error.message)
    return Problem("invalid_json", str(error), reason=error.code, pointer=error.pointer)


def of_event(error: EventError, **members: Any) -> Problem:
    """The problem of an event that would be a dead letter."""
    code = "too_large" if error.reason == "too_large" else "invalid_event"
    return Problem(code, error.detail or error.reason, reason=error.reason, **members)


STORE_CODES: tuple[tuple[type[StoreError], str], ...] = (
    (StoreUnavailable, "store_unavailable"),
    (StoreFull, "store_full"),
    (StoreReadOnly, "store_unavailable"),
    (IdempotencyMismatch, "idempotency_mismatch"),
    (WriteTooLarge, "too_large"),
    (InvalidPageToken, "invalid_page_token"),
    (InvalidName, "invalid_subscription"),
)


def of_store(error: StoreError) -> Problem:
    """The problem of what the store says."""
    maybe = True if isinstance(error, StoreUnavailable) and error.may_have_happened else None
    for kind, code in STORE_CODES:
        if isinstance(error, kind):
            return Problem(code, error.message, error.hint, may_have_happened=maybe)
    return Problem("internal", error.message, error.hint)
