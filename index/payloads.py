"""Payloads: the bytes of a batch with what stands beside them, and the plain way to one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from index.decode import parse_event
from index.errors import EventError
from index.limits import LIMITS, Limits
from index.model import Path

Context = Sequence[Mapping[str, str] | None]
"""Per event: string attributes at the root beside the payload; None if the payload is the event."""

_WHITE_SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Payloads:
    """A batch of payloads in Arrow's layout for binary columns.

    data     all payloads, one after the other
    offsets  [n+1] payload e is data[offsets[e]:offsets[e + 1]]
    context  what stands beside each payload, and takes precedence over its members
    prefix   where the payload of an event with context is placed: ("data",) for CloudEvents, () to
             lift its members to the root. Depth counts from the event's root, as if it were one
             JSON text, so that both modes of a CloudEvent have the same limits.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    limits: Limits = LIMITS
    context: Context | None = None
    prefix: Path = ()

    @classmethod
    def of(
        cls,
        payloads: Sequence[bytes],
        limits: Limits = LIMITS,
        context: Context | None = None,
        prefix: Path = (),
    ) -> Payloads:
        """Payloads that are given one by one."""
        data = np.frombuffer(b"".join(payloads), np.uint8)
        offsets = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
        return cls(data, offsets, limits, context, prefix)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def payload(self, row: int) -> bytes:
        """The bytes of one payload."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def event(self, row: int) -> dict[str, object]:
        """One event as nested Python values, with its context; EventError if it is refused."""
        payload = self.payload(row)
        context = self.context[row] if self.context is not None else None
        if context is None:
            return parse_event(payload, self.limits)
        if not is_text(context):
            raise EventError("lone_surrogate", "in an attribute beside the payload")
        if not payload:
            return dict(context)
        if not self.prefix:
            return {**parse_event(payload, self.limits), **context}
        value = _parse_value(payload, self.limits, len(self.prefix))
        for name in reversed(self.prefix[1:]):
            value = {name: value}
        return {self.prefix[0]: value, **context}


def is_text(context: Mapping[str, str]) -> bool:
    """Whether names and values are Unicode text: Python strings may hold lone surrogates."""
    try:
        "".join((*context, *context.values())).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_value(payload: bytes, limits: Limits, depth: int) -> object:
    """Any JSON value that lies `depth` levels below the event's root."""
    if payload.lstrip(_WHITE_SPACE).startswith(b"{"):
        return parse_event(payload, replace(limits, event_depth=limits.event_depth - depth))
    if len(payload) <= limits.event_bytes:
        # An object with one array with one element: if that is what comes back, then the payload
        # was one value, because anything that closes the array early leaves a second name.
        inner = replace(
            limits, event_bytes=len(payload) + 8, event_depth=limits.event_depth - depth + 2
        )
        try:
            root = parse_event(b'{"":[' + payload + b"]}", inner)
        except EventError as error:
            if error.reason not in ("invalid_json", "invalid_utf8"):
                raise
            root = {}
        match root:
            case {"": [value], **others} if not others:
                return value
    return parse_event(payload, limits)  # refuses it, and names the right place
