"""The demo from beginning to end: stack, subscriptions, a year of flights, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import pipeline
from deploy.demo import checking, flights, generated
from deploy.demo.ledger import Ledger
from deploy.demo.screen import Screen
from deploy.demo.written import WRITTEN
from deploy.flow import Flow
from deploy.stack import Stack
from deploy.traffic import Registrar

GENERATED_COUNT = 100_000
QUICK_FLIGHTS = 5_000
SAMPLED_FLIGHTS = 20
SAMPLED_FLIGHTS_QUICK = 5


@dataclass
class Outcome:
    """What the demo found."""

    events: int = 0
    subscriptions: int = 0
    notifications: int = 0
    doubled: int = 0
    events_per_s: float = 0.0
    passthrough_events_per_s: float | None = None
    verdicts: list[checking.Verdict] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing false, nothing doubled."""
        return not self.doubled and all(verdict.holds for verdict in self.verdicts)


@dataclass(frozen=True)
class Script:
    """What goes through the service."""

    table: pa.Table
    payloads: list[bytes]
    generated: list[tuple[str, dict[str, Any]]]
    sampled: list[int]


def prepare(screen: Screen, quick: bool) -> Script:
    """Read the flights and draw the subscriptions around them."""
    step = screen.step("reading flights and drawing subscriptions", 2)
    whole = flights.load()
    drawn = list(generated.generate(whole, GENERATED_COUNT))
    step.at(1)
    table = whole.slice(0, QUICK_FLIGHTS) if quick else whole
    payloads = flights.payloads(table)
    step.done(f"{len(payloads):,} flights, {len(WRITTEN) + len(drawn):,} subscriptions")
    size = SAMPLED_FLIGHTS_QUICK if quick else SAMPLED_FLIGHTS
    return Script(table, payloads, drawn, checking.sample_rows(len(payloads), size))


def register(screen: Screen, script: Script, base_url: str) -> int:
    """Register every subscription over REST and wait until all are live; returns the epoch."""
    total = len(WRITTEN) + len(script.generated)
    step = screen.step(f"registering {total:,} subscriptions over REST", total)
    registrar = Registrar(base_url)
    try:
        for accepted in registrar.register(generated.forms(script.generated)):
            step.at(accepted)
        step.done()
        step = screen.step("waiting until every query holds them", 1)
        epoch = registrar.wait_live()
        step.done(f"epoch {epoch:,} is live")
        return epoch
    finally:
        registrar.close()


def fly(screen: Screen, script: Script, stack: Stack) -> Outcome:
    """Publish every flight, hear every notification; the rate counts until the last commit."""
    ledger = Ledger(script.sampled)
    total = len(script.payloads)
    step = screen.step("publishing, matching, notifying", total)
    with Flow(stack.env, ledger.receive) as flow:
        ledger.attach(flow)

        def watch(done: int) -> None:
            step.at(done)
            screen.flow(done, total, ledger)

        seconds = flow.run(script.payloads, watch)
    screen.end_flow()
    step.done()
    step = screen.step("counting what was heard", 1)
    ledger.settle()
    step.done()
    told = ledger.by_subscription.total()
    outcome = Outcome(total, len(WRITTEN) + len(script.generated), told, ledger.doubled)
    outcome.events_per_s = total / seconds
    outcome.verdicts = _judge(screen, script, ledger)
    return outcome


def compare(screen: Screen, script: Script, stack: Stack, outcome: Outcome) -> None:
    """The same events through the same path with nothing to match, as a yardstick."""
    step = screen.step("the same events through a pass-through", len(script.payloads))
    outcome.passthrough_events_per_s = pipeline.passthrough_rate(stack, script.payloads, step.at)
    step.done()


def _judge(screen: Screen, script: Script, ledger: Ledger) -> list[checking.Verdict]:
    step = screen.step("counting once more with pyarrow alone", 1)
    expected = checking.independent_counts(script.table, script.generated)
    step.done()
    step = screen.step("evaluating a sample with the oracle", 1)
    sample = checking.compare_sample(script.payloads, script.generated, ledger.by_sampled_row)
    step.done()
    return [checking.compare_counts(expected, ledger.by_subscription), sample]


def report(screen: Screen, outcome: Outcome, state_dir: Path) -> None:
    """The figures, the verdicts and where to look next."""
    for verdict in outcome.verdicts:
        screen.verdict(verdict)
    mark = "[green]none[/]" if not outcome.doubled else f"[red]{outcome.doubled:,}[/]"
    screen.say(f"doubled notifications: {mark}")
    screen.say(
        f"[bold]{outcome.events:,} events against {outcome.subscriptions:,} subscriptions: "
        f"{outcome.notifications:,} notifications "
        f"({outcome.notifications / max(1, outcome.events):.2f} an event), "
        f"{outcome.events_per_s:,.0f} events/s sustained[/]"
    )
    if outcome.passthrough_events_per_s is not None:
        share = outcome.events_per_s / outcome.passthrough_events_per_s
        screen.say(
            f"a pass-through of the same topology: {outcome.passthrough_events_per_s:,.0f} "
            f"events/s, so matching keeps {share:.0%} of it"
        )
    screen.say(f"logs of every service lie in {state_dir / 'logs'}")
