"""The route for many subscriptions: NDJSON in, one line of answer for each line, in order.

    in     {"id": "a", "expr": "x = 1"}                       create or replace
           {"op": "create", "id": "b", "filter": {...}}       only if there is none
           {"op": "put", "id": "c", "expr": "…", "if_match": 7}
           {"op": "delete", "id": "d"}
    out    {"line": 1, "status": 201, "id": "a", "revision": 8, "epoch": 8}
           {"line": 2, "status": 409, "id": "b", "code": "already_exists", "detail": "…"}

Lines are written in chunks that share an epoch, as they come: an answer may be on its way while
the body still is. A line that is refused stops no other. A tenant that sends faster than it may is
slowed down, not refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import APIRouter, Request

from store.base import ABSENT, ANY, Delete, Expected, Idempotency, Operation, Put, Status
from store.errors import StoreError, WriteTooLarge
from subscriptions_api.auth import Caller
from subscriptions_api.context import (
    Context,
    Parts,
    Subscriber,
    idempotency_of,
    require_media_type,
)
from subscriptions_api.errors import Problem, of_store
from subscriptions_api.forms import checked_name, load_object, record_of
from subscriptions_api.limits import LINE_BYTES_MAX
from subscriptions_api.schemas import NDJSON, body_schema
from subscriptions_api.streams import NdjsonAnswer, chunks
from subscriptions_api.threads import run_in
from subscriptions_api.writing import already_exists, id_of, problem_of, write

router = APIRouter(prefix="/v1", tags=["subscriptions"])

MEDIA_TYPES = (NDJSON, "application/ndjson", "application/jsonl")
OPERATIONS = ("put", "create", "delete")
STATUSES = {Status.CREATED: 201, Status.REPLACED: 200, Status.DELETED: 204}


@dataclass(slots=True)
class Line:
    """One line: its number from 1, and what was asked or why it is refused."""

    number: int
    operation: Operation | None = None
    problem: Problem | None = None


@router.post(
    "/subscriptions:batch",
    status_code=200,
    response_class=NdjsonAnswer,
    openapi_extra=body_schema(NDJSON),
)
async def batch(request: Request, parts: Parts, caller: Subscriber) -> NdjsonAnswer:
    """Create, replace and delete many subscriptions: NDJSON in and out, a status for each line.

    A line is a subscription with, if wanted, `"op": "put" | "create" | "delete"` and `"if_match"`.
    """
    require_media_type(request, *MEDIA_TYPES)
    idempotency_of(request, caller, b"", "")  # a bad key is refused before anything is read
    return NdjsonAnswer(answers(request, parts, caller))


async def answers(request: Request, parts: Context, caller: Caller) -> AsyncIterator[bytes]:
    """Lines of answer, a chunk at a time."""
    number = 1
    async for chunk in chunks(request.stream()):
        await parts.writes.wait(caller.tenant, len(chunk))
        # What a key stands for is known only at the end of a stream: each chunk has its own.
        key = idempotency_of(request, caller, b"\n".join(chunk), f"#{number}")
        yield await run_in(parts.threads.batches, write_chunk, parts, caller, number, chunk, key)
        number += len(chunk)


def write_chunk(
    parts: Context,
    caller: Caller,
    number: int,
    chunk: Sequence[bytes],
    idempotency: Idempotency | None,
) -> bytes:
    """Parse, write and answer one chunk; empty lines are passed over."""
    lines = [
        parse_line(caller.tenant, at, text) for at, text in enumerate(chunk, number) if text.strip()
    ]
    operations = [line.operation for line in lines if line.operation is not None]
    documents: Iterator[dict[str, Any]] = iter(())
    if operations:
        documents = iter(written(parts, caller.tenant, operations, idempotency))
    told, counts = [], Counter[str]()
    for line in lines:
        document = next(documents) if line.problem is None else refusal(line.problem)
        counts[document.get("code") or document.pop("outcome")] += 1
        told.append(orjson.dumps({"line": line.number, **document}))
    for outcome, count in counts.items():
        parts.metrics.writes.labels(outcome).inc(count)
    return b"".join(line + b"\n" for line in told)


def refusal(problem: Problem) -> dict[str, Any]:
    """A problem in a line of answer: `line` is the body's; in a text there is `position`."""
    document = problem.short()
    document.pop("line", None)
    document.pop("column", None)
    return document


def written(
    parts: Context,
    tenant: str,
    operations: Sequence[Operation],
    idempotency: Idempotency | None,
) -> list[dict[str, Any]]:
    """Write operations and tell of each; what stops the whole chunk is told of each, too."""
    try:
        result = write(parts, tenant, operations, idempotency)
    except WriteTooLarge as error:
        if len(operations) == 1:
            return [{"id": id_of(operations[0]), **of_store(error).short()}]
        # Text may grow when it is stored in both forms. Halves have keys of their own.
        half = len(operations) // 2
        return [
            *written(parts, tenant, operations[:half], keyed(idempotency, "a")),
            *written(parts, tenant, operations[half:], keyed(idempotency, "b")),
        ]
    except StoreError as error:
        told = of_store(error).short()
        return [{"id": id_of(operation), **told} for operation in operations]
    replayed = {"replayed": True} if result.replayed else {}
    documents = []
    for operation, outcome in zip(operations, result.outcomes, strict=True):
        problem = problem_of(parts, operation, outcome)
        if outcome.status is Status.EXISTS:
            problem = already_exists(outcome.id)
        if problem is None:
            document = {
                "status": STATUSES[outcome.status],
                "id": outcome.id,
                "revision": outcome.revision,
                "epoch": result.epoch,
                "outcome": outcome.status.value,
            }
        else:
            document = {"id": outcome.id, **problem.short()}
        documents.append(document | replayed)
    return documents


def keyed(idempotency: Idempotency | None, suffix: str) -> Idempotency | None:
    """The key of a part of what a key stands for."""
    if idempotency is None:
        return None
    return Idempotency(idempotency.tenant, idempotency.key + suffix, idempotency.fingerprint)


def parse_line(tenant: str, number: int, text: bytes) -> Line:
    """What a line asks for."""
    if len(text) > LINE_BYTES_MAX:
        detail = f"a line may have {LINE_BYTES_MAX:,} bytes"
        return Line(number, problem=Problem("too_large", detail))
    try:
        form = load_object(text)
        kind = form.pop("op", "put")
        expected = expectation(kind, form.pop("if_match", None))
        if kind == "delete":
            if form.keys() != {"id"} or not isinstance(form["id"], str):
                raise Problem("invalid_subscription", 'a delete is {"op": "delete", "id": "…"}')
            return Line(number, Delete(tenant, checked_name("id", form["id"]), expected))
        return Line(number, Put(record_of(form, tenant, None, len(text)), expected))
    except Problem as problem:
        return Line(number, problem=problem)


def expectation(kind: object, if_match: object) -> int | Expected:
    """What an operation wants to find."""
    if kind not in OPERATIONS:
        raise Problem(
            "invalid_subscription",
            f"there is no operation {kind!r}",
            f"the operations are {', '.join(OPERATIONS)}",
            pointer="/op",
        )
    if if_match is None:
        return ABSENT if kind == "create" else ANY
    if kind == "create" or type(if_match) is not int or if_match < 1:
        detail = "if_match is a revision, for put and delete"
        raise Problem("invalid_subscription", detail, pointer="/if_match")
    return if_match
