"""A snapshot that this release calls its own is read as it was written, or has another version."""

from __future__ import annotations

from pathlib import Path

from index.algorithms.herald import Herald
from index.algorithms.scan import Scan
from index.decode import parse_event
from index.snapshot import open_snapshot
from tests.formats.present import EVENTS, PRESENT, subscriptions
from tests.index.segments import matched


def test_the_kept_snapshot_of_the_present_format_matches_as_the_oracle_does() -> None:
    events = [parse_event(event) for event in EVENTS]
    found = matched(Herald.open(PRESENT), events)
    assert found == matched(Scan.build(subscriptions()), events)
    assert all(found), "every event has matches"


def test_its_arrays_are_those_that_are_written_today(tmp_path: Path) -> None:
    today = tmp_path / "today.herald"
    Herald.build(subscriptions(), version=7).save(today)
    assert arrays_of(today) == arrays_of(PRESENT), "another layout has another FORMAT_VERSION"


def arrays_of(path: Path) -> list[tuple[str, str, int]]:
    """Names, kinds and dimensions."""
    return [(name, array.dtype.str, array.ndim) for name, array in open_snapshot(path)[1].items()]
