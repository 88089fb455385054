"""Report: the outcomes of a campaign for a person, for a program, and for docs/reliability.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from deploy.chaos.campaign import Outcome
from deploy.chaos.faults import Fault, NotInjected
from deploy.environment import REPOSITORY, UserError
from deploy.verdicts import KINDS

EXAMPLES_SHOWN = 3
DOCUMENT = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: written by ./herald chaos --record -->", "<!-- chaos: end -->"


def listing(faults: Sequence[Fault], left_out: Sequence[NotInjected]) -> list[str]:
    """The catalogue as a Markdown table, and what is not in it."""
    rows = [
        ["fault", "name", "what is injected", "what must hold", "delivery"],
        ["---"] * 5,
        *(
            [str(one.number), one.name, one.injected, one.holds, " and ".join(one.deliveries)]
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


Rows = dict[tuple[int, str, str], str]
"""A row of the table by the fault's number and name and the delivery."""

HEAD = ("fault", "", "delivery", "runs", *map(str.upper, KINDS), "else", "recovery s")
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (exactly_once|at_least_once) \|.*$", re.MULTILINE)


def rows_of(outcomes: Sequence[Outcome]) -> Rows:
    """Fault x delivery: runs, findings by kind, and the longest recovery."""
    groups: dict[tuple[int, str, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.fault.number, one.fault.name, one.delivery), []).append(one)
    return {key: row_of([*map(str, key), *_cells(group)]) for key, group in groups.items()}


def _cells(group: Sequence[Outcome]) -> Iterator[str]:
    yield str(len(group))
    is_judged = all(one.verdict for one in group)
    for kind in KINDS:
        yield str(sum(one.count(kind) or 0 for one in group)) if is_judged else "?"
    yield str(sum(len(one.broken) for one in group))
    recovered = [one.recovery_s for one in group if one.recovery_s is not None]
    yield f"{max(recovered):.1f}" if recovered else "?"


def table(rows: Rows) -> list[str]:
    """The rows under their heads, as Markdown."""
    return [row_of(HEAD), row_of(["---"] * len(HEAD)), *(rows[key] for key in sorted(rows))]


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
    yield (
        f"{outcome.fault.number:>2} {outcome.fault.name}, {outcome.delivery}, "
        f"run {outcome.run}: {state}{judged}{recovery}"
    )
    yield from (f"     {words}" for words in outcome.broken[:EXAMPLES_SHOWN])
    for kind in KINDS if verdict else ():
        assert verdict is not None, "there is one"
        if verdict.counts[kind]:
            yield f"     {kind} {verdict.counts[kind]}"
            yield from (f"       {words}" for words in verdict.examples[kind][:EXAMPLES_SHOWN])


def conclude(
    outcomes: Sequence[Outcome], left_out: Sequence[NotInjected], as_json: bool, record: bool
) -> None:
    """Print the table, and write it down if asked to."""
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
        print("\n".join(["", *table(rows_of(outcomes)), "", *not_injected(left_out)]))
    if record:
        write_down(rows_of(outcomes))


def write_down(rows: Rows) -> None:
    """Put rows into the table of docs/reliability.md, in the place of those they replace."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(f"{BEGIN}(.*?){END}", text, re.DOTALL)
    if found is None:
        raise UserError(f"{DOCUMENT} has no place for results: {BEGIN} … {END}.")
    known = {(int(row[1]), row[2], row[3]): row[0] for row in _ROW.finditer(found[1])}
    content = "\n".join([BEGIN, "", *table(known | rows), "", END])
    DOCUMENT.write_text(text[: found.start()] + content + text[found.end() :], encoding="utf-8")
