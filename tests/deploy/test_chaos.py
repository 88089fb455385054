"""Chaos without services: the catalogue, what excuses a write, what a verdict does not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from deploy.chaos import campaign, faults, judge, report
from deploy.chaos.injection import Broken, Injection, Outage, await_true, expect
from deploy.chaos.load import Load, Wrote
from deploy.chaos.world import World
from deploy.cli import main
from deploy.environment import REPOSITORY, UserError
from deploy.history import Acknowledged, History, Record
from deploy.verdicts import Place
from index.instants import parse_instant
from store.base import LogEntry, Put, PutChange, SubscriptionStore
from store.memory import MemoryStore
from tests.streaming.records import equals, subscription

SPECIFIED = range(1, 24)


def test_every_fault_runs_or_says_why_not() -> None:
    injected = {one.number for one in campaign.catalogue()}
    left_out = {one.number for one in faults.NOT_INJECTED}
    assert injected | left_out == set(SPECIFIED)
    assert all(one.reason for one in faults.NOT_INJECTED)


def test_names_are_unique_and_deliveries_known() -> None:
    found = campaign.catalogue()
    names = [one.name for one in found]
    assert len(set(names)) == len(names)
    assert all(set(one.deliveries) <= set(faults.BOTH) for one in found)


def test_chosen_numbers_choose() -> None:
    chosen, left_out = campaign.choose([8, 21])
    assert {one.number for one in chosen} == {8, 21}
    assert [one.number for one in left_out] == [21]
    with pytest.raises(UserError, match="there is no fault 99"):
        campaign.choose([99])


def test_what_a_machine_cannot_inject_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert main(["chaos", "--fault", "18"]) == 1
    told = capsys.readouterr()
    assert "18, clocks an hour ahead: not injected, there is no cc on this machine." in told.out
    assert "nothing to inject" in told.err
    assert not {18} & {one.number for one in campaign.able(campaign.catalogue(), faults.BOTH)[0]}


def test_the_list_tells_all_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--list"]) == 0
    told = capsys.readouterr().out
    assert all(one.name in told for one in campaign.catalogue())


def test_the_document_has_the_list_and_a_place_for_results() -> None:
    text = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert "\n".join(report.listing(*campaign.choose([]))) in text, "./herald chaos --list"
    assert report.BEGIN in text and report.END in text


def test_a_write_of_an_outage_counts_from_its_end() -> None:
    began = parse_instant("2026-01-01T00:00:10Z").seconds * 10**9
    outages = [Outage(began, began + 5 * 10**9)]
    for at, counted in {
        "2026-01-01T00:00:08.9Z": "2026-01-01T00:00:08.9Z",
        "2026-01-01T00:00:09.5Z": "2026-01-01T00:00:15Z",
        "2026-01-01T00:00:14.9Z": "2026-01-01T00:00:15Z",
        "2026-01-01T00:00:15Z": "2026-01-01T00:00:15Z",
    }.items():
        assert parse_instant(judge.shifted(at, outages)) == parse_instant(counted)


class StillWorld:
    """As much of a world as the judge asks for."""

    def __init__(self) -> None:
        self.injection = Injection()
        self.load = cast(Load, StillLoad())
        self.opened = MemoryStore()

    @contextmanager
    def store(self) -> Iterator[SubscriptionStore]:
        yield self.opened


class StillLoad:
    def __init__(self) -> None:
        self.acknowledged_events: list[Place] = []
        self.wrote: list[Wrote] = []


@pytest.fixture
def still() -> StillWorld:
    world = StillWorld()
    for value in range(3):
        name = f"s{value}"
        epoch = world.opened.write([Put(subscription(name, equals("a", value)))]).epoch
        world.load.wrote.append(Wrote(epoch, name, True))
    return world


def judged(world: StillWorld, history: History) -> list[str]:
    return judge.judge(cast(World, world), history)[1]


def history_of(world: StillWorld) -> History:
    history = History(entries=world.opened.read_since(0))
    history.writes = [
        Acknowledged(wrote.epoch, "2026-01-01T00:00:00Z") for wrote in world.load.wrote
    ]
    return history


def test_what_is_all_there_holds(still: StillWorld) -> None:
    assert judged(still, history_of(still)) == []


def test_an_acknowledged_event_that_is_gone_is_found(still: StillWorld) -> None:
    history = history_of(still)
    history.events.append(Record("events", 0, 5, None, (), b"{"))
    still.load.acknowledged_events += [Place("events", 0, 5), Place("events", 0, 6)]
    assert judged(still, history) == ["event events/0@6 was acknowledged and is not in the topic"]


def test_an_acknowledged_write_that_is_gone_is_found(still: StillWorld) -> None:
    history = history_of(still)
    del history.entries[1]
    found = judged(still, history)
    assert found[0] == "the log has no entry between 1 and 3"
    assert found[1] == "the write of s1 at epoch 2 was acknowledged and is lost"
    assert found[2] == "subscription s1 is there, but no entry has its revision"


def test_of_two_histories_the_newer_one_counts() -> None:
    def entry(epoch: int, lineage: str) -> LogEntry:
        return LogEntry(epoch, (PutChange(subscription("a", equals("a", 1))),), lineage)

    entries = [entry(1, "x"), entry(2, "x"), entry(3, "x"), entry(2, "y")]
    assert judge.surviving(entries) == [entry(1, "x"), entry(2, "y")]


def test_what_does_not_hold_says_so() -> None:
    expect(True, "never said")
    with pytest.raises(Broken, match="said"):
        expect(False, "said")
    with pytest.raises(Broken, match=r"it is not so within 0\.1 s"):
        await_true(lambda: False, "it is not so", 0.1)
