"""Progress: one line on the terminal that says what the query does."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TextIO

from streaming.batch import Totals

LOG_SECONDS = 10.0
"""Between two lines where nobody watches a terminal."""


class ProgressLine:
    """Rewrites one line on a terminal each second; elsewhere prints one now and then."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._shown = Totals()
        self._shown_at = time.monotonic()

    def show(self, totals: Totals) -> None:
        """Show rates since the last line; call it about once a second."""
        now = time.monotonic()
        seconds = now - self._shown_at
        if seconds < (1.0 if self._is_terminal else LOG_SECONDS):
            return
        if not self._is_terminal and totals.batches == self._shown.batches:
            return
        line = describe(self._shown, totals, seconds)
        self._stream.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        self._stream.flush()
        self._shown, self._shown_at = replace(totals), now

    def end(self) -> None:
        """Leave the last line standing."""
        if self._is_terminal:
            self._stream.write("\n")


def describe(before: Totals, totals: Totals, seconds: float) -> str:
    """The line: rates per second, and what the last batch took."""
    events = (totals.events - before.events) / seconds
    notifications = (totals.notifications - before.notifications) / seconds
    return (
        f"epoch {totals.epoch} | {events:,.0f} events/s | {notifications:,.0f} notifications/s | "
        f"{totals.events:,} events, {totals.dead_letters:,} dead letters | "
        f"last batch {totals.batch_s * 1000:.0f} ms"
    )
