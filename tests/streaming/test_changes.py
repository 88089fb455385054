from __future__ import annotations

from pathlib import Path

import pytest

from store.base import DeleteChange, LogEntry, PutChange
from store.records import Mode
from streaming.changes import (
    ChangesMissing,
    ChangesReader,
    ChangesWriter,
    decode_entry,
    encode_entry,
    files_of,
)
from tests.streaming.records import equals, subscription


def entry(epoch: int) -> LogEntry:
    return LogEntry(epoch, (DeleteChange("t", f"s{epoch}"),), f"line{epoch}")


def epochs(reader: ChangesReader, after: int, upto: int) -> list[int]:
    return [found.epoch for found in reader.read(after, upto)]


def test_an_entry_survives_its_line() -> None:
    record = subscription(
        'a"\n\\', equals("x", "é"), revision=4, epoch=4, mode=Mode.FULL, labels={"k": "v"}
    )
    whole = LogEntry(4, (PutChange(record), DeleteChange("t\u2028", "b")), "line")
    line = encode_entry(whole)
    assert line.count(b"\n") == 1
    assert decode_entry(line) == whole


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    reader = ChangesReader(tmp_path)
    writer.append([entry(1), entry(2)])
    assert epochs(reader, 0, 1) == [1]
    assert epochs(reader, 1, 2) == [2]
    writer.append([entry(3)])
    assert epochs(reader, 2, 3) == [3]
    assert epochs(reader, 0, 3) == [1, 2, 3]
    assert epochs(ChangesReader(tmp_path), 1, 3) == [2, 3]


def test_reading_goes_on_in_the_next_file(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 5, "line5")
    reader = ChangesReader(tmp_path)
    writer.append([entry(6)])
    assert epochs(reader, 5, 6) == [6]
    writer.rotate(oldest_needed=0)
    writer.append([entry(7)])
    writer.rotate(oldest_needed=0)
    writer.append([entry(8), entry(9)])
    assert epochs(reader, 6, 9) == [7, 8, 9]
    assert [start for start, _ in files_of(tmp_path)] == [5, 6, 7]


def test_files_that_no_snapshot_needs_go(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    for epoch in (1, 2, 3):
        writer.append([entry(epoch)])
        writer.rotate(oldest_needed=epoch - 1)
    assert [start for start, _ in files_of(tmp_path)] == [2, 3]
    assert epochs(ChangesReader(tmp_path), 2, 3) == [3]
    with pytest.raises(ChangesMissing):
        epochs(ChangesReader(tmp_path), 0, 3)


def test_what_is_not_there_yet_is_missing_and_can_be_read_later(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    reader = ChangesReader(tmp_path)
    writer.append([entry(1)])
    with pytest.raises(ChangesMissing):
        epochs(reader, 0, 2)
    writer.append([entry(2)])
    assert epochs(reader, 1, 2) == [2]


def test_a_torn_last_line_is_not_read_and_is_cut_off_by_the_next_driver(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([entry(1), entry(2)])
    ((_, path),) = files_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + encode_entry(entry(3))[:-5])
    with pytest.raises(ChangesMissing):
        epochs(ChangesReader(tmp_path), 0, 3)
    resumed = ChangesWriter.resume(tmp_path)
    assert resumed is not None
    assert (resumed.epoch, resumed.lineage) == (2, "line2")
    assert path.read_bytes() == whole
    resumed.append([entry(3)])
    assert epochs(ChangesReader(tmp_path), 0, 3) == [1, 2, 3]


def test_an_empty_last_file_is_gone_on_with(tmp_path: Path) -> None:
    writer = ChangesWriter(tmp_path, 0, "")
    writer.append([entry(1)])
    writer.rotate(oldest_needed=0)
    resumed = ChangesWriter.resume(tmp_path)
    assert resumed is not None
    assert (resumed.epoch, resumed.lineage) == (1, "line1")
    resumed.append([entry(2)])
    assert epochs(ChangesReader(tmp_path), 0, 2) == [1, 2]


def test_nothing_to_resume(tmp_path: Path) -> None:
    assert ChangesWriter.resume(tmp_path) is None
    ChangesWriter(tmp_path, 4, "line4")
    assert ChangesWriter.resume(tmp_path) is None


def test_an_entry_out_of_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChangesMissing):
        ChangesWriter(tmp_path, 0, "").append([entry(2)])


def test_entries_of_another_history_do_not_follow(tmp_path: Path) -> None:
    """The store lost epoch 2, and gave it out again."""
    ChangesWriter(tmp_path, 1, "line1").append([entry(2), entry(3)])
    reader = ChangesReader(tmp_path)
    assert [found.epoch for found in reader.read(1, 3, "line1")] == [2, 3]
    assert [found.epoch for found in reader.read(2, 3, "line2")] == [3]
    for either in (reader, ChangesReader(tmp_path)):
        with pytest.raises(ChangesMissing):
            list(either.read(2, 3, "lost"))


def test_lines_of_versions_that_did_not_name_the_entry_before_are_read(tmp_path: Path) -> None:
    ChangesWriter(tmp_path, 0, "")
    ((_, path),) = files_of(tmp_path)
    path.write_bytes(encode_entry(entry(1)) + encode_entry(entry(2)))
    assert [found.epoch for found in ChangesReader(tmp_path).read(0, 2, "")] == [1, 2]


def test_what_a_replaced_driver_still_appends_to_its_file_hides_nothing(tmp_path: Path) -> None:
    older = ChangesWriter(tmp_path, 0, "")
    older.append([entry(1)])
    newer = ChangesWriter.resume(tmp_path)
    assert newer is not None
    older.append([entry(2), entry(3)])
    newer.append([entry(2), entry(3), entry(4)])
    assert epochs(ChangesReader(tmp_path), 0, 4) == [1, 2, 3, 4]
