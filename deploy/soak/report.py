"""Report: the outcome of a soak for a person, for a program, and for docs/reliability.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from deploy.environment import REPOSITORY
from deploy.marked_text import replace_between
from deploy.soak.run import Outcome, Plan
from deploy.soak.verdict import LAG_P99_S_MAX, RATE_SHARE_MIN, Growth

DOCUMENT = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- soak: written by ./herald soak --record -->", "<!-- soak: end -->"
MEBIBYTE = 1 << 20

HEAD = ("", "begin", "end", "most", "growth", "allowed", "holds")
WORDS = {
    "memory": "memory of {}, MiB",
    "log": "log, {}",
    "count": "files: {}",
    "bytes": "bytes: {}, MiB",
}


def lines(outcome: Outcome) -> list[str]:
    """The outcome as Markdown."""
    verdict = outcome.verdict
    return [
        described(outcome.plan),
        "",
        *table([HEAD, *rows(outcome)]),
        "",
        *(f"- {words}" for words in verdict.broken),
        *([""] if verdict.broken else []),
        f"Notifications: {verdict.notifications:,}. It {'holds' if verdict.holds else 'FAILED'}.",
    ]


def described(plan: Plan) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan.minutes:g} minutes with {plan.subscriptions:,} subscriptions, "
        f"{plan.writes_per_s:,.0f} writes/s and {plan.events_per_s:,.0f} events/s on "
        f"{os.cpu_count()} cores; the first {plan.warm_up_minutes:g} are warm-up."
    )


def rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """One for each figure that is judged."""
    verdict = outcome.verdict
    lag = verdict.lag
    for name, value, limit in (
        ("lag p50, s", lag.p50_s, ""),
        ("lag p99, s", lag.p99_s, f"< {LAG_P99_S_MAX:g}"),
        ("lag, longest, s", lag.most_s, ""),
    ):
        yield name, "", f"{value:.2f}", "", "", limit, told(lag.holds) if limit else ""
    for rate in verdict.rates:
        least = f"≥ {RATE_SHARE_MIN * rate.asked:,.0f}"
        yield f"{rate.name}/s", "", f"{rate.done:,.1f}", "", "", least, told(rate.holds)
    for growth in sorted(verdict.growths, key=lambda one: list(WORDS).index(kind_of(one)[0])):
        yield row_of(growth)


def row_of(growth: Growth) -> tuple[str, ...]:
    """A figure that must not grow."""
    kind, title = kind_of(growth)
    in_mebibytes = kind in ("memory", "bytes")
    scale = (lambda x: f"{x / MEBIBYTE:,.1f}") if in_mebibytes else (lambda x: f"{x:,.0f}")
    return (
        WORDS[kind].format(title),
        *map(scale, (growth.begin, growth.end, growth.most)),
        f"{growth.share:+.1%}",
        f"< {growth.allowed:.0%}",
        told(growth.holds),
    )


def kind_of(growth: Growth) -> tuple[str, str]:
    """The two parts of a figure's name."""
    kind, _, title = growth.name.partition("/")
    return kind, title


def told(holds: bool) -> str:
    """A verdict in a word."""
    return "yes" if holds else "NO"


def table(content: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table whose columns are also in line for whoever reads it as it is."""
    widths = [max(map(len, column)) for column in zip(*content, strict=True)]
    head, *body = content
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (head, tuple("-" * width for width in widths), *body)
    ]


def to_json(outcome: Outcome) -> str:
    """For a program: the verdict, and every sample."""
    told = {
        "plan": asdict(outcome.plan),
        **outcome.verdict.to_json(),
        "samples": [{"at_s": round(one.at_s, 1), **one.figures} for one in outcome.samples],
    }
    return json.dumps(told, indent=2)


def write_down(outcome: Outcome, document: Path = DOCUMENT) -> None:
    """Put the outcome into docs/reliability.md, in the place of the former one."""
    replace_between(document, BEGIN, END, lines(outcome))
