"""`./herald match` and `./herald algorithms`: what is counted, what differs, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deploy.cli import main
from index.registry import ALGORITHMS, DEFAULT

SUBSCRIPTIONS = """\
{"id": "late", "expr": "delay > 60", "label": "ignored"}
{"id": "UA", "filter": {"attr": "carrier", "op": "eq", "value": "UA"}}

{"id": "all", "expr": "TRUE"}
"""
EVENTS = """\
{"delay": 61, "carrier": "AA"}
not json
{"carrier": "UA"}
"""
EXPECTED = """\
{"event": 0, "ids": ["all", "late"], "note": "ignored"}
{"event": 2, "ids": ["UA", "all"]}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    contents = {"subscriptions": SUBSCRIPTIONS, "events": EVENTS, "expected": EXPECTED}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return {name: tmp_path / name for name in contents}


def match(*arguments: object) -> int:
    return main(["match", *map(str, arguments), "--algorithm", "scan"])


def test_equal_matches_are_counted(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(*files.values()) == 0
    told = capsys.readouterr().out
    assert "subscriptions  3 " in told
    assert "events         3 " in told
    assert "1 dead letters" in told
    assert "matches        4" in told
    assert "compared       2 events, 0 differ" in told


def test_differences_are_told(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files["expected"].write_text(
        '{"event": 0, "ids": ["all", "x", "y"]}\n{"event": 1, "ids": []}\n', encoding="utf-8"
    )
    named = [part for name, path in files.items() for part in (f"--{name}", path)]
    assert match(*named) == 1
    assert "  event 0: missing x, y; unexpected late" in capsys.readouterr().out
    assert match(*named, "--json") == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["differences"] == [{"event": 0, "missing": ["x", "y"], "unexpected": ["late"]}]
    assert (report["events"], report["compared"], report["dead_letters"]) == (3, 2, 1)


def test_nothing_to_compare_is_no_failure(files: dict[str, Path]) -> None:
    assert match(files["subscriptions"], files["events"], "--now", "2024-01-01T00:00:00Z") == 0


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("subscriptions", '{"id": "a", "expr": "TRUE"}\n{"id": "b", "expr": "x ="}', "line 2: "),
        ("subscriptions", '{"id": 7, "expr": "TRUE"}', "line 1: not an object with a string 'id'"),
        ("subscriptions", '{"id": "a"}', "neither expr, a string, nor filter is given"),
        ("subscriptions", '{"id": "a", "expr": "TRUE", "filter": true}', "give one of them"),
        ("subscriptions", "[", "line 1: "),
        ("expected", '{"event": 0}', "line 1: not event and ids"),
        ("expected", '{"event": 3, "ids": []}', "names event 3; there are 3"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    told: str,
) -> None:
    files[name].write_text(content, encoding="utf-8")
    assert match(*files.values()) == 1
    complaint = capsys.readouterr().err
    assert told in complaint
    assert str(files[name]) in complaint


def test_missing_files_are_named(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert match(files["subscriptions"]) == 1
    assert "no file of events" in capsys.readouterr().err
    assert match(*files.values(), files["events"]) == 1
    assert "too many files" in capsys.readouterr().err
    assert match(files["subscriptions"].parent / "none", files["events"]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_algorithms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algorithms"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name}" in told for name in ALGORITHMS)
    assert f"{DEFAULT} (default): " in told
    assert main(["algorithms", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(ALGORITHMS)
    assert all(one["operators"] for one in listed)
    assert {one["name"] for one in listed if one["companion"] is None} >= {"scan", "psthash"}
