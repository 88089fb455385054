"""Changes: the part of the subscription log that the driver has read, as files for the workers.

The driver pins only epochs it has read, and writes what it read here first. So a worker reaches
every pinned epoch without the store, and a store that is away stops nobody; on a cluster the folder
is a shared one (docs/adr/0002).

    changes-<epoch>.jsonl    the entries after that epoch, one a line, up to the next file's epoch

    {"v":1,"epoch":7,"lineage":"…","changes":[{"put":{record}},{"delete":[tenant,id]}],"before":"…"}

Lines of the first release have no `v`: they are of format 1, too. `before` is the lineage of epoch
6: a worker that has applied an epoch 6 which the store has lost since must not go on from there,
although the numbers fit.

Only one process appends. A reader takes complete lines; a torn last line is one still being
written, or the last words of a killed driver, which the next one cuts off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from store.base import Change, DeleteChange, LogEntry, PutChange
from store.errors import StoreError
from store.records import SubscriptionRecord

FORMAT_VERSION = 1
PREFIX = "changes-"
SUFFIX = ".jsonl"


UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, StoreError)
"""What a line raises that is damaged, or was written by a later release."""


class ChangesMissing(Exception):
    """The files do not hold the entries asked for."""


def encode_entry(entry: LogEntry, before: str | None = None) -> bytes:
    """An entry as a line; `before` is the lineage of the one before it, where that is known."""
    changes = b",".join(
        b'{"put":%b}' % change.record.to_bytes()
        if isinstance(change, PutChange)
        else b'{"delete":%b}' % orjson.dumps([change.tenant, change.id])
        for change in entry.changes
    )
    lineage = orjson.dumps(entry.lineage)
    known = b"" if before is None else b',"before":%b' % orjson.dumps(before)
    head = b'{"v":%d,"epoch":%d,"lineage":%b' % (FORMAT_VERSION, entry.epoch, lineage)
    return b'%b,"changes":[%b]%b}\n' % (head, changes, known)


def decode_entry(line: bytes) -> LogEntry:
    """The inverse of `encode_entry`, but for the lineage before; else one of UNREADABLE."""
    return _entry_of(orjson.loads(line))


def _entry_of(fields: dict[str, Any]) -> LogEntry:
    version = fields.get("v", 1)
    if version != FORMAT_VERSION:
        raise ValueError(f"an entry of format {version}, but only {FORMAT_VERSION} is known")
    changes: list[Change] = []
    for change in fields["changes"]:
        if "put" in change:
            changes.append(PutChange(SubscriptionRecord.from_fields(change["put"])))
        else:
            changes.append(DeleteChange(*change["delete"]))
    return LogEntry(fields["epoch"], tuple(changes), fields["lineage"])


def files_of(folder: Path) -> list[tuple[int, Path]]:
    """The files with the epoch each begins after, ascending."""
    found = []
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        epoch = path.name[len(PREFIX) : -len(SUFFIX)]
        if epoch.isdigit():
            found.append((int(epoch), path))
    return sorted(found)


class ChangesWriter:
    """The driver's end: appends entries in order.

    epoch, lineage   of the last entry written, from which the log is to be read on.
    """

    def __init__(self, folder: Path, epoch: int, lineage: str) -> None:
        """Begin a file after an epoch."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.epoch, self.lineage = epoch, lineage
        self._path = self._begin_file()

    @classmethod
    def resume(cls, folder: Path) -> ChangesWriter | None:
        """Go on after a restart where the files end; None when there is no entry to go on from.

        ChangesMissing when there is one that cannot be read.
        """
        for _, path in reversed(files_of(folder)):
            last = cut_torn_line(path)
            if last is not None:
                try:
                    entry = decode_entry(last)
                except UNREADABLE as error:
                    raise ChangesMissing(f"the last line of {path}: {error}") from error
                return cls(folder, entry.epoch, entry.lineage)
        return None

    def append(self, entries: list[LogEntry]) -> None:
        """Write entries; they are visible to workers when this returns."""
        lines: list[bytes] = []
        before = self.lineage
        for entry in entries:
            if entry.epoch != self.epoch + len(lines) + 1:
                raise ChangesMissing(f"epoch {entry.epoch} cannot follow {self.epoch + len(lines)}")
            lines.append(encode_entry(entry, before))
            before = entry.lineage
        with self._path.open("ab") as file:
            file.writelines(lines)
        if entries:
            self.epoch, self.lineage = entries[-1].epoch, entries[-1].lineage

    def rotate(self, oldest_needed: int) -> None:
        """Begin a new file, and drop those with nothing after the epoch given."""
        self._path = self._begin_file()
        for (_, path), (next_start, _) in pairwise(files_of(self._folder)):
            if next_start <= oldest_needed:
                path.unlink(missing_ok=True)

    def _begin_file(self) -> Path:
        path = self._folder / f"{PREFIX}{self.epoch:020d}{SUFFIX}"
        path.touch()
        return path


def cut_torn_line(path: Path) -> bytes | None:
    """Cut off what follows the last line end; the last line, or None when none is left."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    return content[content.rfind(b"\n", 0, whole - 1) + 1 : whole] if whole else None


class ChangesReader:
    """A worker's end: remembers where it is, since it asks for the next entries at every batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._epoch = -1
        self._path: Path | None = None
        self._position = 0

    def read(self, after: int, upto: int, lineage: str | None = None) -> Iterator[LogEntry]:
        """The entries after one epoch up to another; ChangesMissing when some are not there.

        `lineage` is that of the epoch they come after; entries that go on from another one are not
        those asked for. None, and files of versions that did not write it, leave it unproved.
        """
        if after != self._epoch or self._path is None:
            self._seek(after)
        reached = after
        while reached < upto:
            advanced = False
            for before, entry in self._lines():
                if entry.epoch <= reached:
                    continue
                if entry.epoch != reached + 1:
                    break
                if None not in (before, lineage) and before != lineage:
                    break
                lineage = entry.lineage
                reached, advanced = entry.epoch, True
                yield entry
                if reached == upto:
                    break
            if reached < upto and not advanced and not self._next_file(reached):
                self._path = None
                raise ChangesMissing(f"{self._folder} holds nothing after epoch {reached}")
        self._epoch = reached

    def _lines(self) -> Iterator[tuple[str | None, LogEntry]]:
        """The lineage before each entry, if it is known, and the entry."""
        assert self._path is not None, "a file was chosen"
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._position += len(line)
                    fields = orjson.loads(line)
                    yield fields.get("before"), _entry_of(fields)
        except FileNotFoundError:
            return
        except UNREADABLE as error:
            # A later release wrote it; or it was made anew after a failover, and our position is
            # within a line of it.
            path, self._path = self._path, None
            raise ChangesMissing(f"{path} is another one now, or damaged: {error}") from error

    def _seek(self, after: int) -> None:
        starts = [(start, path) for start, path in files_of(self._folder) if start <= after]
        if not starts:
            raise ChangesMissing(f"{self._folder} holds nothing before epoch {after}")
        self._path, self._position = starts[-1][1], 0

    def _next_file(self, reached: int) -> bool:
        """Go on in the file that leads on from `reached`; False when that is where we are.

        It may begin earlier: a driver that another one has just replaced appends to the older file.
        """
        starts = [path for start, path in files_of(self._folder) if start <= reached]
        if not starts or self._path is None or starts[-1] <= self._path:
            return False
        self._path, self._position = starts[-1], 0
        return True
