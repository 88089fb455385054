"""The checker: was everything told that had to be, once, in order, in time, and nothing else?

It evaluates every filter on every event as docs/semantics.md says, and shares nothing with the path
it judges but that evaluation, the plain reading of events, and what the key and the expiry of a
subscription, the ids of its notifications and its part of a large event are. It finds

    lost       an event matched a subscription at its pinned epoch, and no notification says so; or
               it was refused, and there is no dead letter
    false      a notification or dead letter that no event calls for, or with something wrong in it
    duplicate  the same notification again; in at_least_once, only if it says another thing
    order      a subscription was told of a later event of a partition before an earlier one
    stale      a batch was pinned to an epoch older than a write acknowledged a second before it
    backward   the epoch of a batch is older than that of the batch before, which was not lost

An event that several batches cover, because a checkpoint was lost, must be told of in full as of
one of them; notifications say which. Where a pin says that an event had been told of in part before
it, the subscriptions of the other parts must have been told as of this pin, and those of the parts
before as of one that was made earlier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from itertools import accumulate, pairwise

from deploy.history import History, Record
from deploy.subscription_states import States, Subscribed
from deploy.verdicts import Place, Said, Told, Verdict, said_by
from index.errors import EventError
from index.instants import parse_instant
from index.limits import LIMITS
from index.model import Instant
from index.payloads import Payloads
from streaming.envelope import hops_of, open_envelope
from streaming.notification import notification_id
from streaming.pins import Pin

FRESH_S = 1
"""So soon a write takes effect."""

Course = dict[int, Set[Told]]
"""One way in which an event may have been told of: by epoch, who had to be."""
Heard = dict[int, Counter[Told]]
"""By epoch: who was told of an event, and how often."""
Expected = dict[Place, dict[int, dict[Told, Subscribed]]]
"""By event and epoch of a batch that covers it: who is to be told."""


def check(history: History) -> Verdict:
    """Judge a run."""
    return _Check(history).run()


class _Check:
    def __init__(self, history: History) -> None:
        self._history = history
        self._verdict = Verdict()
        self._events = {place_of(record): record for record in history.events}
        self._refused: set[Place] = set()
        self._is_once = history.delivery == "exactly_once"
        self._states = States(history.entries)
        self._courses: dict[Place, list[Course]] = defaultdict(list)

    def run(self) -> Verdict:
        """All kinds of findings."""
        history, verdict = self._history, self._verdict
        expected = self._expect()
        verdict.events, verdict.batches = len(self._events), len(history.pins)
        verdict.notifications = len(history.notifications)
        said = list(self._read_notifications(expected))
        self._compare(expected, said)
        self._compare_dead_letters()
        self._check_repeats()
        self._check_order(said)
        self._check_pins()
        return verdict

    def _expect(self) -> Expected:
        """Who is to be told of each event, as of each batch that covers it."""
        expected: Expected = {}
        read = {place: self._read(record) for place, record in self._events.items()}
        for pin in self._history.pins:
            subscribed = self._states.at(pin.epoch, pin.lineage)
            for place in self._covered(pin):
                by_epoch = expected.setdefault(place, {})
                event = read[place]
                if event is None:
                    self._refused.add(place)
                    by_epoch[pin.epoch] = {}
                    self._courses[place].append({})
                    continue
                due = {one.told: one for one in subscribed if one.matches(event, pin.instant)}
                by_epoch[pin.epoch] = by_epoch.get(pin.epoch, {}) | due
                self._courses[place] += courses_with(self._courses[place], place, pin, due.keys())
        for place in self._events.keys() - expected.keys():
            self._verdict.find("lost", f"event {place} is in no batch")
        return expected

    def _covered(self, pin: Pin) -> Iterator[Place]:
        """The events of a batch."""
        for topic, ends in pin.end.items():
            for partition, end in ends.items():
                for offset in range(pin.start.get(topic, {}).get(partition, 0), end):
                    place = Place(topic, partition, offset)
                    if place in self._events:
                        yield place

    def _read(self, record: Record) -> dict[str, object] | None:
        """An event as filters see it; None if it is to be refused."""
        prefix = () if self._history.lift_data else ("data",)
        try:
            payload, context = open_envelope(record.value, record.headers, LIMITS)
            if hops_of(context) > self._history.hops_max:
                return None
            return Payloads.of([payload], LIMITS, [context], prefix).event(0)
        except EventError:
            return None

    def _read_notifications(self, expected: Expected) -> Iterator[tuple[Record, Said]]:
        """Those that have the form of one and speak of an event that there is."""
        for record in self._history.notifications:
            try:
                said = said_by(record)
            except ValueError as error:
                self._verdict.find("false", f"{place_of(record)}: {error}")
                continue
            if said.place not in expected:
                self._verdict.find("false", f"{place_of(record)} tells of event {said.place}")
                continue
            self._check_form(record, said, expected[said.place].get(said.epoch, {}))
            yield record, said

    def _check_form(self, record: Record, said: Said, due: dict[Told, Subscribed]) -> None:
        """Id and key of a notification about one subscription."""
        if said.is_compact:
            return
        (told,) = said.told
        if record.header("ce_id") != notification_id(*said.place, told.tenant, told.id):
            self._verdict.find("false", f"{place_of(record)} has another id than it must have")
        if told in due and record.key != due[told].target.key:
            self._verdict.find("false", f"{place_of(record)} has the key {record.key!r}")

    def _compare(self, expected: Expected, said: list[tuple[Record, Said]]) -> None:
        """What was told, against what was to be told, event by event."""
        heard: dict[Place, Heard] = defaultdict(lambda: defaultdict(Counter))
        for _, one in said:
            heard[one.place][one.epoch].update(one.told)
        for place, due in expected.items():
            self._compare_event(place, due, heard.get(place, {}))

    def _compare_event(
        self,
        place: Place,
        due: dict[int, dict[Told, Subscribed]],
        heard: Heard,
    ) -> None:
        for epoch, counts in heard.items():
            for told, count in counts.items():
                if told not in due.get(epoch, {}):
                    self._verdict.find("false", f"{told} was told of {place} at epoch {epoch}")
                elif count > 1 and self._is_once:
                    self._verdict.find("duplicate", f"{told} was told of {place} {count} times")
        # Told in full in one course; where nothing is heard, there must have been nothing.
        courses = self._courses[place]
        course = min(courses, key=lambda one: (len(lacking(one, heard)), len(beside(one, heard))))
        if self._is_once and len(heard) > 1 and beside(course, heard):
            self._verdict.find("duplicate", f"{place} is told of at the epochs {sorted(heard)}")
        self._verdict.matches += sum(map(len, course.values()))
        for epoch, told in sorted(lacking(course, heard)):
            self._verdict.find("lost", f"{told} was not told of {place} at epoch {epoch}")

    def _compare_dead_letters(self) -> None:
        buried: Counter[Place] = Counter()
        for letter in self._history.dead_letters:
            names = [letter.header(f"herald_{one}") for one in ("topic", "partition", "offset")]
            try:
                topic, partition, offset = names
                place = Place(str(topic), int(str(partition)), int(str(offset)))
            except ValueError:
                self._verdict.find("false", f"dead letter {place_of(letter)} names no event")
                continue
            buried[place] += 1
            event = self._events.get(place)
            if place not in self._refused or event is None:
                self._verdict.find("false", f"a dead letter of {place}, which was not refused")
            elif letter.value != event.value and letter.header("herald_truncated") is None:
                self._verdict.find("false", f"the dead letter of {place} has another value")
        for place in sorted(self._refused - buried.keys()):
            self._verdict.find("lost", f"{place} was refused and has no dead letter")
        if self._is_once:
            for place, count in buried.items():
                if count > 1:
                    self._verdict.find("duplicate", f"{place} has {count} dead letters")

    def _check_repeats(self) -> None:
        """One id, one notification; where it may be repeated, it must say the same."""
        first: dict[str, Record] = {}
        for record in self._history.notifications:
            name = record.header("ce_id") or ""
            known = first.setdefault(name, record)
            if known is record:
                continue
            if self._is_once:
                self._verdict.find("duplicate", f"the id {name} is at {place_of(record)} again")
            elif known.value != record.value:
                self._verdict.find("duplicate", f"the id {name} says two things")

    def _check_order(self, said: list[tuple[Record, Said]]) -> None:
        """For each subscription, and each partition on either side, offsets ascend."""
        latest: dict[tuple[object, ...], int] = {}
        heard: set[tuple[Place, Told]] = set()
        for record, one in sorted(said, key=lambda pair: place_of(pair[0])):
            for told in one.told:
                if (one.place, told) in heard:
                    continue  # a repeat, which is told of elsewhere
                heard.add((one.place, told))
                stream = told, record.partition, one.place.topic, one.place.partition
                if one.place.offset < latest.get(stream, -1):
                    before = one.place._replace(offset=latest[stream])
                    self._verdict.find("order", f"{told} was told of {one.place} after {before}")
                latest[stream] = max(one.place.offset, latest.get(stream, -1))

    def _check_pins(self) -> None:
        """Epochs do not go back, and reach what was acknowledged a second before."""
        made: dict[tuple[object, ...], Pin] = {}
        for pin in self._history.pins:  # one may be written again, with an event told of in part
            made.setdefault((pin.batch, pin.epoch, pin.lineage, pin.now), pin)
        pins = list(made.values())
        for before, pin in pairwise(pins):
            if pin.epoch < before.epoch and self._states.went_on(before.epoch, before.lineage):
                words = f"batch {pin.batch} is at epoch {pin.epoch}, after {before.epoch}"
                self._verdict.find("backward", words)
        writes = sorted((parse_instant(one.at), one.epoch) for one in self._history.writes)
        newest = [0, *accumulate((epoch for _, epoch in writes), max)]
        for pin in pins:
            limit = Instant(pin.instant.seconds - FRESH_S, pin.instant.nanoseconds)
            due = newest[bisect_right(writes, limit, key=lambda write: write[0])]
            if pin.epoch < due:
                words = f"batch {pin.batch} is at epoch {pin.epoch}, when {due} was acknowledged"
                self._verdict.find("stale", words)


def courses_with(known: list[Course], place: Place, pin: Pin, due: Set[Told]) -> list[Course]:
    """The ways in which an event may have been told of that a pin adds to those before it."""
    offset, part, parts = pin.partly.get(place.topic, {}).get(place.partition, (-1, 0, 0))
    if offset != place.offset:
        return [{pin.epoch: due}]
    rest = {told for told in due if told.part(parts) >= part}
    added: list[Course] = []
    for course in known:
        begun: Course = {
            epoch: {told for told in wanted if told.part(parts) < part}
            for epoch, wanted in course.items()
        }
        added.append(begun | {pin.epoch: begun.get(pin.epoch, set()) | rest})
    return added


def lacking(course: Course, heard: Heard) -> set[tuple[int, Told]]:
    """Who was not told, and at which epoch."""
    return {
        (epoch, told)
        for epoch, wanted in course.items()
        for told in wanted
        if told not in heard.get(epoch, ())
    }


def beside(course: Course, heard: Heard) -> set[tuple[int, Told]]:
    """Who was told although the course has it otherwise."""
    return {
        (epoch, told)
        for epoch, counts in heard.items()
        for told in counts
        if told not in course.get(epoch, ())
    }


def place_of(record: Record) -> Place:
    """Where a record lies."""
    return Place(record.topic, record.partition, record.offset)
