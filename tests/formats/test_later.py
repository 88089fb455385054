"""What a later release wrote is refused with its version, or built anew where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from deploy.checker import check
from deploy.environment import UserError
from deploy.history import Record, read_history
from index.registry import get
from index.snapshot import SnapshotError
from store.memory import MemoryStore
from streaming.changes import ChangesMissing, ChangesReader, ChangesWriter, decode_entry, files_of
from streaming.pins import FOLDER, PinError
from streaming.refresh import IndexOptions, LiveIndex, RefreshError
from streaming.snapshot_files import open_index, updatable
from streaming.snapshots import build_from_files
from streaming.tail import Tail
from streaming.target import FORMAT_VERSION
from tests.formats.kept import (
    ALGORITHM,
    V1,
    entries_of,
    kept_history,
    read_dump,
    store_of,
    unfinished,
)


def test_a_later_pin_is_refused(deployment: tuple[Path, Path]) -> None:
    checkpoint, _ = deployment
    pin = unfinished(checkpoint)
    path = checkpoint / FOLDER / f"{pin.batch}.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"v": 3, "more": 1}))
    with pytest.raises(PinError, match=rf"{path.name} has format 3, but 2 .* later"):
        unfinished(checkpoint)


@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_later_changes_are_built_anew(
    renewed: Path, start: Callable[[Path, MemoryStore], Tail], which: int
) -> None:
    _, path = files_of(renewed)[-1]
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    lines[which] |= {"v": 2, "more": 1}
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(ValueError, match="format 2"):
        decode_entry(orjson.dumps(lines[which]))
    with pytest.raises(ChangesMissing, match="format 2"):
        list(ChangesReader(renewed).read(lines[0]["epoch"] - 1, lines[-1]["epoch"]))
    if which == -1:
        with pytest.raises(ChangesMissing, match="format 2"):
            ChangesWriter.resume(renewed)
    live = LiveIndex(IndexOptions(ALGORITHM, str(renewed)))
    entries = entries_of(read_dump())
    with pytest.raises(RefreshError):
        live.reach(lines[-1]["epoch"], lines[-1]["lineage"])
    tail = start(renewed, store_of(entries))
    live.reach(*tail.head)
    assert live.epoch == entries[-1].epoch


def test_a_snapshot_with_later_targets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = entries_of(read_dump())
    newest = entries[-1]
    ChangesWriter(tmp_path, 0, "").append(entries)
    found = build_from_files(IndexOptions(ALGORITHM, str(tmp_path)), newest.epoch, newest.lineage)
    kind = updatable(get(ALGORITHM))
    assert open_index(found, kind)[0].meta["targets"] == FORMAT_VERSION
    monkeypatch.setattr("streaming.snapshot_files.FORMAT_VERSION", FORMAT_VERSION + 1)
    with pytest.raises(SnapshotError, match="targets of format 1, but only 2"):
        open_index(found, kind)


def test_a_later_history_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    run, *lines = (V1 / "history.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([run.replace(b'"v":1', b'"v":2'), *lines]))
    with pytest.raises(UserError, match="format 2, but only 1 is known"):
        read_history(path)


def test_a_notification_of_another_type_is_not_taken_for_one() -> None:
    history = kept_history()
    last = history.notifications[-1]
    headers = tuple(
        (name, b"herald.match.v2" if name == "ce_type" else value) for name, value in last.headers
    )
    history.notifications[-1] = Record(*last[:4], headers, last.value)
    verdict = check(history)
    assert verdict.counts["false"] == 1
    assert "herald.match.v2" in verdict.examples["false"][0]
