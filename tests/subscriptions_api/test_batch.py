"""Batches: every line is answered as a request of its own would be, and stops no other."""

from __future__ import annotations

from typing import Any

import pytest

from store.errors import StoreFull, StoreUnavailable
from subscriptions_api import streams
from tests.subscriptions_api.client import NDJSON, Api, pieces, problem

TREE = {"attr": "x", "op": "eq", "value": 1}


def test_lines_are_answered_in_order_and_stand_alone(api: Api) -> None:
    api.create("old")
    answers = api.batch(
        [
            {"id": "a", "expr": "x = 1"},
            b"nonsense",
            {"op": "create", "id": "old", "filter": TREE},
            b"",
            {"op": "put", "id": "old", "filter": TREE, "if_match": 1},
            {"op": "put", "id": "old", "filter": TREE, "if_match": 99},
            {"op": "delete", "id": "a"},
            {"op": "delete", "id": "a"},
            {"op": "delete", "id": "old", "if_match": 99},
            {"filter": TREE},
            {"id": "b", "expr": "x == 1"},
        ]
    )
    told = [(one["line"], one["status"], one.get("code", "")) for one in answers]
    assert told == [
        (1, 201, ""),
        (2, 400, "invalid_json"),
        (3, 409, "already_exists"),
        (5, 200, ""),
        (6, 412, "precondition_failed"),
        (7, 204, ""),
        (8, 404, "not_found"),
        (9, 412, "precondition_failed"),
        (10, 201, ""),
        (11, 422, "invalid_filter"),
    ]
    assert answers[0] == {"line": 1, "status": 201, "id": "a", "revision": 2, "epoch": 2}
    assert answers[-1]["position"] == 2
    assert {one["epoch"] for one in answers if "epoch" in one} == {2}
    assert sorted(api.ids()) == sorted(["old", answers[-2]["id"]])


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ({"op": "upsert", "id": "a", "expr": "x = 1"}, "/op"),
        ({"op": ["put"], "id": "a", "expr": "x = 1"}, "/op"),
        ({"op": "create", "id": "a", "expr": "x = 1", "if_match": 1}, "/if_match"),
        ({"id": "a", "expr": "x = 1", "if_match": "1"}, "/if_match"),
        ({"id": "a", "expr": "x = 1", "if_match": True}, "/if_match"),
        ({"id": "a", "expr": "x = 1", "if_match": 0}, "/if_match"),
        ({"op": "delete"}, None),
        ({"op": "delete", "id": 1}, None),
        ({"op": "delete", "id": "a", "expr": "x = 1"}, None),
        ({"op": "delete", "id": "a\n"}, "/id"),
        ({"op": "delete", "id": ""}, "/id"),
        ({"id": "a"}, ""),
    ],
)
def test_a_line_that_asks_for_nothing_possible(
    api: Api, line: dict[str, Any], pointer: str | None
) -> None:
    refused, kept = api.batch([line, {"id": "b", "expr": "x = 1"}])
    assert (refused["status"], refused["code"]) == (422, "invalid_subscription")
    assert refused.get("pointer") == pointer
    assert kept["status"] == 201


def test_a_line_that_is_json_but_no_object(api: Api) -> None:
    assert [one["code"] for one in api.batch([b"[]", b"1"])] == ["invalid_json"] * 2


def test_an_empty_body_is_answered_by_an_empty_one(api: Api) -> None:
    assert api.batch([]) == []
    assert api.batch([b"", b" ", b""]) == []


def test_a_chunk_has_one_epoch_and_chunks_have_several(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CHUNK_OPERATIONS", 3)
    answers = api.batch({"id": str(number), "filter": TREE} for number in range(8))
    assert [one["line"] for one in answers] == list(range(1, 9))
    assert [one["epoch"] for one in answers] == [1, 1, 1, 2, 2, 2, 3, 3]


def test_a_line_over_the_limit_is_refused_and_the_next_one_taken(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions_api.batch_routes.LINE_BYTES_MAX", 40)
    monkeypatch.setattr(streams, "LINE_BYTES_MAX", 40)
    fits = b'{"id":"a","expr":"x = 1"}'.ljust(40)
    answers = api.batch([fits, fits + b" " * 100, fits])
    assert [one["status"] for one in answers] == [201, 413, 200]
    assert answers[1]["code"] == "too_large"


def test_text_that_grows_in_the_store_is_written_in_parts(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.requests.WRITE_BYTES_MAX", 400)
    lines = [{"id": str(number), "expr": f"a = {number} OR b = 2 OR c = 3"} for number in range(9)]
    too_large = {"id": "large", "expr": " OR ".join(["a = 1"] * 20)}
    key = {"idempotency-key": "k"}
    first = api.batch([*lines, too_large], key)
    assert [one["status"] for one in first] == [201] * 9 + [413]
    again = api.batch([*lines, too_large], key)
    assert [one.pop("replayed", False) for one in again] == [True] * 9 + [False]
    assert again == first


def test_a_repeated_batch_is_answered_as_the_first_one(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CHUNK_OPERATIONS", 2)
    lines = [{"expr": "x = 1"}, {"id": "a", "expr": "y"}, {"id": "b", "expr": "x = 2"}]
    key = {"idempotency-key": "k"}
    first, again = api.batch(lines, key), api.batch(lines, key)
    assert [one.pop("replayed", False) for one in again] == [True, False, True]
    assert again == first
    assert len(api.ids()) == 2
    # A body with another end was made before up to there.
    longer = api.batch([*lines, {"id": "c", "expr": "x = 3"}], key)
    assert [one["status"] for one in longer] == [201, 422, 409, 409]
    assert longer[2]["code"] == "idempotency_mismatch"


def test_a_store_that_fails_is_told_on_every_line(api: Api) -> None:
    for failure, code in (
        (StoreUnavailable("gone", may_have_happened=True), "store_unavailable"),
        (StoreFull("full"), "store_full"),
    ):
        api.store.fail(failure)
        answers = api.batch([{"id": "a", "filter": TREE}, b"{", {"op": "delete", "id": "b"}])
        assert [one["code"] for one in answers] == [code, "invalid_json", code]
        assert answers[0].get("may_have_happened", False) is (code == "store_unavailable")
    api.store.fail(None)
    assert api.batch([{"id": "a", "filter": TREE}])[0]["status"] == 201


def test_other_content_is_refused(api: Api) -> None:
    refused = api.post("/v1/subscriptions:batch", {"id": "a", "expr": "x = 1"})
    assert "x-ndjson" in problem(refused, 415, "unsupported_media_type")["hint"]


def test_a_body_in_pieces_is_the_same_body(api: Api) -> None:
    parts = [b'{"id":"a","ex', b'pr":"x = 1"}\n{"id"', b':"b","expr":"x = 2"}']
    response = api.post("/v1/subscriptions:batch", content=pieces(parts), headers=NDJSON)
    assert response.content.count(b'"status":201') == 2


def test_outcomes_are_counted(api: Api) -> None:
    api.batch([{"id": "a", "filter": TREE}, {"id": "a", "filter": TREE}, b"{"])
    metrics = api.get("/metrics").text
    for outcome in ("created", "replaced", "invalid_json"):
        assert f'herald_api_writes_total{{outcome="{outcome}"}} 1.0' in metrics
