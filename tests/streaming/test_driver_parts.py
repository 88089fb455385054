"""Small parts of the driver that need neither Spark nor Kafka."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from pathlib import Path

import orjson
import pytest

from streaming.batch import Totals
from streaming.metrics import EXECUTORS_MAX, Metrics
from streaming.offset_log import planned_offsets, replace_plan
from streaming.pins import Pin
from streaming.positions import Mark, Positions
from streaming.progress import ProgressLine, describe
from streaming.ready import Ready, serve
from streaming.settings import StreamingSettings, load_settings
from streaming.source import SourceError, connector_jars, retrying
from streaming.task import decode_batch, encode_batch, run_task
from streaming.warm import warm_kernels
from tests.streaming.records import request_of

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{},"sourceMetadataInfo":{}}
{"events":{"0":12,"11":3}}"""


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_readiness_says_what_is_being_waited_for() -> None:
    ready, metrics = Ready(), Metrics()
    server = serve("127.0.0.1", 0, ready, metrics)
    port = server.server_address[1]
    try:
        ready.waiting_for = "the subscription store"
        assert get(port, "/readyz") == (503, "the subscription store\n")
        assert get(port, "/healthz")[0] == 200
        ready.waiting_for = ""
        assert ready.is_ready
        assert get(port, "/readyz") == (200, "ready\n")
        assert get(port, "/nowhere")[0] == 404
        metrics.count_row({"rows": 3, "rejected": {"too_deep": 1}, "matches": 2})
        text = get(port, "/metrics")[1]
        assert "herald_events_total 3.0" in text
        assert 'herald_dead_letters_total{reason="too_deep"} 1.0' in text
    finally:
        server.shutdown()
        server.server_close()


def test_workers_that_are_gone_leave_the_metrics() -> None:
    metrics = Metrics()
    for number in range(EXECUTORS_MAX + 10):
        metrics.count_row({"index": {"executor": f"host-{number}", "epoch": number}})
    shown = [
        sample.labels["executor"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "herald_index"
    ]
    assert len(shown) == EXECUTORS_MAX
    assert "host-0" not in shown


def test_the_offsets_of_a_batch_are_read_from_sparks_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(OFFSETS)
    assert planned_offsets(tmp_path, 4) == {"events": {0: 12, 11: 3}}


def test_a_plan_is_exchanged_and_the_rest_of_its_file_stays(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    (folder / "4").write_text(OFFSETS)
    (folder / ".4.crc").write_bytes(b"of the former content")
    replace_plan(tmp_path, 4, {"events": {0: 2, 11: 3}})
    assert [path.name for path in folder.iterdir()] == ["4"]
    assert planned_offsets(tmp_path, 4) == {"events": {0: 2, 11: 3}}
    lines = [text.splitlines() for text in ((folder / "4").read_text(), OFFSETS)]
    assert lines[0][:2] == lines[1][:2]


@pytest.mark.parametrize(
    "text", ["", "v1\n{}\n", OFFSETS.replace("v1", "v9"), "v1\n{}\nx", "v1\n{}\n-"]
)
def test_another_offset_log_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(text)
    with pytest.raises(SourceError, match="HERALD_CHECKPOINT_DIR"):
        planned_offsets(tmp_path, 4)


def test_local_masters_try_failed_tasks_again() -> None:
    assert retrying("local[2]") == "local[2,4]"
    assert retrying("local[*]") == "local[*,4]"
    assert retrying("local[2,1]") == "local[2,1]"
    assert retrying("spark://host:7077") == "spark://host:7077"


def test_a_folder_without_jars_is_refused(tmp_path: Path) -> None:
    assert connector_jars(None) == []
    with pytest.raises(SourceError, match="HERALD_JARS_DIR"):
        connector_jars(tmp_path)


def test_a_batch_reaches_its_tasks_whole() -> None:
    pin = Pin(3, 9, 'li"ne', "2026-01-01T00:00:00.000000001Z", {}, {})
    mark = Mark(3, 40, 1, "one", "2026-01-01T00:00:00Z")
    positions = Positions({"e": {0: 5, 10: 7}}, {"e": {10: mark}})
    request = decode_batch(request_of(), encode_batch(pin, positions, 99))
    assert (request.epoch, request.lineage, request.now) == (9, 'li"ne', pin.now)
    assert request.committed == {"e": {0: 5, 10: 7}}
    assert request.resumed == {"e": {10: (3, 40)}}
    assert request.share_bytes == 99


def test_a_worker_of_another_release_matches_nothing() -> None:
    pin = Pin(3, 9, "", "2026-01-01T00:00:00Z", {}, {})
    later = orjson.loads(encode_batch(pin, Positions({}), 99)) | {"v": 3}
    with pytest.raises(RuntimeError, match="in format 3, this worker knows 2: install one release"):
        decode_batch(request_of(), orjson.dumps(later).decode())


def test_a_task_without_a_pin_matches_nothing() -> None:
    with pytest.raises(RuntimeError, match="unpinned"):
        next(run_task(request_of(), lambda request, batches: iter(()), iter(())))


def test_kernels_can_be_warmed_without_any_service() -> None:
    warm_kernels("psthash")


def test_progress_is_one_line_with_rates() -> None:
    totals = Totals(batches=2, events=1_500, notifications=30, dead_letters=2, epoch=7, batch_s=0.2)
    assert describe(Totals(), totals, 2.0) == (
        "epoch 7 | 750 events/s | 15 notifications/s | 1,500 events, 2 dead letters | "
        "last batch 200 ms"
    )


def test_progress_is_silent_where_nothing_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    monkeypatch.setattr("streaming.progress.LOG_SECONDS", 0.0)
    line.show(Totals())
    assert stream.getvalue() == ""
    line.show(Totals(batches=1, events=5))
    line.end()
    assert stream.getvalue().count("\n") == 1


def test_a_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERALD_DELIVERY", "at_most_once")
    with pytest.raises(SystemExit):
        load_settings()
    assert "HERALD_DELIVERY=at_most_once" in capsys.readouterr().err


def test_every_setting_is_described() -> None:
    for name, field in StreamingSettings.model_fields.items():
        assert field.description, name


def test_several_topics_can_be_matched() -> None:
    settings = StreamingSettings(events_topic="a, b,")
    assert settings.events_topics == ("a", "b")
    assert settings.reader_name == "query:herald"
