from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from index.model import Instant
from store.records import Mode, SubscriptionRecord
from streaming.decode import has_envelopes
from streaming.match import without_committed
from streaming.notification import HEADERS, notification_id
from streaming.packing import ROW_BYTES_MAX, Output, pack, unpack
from streaming.target import Target
from tests.streaming.records import (
    Record,
    batch_of,
    equals,
    index_of,
    match,
    request_of,
    subscription,
)

CLOUDEVENT = [("ce_specversion", b"1.0"), ("ce_id", b"e1"), ("ce_type", b"order")]


def test_a_thin_notification_names_event_subscription_revision_and_epoch(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1), revision=5))
    found = match(live, batch_of(Record(b'{"a":1}', key=b"k"), first_offset=42))
    (value,) = found.output.values
    assert orjson.loads(value) == {
        "subscription": "s1",
        "tenant": "acme",
        "revision": 5,
        "epoch": 1,
        "event": {"topic": "events", "partition": 0, "offset": 42, "key": "k"},
    }
    assert found.output.keys == [b"s1"]
    assert found.output.ids == [notification_id("events", 0, 42, "acme", "s1").encode()]
    headers = dict(HEADERS[found.output.kinds[0]])
    assert headers["ce_type"] == b"herald.match"
    assert headers["ce_heraldhops"] == b"1"


def test_the_id_of_a_notification_is_fixed_for_ever() -> None:
    known = "313b453567cfd0fc182d995344d10c3b"
    assert notification_id("events", 0, 42, "acme", "s1") == known
    others = {
        notification_id("events", 0, 42, "acme", "s2"),
        notification_id("events", 0, 42, "acmes", "1"),
        notification_id("events", 0, 43, "acme", "s1"),
        notification_id("events", 4, 2, "acme", "s1"),
    }
    assert len(others | {known}) == 5


def test_a_full_notification_carries_the_event(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1), mode=Mode.FULL))
    (value,) = match(live, batch_of(Record(b'{ "a" : 1 }'))).output.values
    assert orjson.loads(value)["event"]["data"] == {"a": 1}
    assert b'{ "a" : 1 }' in value


def test_a_full_notification_of_a_cloudevent_has_its_context(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("type", "order"), mode=Mode.FULL))
    (value,) = match(live, batch_of(Record(b'{"a":1}', CLOUDEVENT))).output.values
    event = orjson.loads(value)["event"]
    assert event["id"] == "e1"
    assert event["context"] == {"specversion": "1.0", "id": "e1", "type": "order"}
    assert event["data"] == {"a": 1}


def test_a_full_notification_that_is_too_large_goes_without_the_event(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1), mode=Mode.FULL))
    batch = batch_of(Record(orjson.dumps({"a": 1, "pad": "x" * 20_000})))
    (small,) = match(live, batch, notification_bytes_max=10_000).output.values
    (large,) = match(live, batch, notification_bytes_max=30_000).output.values
    assert "data" not in orjson.loads(small)["event"]
    assert "data" in orjson.loads(large)["event"]


def test_compact_notifications_tell_many_in_chunks_that_a_replay_repeats(tmp_path: Path) -> None:
    ids = [f"s{number:03d}" for number in range(300)]
    records = [subscription(name, equals("a", 1), mode=Mode.COMPACT) for name in ids]
    other = subscription("x", equals("a", 1), tenant="other", mode=Mode.COMPACT)
    batch = batch_of(Record(b'{"a":1}'))
    first = match(index_of(tmp_path / "1", *records, other), batch, notification_bytes_max=1_000)
    again = match(
        index_of(tmp_path / "2", other, *reversed(records)), batch, notification_bytes_max=1_000
    )
    chunks = [orjson.loads(value) for value in first.output.values]
    told = [name for chunk in chunks for name, _ in chunk["subscriptions"]]
    assert sorted(told) == [*ids, "x"]
    assert all(len(value) <= 1_000 for value in first.output.values)
    assert {chunk["tenant"] for chunk in chunks} == {"acme", "other"}
    assert len(set(first.output.ids)) == len(chunks) > 3
    assert sorted(first.output.values) == sorted(again.output.values)
    assert set(first.output.ids) == set(again.output.ids)


def subscriptions_of_every_mode() -> list[SubscriptionRecord]:
    return [
        subscription(f"{mode}-{number}", equals("a", 1), mode=mode, consumer_key="team")
        for number in range(5)
        for mode in Mode
    ]


def test_notifications_of_one_key_are_in_the_order_of_events_in_every_mode(tmp_path: Path) -> None:
    live = index_of(tmp_path, *subscriptions_of_every_mode())
    output = match(live, batch_of(*[Record(b'{"a":1}')] * 4)).output
    offsets = [orjson.loads(value)["event"]["offset"] for value in output.values]
    assert offsets == sorted(offsets)
    assert len(offsets) == 4 * (5 + 5 + 1)
    assert set(output.keys) == {b"team"}


@pytest.mark.parametrize("part_bytes", [1, 700, 2_000])
def test_a_batch_told_in_parts_is_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    live = index_of(tmp_path, *subscriptions_of_every_mode())
    values = (b'{"a":1}', b'{"a":2}', b'{"a":1,"b":"bbb"}', b'{"a":1}')
    batch = batch_of(*map(Record, values))
    whole = match(live, batch).output
    monkeypatch.setattr("streaming.packing.ROW_BYTES_MAX", part_bytes)
    parts = match(live, batch).output
    assert parts.values == whole.values
    assert (parts.keys, parts.ids, parts.kinds) == (whole.keys, whole.ids, whole.kinds)


def test_the_key_is_the_consumer_key_where_one_was_chosen(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1), consumer_key="team"))
    assert match(live, batch_of(Record(b'{"a":1}'))).output.keys == [b"team"]


def test_any_of_several_filters_may_match(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", None, filters=(equals("a", 1), equals("b", 2))))
    batch = batch_of(
        Record(b'{"a":1}'), Record(b'{"b":2}'), Record(b'{"a":1,"b":2}'), Record(b"{}")
    )
    assert match(live, batch).told == [("s1", 0), ("s1", 1), ("s1", 2)]


def test_expiry_is_judged_by_the_pinned_time_to_the_nanosecond(tmp_path: Path) -> None:
    record = subscription("s1", equals("a", 1), expires_at="2026-01-01T00:00:00.000000001Z")
    live = index_of(tmp_path, record)
    batch = batch_of(Record(b'{"a":1}'))
    assert match(live, batch, now="2026-01-01T00:00:00Z").told
    assert not match(live, batch, now="2026-01-01T00:00:00.000000001Z").told
    assert not match(live, batch, now="2027-01-01T00:00:00Z").told


def test_a_disabled_subscription_matches_nothing(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", True, enabled=False), subscription("s2", True))
    assert match(live, batch_of(Record(b"{}"))).told == [("s2", 0)]


def test_a_subscription_of_a_later_version_is_left_out_and_counted(tmp_path: Path) -> None:
    tree = {"attr": "a", "op": "resembles", "value": 1}
    live = index_of(tmp_path, subscription("s1", tree), subscription("s2", True))
    found = match(live, batch_of(Record(b'{"a":1}')))
    assert found.told == [("s2", 0)]
    assert found.counters["index"]["unreadable_count"] == 1


def test_two_tenants_may_use_one_id(tmp_path: Path) -> None:
    mine, theirs = (subscription("s1", equals("a", 1), tenant=name) for name in ("a", "b"))
    found = match(index_of(tmp_path, mine, theirs), batch_of(Record(b'{"a":1}')))
    assert {orjson.loads(value)["tenant"] for value in found.output.values} == {"a", "b"}
    assert len(set(found.output.ids)) == 2


@pytest.mark.parametrize("headers", [[], CLOUDEVENT])
def test_bad_records_are_dead_letters_and_the_rest_goes_on(
    tmp_path: Path, headers: list[tuple[str, bytes | None]]
) -> None:
    """A filter that every event satisfies must not be satisfied by what is no event."""
    live = index_of(tmp_path, subscription("all", {"attr": "zzz", "op": "missing"}))
    records = [
        Record(b'{"a":1}'),
        Record(b"{", [("trace", b"7")], b"k"),
        Record(None),
        Record(b'{"a":1,"a":2}'),
        Record(b'{"a":2}', headers),
    ]
    found = match(live, batch_of(*records, first_offset=10))
    assert found.told == [("all", 10), ("all", 14)]
    assert found.counters["rejected"] == {"invalid_json": 1, "null_value": 1, "duplicate_key": 1}
    letter = found.output.dead_letters[0]
    assert (letter.key, letter.value) == (b"k", b"{")
    about = dict(letter.headers)
    assert about["trace"] == b"7"
    assert about["herald_format"] == b"1"
    assert about["herald_reason"] == b"invalid_json"
    assert (about["herald_topic"], about["herald_offset"]) == (b"events", b"11")
    assert about["herald_timestamp"] == b"2023-11-14T22:13:20+00:00"
    assert found.output.dead_letters[1].value is None


def test_a_dead_letter_that_the_broker_would_refuse_is_cut(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", True))
    batch = batch_of(Record(b"x" * 20_000))
    (letter,) = match(live, batch, dead_letter_bytes_max=10_000).output.dead_letters
    assert letter.value == b"x" * len(letter.value or b"")
    assert len(letter.value or b"") < 10_000
    assert dict(letter.headers)["herald_truncated"] == b"20000"


def test_a_notification_that_comes_back_as_an_event_ends_after_some_hops(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("type", "herald.match")))
    headers = [("ce_type", b"herald.match"), ("ce_heraldhops", b"2")]
    batch = batch_of(Record(b"{}", headers))
    found = match(live, batch, hops_max=2)
    assert dict(HEADERS[found.output.kinds[0]])["ce_heraldhops"] == b"3"
    ended = match(live, batch, hops_max=1)
    assert not ended.told
    assert ended.counters["rejected"] == {"too_many_hops": 1}


def test_data_can_be_lifted_to_the_root(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1)))
    batch = batch_of(Record(b'{"a":1}', CLOUDEVENT))
    assert match(live, batch, lift_data=True).told == [("s1", 0)]
    assert match(live, batch).told == []


def test_events_before_the_committed_offsets_are_left_out() -> None:
    records = [Record(b"{}", partition=partition) for partition in (0, 0, 1, 1)]
    batch = batch_of(*records, Record(b"{}", topic="more"), first_offset=5)
    kept = without_committed(batch, {"events": {0: 6, 1: 8, 2: 99}, "more": {1: 99}})
    assert kept.column("offset").to_pylist() == [6, 8, 9]
    assert without_committed(batch, {"events": {0: 5}}) is batch


def test_an_empty_batch_gives_an_empty_row(tmp_path: Path) -> None:
    found = match(index_of(tmp_path, subscription("s1", True)), batch_of())
    assert found.counters["rows"] == 0
    assert found.output.values == []


def test_only_cloudevents_headers_make_a_batch_slow() -> None:
    assert not has_envelopes(batch_of(Record(b"{}"), Record(b"{}", [("x", b"")])).column("headers"))
    assert has_envelopes(batch_of(Record(b"{}"), Record(b"{}", CLOUDEVENT)).column("headers"))


def test_a_slice_of_a_batch_is_matched_as_the_slice(tmp_path: Path) -> None:
    live = index_of(tmp_path, subscription("s1", equals("a", 1)))
    batch = batch_of(*(Record(b'{"a":%d}' % (row % 2), key=b"%d" % row) for row in range(9)))
    assert match(live, batch.slice(3, 3)).told == [("s1", 3), ("s1", 5)]


def test_large_output_is_cut_into_rows_and_packed_small() -> None:
    output = Output()
    for row in range(5_000):
        output.notify([b"k"], [b"x" * 1_000], [b"%d" % row], [1])
    assert not output.is_full()
    assert len(pack(output, {}).column(0)[0].as_py()) < output.byte_count / 10
    while not output.is_full():
        output.notify([None], [b"x" * 1_000_000], [b""], [1])
    assert output.byte_count < ROW_BYTES_MAX + 1_000_001


def test_packing_keeps_every_column() -> None:
    output = Output()
    output.notify([None], [b"v"], [b"id"], [200])
    output.notify([b""], [b""], [b""], [0])
    packed = pack(output, {"rows": 1})
    back = unpack(packed.column(0)[0].as_py(), packed.column(1)[0].as_py())
    assert (back.keys, back.values, back.ids, back.kinds) == (
        output.keys,
        output.values,
        output.ids,
        output.kinds,
    )


def test_a_target_without_expiry_never_expires() -> None:
    target = Target(b"", b"", b"", "thin", None)
    assert not target.has_expired(Instant(2**40, 0))


def test_a_request_is_small_enough_to_travel_with_every_task() -> None:
    assert len(repr(request_of())) < 500
