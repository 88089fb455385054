"""The route for many subscriptions: NDJSON in, one line of answer for each line, in order.

    in     {"id": "a", "expr": "x = 1"}                       create or replace
           {"op": "create", "id": "b", "filter": {...}}       only if there is none
           {"op": "put", "id": "c", "expr": "…", "if_match": 7}
           {"op": "delete", "id": "d"}
    out    {"line": 1, "status": 201, "id": "a", "revision": 8, "epoch": 8}
           {"line": 2, "status": 409, "id": "b", "code": "already_exists", "detail": "…"}

Lines are written in chunks that share an epoch, as they come: an answer may be on its way while
the body still is. A line that is refused stops no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from store.base import (
    ABSENT,
    ANY,
    Delete,
    Expected,
    Idempotency,
    Operation,
    Outcome,
    Put,
    Status,
)
from store.errors import StoreError
from subscriptions_api.auth import Caller
from subscriptions_api.context import (
    Context,
    Parts,
    Subscriber,
    idempotency_of,
    require_media_type,
)
from subscriptions_api.errors import PROBLEMS, Problem, of_store
from subscriptions_api.limits import LINE_BYTES_MAX
from subscriptions_api.schemas import load_object, record_of
from subscriptions_api.streams import NdjsonAnswer, chunks
from subscriptions_api.subscription_routes import not_found, refuse_beyond_quota

router = APIRouter(prefix="/v1", tags=["subscriptions"])

OPERATIONS = ("put", "create", "delete")
STATUSES = {Status.CREATED: 201, Status.REPLACED: 200, Status.DELETED: 204}


@dataclass(slots=True)
class Line:
    """One line: its number from 1, and what was asked or why it is refused."""

    number: int
    operation: Operation | None = None
    problem: Problem | None = None


@router.post("/subscriptions:batch")
async def batch(request: Request, parts: Parts, caller: Subscriber) -> Response:
    """Create, replace and delete many subscriptions."""
    require_media_type(request, "application/x-ndjson", "application/jsonl", "application/ndjson")
    # What a key stands for is known only at the end of a stream, so each chunk has its own digest.
    idempotency_of(request, caller, b"")
    return NdjsonAnswer(answers(request, parts, caller))


async def answers(request: Request, parts: Context, caller: Caller) -> AsyncIterator[bytes]:
    """Lines of answer, a chunk at a time."""
    number = 1
    async for chunk in chunks(request.stream()):
        idempotency = chunk_key(request, caller, number, chunk)
        yield await run_in_threadpool(write_chunk, parts, caller, number, chunk, idempotency)
        number += len(chunk)


def chunk_key(
    request: Request, caller: Caller, number: int, chunk: Sequence[bytes]
) -> Idempotency | None:
    """The client's key, told apart by the chunk's place in the body."""
    whole = idempotency_of(request, caller, b"\n".join(chunk))
    if whole is None:
        return None
    return Idempotency(whole.tenant, f"{whole.key}#{number}", whole.fingerprint)


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
        documents = written(parts, caller.tenant, operations, idempotency)
    told = []
    for line in lines:
        document = short(line.problem) if line.problem is not None else next(documents)
        parts.metrics.writes.labels(document.get("code") or document.pop("outcome")).inc()
        told.append(orjson.dumps({"line": line.number, **document}))
    return b"".join(line + b"\n" for line in told)


def written(
    parts: Context,
    tenant: str,
    operations: Sequence[Operation],
    idempotency: Idempotency | None,
) -> Iterator[dict[str, Any]]:
    """Write operations and tell of each; what stops the whole chunk is told of each, too."""
    try:
        parts.writes.take(tenant, len(operations))
        refuse_beyond_quota(parts, tenant, sum(isinstance(one, Put) for one in operations))
        result = parts.store.write(operations, idempotency)
    except (StoreError, Problem) as error:
        problem = of_store(error) if isinstance(error, StoreError) else error
        return ({"id": id_of(one), **short(problem)} for one in operations)
    parts.metrics.epoch.set(result.epoch)
    return (told_outcome(outcome, result.epoch) for outcome in result.outcomes)


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
            return Line(number, Delete(tenant, form["id"], expected))
        return Line(number, Put(record_of(form, tenant, None), expected))
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
    if kind == "create" or type(if_match) is not int:
        detail = "if_match is a revision, for put and delete"
        raise Problem("invalid_subscription", detail, pointer="/if_match")
    return if_match


def told_outcome(outcome: Outcome, epoch: int) -> dict[str, Any]:
    """The answer to a line that reached the store."""
    if outcome.accepted:
        return {
            "status": STATUSES[outcome.status],
            "id": outcome.id,
            "revision": outcome.revision,
            "epoch": epoch,
            "outcome": outcome.status.value,
        }
    problem = not_found(outcome.id)
    if outcome.status is Status.EXISTS:
        problem = Problem("already_exists", f"there is a subscription {outcome.id!r}")
    if outcome.status is Status.CONFLICT:
        detail = f"{outcome.id!r} is at revision {outcome.revision}"
        problem = Problem("precondition_failed", detail)
    return {"id": outcome.id, **short(problem)}


def id_of(operation: Operation) -> str:
    """The subscription that an operation is about."""
    return operation.record.id if isinstance(operation, Put) else operation.id


def short(problem: Problem) -> dict[str, Any]:
    """A problem document without what its code already says."""
    document = problem.document()
    return {
        "status": PROBLEMS[problem.code].status,
        **{name: value for name, value in document.items() if name not in ("type", "title")},
    }
