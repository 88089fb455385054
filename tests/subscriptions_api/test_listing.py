"""Listing, exporting and validating."""

from __future__ import annotations

import orjson
import pytest

from store.errors import StoreUnavailable
from subscriptions_api import listing_routes
from tests.subscriptions_api.client import Api, problem


def test_pages_show_every_subscription_once(api: Api) -> None:
    names = {f"s{number}" for number in range(25)}
    for name in names:
        api.create(name)
    found = api.ids("page_size=7")
    assert sorted(found) == sorted(names)
    assert found == api.ids("page_size=1")
    assert api.get("/v1/subscriptions").json().keys() == {"subscriptions"}


def test_a_page_size_is_held_to_its_limits(api: Api) -> None:
    for size in ("0", "1001", "-1", "many"):
        refused = api.get(f"/v1/subscriptions?page_size={size}")
        assert "page_size" in problem(refused, 400, "invalid_parameter")["detail"]
    assert api.get("/v1/subscriptions?page_size=1000").status_code == 200


def test_a_page_token_belongs_to_its_listing(api: Api) -> None:
    for number in range(3):
        api.create(str(number), labels={"a": "1"})
    token = api.get("/v1/subscriptions?page_size=1").json()["next_page_token"]
    for query in (f"page_token={token}&label=a:1", "page_token=x", "page_token="):
        problem(api.get(f"/v1/subscriptions?{query}"), 400, "invalid_page_token")


def test_labels_narrow_a_listing(api: Api) -> None:
    api.create("a", labels={"team": "ops", "env": "x:y"})
    api.create("b", labels={"team": "ops"})
    api.create("c")
    assert sorted(api.ids("label=team:ops")) == ["a", "b"]
    assert api.ids("label=team:ops&label=env:x:y") == ["a"]
    assert api.ids("label=team:none") == []
    problem(api.get("/v1/subscriptions?label=team"), 400, "invalid_parameter")


def test_an_export_is_a_batch(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_routes, "PAGE_SIZE_MAX", 3)
    for number in range(8):
        api.create(f"s{number}", f"x = {number}", labels={"n": str(number)}, mode="full")
    api.post("/v1/subscriptions", {"id": "tree", "filters": [True, False]})
    exported = api.get("/v1/subscriptions:export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    lines = exported.content.splitlines()
    assert len(lines) == 9
    with Api() as other:
        assert {one["status"] for one in other.batch(lines)} == {201}
        again = other.get("/v1/subscriptions:export").content.splitlines()
    assert sorted(again) == sorted(lines)
    one = orjson.loads(api.get("/v1/subscriptions:export?label=n:5").content)
    assert (one["id"], one["expr"]) == ("s5", "x = 5")
    assert api.get("/v1/subscriptions:export?label=n:9").content == b""


def test_an_export_of_a_store_that_is_away_is_a_problem(api: Api) -> None:
    api.store.fail(StoreUnavailable("gone"))
    problem(api.get("/v1/subscriptions:export"), 503, "store_unavailable")


def test_a_validation_describes_the_filter_and_writes_nothing(api: Api) -> None:
    answer = api.post("/v1/subscriptions:validate", {"expr": "b IN (2) AND (a = 1 AND b = 2)"})
    assert answer.status_code == 200
    (described,) = answer.json()["filters"]
    a, b = ({"attr": name, "op": "eq", "value": n} for name, n in (("a", 1), ("b", 2)))
    assert described["canonical"] == {"and": [a, b]}
    assert described["expr"] == "b IN (2) AND (a = 1 AND b = 2)"
    assert described["filter"]["and"][0] == {"attr": "b", "op": "in", "value": [2]}
    assert described["predicates"] == 3 <= described["cost"]
    assert 0 < described["expected_share"] < 1
    same = api.post("/v1/subscriptions:validate", {"filters": [described["canonical"], True]})
    assert same.json()["filters"][0]["hash"] == described["hash"]
    assert (api.ids(), api.store.newest_epoch()) == ([], 0)


def test_a_validation_refuses_what_a_write_would(api: Api) -> None:
    path = "/v1/subscriptions:validate"
    problem(api.post(path, {"expr": "a =="}), 422, "invalid_filter")
    problem(api.post(path, {"expr": "a = 1", "mode": "fat"}), 422, "invalid_subscription")
    problem(api.post(path, {}), 422, "invalid_subscription")
