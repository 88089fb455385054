"""Journal: the outcomes of a campaign in a file, so that one of hours can be run in parts.

One JSON object a line, appended and on disk before the next run begins:

    {"fault": 1, "name": "driver killed at batch.pinned", "delivery": "exactly_once", "run": 3, …}
    {"anew": {"fault": 1, "name": "…", "delivery": "exactly_once"}}

An outcome stays, whatever came of the run. A line `anew` says that the outcomes of a row before it
do not count any more; they can still be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from deploy.chaos.outcome import Outcome, Row, Turn
from deploy.environment import UserError


class Journal:
    """The outcomes of a file, which need not exist yet; UserError where a line cannot be read.

    outcomes   those that count, in the order of their runs.
    set_aside  how many do not, because their rows were made anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.outcomes: list[Outcome] = []
        self.set_aside = 0
        if path.exists():
            self._read()

    @property
    def done(self) -> set[Turn]:
        """The turns that need not run again."""
        return {one.turn for one in self.outcomes}

    def add(self, outcome: Outcome) -> None:
        """Append one outcome."""
        self._append([outcome.to_json()])
        self.outcomes.append(outcome)

    def begin_anew(self, rows: Iterable[Row]) -> None:
        """Have the outcomes of some rows count no more."""
        there = {one.row for one in self.outcomes} & set(rows)
        self._append([{"anew": _row_json(row)} for row in sorted(there)])
        for row in there:
            self._set_aside(row)

    def _append(self, lines: Iterable[object]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"the journal {self._path} cannot be written: {error}.") from None

    def _set_aside(self, row: Row) -> None:
        kept = [one for one in self.outcomes if one.row != row]
        self.set_aside += len(self.outcomes) - len(kept)
        self.outcomes = kept

    def _read(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"the journal {self._path} cannot be read: {error}.") from None
        for number, line in enumerate(lines, 1):
            try:
                self._take(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"line {number} of the journal {self._path} is no outcome of ./herald chaos "
                    f"({error!r}); delete that line, or name another file."
                ) from None

    def _take(self, told: dict[str, dict[str, object]]) -> None:
        if "anew" in told:
            fields = told["anew"]
            self._set_aside(
                Row(int(str(fields["fault"])), str(fields["name"]), str(fields["delivery"]))
            )
        else:
            self.outcomes.append(Outcome.from_json(told))


def _row_json(row: Row) -> dict[str, object]:
    return {"fault": row.number, "name": row.name, "delivery": row.delivery}
