"""The checker finds each kind of fault, and nothing in a run of the real path without any."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.checker import check
from deploy.cli import main
from deploy.environment import UserError
from deploy.history import Acknowledged, History, read_history, write_history
from deploy.history import Record as Kept
from store.base import DeleteChange, LogEntry, PutChange
from store.records import Mode, SubscriptionRecord
from streaming.changes import ChangesWriter
from streaming.notification import HEADERS
from streaming.pins import Pin
from streaming.refresh import IndexOptions, LiveIndex
from tests.streaming.records import Record, batch_of, equals, match, subscription

LINEAGE = "one"
NOW = "2026-01-01T00:00:10Z"
CLOUDEVENT = [("ce_specversion", b"1.0"), ("ce_id", b"e1"), ("ce_type", b"order")]
EVENTS = [
    Record(b'{"a":1}', key=b"k"),
    Record(b'{"a":2}'),
    Record(b"{"),
    Record(b'{"a":1,"b":"x"}'),
    Record(b'{"a":1}', CLOUDEVENT),
    Record(None),
    Record(b'{"a":1}'),
    Record(b'{"a":1,"b":null}'),
]
ENTRIES = [
    (
        subscription("thin", equals("a", 1), revision=1, epoch=1),
        subscription(
            "full", equals("a", 1), mode=Mode.FULL, consumer_key="desk", revision=1, epoch=1
        ),
        subscription("c1", equals("a", 1), mode=Mode.COMPACT, revision=1, epoch=1),
        subscription("c2", {"attr": "b", "op": "exists"}, mode=Mode.COMPACT, revision=1, epoch=1),
        subscription(
            "over", equals("a", 1), expires_at="2026-01-01T00:00:10Z", revision=1, epoch=1
        ),
        subscription("off", True, enabled=False, revision=1, epoch=1),
        subscription("later", {"attr": "a", "op": "resembles", "value": 1}, revision=1, epoch=1),
    ),
    (subscription("type", equals("type", "order"), revision=2, epoch=2), "thin"),
    (subscription("thin", equals("data.a", 1), revision=3, epoch=3),),
]


def log() -> list[LogEntry]:
    entries = []
    for epoch, changed in enumerate(ENTRIES, 1):
        changes = tuple(
            PutChange(one) if isinstance(one, SubscriptionRecord) else DeleteChange("acme", one)
            for one in changed
        )
        entries.append(LogEntry(epoch, changes, LINEAGE))
    return entries


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three batches at epochs 1 to 3, matched, written and refused by the real path."""
    ChangesWriter(tmp_path, 0, "").append(log())
    live = LiveIndex(IndexOptions("psthash", str(tmp_path)))
    history = History(entries=log(), writes=[Acknowledged(1, "2026-01-01T00:00:00Z")])
    bounds = [(0, 4), (4, 6), (6, 8)]
    for offset, event in enumerate(EVENTS):
        headers = tuple(event.headers)
        history.events.append(Kept("events", 0, offset, event.key, headers, event.value))
    for batch, (start, end) in enumerate(bounds):
        pin = Pin(batch, batch + 1, LINEAGE, NOW, {"events": {0: start}}, {"events": {0: end}})
        history.pins.append(pin)
        live.reach(pin.epoch, LINEAGE)
        records = batch_of(*EVENTS[start:end], first_offset=start)
        output = match(live, records, epoch=pin.epoch, now=NOW).output
        for key, value, name, kind in zip(
            output.keys, output.values, output.ids, output.kinds, strict=True
        ):
            at, made = len(history.notifications), (*HEADERS[kind], ("ce_id", name))
            history.notifications.append(Kept("notifications", 0, at, key, made, value))
        for letter in output.dead_letters:
            at, about = len(history.dead_letters), tuple(letter.headers)
            history.dead_letters.append(
                Kept("dead-letters", 0, at, letter.key, about, letter.value)
            )
    return history


def found(history: History) -> dict[str, int]:
    return dict(check(history).counts)


def test_a_run_of_the_real_path_holds(history: History) -> None:
    verdict = check(history)
    assert verdict.holds, verdict.examples
    assert (verdict.events, verdict.batches) == (8, 3)
    assert verdict.matches == 3 + 4 + 1 + 2 + 3
    assert len(history.dead_letters) == 2


def altered(record: Kept, **fields: Any) -> Kept:
    value = orjson.loads(record.value or b"")
    return record._replace(value=orjson.dumps(value | fields))


def without(name: str) -> Callable[[History], None]:
    def tamper(history: History) -> None:
        getattr(history, name).pop()

    return tamper


def with_first(change: Callable[[Kept], Kept]) -> Callable[[History], None]:
    def tamper(history: History) -> None:
        history.notifications[0] = change(history.notifications[0])

    return tamper


def again(history: History) -> None:
    last = history.notifications[-1]
    history.notifications.append(last._replace(offset=last.offset + 1))


def out_of_order(history: History) -> None:
    told = [
        at
        for at, one in enumerate(history.notifications)
        if orjson.loads(one.value or b"").get("subscription") == "full"
    ]
    one, other = (history.notifications[at] for at in told[:2])
    history.notifications[told[0]] = other._replace(offset=one.offset)
    history.notifications[told[1]] = one._replace(offset=other.offset)


def at_an_older_epoch(history: History) -> None:
    history.pins[2] = replace(history.pins[2], epoch=1)
    history.entries = [history.entries[0]] * 3


def later_acknowledged(history: History) -> None:
    history.writes.append(Acknowledged(3, "2026-01-01T00:00:08.9Z"))


def in_no_batch(history: History) -> None:
    history.events.append(Kept("events", 1, 0, None, (), b"{}"))


def buried_alive(history: History) -> None:
    letter = history.dead_letters[0]
    headers = dict(letter.headers) | {"herald_offset": b"0"}
    history.dead_letters.append(letter._replace(headers=tuple(headers.items())))


def buried_twice(history: History) -> None:
    history.dead_letters.append(history.dead_letters[0])


@pytest.mark.parametrize(
    ("tamper", "kinds"),
    [
        (without("notifications"), {"lost"}),
        (without("dead_letters"), {"lost"}),
        (in_no_batch, {"lost"}),
        (with_first(lambda one: altered(one, revision=9)), {"false", "lost"}),
        (with_first(lambda one: altered(one, epoch=2)), {"false", "lost", "duplicate"}),
        (with_first(lambda one: one._replace(value=b"{")), {"false", "lost"}),
        (with_first(lambda one: one._replace(headers=())), {"false", "lost"}),
        (with_first(lambda one: one._replace(headers=one.headers[:-1])), {"false"}),
        (with_first(lambda one: one._replace(key=b"other")), {"false"}),
        (buried_alive, {"false"}),
        (buried_twice, {"duplicate"}),
        (again, {"duplicate"}),
        (out_of_order, {"order"}),
        (later_acknowledged, {"stale"}),
    ],
)
def test_each_fault_is_found(
    history: History, tamper: Callable[[History], None], kinds: set[str]
) -> None:
    tamper(history)
    assert found(history).keys() == kinds


def test_an_epoch_that_goes_back_is_found(history: History) -> None:
    history.pins[2] = replace(history.pins[2], epoch=1)
    assert "backward" in found(history)


def test_an_epoch_may_go_back_to_what_the_store_has_kept(history: History) -> None:
    """Each entry has a lineage of its own, as a store gives them."""
    entries = [replace(one, lineage=f"line{one.epoch}") for one in history.entries]
    history.entries = entries
    history.pins = [replace(pin, lineage=f"line{pin.epoch}") for pin in history.pins]
    assert found(history) == {}
    history.pins[2] = replace(history.pins[2], epoch=1, lineage="line1")
    assert "backward" in found(history), "epoch 3 came after 2, so 2 was not lost"
    entries[2:] = [replace(entries[1], lineage="again2"), replace(entries[2], lineage="again3")]
    assert "backward" not in found(history)


def test_repeats_are_allowed_where_they_may_happen(history: History) -> None:
    again(history)
    history.delivery = "at_least_once"
    assert found(history) == {}
    history.notifications[-1] = altered(history.notifications[-1], more=1)
    assert found(history) == {"duplicate": 1}


def test_what_is_told_wholly_as_of_one_of_two_batches_holds(history: History) -> None:
    history.pins.append(replace(history.pins[2], batch=0, epoch=3, end={"events": {0: 4}}))
    history.pins[3] = replace(history.pins[3], start={"events": {0: 0}})
    assert found(history) == {}
    history.notifications = [
        one for one in history.notifications if b'"offset":0' not in value(one)
    ]
    assert found(history) == {"lost": 2}, "fewer lack at epoch 3 than at epoch 1"


def value(record: Kept) -> bytes:
    return record.value or b""


def told_at_two_epochs(folder: Path) -> tuple[History, int]:
    """One event, of which one pass tells at epoch 1 and another the rest at 2; and the part."""
    ChangesWriter(folder, 0, "").append(log())
    live = LiveIndex(IndexOptions("psthash", str(folder)))
    event, history = EVENTS[3], History(entries=log())
    history.events = [Kept("events", 0, 0, None, (), event.value)]
    live.reach(2, LINEAGE)
    first = match(live, batch_of(event), now=NOW, lineage=LINEAGE, part_bytes=99, share_bytes=1)
    while True:
        _, part, parts = first.counters["reached"]["events"]["0"]
        if first.output.values:
            break
        first = match(
            live,
            batch_of(event),
            now=NOW,
            lineage=LINEAGE,
            part_bytes=99,
            share_bytes=1,
            committed={"events": {0: 0}},
            resumed={"events": {0: (part, parts)}},
        )
    rest = match(
        live,
        batch_of(event),
        epoch=2,
        now=NOW,
        committed={"events": {0: 0}},
        resumed={"events": {0: (part, parts)}},
    )
    pin = Pin(0, 1, LINEAGE, NOW, {"events": {0: 0}}, {"events": {0: 1}})
    again = replace(pin, epoch=2, partly={"events": {0: (0, part, parts)}})
    history.pins = [pin, again]
    for output in (first.output, rest.output):
        for key, value, name, kind in zip(
            output.keys, output.values, output.ids, output.kinds, strict=True
        ):
            at, made = len(history.notifications), (*HEADERS[kind], ("ce_id", name))
            history.notifications.append(Kept("notifications", 0, at, key, made, value))
    assert first.output.values
    assert rest.output.values
    return history, part


def test_an_event_may_be_told_of_in_part_at_one_epoch_and_in_part_at_the_next(
    tmp_path: Path,
) -> None:
    history, part = told_at_two_epochs(tmp_path)
    verdict = check(history)
    assert verdict.holds, verdict.examples
    write_history(tmp_path / "history", history)
    assert read_history(tmp_path / "history") == history
    assert part > 0


def test_an_event_told_of_in_part_by_another_pin_than_it_says_is_found(tmp_path: Path) -> None:
    history, _ = told_at_two_epochs(tmp_path)
    history.pins[1] = replace(history.pins[1], partly={})
    assert found(history).keys() >= {"lost", "duplicate"}


@pytest.mark.parametrize("at", [0, -1])
def test_what_is_missing_on_either_side_of_a_cut_is_found(tmp_path: Path, at: int) -> None:
    history, _ = told_at_two_epochs(tmp_path)
    history.notifications.pop(at)
    assert found(history) == {"lost": 1}


def test_a_lineage_goes_on_from_what_the_store_kept(history: History) -> None:
    """The store lost the last entry, and another one has its epoch since."""
    lost = history.entries[2]
    history.entries.append(replace(lost, lineage="two", changes=()))
    history.pins[2] = replace(history.pins[2], lineage="two")
    assert found(history) == {}, "thin is gone since epoch 2, and its return at 3 matched nothing"


def test_an_epoch_without_its_entry_cannot_be_judged(history: History) -> None:
    history.entries.pop()
    with pytest.raises(ValueError, match="no entry of epoch 3"):
        check(history)


def test_a_history_is_the_same_after_writing_and_reading(history: History, tmp_path: Path) -> None:
    write_history(tmp_path / "history", history)
    assert read_history(tmp_path / "history") == history


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "is empty"),
        (b'{"kind":"pin"}\n', "line 1: .*must be of kind run"),
        (b'{"kind":"run","v":2,"delivery":"exactly_once"}\n', "line 1: .*format 2, but only 1"),
        (b'{"kind":"run","v":1,"delivery":"once"}\n', "line 1: .*delivery 'once'"),
        (b'{"kind":"run","v":1,"delivery":"exactly_once"}\n{"kind":"x"}\n', "line 2: .*'x'"),
        (b'{"kind":"run","v":1,"delivery":"exactly_once"}\n{', "line 2"),
    ],
)
def test_what_is_no_history_is_refused_by_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(line)
    with pytest.raises(UserError, match=words):
        read_history(path)


def test_the_command_says_what_it_found(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history"
    write_history(path, history)
    assert main(["verify", str(path)]) == 0
    assert "lost       0" in capsys.readouterr().out
    history.notifications.pop()
    write_history(path, history)
    assert main(["verify", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["found"]["lost"] == 2, "the last one told of two"
    assert "was not told of events/0@7 at epoch 3" in told["examples"]["lost"][0]
