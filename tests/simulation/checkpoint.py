"""Checkpoint: Spark's own part of a checkpoint folder, in the form that Herald reads.

offsets/<batch>    the end of a batch, written before it runs
commits/<batch>    written after foreachBatch returned
sources/0/0        where the query began
"""

from __future__ import annotations

from pathlib import Path

import orjson

from streaming import offset_log
from streaming.offset_log import planned_offsets
from streaming.pins import Offsets, offsets_of


class ConcurrentUpdate(Exception):
    """Another query has written this batch: Spark ends the one that comes second."""


class Checkpoint:
    """One query's view of the folder: the next batch, and where it begins."""

    def __init__(self, folder: Path, retained: int, starting: str, topics: dict[str, int]) -> None:
        self._folder = folder
        self._retained = retained
        for name in ("offsets", "commits", "sources/0"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        initial = folder / "sources/0/0"
        if not initial.exists():
            initial.write_bytes(orjson.dumps(_resolved(starting, topics)))
        planned = [int(path.name) for path in (folder / "offsets").iterdir()]
        newest = max(planned, default=-1)
        self.is_planned = newest >= 0 and not (folder / "commits" / str(newest)).exists()
        self.batch = newest if self.is_planned else newest + 1
        before = self.batch - 1
        if before >= 0 and (folder / "offsets" / str(before)).exists():
            self.start = planned_offsets(folder, before)
        else:
            self.start = offsets_of(orjson.loads(initial.read_bytes()))

    def plan(self, end: Offsets) -> None:
        """Decide how far the next batch goes."""
        encoded = orjson.dumps(end, option=orjson.OPT_NON_STR_KEYS).decode()
        self._write("offsets", f"{offset_log.VERSION}\n{{}}\n{encoded}")
        self.is_planned = True
        expired = self.batch - self._retained
        for name in ("offsets", "commits"):
            (self._folder / name / str(expired)).unlink(missing_ok=True)

    def end(self) -> Offsets:
        """How far the planned batch goes."""
        return planned_offsets(self._folder, self.batch)

    def record(self) -> None:
        """The batch is done."""
        end = self.end()
        self._write("commits", "v1\n{}")
        self.start, self.is_planned = end, False
        self.batch += 1

    def _write(self, name: str, text: str) -> None:
        try:
            with (self._folder / name / str(self.batch)).open("x") as file:
                file.write(text)
        except FileExistsError:
            raise ConcurrentUpdate(f"{name}/{self.batch}") from None


def _resolved(starting: str, topics: dict[str, int]) -> dict[str, dict[str, int]]:
    """Starting offsets as numbers; each topic begins at 0."""
    if starting == "earliest":
        return {topic: {str(one): 0 for one in range(count)} for topic, count in topics.items()}
    return {
        topic: {partition: max(0, offset) for partition, offset in offsets.items()}
        for topic, offsets in orjson.loads(starting).items()
    }
