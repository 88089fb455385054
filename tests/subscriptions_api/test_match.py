"""Dry runs: they agree with the definition of a match, and say why."""

from __future__ import annotations

import pytest

from index.evaluate import truth
from index.model import Instant
from store.base import Delete, Put
from store.errors import StoreUnavailable
from store.memory import MemoryStore
from subscriptions_api import follower
from subscriptions_api.follower import Follower
from subscriptions_api.forms import filter_of_record
from tests.streaming.records import equals, subscription
from tests.subscriptions_api.client import Api, problem

MATCH = "/v1/events:match"
ATTRIBUTES = {"ce-id": "1", "ce-source": "/s", "ce-specversion": "1.0", "ce-type": "late"}


def matched(api: Api, event: object, query: str = "") -> list[str]:
    answer = api.post(f"{MATCH}?{query}", event).json()
    ids = [one["id"] for one in answer["matches"]]
    assert answer["count"] == len(ids)
    assert answer["epoch"] == api.store.newest_epoch()
    return sorted(ids)


@pytest.mark.parametrize("algorithm", ["scan", "psthash", "herald"])
def test_a_dry_run_sees_what_was_written_before_it(algorithm: str) -> None:
    with Api(algorithm=algorithm) as api:
        api.wait_ready()
        assert matched(api, {"x": 1}) == []
        api.create("a", "x = 1")
        api.create("b", "x > 0")
        assert matched(api, {"x": 1}) == ["a", "b"]
        api.put("/v1/subscriptions/a", {"expr": "x = 2"})
        assert matched(api, {"x": 1}) == ["b"]
        api.batch([{"op": "delete", "id": "b"}, {"id": "c", "expr": "x < 5"}])
        assert matched(api, {"x": 1}) == ["c"]
        api("PATCH", "/v1/subscriptions/c", json={"enabled": False})
        assert matched(api, {"x": 1}) == []


def test_reasons_name_predicates_and_what_the_event_has(api: Api) -> None:
    api.create("a", "x = 1 AND (y = 2 OR z = 3)")
    (told,) = api.post(MATCH, {"x": 1, "y": 2}).json()["matches"]
    assert told["because"] == [
        {"text": "x = 1", "truth": "TRUE", "event": "x is 1"},
        {"text": "y = 2", "truth": "TRUE", "event": "y is 2"},
    ]
    assert told["filed"] == "scan tests 'a' on every event"


def test_why_not(api: Api) -> None:
    api.create("a", "x = 1 AND y = 2")
    answer = api.post(f"{MATCH}?subscription=a", {"x": 1}).json()
    assert (answer["matches"], answer["truth"]) == (False, "UNKNOWN")
    assert answer["because"] == [
        {"text": "y = 2", "truth": "UNKNOWN", "event": "the event has no y"}
    ]
    problem(api.post(f"{MATCH}?subscription=b", {"x": 1}), 404, "not_found")


def test_disabled_and_expired_ones_are_told_apart(api: Api) -> None:
    api.create("off", "x = 1", enabled=False)
    api.create("old", "x = 1", expiresat="2026-01-01T00:00:00Z")
    assert matched(api, {"x": 1}, "now=2026-01-01T00:00:00Z") == []
    assert matched(api, {"x": 1}, "now=2025-12-31T23:59:59.999999999Z") == ["old"]
    off = api.post(f"{MATCH}?subscription=off", {"x": 1}).json()
    assert (off["matches"], off["truth"], off["disabled"]) == (False, "TRUE", True)
    old = api.post(f"{MATCH}?subscription=old&now=2026-02-01T00:00:00Z", {"x": 1}).json()
    assert (old["matches"], old["truth"], old["expired"]) == (False, "TRUE", True)


def test_now_is_what_the_caller_says(api: Api) -> None:
    api.create("a", "at > NOW()")
    event = {"at": "2030-01-01T00:00:00Z"}
    assert matched(api, event, "now=2029-12-31T23:59:59Z") == ["a"]
    assert matched(api, event, "now=2030-01-01T00:00:00Z") == []
    problem(api.post(f"{MATCH}?now=yesterday", event), 400, "invalid_parameter")


def test_cloudevents_are_matched_as_the_stream_sees_them() -> None:
    data = {"content": b'{"x": 1}', "headers": ATTRIBUTES}
    structured = {
        "json": {"id": "1", "source": "/s", "specversion": "1.0", "type": "late", "data": {"x": 1}},
        "headers": {"content-type": "application/cloudevents+json"},
    }
    for lift_data, expr in ((False, "type = 'late' AND data.x = 1"), (True, "x = 1")):
        with Api(lift_data=lift_data) as api:
            api.create("a", expr)
            for given in (data, structured):
                answer = api("POST", MATCH, **given)
                assert answer.json()["count"] == 1, answer.text


def test_one_event_at_a_time(api: Api) -> None:
    headers = {"content-type": "application/x-ndjson"}
    problem(api.post(MATCH, content=b"{}\n{}", headers=headers), 413, "too_large")
    assert api.post(MATCH, content=b"{}\n", headers=headers).json()["count"] == 0
    refused = api.post(MATCH, content=b"[]", headers={"content-type": "application/json"})
    assert problem(refused, 422, "invalid_event")["reason"] == "not_an_object"


def test_only_the_first_hundred_are_explained(api: Api) -> None:
    api.batch({"id": str(number), "expr": "x = 1"} for number in range(101))
    answer = api.post(MATCH, {"x": 1}).json()
    assert (answer["count"], len(answer["matches"])) == (101, 100)


def test_every_expected_match_and_no_other(api: Api) -> None:
    texts = ["x = 1", "NOT x = 1", "x != 1", "MISSING x", "x > 0 OR y LIKE 'a%'", "TRUE", "FALSE"]
    api.batch({"id": text, "expr": text} for text in texts)
    events: list[dict[str, object]] = [{"x": 1}, {"x": "1"}, {"y": "ab"}, {"x": [1, 2]}, {}]
    for event in events:
        expected = []
        for text in texts:
            record = api.store.get("default", text)
            assert record is not None
            if truth(filter_of_record(record), event, Instant(0, 0)) is True:
                expected.append(text)
        assert matched(api, event) == sorted(expected)


def test_a_store_that_is_away_leaves_the_last_epoch(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "RETRY_S", 0.01)
    api.create("a", "x = 1")
    assert matched(api, {"x": 1}) == ["a"]
    api.store.fail(StoreUnavailable("gone"))
    problem(api.post(MATCH, {"x": 1}), 503, "store_unavailable")  # reasons need the store
    assert api.post(MATCH, {"x": 2}).json().items() >= {"epoch": 1, "count": 0}.items()
    api.store.fail(None)
    api.create("b", "x = 1")
    assert matched(api, {"x": 1}) == ["a", "b"]


def test_a_store_that_lost_its_tail_is_read_anew(api: Api) -> None:
    api.create("a", "x = 1")
    api.create("b", "x = 1")
    assert matched(api, {"x": 1}) == ["a", "b"]
    api.store.lose_tail(1)
    api.create("c", "x = 1")
    api.create("d", "x = 1")
    assert matched(api, {"x": 1}) == ["a", "c", "d"]


def test_before_the_index_is_loaded_there_is_no_answer() -> None:
    api = Api()
    api.store.fail(StoreUnavailable("gone"))
    with api:
        problem(api.post(MATCH, {"x": 1}), 503, "index_loading")


@pytest.mark.parametrize("algorithm", ["psthash", "herald"])
def test_rows_that_are_gone_are_let_go_of(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "MERGE_CHANGES_MIN", 10)
    store = MemoryStore()
    store.write([Put(subscription(f"s{number}", equals("x", 1))) for number in range(4)])
    followed = Follower(store, algorithm, lambda: False)
    followed._load()
    rows = []
    for number in range(4, 64):
        store.write([Put(subscription(f"s{number}", equals("x", 1)))])
        store.write([Delete("acme", f"s{number - 4}")])
        followed._follow()
        assert followed._index is not None
        followed._index.check()
        rows.append(followed._index.stats()["row_count"])
    assert max(rows) <= 4 + 10
    followed._wanted = store.newest_epoch()
    found = followed.match("acme", {"x": 1}, Instant(0, 0))
    assert sorted(found.ids) == [f"s{number}" for number in range(60, 64)]
