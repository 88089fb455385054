"""The demo's screen: steps with their bars, and below them what goes on at the moment."""

from __future__ import annotations

import statistics
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from deploy.demo.checking import Verdict
from deploy.demo.ledger import Ledger

LATENCIES_SHOWN = 100
RATE_WINDOW_S = 3.0


class Screen:
    """Bars of the steps and a table of the running flow; without a terminal lines alone."""

    def __init__(self) -> None:
        self.console = Console()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._live = Live(self._progress, console=self.console, refresh_per_second=4)
        self._history: list[tuple[float, int, int]] = []
        self._flow_started = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """One line that stays."""
        self._live.console.print(line)

    def step(self, title: str, total: int) -> Step:
        """A bar of its own; told to a log as lines at its begin and end."""
        return Step(self, self._progress, title, total)

    def flow(self, done: int, total: int, ledger: Ledger) -> None:
        """Show how far the events have come and what has been heard."""
        now = time.monotonic()
        self._history = [one for one in self._history if now - one[0] < RATE_WINDOW_S]
        self._history.append((now, done, ledger.heard))
        began, done_then, heard_then = self._history[0]
        elapsed = max(now - began, 1e-9)
        table = Table(show_header=False, box=None, padding=(0, 2))
        table.add_row("events matched", f"{done:,} of {total:,}")
        table.add_row("events a second", f"{(done - done_then) / elapsed:,.0f}")
        table.add_row("notifications", f"{ledger.heard:,}")
        table.add_row("notifications a second", f"{(ledger.heard - heard_then) / elapsed:,.0f}")
        if ledger.latencies_s:
            recent = statistics.median(ledger.latencies_s[-LATENCIES_SHOWN:])
            table.add_row("publish to notification", f"{recent:.2f} s (median, under full load)")
        for subscription, row in ledger.recent:
            table.add_row("", f"{subscription} was told of flight {row:,}")
        self._live.update(Group(self._progress, table))

    def end_flow(self) -> None:
        """Take the table away."""
        self._live.update(self._progress)

    def verdict(self, verdict: Verdict) -> None:
        """Say whether two counts agree, and where not."""
        mark = "[green]equal[/]" if verdict.holds else "[red]DIFFERENT[/]"
        self.say(f"{mark}  {verdict.title}: {verdict.expected:,} and {verdict.found:,}")
        for difference in verdict.differences[:5]:
            self.say(f"       {difference}")


class Step:
    """One bar."""

    def __init__(self, screen: Screen, progress: Progress, title: str, total: int) -> None:
        self._screen, self._progress, self._title = screen, progress, title
        self._task = progress.add_task(title, total=total)
        self._started = time.monotonic()
        if not screen.console.is_terminal:
            screen.say(f"{title} …")

    def at(self, completed: int) -> None:
        """So much of it is done."""
        self._progress.update(self._task, completed=completed)

    def done(self, remark: str = "") -> float:
        """All of it is done; returns the seconds it took."""
        seconds = time.monotonic() - self._started
        self._progress.remove_task(self._task)
        self._screen.say(f"[bold]{self._title}[/]: {seconds:.1f} s{remark and ', ' + remark}")
        return seconds
