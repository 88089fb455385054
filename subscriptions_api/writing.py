"""Writes within a tenant's quota, and what became of each operation in the API's words."""

from __future__ import annotations

from collections.abc import Sequence

from store.base import (
    ANY,
    Delete,
    Expected,
    Idempotency,
    Operation,
    Outcome,
    Put,
    Status,
    WriteResult,
)
from subscriptions_api.context import Context
from subscriptions_api.errors import Problem

NEVER = 2**53 - 1
"""No subscription has this revision. An operation that expects it changes nothing, but if its
request was made before, it is still answered as it was then."""
REVISION_DIGITS_MAX = 16


def write(
    parts: Context,
    tenant: str,
    operations: Sequence[Operation],
    idempotency: Idempotency | None = None,
) -> WriteResult:
    """Write what the quota allows; `problem_of` tells of what it does not."""
    result = parts.store.write(within_quota(parts, tenant, operations), idempotency)
    if any(outcome.accepted for outcome in result.outcomes):
        parts.metrics.epoch.set(result.epoch)
    return result


def within_quota(
    parts: Context, tenant: str, operations: Sequence[Operation]
) -> Sequence[Operation]:
    """The operations, with those disarmed that would create more than the quota has room for.

    Only a tenant near its quota pays for looking what exists already. Requests that run side by
    side may together go over it by what they write at that moment.
    """
    creating = sum(may_create(operation) for operation in operations)
    if not creating:
        return operations
    room = parts.settings.subscriptions_max - parts.store.count(tenant)
    if creating <= room:
        return operations
    there: dict[str, bool] = {}
    allowed: list[Operation] = []
    for operation in operations:
        name = id_of(operation)
        if name not in there:
            there[name] = parts.store.get(tenant, name) is not None
        if isinstance(operation, Delete):
            if there[name] and operation.expected is ANY:
                there[name], room = False, room + 1
        elif may_create(operation) and not there[name]:
            if room > 0:
                there[name], room = True, room - 1
            else:
                operation = Put(operation.record, NEVER)
        allowed.append(operation)
    return allowed


def may_create(operation: Operation) -> bool:
    """Whether an operation can add a subscription."""
    return isinstance(operation, Put) and isinstance(operation.expected, Expected)


def id_of(operation: Operation) -> str:
    """The subscription that an operation is about."""
    return operation.record.id if isinstance(operation, Put) else operation.id


def problem_of(parts: Context, operation: Operation, outcome: Outcome) -> Problem | None:
    """Why an operation, as it was asked for, changed nothing; None if it did."""
    if outcome.accepted:
        return None
    if may_create(operation) and outcome.status is not Status.EXISTS:
        limit = parts.settings.subscriptions_max
        return Problem(
            "quota_exceeded", f"a tenant may have {limit:,} subscriptions", "delete some first"
        )
    if outcome.status is Status.ABSENT:
        return not_found(outcome.id)
    return Problem(
        "precondition_failed",
        f"{outcome.id!r} is at revision {outcome.revision}",
        "GET it, look at what changed, and try again with its ETag",
    )


def already_exists(subscription_id: str) -> Problem:
    """That what was to be created is there."""
    return Problem(
        "already_exists",
        f"there is a subscription {subscription_id!r}",
        "PUT replaces it; leave id out to get a new one",
    )


def not_found(subscription_id: str) -> Problem:
    """That there is no such subscription."""
    return Problem("not_found", f"there is no subscription {subscription_id!r}")


def revision_of(digits: str) -> int | None:
    """The revision that digits stand for; None if no subscription could have it."""
    if digits.isascii() and digits.isdigit() and len(digits) <= REVISION_DIGITS_MAX:
        return int(digits) or None
    return None
