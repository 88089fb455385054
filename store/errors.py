"""Every way the store says no: a stable code, what happened, where, and how to mend it.

Nothing above `store/` sees an exception of the Redis client: `store.connection` translates each one
once. An error that is a fact about the data (a conflict, an absent id) is no exception but an
`Outcome`.
"""

from __future__ import annotations


class StoreError(Exception):
    """The common base. `str()` gives the message and, where there is one, the hint."""

    code = "store_error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message = message
        self.hint = hint


class StoreUnavailable(StoreError):
    """The server cannot be reached, does not answer in time, or is still loading.

    `may_have_happened` is True when a write was sent and its fate is unknown: repeat it with the
    same idempotency key, or read first. It is False when nothing can have been written.
    """

    code = "store_unavailable"

    def __init__(self, message: str, hint: str = "", *, may_have_happened: bool = False) -> None:
        super().__init__(message, hint)
        self.may_have_happened = may_have_happened


class StoreFull(StoreError):
    """The server is at maxmemory, or idempotency keys fill their room; nothing was written."""

    code = "store_full"


class StoreReadOnly(StoreError):
    """The server refuses writes (a replica, a failing disk, few replicas); nothing was written."""

    code = "store_read_only"


class StoreIncompatible(StoreError):
    """The server or what it holds does not fit this version of Herald or its settings."""

    code = "store_incompatible"


class StoreDamaged(StoreError):
    """The server holds something that Herald did not write; nothing was written on top of it."""

    code = "store_damaged"


class IdempotencyMismatch(StoreError):
    """An idempotency key was used again for a different request; nothing was written."""

    code = "idempotency_mismatch"


class WriteTooLarge(StoreError):
    """A list of operations is over the limit of one call; nothing was written."""

    code = "write_too_large"


class InvalidName(StoreError, ValueError):
    """A tenant, subscription id, reader name or idempotency key that cannot be stored."""

    code = "invalid_name"


class InvalidPageToken(StoreError, ValueError):
    """A page token that no listing with these arguments gave out."""

    code = "invalid_page_token"


class LogGapError(StoreError):
    """The log no longer holds what a reader needs next: load a snapshot or scan, then read on."""

    code = "log_gap"

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"The log was to go on with epoch {expected}, but goes on with {found}.",
            "Load a snapshot or scan the store, then read the log from there.",
        )
        self.expected = expected
        self.found = found


class EpochWentBackError(StoreError):
    """The store lost writes that a reader has already applied (a failover with a lost tail).

    `newest` may be at or above `applied`: then the lost epochs were given out a second time, which
    the lineage of the log shows.
    """

    code = "epoch_went_back"

    def __init__(self, applied: int, newest: int) -> None:
        super().__init__(
            f"Epoch {applied} was applied, but the store, now at epoch {newest}, has lost it.",
            "Throw away what was built from the lost epochs and scan the store again.",
        )
        self.applied = applied
        self.newest = newest
