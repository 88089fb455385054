"""Campaigns without services: what a plan runs, what a journal keeps, and what the table says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.chaos import campaign, report
from deploy.chaos.faults import FAULTS, Fault
from deploy.chaos.journal import Journal
from deploy.chaos.outcome import Outcome, Row, Turn
from deploy.cli import main
from deploy.environment import UserError
from deploy.verdicts import Verdict

KILLED, FULL = Row(8, "store killed", "exactly_once"), Row(12, "store full", "exactly_once")


def named(name: str) -> Fault:
    (found,) = [one for one in campaign.catalogue() if one.name == name]
    return found


def outcome_of(row: Row, run: int, recovery_s: float | None = 1.0, lost: int = 0) -> Outcome:
    verdict = Verdict(events=80, batches=4, matches=300, notifications=300)
    for number in range(lost):
        verdict.find("lost", f"match {number}")
    return Outcome(Turn(row, run, 1), verdict, recovery_s, 20.0, [], "abc")


def turns(steps: list[tuple[Fault, Turn]]) -> list[tuple[str, int]]:
    return [(fault.name, turn.run) for fault, turn in steps]


def test_a_plan_repeats_its_faults_and_leaves_out_what_is_not_promised() -> None:
    both, once = named("store full"), named("two drivers of one name")
    plan = campaign.Plan([both, once], runs=2)
    assert turns(list(plan.steps("exactly_once"))) == [
        *((both.name, 1), (once.name, 1)),
        *((both.name, 2), (once.name, 2)),
    ]
    assert turns(list(plan.steps("at_least_once"))) == [(both.name, 1), (both.name, 2)]
    assert list(campaign.Plan([once]).steps("at_least_once")) == []


def test_every_process_is_killed_so_often_over_the_places_where_it_may_die() -> None:
    plan = campaign.Plan(campaign.catalogue(), crash_runs=20)
    for delivery in plan.deliveries:
        counts: dict[str, int] = {}
        for fault, _ in plan.steps(delivery):
            counts[fault.killed] = counts.get(fault.killed, 0) + 1
        others = counts.pop("")
        assert set(counts) == {
            *("driver", "worker", "daemon", "JVM", "executor"),
            *("broker", "store", "builder", "everything"),
        }
        assert all(20 <= number < 28 for number in counts.values())
        assert others == sum(delivery in one.deliveries for one in FAULTS if not one.killed)


def test_what_is_killed_is_marked_and_nothing_else() -> None:
    for one in campaign.catalogue():
        assert bool(one.killed) == ("killed" in one.name or one.name == "everything restarted")


def test_a_plan_goes_on_where_the_journal_ends(tmp_path: Path) -> None:
    plan = campaign.Plan([named("store killed"), named("store full")], ("exactly_once",), runs=2)
    journal = Journal(tmp_path / "journal.jsonl")
    assert len(list(plan.steps("exactly_once", journal.done))) == 4
    for _, turn in list(plan.steps("exactly_once"))[:3]:
        journal.add(Outcome(turn, Verdict()))
    journal = Journal(tmp_path / "journal.jsonl")
    assert turns(list(plan.steps("exactly_once", journal.done))) == [("store full", 2)]
    other = campaign.Plan(plan.faults, plan.deliveries, runs=2, seed=2)
    assert len(list(other.steps("exactly_once", journal.done))) == 4


def test_a_journal_gives_back_what_it_was_told(tmp_path: Path) -> None:
    told = [
        outcome_of(KILLED, 1, lost=2),
        outcome_of(KILLED, 2),
        Outcome(Turn(FULL, 1, 7), broken=["Broken: it did not come back"]),
    ]
    journal = Journal(tmp_path / "journal.jsonl")
    for one in told:
        journal.add(one)
    assert Journal(tmp_path / "journal.jsonl").outcomes == told
    assert [one.holds for one in told] == [False, True, False]


def test_a_row_made_anew_counts_no_more_and_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for one in (outcome_of(KILLED, 1, lost=1), outcome_of(KILLED, 2), outcome_of(FULL, 1)):
        journal.add(one)
    journal.begin_anew([KILLED])
    journal.add(outcome_of(KILLED, 1))
    for read in (journal, Journal(path)):
        assert [one.row for one in read.outcomes] == [FULL, KILLED]
        assert read.set_aside == 2
    assert len(path.read_text(encoding="utf-8").splitlines()) == 5


@pytest.mark.parametrize("line", ["torn", "[]", "{}", '{"anew": {}}', '{"fault": "x"}'])
def test_a_line_that_is_no_outcome_is_told_of_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).add(outcome_of(KILLED, 1))
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=r"line 2 of the journal .* is no outcome"):
        Journal(path)


def test_the_table_sums_up_runs_and_marks_those_without_a_verdict() -> None:
    good, bad = outcome_of(KILLED, 1, 2.5), outcome_of(KILLED, 2, 1.0, lost=1)
    none = Outcome(Turn(FULL, 1, 1), broken=["Broken: it did not come back"])
    assert report.table([none, good, bad, outcome_of(KILLED, 3, 9.0)])[2:] == [
        "| 8 | store killed | exactly_once | 3 | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 2.5 | 9.0 |",
        "| 12 | store full | exactly_once | 1 | 1 | ? | ? | ? | ? | ? | ? | 1 | ? | ? |",
    ]
    assert report.table([none, outcome_of(FULL, 2)])[2].startswith(
        "| 12 | store full | exactly_once | 2 | 1 | 0 ? | 0 ? |"
    )
    assert "     Broken: it did not come back" in report.described(none)
    assert "       match 0" in report.described(bad)
    assert json.dumps([one.to_json() for one in (good, bad, none)])


def test_what_is_recorded_is_what_the_journal_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "reliability.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(report, "DOCUMENT", document)
    journal = Journal(tmp_path / "journal.jsonl")
    for row in (FULL, KILLED):
        journal.add(outcome_of(row, 1))
    journal.begin_anew([FULL])
    journal.add(outcome_of(FULL, 1, 3.0))
    report.write_down(journal)
    lines = document.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert (
        "Seed 1; runs by revision: abc 2. Left out, since their rows were made anew: 1 runs."
        in lines
    )
    assert [line for line in lines if line[2:3].isdigit()] == [
        "| 8 | store killed | exactly_once | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1.0 | 1.0 |",
        "| 12 | store full | exactly_once | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 3.0 | 3.0 |",
    ]
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(UserError, match="has no place for results"):
        report.write_down(journal)


def test_a_campaign_that_is_done_runs_nothing_and_ends_as_its_journal_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERALD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("deploy.commands.up.fetch", lambda services, folder: None)
    path = tmp_path / "journal.jsonl"
    command = ["chaos", "--fault", "8", "--delivery", "exactly_once", "--journal", str(path)]
    Journal(path).add(outcome_of(KILLED, 1))
    Journal(path).add(outcome_of(FULL, 1, lost=1))
    assert main(command) == 0
    assert "| 8 | store killed | exactly_once | 1 | 0 |" in capsys.readouterr().out
    assert main([*command[:2], "12", *command[3:]]) == 1
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.parametrize("option", ["--record", "--anew"])
def test_what_is_about_a_journal_asks_for_one(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", "--fault", "8", option]) == 1
    assert f"{option} is about a journal: add --journal FILE." in capsys.readouterr().err


def test_less_than_one_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["chaos", "--crash-runs", "0"])
    assert "0 is less than one run" in capsys.readouterr().err
