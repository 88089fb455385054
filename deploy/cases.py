r"""Cases: small stories of subscriptions and events with exact answers, told to any target.

    {"origin": "...", "name": "a number is not its spelling",
     "given": [{"id": "A", "expr": "x = 1"}, {"id": "B", "expr": "x = '1'"}],
     "when":  [{"event": {"x": "1"}, "expect": ["B"]},
               {"delete": "B"}, {"update": {"id": "A", "expr": "x > 1"}},
               {"event_json": "{\"x\": 1e400}", "expect": "dead letter"},
               {"register": {"id": "R", "expr": "x = "}, "expect": "refused"}]}

The cases of a file advance together, a step of each at a time, under ids of their own
(`case2-A`), so that a target that is slow to answer, such as the running service, is asked seldom.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from deploy.environment import UserError

DEAD_LETTER = "dead letter"
ACCEPTED, REFUSED = "accepted", "refused"

Outcome = frozenset[str] | str
"""The ids that were notified, or DEAD_LETTER; of a registration ACCEPTED or REFUSED."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a case file; `number` is its line."""

    number: int
    name: str
    origin: str
    given: tuple[dict[str, Any], ...]
    when: tuple[dict[str, Any], ...]

    def full_id(self, subscription_id: str) -> str:
        """The id under which a subscription of this case is registered."""
        return f"case{self.number}-{subscription_id}"

    def own_ids(self, full_ids: Iterable[str]) -> frozenset[str]:
        """The case's own ids among those notified, as the case writes them."""
        prefix = self.full_id("")
        return frozenset(one.removeprefix(prefix) for one in full_ids if one.startswith(prefix))


@dataclass(frozen=True, slots=True)
class Write:
    """Register a subscription ({"id", "expr"|"filter"}), or delete an id where `form` is None."""

    case: Case
    id: str
    form: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Publication:
    """One event to publish, as bytes."""

    case: Case
    payload: bytes


class CaseTarget(Protocol):
    """Something that takes subscriptions and events: an index in this process, or the service.

    Ids are full ids. A write is in force before `write` returns.
    """

    name: str

    def write(self, writes: Sequence[Write]) -> list[str]:
        """Apply the writes in order; ACCEPTED or REFUSED for each."""

    def publish(self, publications: Sequence[Publication]) -> list[Outcome]:
        """Publish the events; for each the full ids notified, or DEAD_LETTER."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A step whose answer differs: step 0 is `given`, step 1 the first of `when`."""

    target: str
    case: Case
    step: int
    expected: object
    got: object

    def __str__(self) -> str:
        where = (
            f"line {self.case.number}, {self.case.name!r} ({self.case.origin}), step {self.step}"
        )
        return f"{self.target}: {where}: expected {self.expected}, got {self.got}"

    def as_object(self) -> dict[str, object]:
        """The failure as JSON."""
        return {
            "target": self.target,
            "line": self.case.number,
            "name": self.case.name,
            "origin": self.case.origin,
            "step": self.step,
            "expected": self.expected,
            "got": self.got,
        }


def load_cases(path: Path) -> list[Case]:
    """The cases of a file; UserError says which line cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    cases = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            given, when = tuple(told["given"]), tuple(told["when"])
            cases.append(Case(number, told["name"], told.get("origin", ""), given, when))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}, line {number} is no case: {error!r}") from None
    return cases


def run_cases(cases: Sequence[Case], target: CaseTarget) -> Iterator[Failure]:
    """Tell all cases to one target, in lock-step."""
    given = [
        (case, 0, ACCEPTED, Write(case, case.full_id(one["id"]), one))
        for case in cases
        for one in case.given
    ]
    yield from _write(given, target)
    for position in range(max((len(case.when) for case in cases), default=0)):
        steps = [(case, case.when[position]) for case in cases if position < len(case.when)]
        yield from _step(steps, position + 1, target)


def _step(
    steps: list[tuple[Case, dict[str, Any]]], number: int, target: CaseTarget
) -> Iterator[Failure]:
    writes, publications = [], []
    for case, step in steps:
        match step:
            case {"delete": subscription_id}:
                write = Write(case, case.full_id(subscription_id), None)
                writes.append((case, number, ACCEPTED, write))
            case {"update": form}:
                writes.append((case, number, ACCEPTED, Write(case, case.full_id(form["id"]), form)))
            case {"register": form, "expect": expected}:
                writes.append((case, number, expected, Write(case, case.full_id(form["id"]), form)))
            case {"event": event, "expect": expected}:
                payload = json.dumps(event, ensure_ascii=False).encode()
                publications.append((expected, Publication(case, payload)))
            case {"event_json": payload, "expect": expected}:
                publications.append((expected, Publication(case, payload.encode())))
            case _:
                raise UserError(f"line {case.number}: step {number} is of no known kind: {step}")
    yield from _write(writes, target)
    if publications:
        outcomes = target.publish([publication for _, publication in publications])
        for (expected, publication), outcome in zip(publications, outcomes, strict=True):
            case = publication.case
            got = outcome if isinstance(outcome, str) else sorted(case.own_ids(outcome))
            if got != (expected if isinstance(expected, str) else sorted(expected)):
                yield Failure(target.name, case, number, expected, got)


def _write(writes: list[tuple[Case, int, str, Write]], target: CaseTarget) -> Iterator[Failure]:
    if not writes:
        return
    outcomes = target.write([write for _, _, _, write in writes])
    for (case, number, expected, _), got in zip(writes, outcomes, strict=True):
        if got != expected:
            yield Failure(target.name, case, number, expected, got)
