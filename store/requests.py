"""What every store checks before it writes, and the reply of a write as text.

The reply is what the server function returns and keeps for an idempotency key: the epoch, then a
line `<status letter> <revision> <created ms> <updated ms> <id>` for each operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.base import (
    ABSENT,
    ANY,
    OPERATIONS_MAX,
    WRITE_BYTES_MAX,
    Delete,
    Expected,
    Idempotency,
    Operation,
    Outcome,
    Put,
    Status,
    WriteResult,
)
from store.errors import StoreDamaged, WriteTooLarge
from store.records import accepted, check_name

LETTERS = {
    Status.CREATED: "c",
    Status.REPLACED: "r",
    Status.DELETED: "d",
    Status.CONFLICT: "x",
    Status.EXISTS: "e",
    Status.ABSENT: "a",
}
_STATUSES = {letter: status for status, letter in LETTERS.items()}


def check_write(operations: Sequence[Operation], idempotency: Idempotency | None) -> list[bytes]:
    """Refuse what may not be written; the content of each operation, empty for a deletion."""
    if not 0 < len(operations) <= OPERATIONS_MAX:
        raise WriteTooLarge(
            f"{len(operations)} operations in one write; 1 to {OPERATIONS_MAX} are allowed.",
            "Split the list.",
        )
    if idempotency is not None:
        check_name("tenant", idempotency.tenant)
        check_name("idempotency key", idempotency.key)
        check_name("fingerprint", idempotency.fingerprint)
    contents = []
    for operation in operations:
        tenant, subscription_id = address_of(operation)
        check_name("tenant", tenant)
        check_name("subscription id", subscription_id)
        _check_expected(operation)
        contents.append(operation.record.content() if isinstance(operation, Put) else b"")
    size = sum(map(len, contents))
    if size > WRITE_BYTES_MAX:
        raise WriteTooLarge(
            f"The records of one write have {size} bytes; {WRITE_BYTES_MAX} are allowed.",
            "Split the list.",
        )
    return contents


def address_of(operation: Operation) -> tuple[str, str]:
    """The tenant and id an operation is about."""
    if isinstance(operation, Put):
        return operation.record.tenant, operation.record.id
    return operation.tenant, operation.id


def expected_text(expected: int | Expected) -> str:
    """As the server function reads it: '' for any, '-' for absent, or a revision."""
    return {ANY: "", ABSENT: "-"}[expected] if isinstance(expected, Expected) else str(expected)


def read_reply(reply: str, operations: Sequence[Operation], replayed: bool) -> WriteResult:
    """The result of a write from its reply and the operations it answers."""
    epoch, *lines = reply.split("\n")
    if len(lines) != len(operations):
        raise StoreDamaged(
            f"A write of {len(operations)} operations was answered for {len(lines)}.",
            "An idempotency fingerprint must cover the whole request.",
        )
    outcomes = tuple(map(_read_outcome, lines, operations))
    return WriteResult(int(epoch), outcomes, replayed)


def _read_outcome(line: str, operation: Operation) -> Outcome:
    letter, revision, created_ms, updated_ms, subscription_id = line.split(" ", 4)
    status = _STATUSES[letter]
    if status is Status.ABSENT:
        return Outcome(status, subscription_id)
    if status in (Status.CREATED, Status.REPLACED) and isinstance(operation, Put):
        # On a replay the caller may have made up a new id for the request: the first one counts.
        record = accepted(
            operation.record, subscription_id, int(revision), int(created_ms), int(updated_ms)
        )
        return Outcome(status, subscription_id, int(revision), record)
    return Outcome(status, subscription_id, int(revision))


def _check_expected(operation: Operation) -> None:
    expected = operation.expected
    if isinstance(expected, Expected):
        if isinstance(operation, Delete) and expected is ABSENT:
            raise ValueError("A deletion cannot expect its subscription to be absent.")
    elif expected < 1:
        raise ValueError(f"An expected revision is at least 1, not {expected}.")
