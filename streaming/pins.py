"""Pins: the epoch and the time of each batch, written once and found again by every replay.

A pin is a small file beside Spark's own offset log, so it lives exactly as long as the offsets it
belongs to, is restored with them, and needs no store that may be away (docs/adr/0001). The
first writer wins by link(2), which never replaces; a crash leaves at most a stray temporary file.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from index.instants import format_instant, parse_instant
from index.model import Instant
from index.snapshot import sync_folder
from streaming.failpoints import hit

FORMAT_VERSION = 2
"""What is written of events that are told of in part; all else is 1, which the first release reads.
"""
FOLDER = "herald-pins"
Offsets = dict[str, dict[int, int]]
"""topic -> partition -> the offset after the last one."""
Partly = dict[str, dict[int, tuple[int, int, int]]]
"""topic -> partition -> offset, part and number of parts."""


class PinError(Exception):
    """A pin that cannot be read or written: which file, and what to do."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What makes a batch a pure function of its events.

    lineage     of the epoch in the store's history; see store.base.
    now         RFC 3339, what NOW() and expiry are judged by.
    start, end  the offsets of the batch, for whoever checks a run afterwards.
    partly      events that had been told of in part at another pin: from which part on, of how
                many, this one holds.
    """

    batch: int
    epoch: int
    lineage: str
    now: str
    start: Offsets
    end: Offsets
    partly: Partly = field(default_factory=dict)

    @property
    def instant(self) -> Instant:
        """The pinned time."""
        return parse_instant(self.now)


def offsets_of(named: dict[str, dict[str, int]]) -> Offsets:
    """Offsets from their JSON, whose keys are strings."""
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in named.items()
    }


def instant_now(nanoseconds: int) -> str:
    """A clock reading in nanoseconds since 1970 as a pin has it."""
    return format_instant(Instant(*divmod(nanoseconds, 1_000_000_000)))


def partly_of(named: dict[str, dict[str, list[int]]]) -> Partly:
    """Events told of in part, from their JSON."""
    return {
        topic: {int(partition): (at[0], at[1], at[2]) for partition, at in partitions.items()}
        for topic, partitions in named.items()
    }


class PinLog:
    """The pins of one checkpoint."""

    def __init__(self, checkpoint: Path, retained: int) -> None:
        self._folder = checkpoint / FOLDER
        self._retained = retained
        self._folder.mkdir(parents=True, exist_ok=True)
        for stray in self._folder.glob(".*.tmp"):
            stray.unlink(missing_ok=True)

    def pin(self, wanted: Pin) -> Pin:
        """The pin of a batch: the one that is there, or else `wanted`, from now on for ever."""
        known = self.find(wanted.batch)
        if known is not None:
            return known
        target = self._path(wanted.batch)
        temporary = self._write_aside(wanted)
        hit("pins.written")
        try:
            os.link(temporary, target)
        except FileExistsError:
            return self.read(target)
        finally:
            temporary.unlink()
        sync_folder(self._folder)
        self._trim(wanted.batch)
        return wanted

    def replace(self, pin: Pin) -> None:
        """Overwrite a pin: its epoch is lost, or an event was told of in part at another one."""
        os.replace(self._write_aside(pin), self._path(pin.batch))
        sync_folder(self._folder)

    def find(self, batch: int) -> Pin | None:
        """The pin of a batch, if it has one."""
        path = self._path(batch)
        return self.read(path) if path.exists() else None

    def newest(self) -> Pin | None:
        """The pin of the newest batch: the one a restart may replay."""
        batches = self._batches()
        return self.find(max(batches)) if batches else None

    def _batches(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("[0-9]*.json")]

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"

    def _write_aside(self, pin: Pin) -> Path:
        temporary = self._folder / f".{pin.batch}.{os.getpid()}.tmp"
        fields = {"v": FORMAT_VERSION if pin.partly else 1} | asdict(pin)
        if not pin.partly:
            del fields["partly"]
        content = orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)
        try:
            write_synced(temporary, content)
        except OSError as error:
            raise PinError(
                f"cannot write {temporary}: {error}; make room or give access there, no event is "
                "lost meanwhile."
            ) from error
        return temporary

    @staticmethod
    def read(path: Path) -> Pin:
        """The pin of a file; PinError if it cannot be read."""
        try:
            fields = orjson.loads(path.read_bytes())
            version = fields.pop("v")
            if version > FORMAT_VERSION:
                raise PinError(
                    f"{path} has format {version}, but {FORMAT_VERSION} is the last one known: a "
                    "later release wrote it. Start that one; or restore the checkpoint of before "
                    "the upgrade."
                )
            for side in ("start", "end"):
                fields[side] = offsets_of(fields[side])
            fields["partly"] = partly_of(fields.get("partly", {}))
            return Pin(**fields)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PinError(
                f"{path} cannot be read ({error}); restore the checkpoint from a copy, or delete "
                "the file if no event of its batch has been notified yet."
            ) from error

    def _trim(self, newest: int) -> None:
        """Drop pins that Spark no longer keeps the offsets of; one a batch, so it stays cheap."""
        expired = newest - self._retained
        if expired >= 0:
            self._path(expired).unlink(missing_ok=True)
        if newest % self._retained == 0:
            for batch in self._batches():
                if batch <= expired:
                    self._path(batch).unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file so that its content, but not yet its name, survives a power failure."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
