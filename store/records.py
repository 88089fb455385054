"""What is written, what is kept, and what the log says: frozen values and their byte forms.

Stored form of a subscription, the value under its id in a bucket:

    `<revision> <created> <age> <content>`      e.g. `1041 1764290000123 0 {"v":1,"filters":[...]}`

revision is the epoch of the last write; created is in milliseconds since 1970 by the server's
clock; age is the milliseconds from there to the last write; content is JSON with defaults left
out. Tenant and id are not repeated in it: the key and the hash field name them. The server sets the
three numbers, so they need no second trip and no client's clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from store.errors import InvalidName, StoreDamaged, StoreIncompatible

FORMAT_VERSION = 1
NAME_BYTES_MAX = 256
"""Of a tenant, subscription id, reader name or idempotency key, in UTF-8."""


class Mode(StrEnum):
    """How much a notification carries."""

    THIN = "thin"
    FULL = "full"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """One subscription as its author wrote it, and what the store knows about it.

    filters        JSON twins of semantics section 4; any of them may match.
    expr           the text they came from, if text was written.
    consumer_key   the Kafka key of its notifications; None: its id.
    expires_at     RFC 3339, judged by the reader of the record; the store never drops it by itself.
    revision, epoch, created_at, updated_at    set by the store; ignored in a write. revision and
                   epoch are one number: the epoch of the last write, so a revision never comes
                   back, not even after a deletion.
    """

    tenant: str
    id: str
    filters: tuple[object, ...]
    expr: str | None = None
    enabled: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    expires_at: str | None = None
    consumer_key: str | None = None
    mode: Mode = Mode.THIN
    revision: int = 0
    epoch: int = 0
    created_at: str = ""
    updated_at: str = ""

    def content(self) -> bytes:
        """The author's part in the stored form: no tenant, no id, nothing the server sets."""
        return orjson.dumps(self._content())

    def to_bytes(self) -> bytes:
        """The whole record as JSON, for files and messages outside the store."""
        return orjson.dumps(
            self._content()
            | {
                "tenant": self.tenant,
                "id": self.id,
                "revision": self.revision,
                "created_at": self.created_at,
                "updated_at": self.updated_at,
            }
        )

    @classmethod
    def from_bytes(cls, text: bytes) -> SubscriptionRecord:
        """The inverse of `to_bytes`."""
        return cls.from_fields(_load(text))

    @classmethod
    def from_fields(cls, fields: object) -> SubscriptionRecord:
        """The record of what `to_bytes` gives, parsed already as a part of something else."""
        fields = _checked(fields)
        try:
            return _record(
                fields["tenant"],
                fields["id"],
                fields,
                fields["revision"],
                fields["created_at"],
                fields["updated_at"],
            )
        except KeyError as error:
            raise StoreDamaged(f"A subscription record lacks {error}.") from None

    def _content(self) -> dict[str, object]:
        content: dict[str, object] = {"v": FORMAT_VERSION, "filters": self.filters}
        if self.expr is not None:
            content["expr"] = self.expr
        if not self.enabled:
            content["enabled"] = False
        if self.labels:
            content["labels"] = dict(self.labels)
        if self.priority:
            content["priority"] = self.priority
        if self.expires_at is not None:
            content["expires_at"] = self.expires_at
        if self.consumer_key is not None:
            content["consumer_key"] = self.consumer_key
        if self.mode != Mode.THIN:
            content["mode"] = self.mode
        return content


class StoredRecord(NamedTuple):
    """A subscription still in its stored form; `record()` decodes it."""

    tenant: str
    id: str
    stored: bytes

    def revision(self) -> int:
        """The record's revision, without decoding the rest."""
        return int(self.stored.partition(b" ")[0])

    def record(self) -> SubscriptionRecord:
        """The record, decoded."""
        return decode_stored(self.tenant, self.id, self.stored)


def encode_stored(content: bytes, revision: int, created_ms: int, updated_ms: int) -> bytes:
    """What the server function writes, for the stub that writes it too."""
    return b"%d %d %d %s" % (revision, created_ms, updated_ms - created_ms, content)


def decode_stored(tenant: str, subscription_id: str, stored: bytes) -> SubscriptionRecord:
    """A record from its stored form and from where it lay."""
    try:
        revision, created, age, content = stored.split(b" ", 3)
        created_at = format_ms(int(created))
        updated_at = created_at if age == b"0" else format_ms(int(created) + int(age))
        fields = _decode(content)
        return _record(tenant, subscription_id, fields, int(revision), created_at, updated_at)
    except (ValueError, KeyError) as error:
        raise StoreDamaged(
            f"Subscription {subscription_id!r} of {tenant!r} is damaged in the store: {error}.",
            "Delete and write it again.",
        ) from None


def accepted(
    record: SubscriptionRecord,
    subscription_id: str,
    revision: int,
    created_ms: int,
    updated_ms: int,
) -> SubscriptionRecord:
    """The record that was written, under the id it got, with what the server set."""
    return replace(
        record,
        id=subscription_id,
        revision=revision,
        epoch=revision,
        created_at=format_ms(created_ms),
        updated_at=format_ms(updated_ms),
    )


_EPOCH_START = datetime(1970, 1, 1)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def format_ms(milliseconds: int) -> str:
    """RFC 3339 in UTC with milliseconds, e.g. 2026-01-31T09:00:00.250Z."""
    # Not strftime, which takes five times as long: scans format two of these a record.
    moment = _EPOCH_START + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds") + "Z"


def check_name(what: str, name: str) -> str:
    """Refuse names that are empty, too long, or hold what separates names in keys and replies."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(f"The {what} is not valid Unicode.") from None
    if not 0 < length <= NAME_BYTES_MAX:
        raise InvalidName(
            f"The {what} has {length} bytes of UTF-8; 1 to {NAME_BYTES_MAX} are allowed."
        )
    if _CONTROL.search(name):
        raise InvalidName(f"The {what} {name!r} holds a control character.")
    return name


def _decode(text: bytes) -> dict[str, Any]:
    return _checked(_load(text))


def _load(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise StoreDamaged(f"A subscription record is no JSON: {error}.") from None


def _checked(fields: object) -> dict[str, Any]:
    if not isinstance(fields, dict):
        raise StoreDamaged("A subscription record is no JSON object.")
    if fields.get("v") != FORMAT_VERSION:
        raise StoreIncompatible(
            f"A subscription record has format {fields.get('v')!r}; this version reads "
            f"{FORMAT_VERSION}.",
            "Upgrade this process.",
        )
    return fields


def _record(
    tenant: str,
    subscription_id: str,
    fields: dict[str, Any],
    revision: int,
    created_at: str,
    updated_at: str,
) -> SubscriptionRecord:
    return SubscriptionRecord(
        tenant=tenant,
        id=subscription_id,
        filters=tuple(fields["filters"]),
        expr=fields.get("expr"),
        enabled=fields.get("enabled", True),
        labels=fields.get("labels", {}),
        priority=fields.get("priority", 0),
        expires_at=fields.get("expires_at"),
        consumer_key=fields.get("consumer_key"),
        mode=Mode(fields["mode"]) if "mode" in fields else Mode.THIN,
        revision=revision,
        epoch=revision,
        created_at=created_at,
        updated_at=updated_at,
    )
