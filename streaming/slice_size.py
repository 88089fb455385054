"""Slice size: how many events are matched at once, so that their matches have room in memory."""

from __future__ import annotations

MATCHES_MAX = 8_000_000
"""Of one call of the index: some 16 bytes each while they are told of."""
ROWS_AT_FIRST = 64
GROWTH = 8


class SliceSize:
    """Learns from each slice of a batch how many matches an event has.

    A worker begins with few events, and dares more as long as that goes well: one that has died of
    too many matches is followed by one that finds out.
    """

    def __init__(self) -> None:
        self._matches_per_event = MATCHES_MAX / ROWS_AT_FIRST

    @property
    def rows(self) -> int:
        """How many events to match at once."""
        return max(1, int(MATCHES_MAX / self._matches_per_event))

    def note(self, rows: int, matches: int) -> None:
        """Take in what so many events matched; few of them say little of others."""
        expected = self._matches_per_event
        if rows >= self.rows:
            expected /= GROWTH
        self._matches_per_event = max(expected, matches / max(1, rows), 1.0)
