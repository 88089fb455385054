"""Histories: what happened in a run, as lines of JSON, so that a checker can judge it afterwards.

    {"kind":"run","v":1,"delivery":"exactly_once","hops_max":4,"lift_data":false}
    {"kind":"event","topic":…,"partition":…,"offset":…,"key":…,"headers":[[name,value],…],"value":…}
    {"kind":"entry","v":1,"epoch":…,"lineage":…,"changes":[…]}    as in the driver's change files
    {"kind":"write","epoch":…,"at":…}                             acknowledged at, RFC 3339
    {"kind":"pin","batch":…,"epoch":…,"lineage":…,"now":…,"start":{…},"end":{…}}
    {"kind":"notification", …}  {"kind":"dead_letter", …}         records, like events

Bytes are base64, for they may be no text. The run comes first; records of one partition, entries
and pins stand in their order; otherwise lines may come in any order.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from deploy.environment import UserError
from store.base import LogEntry
from streaming.changes import decode_entry, encode_entry
from streaming.pins import Pin, offsets_of, partly_of

FORMAT_VERSION = 1


class Record(NamedTuple):
    """A Kafka record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None

    def header(self, name: str) -> str | None:
        """The text of a header, None if it is not there."""
        for known, value in self.headers:
            if known == name:
                return (value or b"").decode(errors="replace")
        return None


class Acknowledged(NamedTuple):
    """A write that was told to be durable, and when."""

    epoch: int
    at: str


@dataclass(slots=True)
class History:
    """One run. `delivery` is exactly_once or at_least_once."""

    delivery: str = "exactly_once"
    hops_max: int = 4
    lift_data: bool = False
    events: list[Record] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    writes: list[Acknowledged] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    notifications: list[Record] = field(default_factory=list)
    dead_letters: list[Record] = field(default_factory=list)


class HistoryWriter:
    """Appends lines to a file; each is whole once its call returns."""

    def __init__(self, file: BinaryIO, history: History) -> None:
        self._file = file
        run = {name: getattr(history, name) for name in ("delivery", "hops_max", "lift_data")}
        self._write("run", {"v": FORMAT_VERSION} | run)

    def record(self, kind: str, record: Record) -> None:
        """An event, a notification or a dead letter."""
        fields = record._asdict()
        fields["key"], fields["value"] = _to_text(record.key), _to_text(record.value)
        fields["headers"] = [[name, _to_text(value)] for name, value in record.headers]
        self._write(kind, fields)

    def entry(self, entry: LogEntry) -> None:
        """An entry of the subscription log."""
        self._write("entry", orjson.loads(encode_entry(entry)))

    def write(self, acknowledged: Acknowledged) -> None:
        """A write that was acknowledged."""
        self._write("write", acknowledged._asdict())

    def pin(self, pin: Pin) -> None:
        """The pin of a batch, as often as it is another one than before."""
        self._write("pin", asdict(pin))

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        line = orjson.dumps({"kind": kind} | fields, option=orjson.OPT_NON_STR_KEYS)
        self._file.write(line + b"\n")
        self._file.flush()


def write_history(path: Path, history: History) -> None:
    """The whole of a history."""
    with path.open("wb") as file:
        writer = HistoryWriter(file, history)
        for kind, records in _records_of(history).items():
            for record in records:
                writer.record(kind, record)
        for entry in history.entries:
            writer.entry(entry)
        for acknowledged in history.writes:
            writer.write(acknowledged)
        for pin in history.pins:
            writer.pin(pin)


def read_history(path: Path) -> History:
    """The inverse; UserError says which line cannot be read, and why."""
    try:
        with path.open("rb") as file:
            return _parse(path, enumerate(file, 1))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _parse(path: Path, lines: Iterable[tuple[int, bytes]]) -> History:
    history: History | None = None
    for number, line in lines:
        try:
            fields = orjson.loads(line)
            kind = fields.pop("kind")
            if history is None:
                history = _begin(kind, fields)
            else:
                _add(history, kind, fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}, line {number}: no line of a history: {error!r}") from None
    if history is None:
        raise UserError(f"{path} is empty; a history begins with a line of kind run")
    return history


def _begin(kind: str, fields: dict[str, Any]) -> History:
    if kind != "run":
        raise ValueError("the first line must be of kind run")
    version = fields.pop("v")
    if version != FORMAT_VERSION:
        known = f"only {FORMAT_VERSION} is known; judge it with the release that recorded it"
        raise ValueError(f"a history of format {version}, but {known}")
    if fields["delivery"] not in ("exactly_once", "at_least_once"):
        raise ValueError(f"delivery {fields['delivery']!r}")
    return History(**fields)


def _add(history: History, kind: str, fields: dict[str, Any]) -> None:
    if kind in (records := _records_of(history)):
        headers = tuple((name, _to_bytes(value)) for name, value in fields.pop("headers"))
        key, value = _to_bytes(fields.pop("key")), _to_bytes(fields.pop("value"))
        records[kind].append(Record(**fields, key=key, headers=headers, value=value))
    elif kind == "entry":
        history.entries.append(decode_entry(orjson.dumps(fields)))
    elif kind == "write":
        history.writes.append(Acknowledged(**fields))
    elif kind == "pin":
        fields |= {side: offsets_of(fields[side]) for side in ("start", "end")}
        fields["partly"] = partly_of(fields.get("partly", {}))
        history.pins.append(Pin(**fields))
    else:
        raise ValueError(f"a line of kind {kind!r}")


def _records_of(history: History) -> dict[str, list[Record]]:
    return {
        "event": history.events,
        "notification": history.notifications,
        "dead_letter": history.dead_letters,
    }


def _to_text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
