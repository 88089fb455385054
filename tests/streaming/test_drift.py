"""What the driver learns of events, and what it does with it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from index.events import encode
from index.registry import get
from index.updatable import Updatable
from index.vocabulary import Vocabulary
from store.base import LogEntry, PutChange
from streaming import drift
from streaming.changes import ChangesWriter
from streaming.drift import (
    SAMPLE_FILE,
    WINDOW_EVENTS,
    DriftMeter,
    EventWatch,
    read_statistics,
    sample_of,
)
from streaming.metrics import Metrics
from streaming.refresh import IndexOptions
from streaming.snapshot_files import open_index
from streaming.snapshots import build_from_files
from streaming.target import index_id
from tests.streaming.records import Record, batch_of, equals, index_of, match, subscription


def facts(in_vain: int, base_epoch: int = 1, executor: str = "one") -> dict[str, object]:
    return {
        "executor": executor,
        "base_epoch": base_epoch,
        "candidate_count": in_vain + 7,
        "hit_count": 7,
    }


def test_a_batch_sends_a_few_events_spread_over_it(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1)))
    records = [Record(b'{"a":%d}' % number) for number in range(10)]
    assert match(live, batch_of(*records)).counters["sample"] == ['{"a":0}', '{"a":5}']
    broken = [Record(b"{"), Record(b'{"a":7}')]
    assert match(live, batch_of(*broken)).counters["sample"] == ['{"a":7}']


def test_large_events_are_not_sampled() -> None:
    events = encode([{"a": "x" * drift.SAMPLE_BYTES_MAX}, {"a": "y"}], Vocabulary())
    assert sample_of(events) == ['{"a":"y"}']


def test_candidates_in_vain_are_held_against_the_first_window() -> None:
    meter = DriftMeter()
    assert not meter.count(facts(1_000_000), 5), "what was counted before says nothing"
    total = 1_000_000
    for in_vain, drifted in ((100, False), (150, False), (205, True)):
        total += in_vain * WINDOW_EVENTS
        assert meter.count(facts(total), WINDOW_EVENTS) is drifted
        assert meter.ratio == pytest.approx(in_vain / 100)
    assert not meter.count(facts(0, base_epoch=2), 1)
    assert meter.ratio == 1, "a new snapshot begins anew"


def test_few_candidates_in_vain_are_no_drift() -> None:
    meter = DriftMeter()
    meter.count(facts(0), 1)
    assert not meter.count(facts(2 * WINDOW_EVENTS), WINDOW_EVENTS)
    assert not meter.count(facts(2 * WINDOW_EVENTS + 40 * WINDOW_EVENTS), WINDOW_EVENTS)


def test_a_worker_that_counts_anew_is_not_drift() -> None:
    meter = DriftMeter()
    meter.count(facts(10), 1)
    assert not meter.count(facts(5), WINDOW_EVENTS)
    assert not meter.count(facts(10**9, executor="two"), WINDOW_EVENTS)
    assert not meter.count(facts(10**9, base_epoch=0, executor="two"), WINDOW_EVENTS)


def test_the_newest_events_are_kept_beside_the_snapshots(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    watch = EventWatch(folder, Metrics(), lambda: None)
    assert read_statistics(folder) is None
    watch.count({"sample": ['{"a":1}', '{"a":2}'], "rows": 2})
    statistics = read_statistics(folder)
    assert statistics is not None and statistics.event_count == 2
    watch.count({"sample": ['{"a":3}']})
    again = read_statistics(folder)
    assert again is not None and again.event_count == 2, "it is not written for every batch"


def test_a_sample_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    EventWatch(tmp_path / "file", Metrics(), lambda: None).count({"sample": ['{"a":1}']})


def test_drift_asks_for_a_snapshot(tmp_path: Path) -> None:
    asked: list[bool] = []
    metrics = Metrics()
    watch = EventWatch(tmp_path, metrics, lambda: asked.append(True))
    total = 0
    for in_vain in (0, 100, 400):
        total += in_vain * WINDOW_EVENTS
        watch.count({"rows": WINDOW_EVENTS, "index": facts(total), "sample": ['{"a":1}']})
    assert asked == [True]
    assert metrics.registry.get_sample_value("herald_drift") == 4


@pytest.mark.parametrize("algorithm", ["psthash", "herald"])
def test_a_snapshot_is_built_for_the_events_of_the_sample(tmp_path: Path, algorithm: str) -> None:
    trees = [{"and": [equals("kind", "k"), equals("user", number % 2)]} for number in range(40)]
    records = [subscription(f"s{number}", tree) for number, tree in enumerate(trees)]
    entry = LogEntry(1, tuple(PutChange(record) for record in records), "one")
    ChangesWriter(tmp_path, 0, "").append([entry])
    kind = get(algorithm)
    assert issubclass(kind, Updatable)
    filings = []
    for event in ({"kind": "other", "user": 1}, {"kind": "k", "user": 7}):
        lines = b"\n".join([orjson.dumps(event)] * 500)
        (tmp_path / SAMPLE_FILE).write_bytes(lines)
        built = build_from_files(IndexOptions(algorithm, str(tmp_path)), 1, "one")
        index, _, _ = open_index(built, kind)
        filings.append(index.filing_of(index_id("acme", "s1")) if algorithm == "herald" else "")
        built.path.unlink()
    assert algorithm == "psthash" or filings[0] != filings[1]
