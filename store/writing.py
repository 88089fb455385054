"""Writes to the server: one call of the server function, then the wait for the disk."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError, ResponseError

from store.base import Delete, Idempotency, Operation, Put, WriteResult
from store.connection import FUNCTION_PREFIX, address_in, load_library, translate, translated
from store.errors import IdempotencyMismatch, StoreFull, StoreUnavailable
from store.keys import Keys, bucket_of
from store.requests import address_of, check_write, expected_text, read_reply
from store.settings import StoreSettings


class Writer:
    """The writing half of the store; what it loses on failure is stated in its errors."""

    def __init__(self, client: Any, keys: Keys, settings: StoreSettings, buckets: int) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._buckets = buckets
        self._address = address_in(settings.url)

    def write(
        self, operations: Sequence[Operation], idempotency: Idempotency | None = None
    ) -> WriteResult:
        """See SubscriptionStore.write."""
        contents = check_write(operations, idempotency)
        keys, arguments = self._write_arguments(operations, contents, idempotency)
        only_deletes = idempotency is None and all(isinstance(one, Delete) for one in operations)
        function = "delete" if only_deletes else "write"
        outcome, reply = self._call_durably(function, keys, arguments)
        if outcome == b"mismatch":
            assert idempotency is not None
            raise IdempotencyMismatch(
                f"The idempotency key {idempotency.key!r} was used before for another request.",
                "Use a new key for a new request.",
            )
        if outcome == b"full":
            raise StoreFull(
                f"The store at {self._address} has no room for more idempotency keys.",
                "Write without one, wait until older ones expire, or raise idempotency_bytes_max.",
            )
        return read_reply(reply.decode(), operations, replayed=outcome == b"replayed")

    def _write_arguments(
        self,
        operations: Sequence[Operation],
        contents: Sequence[bytes],
        idempotency: Idempotency | None,
    ) -> tuple[list[str], list[str | bytes | int]]:
        """Keys and arguments of the function `write`, in the order its header states."""
        keys = [self._keys.epoch, self._keys.log, self._keys.counts, *self._keys.replies]
        numbers = {key: number for number, key in enumerate(keys, start=1)}
        arguments: list[str | bytes | int] = [
            uuid.uuid4().hex[:16],
            len(self._keys.replies),
            f"{idempotency.tenant}\n{idempotency.key}" if idempotency else "",
            idempotency.fingerprint if idempotency else "",
            self._settings.idempotency_bytes_max,
        ]
        for operation, content in zip(operations, contents, strict=True):
            tenant, subscription_id = address_of(operation)
            bucket = bucket_of(subscription_id, self._buckets)
            records = numbers.setdefault(self._keys.records(tenant, bucket), len(numbers) + 1)
            used = numbers.setdefault(self._keys.used(tenant), len(numbers) + 1)
            kind = "p" if isinstance(operation, Put) else "d"
            expected = expected_text(operation.expected)
            arguments.append(f"{kind} {bucket} {records} {used} {expected}")
            arguments += [tenant, subscription_id, content]
        return list(numbers), arguments

    def _call_durably(
        self, function: str, keys: list[str], arguments: Sequence[str | bytes | int]
    ) -> tuple[bytes, bytes]:
        """Call a writing function and wait on the same connection until the disk has it."""
        reply, synced = self._send_write(function, keys, arguments)
        if isinstance(reply, ResponseError) and "Function not found" in str(reply):
            # The server was replaced by an empty one; the call did nothing, so it may be repeated.
            with translated(self._address):
                load_library(self._client)
            reply, synced = self._send_write(function, keys, arguments)
        if isinstance(reply, RedisError):
            raise translate(reply, self._address, writing=False)
        replicas = self._settings.durable_replicas
        if isinstance(synced, RedisError) or synced[0] < 1 or synced[1] < replicas:
            raise StoreUnavailable(
                f"The write is not known to be durable: the disk of the store at {self._address} "
                f"has not confirmed it ({synced}).",
                "It may or may not survive. Repeat it with the same idempotency key.",
                may_have_happened=True,
            )
        outcome, text = reply
        return outcome, text

    def _send_write(
        self, function: str, keys: list[str], arguments: Sequence[str | bytes | int]
    ) -> tuple[Any, Any]:
        """The replies of the function and of WAITAOF, either of them perhaps an error."""
        with (
            translated(self._address, writing=True),
            self._client.pipeline(transaction=False) as pipeline,
        ):
            pipeline.fcall(FUNCTION_PREFIX + function, len(keys), *keys, *arguments)
            if not self._settings.require_durable:
                return pipeline.execute(raise_on_error=False)[0], (
                    1,
                    self._settings.durable_replicas,
                )
            timeout_ms = int(self._settings.durable_timeout_s * 1000)
            pipeline.execute_command("WAITAOF", 1, self._settings.durable_replicas, timeout_ms)
            reply, synced = pipeline.execute(raise_on_error=False)
            return reply, synced
