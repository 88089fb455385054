"""Decisions: what becomes of hits that kernels could not decide, and of events that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from index.answers import event_of_hits, some_hits
from index.errors import EventError
from index.evaluate import truth
from index.kernels.answers import any_undecided
from index.kernels.probe import VERDICT_BITS, Hits
from index.kernels.settle import Pairs
from index.kernels.verify import NO, UNDECIDED
from index.model import Instant
from index.row_store import RowStore

if TYPE_CHECKING:
    from index.events import Events

_VERDICT_MASK = (1 << VERDICT_BITS) - 1


class Decisions:
    """Decides hits, and counts how.

    settled_count     were open after all kernels that see codes.
    evaluated_count   of these, were left to the evaluation of the whole filter.
    """

    def __init__(self) -> None:
        self.settled_count = 0
        self.evaluated_count = 0

    def decided(self, store: RowStore, hits: Hits, events: Events, now: Instant) -> Hits:
        """The hits that hold: undecided ones are settled by their strings, or evaluated."""
        if not any_undecided(hits):
            return hits
        event = event_of_hits(hits)
        row, verdict = hits.hit >> VERDICT_BITS, hits.hit & _VERDICT_MASK
        undecided = np.flatnonzero(verdict == UNDECIDED)
        self.settled_count += undecided.size
        programs = store.compiled().programs
        pairs = Pairs(event[undecided], row[undecided])
        verdict[undecided] = store.settler.verdicts(programs, events.columns, pairs, now)
        for at in np.flatnonzero(verdict == UNDECIDED).tolist():
            self.evaluated_count += 1
            verdict[at] = _holds(store, int(row[at]), events, int(event[at]), now)
        return some_hits(hits, verdict != NO)


def _holds(store: RowStore, row: int, events: Events, event: int, now: Instant) -> bool:
    """Does the filter hold, as the oracle sees it?"""
    try:
        return truth(store.filter_of(row), events.event(event), now) is True
    except EventError:
        return False  # the event was refused, and matches nothing


def without_refused(events: Events, hits: Hits) -> Hits:
    """Refused events match nothing, but have no entries, and so `MISSING a` finds them."""
    counts = np.diff(hits.start)
    refused = (np.diff(events.columns.entry_start) == 0) & (counts > 0)
    for event in np.flatnonzero(refused).tolist():
        try:
            events.event(event)
            refused[event] = False
        except EventError:
            pass
    return some_hits(hits, ~np.repeat(refused, counts)) if refused.any() else hits
