"""Cases told to an index in this process, in every way that must not change the answer.

as given     each case has an index of its own, built and then changed one write at a time
as twin      the same, but every filter goes through its other form: text as JSON, JSON as text
together     one index holds the subscriptions of all cases
merged       the same, and its parts are merged before each batch of events
reopened     the same, and it is written to a file and opened again before each batch

The last two are for algorithms that are `index.updatable.Updatable`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.cases import ACCEPTED, DEAD_LETTER, REFUSED, Case, Outcome, Publication, Write
from deploy.filter_files import filter_of, twin_of
from index.base import MatchIndex
from index.errors import FilterError
from index.events import decode_payloads
from index.model import Instant, Subscription
from index.updatable import Updatable

WAYS = ("as given", "as twin", "together")
UPDATABLE_WAYS = ("merged", "reopened")


def ways_of(algorithm: type[MatchIndex]) -> tuple[str, ...]:
    """The ways that an algorithm offers."""
    return WAYS + UPDATABLE_WAYS if issubclass(algorithm, Updatable) else WAYS


class IndexTarget:
    """One algorithm, told the cases in one of WAYS."""

    def __init__(self, algorithm: type[MatchIndex], way: str) -> None:
        self.name = f"{algorithm.name}, {way}"
        self._algorithm = algorithm
        self._way = way
        self._indexes: dict[int, MatchIndex] = {}

    def write(self, writes: Sequence[Write]) -> list[str]:
        """Apply the writes one by one, checking every invariant after them."""
        outcomes = [self._write(write) for write in writes]
        for index in self._indexes.values():
            index.check()
        return outcomes

    def publish(self, publications: Sequence[Publication]) -> list[Outcome]:
        """Match the events at the present time, all in one batch if the cases share an index."""
        batches: dict[int, list[int]] = {}
        for position, publication in enumerate(publications):
            batches.setdefault(self._key(publication.case), []).append(position)
        outcomes: dict[int, Outcome] = {}
        for key, positions in batches.items():
            found = self._match(key, [publications[position].payload for position in positions])
            outcomes.update(zip(positions, found, strict=True))
        return [outcomes[position] for position in range(len(publications))]

    def _match(self, key: int, payloads: list[bytes]) -> list[Outcome]:
        index = self._index(key)
        if isinstance(index, Updatable) and self._way in UPDATABLE_WAYS:
            index = self._indexes[key] = self._renewed(index)
        now = Instant(*divmod(time.time_ns(), 1_000_000_000))
        events, rejected = decode_payloads(payloads, index.vocabulary)
        outcomes: list[Outcome] = [
            frozenset(ids) for ids in index.ids_by_event(index.match(events, now))
        ]
        for row, _ in rejected:
            if outcomes[row]:
                raise AssertionError(f"a refused event matched {outcomes[row]}")
            outcomes[row] = DEAD_LETTER
        return outcomes

    def _renewed(self, index: Updatable) -> Updatable:
        """The index after a merge, or as a file holds it."""
        if self._way == "merged":
            index.merge()
            return index
        with TemporaryDirectory() as folder:
            path = Path(folder) / "snapshot"
            index.save(path)
            return type(index).open(path)

    def _write(self, write: Write) -> str:
        index = self._index(self._key(write.case))
        if write.form is None:
            return ACCEPTED if index.remove(write.id) else "not found"
        try:
            node = filter_of(write.form)
        except FilterError:
            return REFUSED
        index.add(Subscription(write.id, twin_of(write.form) if self._way == "as twin" else node))
        return ACCEPTED

    def _index(self, key: int) -> MatchIndex:
        """The index of a key, made where there is none yet."""
        if key not in self._indexes:
            self._indexes[key] = self._algorithm.build([])
        return self._indexes[key]

    def _key(self, case: Case) -> int:
        return case.number if self._way in ("as given", "as twin") else 0
