"""Failpoints: named places of the pipeline at which a test has a process die, fail or wait.

    HERALD_FAILPOINTS="batch.pinned=kill@3, sink.produced=sleep:5, match.begun=raise!"

    kill       SIGKILL to this process
    raise      FailpointError
    sleep:S    S seconds
    …@N        only when the process passes for the N-th time; without it, at each pass
    …!         once in all, also over restarts: a file in the checkpoint folder remembers

HERALD_FAILPOINTS=@FILE reads them from a file, and again whenever it is written, so that they can
be armed in a process that runs. Without the setting a pass costs one look at a flag.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "herald-failpoints"

NAMES: Mapping[str, str] = {
    "batch.planned": "driver: Spark has planned a batch, its pin is not there",
    "batch.pinned": "driver: the pin is on disk, nothing was matched",
    "pins.written": "driver: a pin lies beside its name",
    "match.begun": "worker: the records of a task are there, the index is not brought up",
    "match.matched": "worker: events were matched, nothing was handed to the driver",
    "batch.matched": "driver: it has all output of the batch, nothing was produced",
    "sink.produced": "driver: records were produced, the offsets are not in the transaction",
    "sink.uncommitted": "driver: all is in the transaction but its commit",
    "sink.committed": "driver: Kafka has committed, Spark does not know it",
    "pass.committed": "driver: Kafka has a part of the batch, the rest is not matched",
    "tail.appended": "driver: changes are on disk, batches are not pinned to them",
    "snapshot.built": "snapshot process: the index is complete, its file is not there",
    "snapshot.published": "snapshot process: the file has its name, older ones are still there",
}
"""Every place that calls `hit`, and how far things are there."""

_FORM = re.compile(
    r"(?P<name>[a-z.]+)=(?P<action>kill|raise|sleep:(?P<seconds>\d+(\.\d+)?))"
    r"(@(?P<at>[1-9]\d*))?(?P<once>!)?"
)


class FailpointError(RuntimeError):
    """What an armed failpoint raises."""


@dataclass(slots=True)
class Failpoint:
    """One armed place.

    at       the pass at which it acts; 0: at each.
    mark     a file that is there once it has acted; None: it may act again.
    passes   how often this process came by.
    """

    name: str
    action: str
    seconds: float = 0.0
    at: int = 0
    once: bool = False
    mark: Path | None = None
    passes: int = 0

    def hit(self) -> None:
        """Act if it is time to."""
        self.passes += 1
        if self.at not in (0, self.passes) or not self._take_turn():
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action == "raise":
            raise FailpointError(f"the failpoint {self.name} is armed")
        time.sleep(self.seconds)

    def _take_turn(self) -> bool:
        """Whether this process is the one that acts, where only one may ever."""
        if self.mark is None:
            return True
        self.mark.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class _Armed:
    """What is armed in this process.

    source   the file to look at in each pass, and the time at which it was last written.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.points: dict[str, Failpoint] = {}
        self.checkpoint = Path()
        self.source: Path | None = None
        self.written_ns = 0

    def load(self, text: str) -> None:
        """Arm these, and disarm all others."""
        self.points = parse(text)
        for point in self.points.values():
            if point.once:
                point.mark = self.checkpoint / FOLDER / point.name

    def look(self) -> None:
        """Load the file again if it has been written."""
        assert self.source is not None, "there is a file"
        try:
            written_ns = self.source.stat().st_mtime_ns
            if written_ns != self.written_ns:
                self.load(self.source.read_text(encoding="utf-8"))
                self.written_ns = written_ns
        except FileNotFoundError:
            self.points = {}


_armed = _Armed()


def check(text: str) -> None:
    """ValueError if the setting's text is wrong."""
    if not text.startswith("@"):
        parse(text)


def parse(text: str) -> dict[str, Failpoint]:
    """The failpoints that a text names; ValueError says what is known."""
    points: dict[str, Failpoint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _FORM.fullmatch(part)
        if found is None or found["name"] not in NAMES:
            raise ValueError(
                f"{part!r} is no failpoint; write name=action[@pass][!] with one of the names "
                f"{', '.join(NAMES)} and one of the actions kill, raise, sleep:SECONDS"
            )
        points[found["name"]] = Failpoint(
            found["name"],
            found["action"].partition(":")[0],
            float(found["seconds"] or 0),
            int(found["at"] or 0),
            found["once"] is not None,
        )
    return points


def arm(text: str, checkpoint: Path) -> None:
    """Arm the failpoints of the setting in this process, and disarm all others."""
    _armed.checkpoint, _armed.written_ns = checkpoint, 0
    _armed.source = Path(text[1:]) if text.startswith("@") else None
    _armed.load("" if _armed.source else text)
    _armed.is_on = bool(text)


def hit(name: str) -> None:
    """Pass a place, whose name is in NAMES."""
    if not _armed.is_on:
        return
    if _armed.source is not None:
        _armed.look()
    point = _armed.points.get(name)
    if point is not None:
        point.hit()
