"""Telling: what a task hands over of its matches, in the order of events, and where it stops.

A batch is told of in passes, each of which fills one transaction (docs/adr/0004). In a pass each
task has a share of the transaction's bytes. It stops after the event, or the part of a large event,
that uses the share up, and says which event of each partition is next.

A task must have all records of its partitions, in their order, as Spark's Kafka source gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from index.columns import Matches
from index.errors import EventError
from index.model import Instant
from streaming.crowd import COMPACT_BYTES, THIN_BYTES, survey
from streaming.decode import Decoded, Records
from streaming.notify import Notifier, Pairs
from streaming.packing import DeadLetter, Output, parts_of
from streaming.refresh import LiveIndex
from streaming.targets import COMPACT, FULL

CROWD_MATCHES = 32_768
"""An event with more matches is a crowd whatever they take: its targets are not kept in memory."""
LETTER_BYTES = 1_000
"""About what a dead letter takes beside its value."""

Next = tuple[int, int, int]
"""Offset of the next event; the next part of it, of how many, or zeros for all of it."""
Resumed = dict[int, tuple[int, int]]
"""By row of the batch: the next part of an event, of how many."""


class Share:
    """What a task may still hand over in this pass.

    reached   by topic and partition: the next event, where one is left for a later pass.
    """

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max
        self.reached: dict[str, dict[str, Next]] = {}

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be told; at first it never is, so each pass gets on."""
        return self.left <= 0

    def leave(self, records: pa.RecordBatch, part: int = 0, parts: int = 0) -> None:
        """Leave records to a later pass; of the first one, some parts may have been told."""
        columns = (records.column(name).to_pylist() for name in ("topic", "partition", "offset"))
        for topic, partition, offset in zip(*columns, strict=True):
            known = self.reached.setdefault(topic, {})
            known.setdefault(str(partition), (offset, part, parts))
            part = parts = 0


class Step(NamedTuple):
    """What is told at once: whole events, or a part of one.

    first, stop   rows of the batch.
    part, parts   of the one event; 0 parts: all of it.
    """

    first: int
    stop: int
    pairs: Pairs
    part: int = 0
    parts: int = 0


class Teller:
    """Tells of one slice of a batch, as far as a share goes.

    bury      makes the dead letter of a rejected event.
    matches   told of; `untold`: events left to a later pass; `rejected`: those buried.
    """

    def __init__(
        self,
        notifier: Notifier,
        records: Records,
        decoded: Decoded,
        live: LiveIndex,
        now: Instant,
        bury: Callable[[int, EventError], DeadLetter],
    ) -> None:
        self._notifier = notifier
        self._records = records
        self._decoded = decoded
        self._live = live
        self._now = now
        self._bury = bury
        self.matches = self.notifications = self.untold = 0
        self.rejected: list[EventError] = []

    def tell(
        self, batch: pa.RecordBatch, found: Matches, share: Share, resumed: Resumed, part_bytes: int
    ) -> Iterator[Output]:
        """Outputs of bounded size, one at least; what they take is taken from the share.

        batch     the slice as it came.
        resumed   events that were told of in part already.
        """
        output = Output()
        for step in self._steps(found, share, resumed, part_bytes):
            if share.is_spent:
                share.leave(batch.slice(step.first), step.part, step.parts if step.part else 0)
                self.untold = batch.num_rows - step.first
                break
            before = output.byte_count
            self._add(step, output)
            share.left -= output.byte_count - before
            if output.is_full():
                yield output
                output = Output()
        yield output

    def _add(self, step: Step, output: Output) -> None:
        for row, error in self._rejected(step.first, step.stop):
            output.bury(self._bury(row, error))
            self.rejected.append(error)
        if step.pairs.event.size:
            columns = self._notifier.write(step.pairs, step.part if step.parts > 1 else None)
            output.notify(*columns)
            self.matches += step.pairs.event.size
            self.notifications += len(columns[0])

    def _rejected(self, first: int, stop: int) -> list[tuple[int, EventError]]:
        return [(row, error) for row, error in self._decoded.rejected if first <= row < stop]

    def _steps(
        self, found: Matches, share: Share, resumed: Resumed, part_bytes: int
    ) -> Iterator[Step]:
        """All there is to tell, in order; each is made when it is asked for."""
        counts = np.diff(found.start)
        counts[[row for row, _ in self._decoded.rejected]] = 0
        crowded = counts > CROWD_MATCHES
        pairs = self._pairs_of(found, counts, crowded)
        costs = self._costs(pairs, counts.size)
        large = {*np.flatnonzero(crowded | (costs > part_bytes)).tolist(), *resumed}
        for row, _ in self._decoded.rejected:
            costs[row] = LETTER_BYTES + len(self._records.values[row].as_py() or b"")
            large.discard(row)
        first = 0
        for row in [*sorted(large), counts.size]:
            for start, stop in parts_of(costs[first:row], max(1, share.left)):
                begin, end = first + start, first + stop
                yield Step(begin, end, pairs.of_events(begin, end))
            if row < counts.size:
                at = resumed.get(row, (0, 0))
                if share.is_spent:  # it is left as it is, without a look at its targets
                    yield Step(row, row, pairs.of_events(row, row), *at)
                rows = found.row[found.start[row] : found.start[row + 1]]
                yield from self._steps_within(row, rows, at, part_bytes)
            first = row + 1

    def _steps_within(
        self,
        event: int,
        rows: NDArray[np.int32],
        at: tuple[int, int],
        part_bytes: int,
    ) -> Iterator[Step]:
        """One event, part by part from the next one, of how many, on."""
        next_part, parts = at
        read, size = self._live.read_targets, len(self._records.values[event].as_py() or b"")
        crowd = survey(rows, read, self._now, size, part_bytes, parts)
        for part in crowd.parts_from(next_part):
            place, targets = crowd.part(part, read)
            pairs = Pairs(
                np.full(place.size, event, np.int32), place, targets.modes(place), targets
            )
            yield Step(event, event + 1, pairs, part, crowd.parts)

    def _pairs_of(
        self, found: Matches, counts: NDArray[np.int64], crowded: NDArray[np.bool_]
    ) -> Pairs:
        """The events that are not crowded, with their targets; none that has expired."""
        matched = np.diff(found.start)
        event = np.repeat(np.arange(matched.size, dtype=np.int32), matched)
        row = found.row
        left_out = crowded | (counts < matched)
        if left_out.any():
            kept = ~left_out[event]
            event, row = event[kept], row[kept]
        place, targets = self._live.places_of(row), self._live.targets
        alive = targets.alive(place, self._now)
        if not alive.all():
            event, place = event[alive], place[alive]
        return Pairs(event, place, targets.modes(place), targets)

    def _costs(self, pairs: Pairs, count: int) -> NDArray[np.int64]:
        """int64[count] about what the notifications of each event take."""
        costs = np.bincount(pairs.event, minlength=count) * THIN_BYTES
        full = pairs.event[pairs.mode == FULL]
        if full.size:
            costs += np.bincount(full, minlength=count) * self._records.value_bytes()
        compact = pairs.event[pairs.mode == COMPACT]
        if compact.size:
            costs -= np.bincount(compact, minlength=count) * (THIN_BYTES - COMPACT_BYTES)
        return costs
