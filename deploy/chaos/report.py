"""Report: the outcomes of a campaign for a person, for a program, and for docs/reliability.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from deploy.chaos.faults import Fault, NotInjected
from deploy.chaos.journal import Journal
from deploy.chaos.outcome import Outcome, Row
from deploy.environment import REPOSITORY
from deploy.marked_text import replace_between
from deploy.verdicts import KINDS

EXAMPLES_SHOWN = 3
DOCUMENT = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: written by ./herald chaos --record -->", "<!-- chaos: end -->"


def listing(faults: Sequence[Fault], left_out: Sequence[NotInjected]) -> list[str]:
    """The catalogue as a Markdown table, and what is not in it."""
    rows = [
        ["fault", "name", "what is injected", "what must hold", "delivery", "kills"],
        ["---"] * 6,
        *(
            [
                *(str(one.number), one.name, one.injected, one.holds),
                *(" and ".join(one.deliveries), one.killed),
            ]
            for one in faults
        ),
    ]
    return [*map(row_of, rows), "", *not_injected(left_out)]


def not_injected(left_out: Sequence[NotInjected]) -> list[str]:
    """What is not injected, and why."""
    return [f"- {one.number}, {one.name}: not injected, {one.reason}." for one in left_out]


def row_of(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


HEAD = (
    *("fault", "", "delivery", "runs", "failed"),
    *(*map(str.upper, KINDS), "else"),
    *("recovery s, median", "longest"),
)


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Fault x delivery: runs, those that failed, findings by kind, recovery; as Markdown."""
    groups: dict[Row, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(one.row, []).append(one)
    rows = (row_of([*map(str, row), *_cells(groups[row])]) for row in sorted(groups))
    return [row_of(HEAD), row_of(["---"] * len(HEAD)), *rows]


def _cells(group: Sequence[Outcome]) -> Iterator[str]:
    yield str(len(group))
    yield str(sum(not one.holds for one in group))
    judged = [one for one in group if one.verdict]
    doubt = "" if len(judged) == len(group) else " ?"
    for kind in KINDS:
        yield f"{sum(one.count(kind) or 0 for one in judged)}{doubt}" if judged else "?"
    yield str(sum(len(one.broken) for one in group))
    recovered = [one.recovery_s for one in group if one.recovery_s is not None]
    yield f"{median(recovered):.1f}" if recovered else "?"
    yield f"{max(recovered):.1f}" if recovered else "?"


def described(outcome: Outcome) -> Iterator[str]:
    """One line about a run, and some about what did not hold."""
    state = "holds" if outcome.holds else "FAILED"
    recovery = "" if outcome.recovery_s is None else f", recovered in {outcome.recovery_s:.1f} s"
    verdict = outcome.verdict
    judged = (
        ""
        if verdict is None
        else f" ({verdict.events} events, {verdict.batches} batches, {verdict.matches} matches)"
    )
    row = outcome.row
    yield (
        f"{row.number:>2} {row.name}, {row.delivery}, "
        f"run {outcome.turn.run}: {state}{judged}{recovery}"
    )
    yield from (f"     {words}" for words in outcome.broken[:EXAMPLES_SHOWN])
    for kind in KINDS if verdict else ():
        assert verdict is not None, "there is one"
        if verdict.counts[kind]:
            yield f"     {kind} {verdict.counts[kind]}"
            yield from (f"       {words}" for words in verdict.examples[kind][:EXAMPLES_SHOWN])


def conclude(outcomes: Sequence[Outcome], left_out: Sequence[NotInjected], as_json: bool) -> None:
    """Print the table, or all outcomes for a program."""
    if as_json:
        told = {
            "holds": all(one.holds for one in outcomes),
            "outcomes": [one.to_json() for one in outcomes],
            "not_injected": [
                {"fault": one.number, "name": one.name, "reason": one.reason} for one in left_out
            ],
        }
        print(json.dumps(told, indent=2))
    else:
        print("\n".join(["", *table(outcomes), "", *not_injected(left_out)]))


def origin(journal: Journal) -> str:
    """What the runs of a journal are of: seeds, revisions, and what does not count."""
    seeds = sorted({one.turn.seed for one in journal.outcomes})
    revisions = Counter(one.revision or "unknown" for one in journal.outcomes)
    told = ", ".join(f"{name} {number:,}" for name, number in revisions.items())
    words = f"Seed {', '.join(map(str, seeds))}; runs by revision: {told}."
    if journal.set_aside:
        words += f" Left out, since their rows were made anew: {journal.set_aside:,} runs."
    return words


def write_down(journal: Journal) -> None:
    """Put all outcomes of a journal in the place of the table of docs/reliability.md."""
    replace_between(DOCUMENT, BEGIN, END, [origin(journal), "", *table(journal.outcomes)])
