"""Every code of the catalogue is reached by a request, has its status, and is documented."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from deploy.environment import REPOSITORY
from store.errors import (
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from subscriptions_api.auth import digest
from subscriptions_api.errors import PROBLEMS, RETRIED_STATUSES, Problem
from subscriptions_api.publisher import Address, MemoryPublisher
from tests.subscriptions_api.client import Api, problem

DOCS = (REPOSITORY / "docs" / "rest.md").read_text(encoding="utf-8")
ONE = "/v1/subscriptions/a"
ALL = "/v1/subscriptions"
FORM = {"id": "a", "expr": "x = 1"}
JSON = {"content-type": "application/json"}


class Away(MemoryPublisher):
    """A Kafka that does not answer."""

    def publish(self, records: object) -> list[Address]:
        raise Problem("kafka_unavailable", "no acknowledgement within 10 s")


class Broken(MemoryPublisher):
    """A fault of ours."""

    def publish(self, records: object) -> list[Address]:
        raise RuntimeError("a fault")


def changing(api: Api) -> httpx.Response:
    """A patch that always comes too late."""
    api.create("a")
    read = api.store.get

    def read_then_changed(tenant: str, subscription_id: str) -> object:
        record = read(tenant, subscription_id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api.store, "get", read)
            api.batch([FORM])
        return record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api.store, "get", read_then_changed)
        return api("PATCH", ONE, json={})


def mismatch(api: Api) -> httpx.Response:
    key = {"idempotency-key": "k"}
    api.post(ALL, FORM, headers=key)
    return api.post(ALL, {"expr": "x = 2"}, headers=key)


def failing(api: Api, failure: Exception) -> httpx.Response:
    api.store.fail(failure)  # type: ignore[arg-type]
    return api.get(ONE)


def twice(api: Api, path: str, body: object) -> httpx.Response:
    api.post(path, body)
    return api.post(path, body)


REACHED: dict[str, Callable[[Api], httpx.Response]] = {
    "invalid_json": lambda api: api.post(ALL, content=b"{", headers=JSON),
    "invalid_parameter": lambda api: api.get(f"{ALL}?page_size=0"),
    "invalid_page_token": lambda api: api.get(f"{ALL}?page_token=x"),
    "unauthorized": lambda api: api.get(ALL, headers={"x-api-key": "wrong"}),
    "forbidden": lambda api: api.post("/v1/events", {}, headers={"x-api-key": "reader"}),
    "not_found": lambda api: api.get(ONE),
    "no_route": lambda api: api.get("/v2"),
    "method_not_allowed": lambda api: api("DELETE", ALL),
    "already_exists": lambda api: twice(api, ALL, FORM),
    "conflict": changing,
    "idempotency_mismatch": mismatch,
    "precondition_failed": lambda api: api.put(ONE, FORM, headers={"if-match": '"x"'}),
    "too_large": lambda api: api.post(ALL, content=b" " * (4 * 2**20 + 1), headers=JSON),
    "unsupported_media_type": lambda api: api.post(ALL, content=b"{}"),
    "invalid_filter": lambda api: api.post(ALL, {"expr": "x =="}),
    "invalid_subscription": lambda api: api.post(ALL, {**FORM, "mode": "fat"}),
    "invalid_event": lambda api: api.post("/v1/events", content=b"[]", headers=JSON),
    "quota_exceeded": lambda api: twice(api, ALL, {"expr": "x = 1"}),
    "rate_limited": lambda api: twice(api, "/v1/events:match", {}),
    "internal": lambda api: api.post("/v1/events", {}),
    "store_unavailable": lambda api: failing(api, StoreUnavailable("gone")),
    "kafka_unavailable": lambda api: api.post("/v1/events", {}),
    "index_loading": lambda api: api.post("/v1/events:match", {}),
    "epoch_timeout": lambda api: api.get("/v1/store/epoch?min=0&timeout=0"),
    "store_full": lambda api: failing(api, StoreFull("full")),
}


def api_for(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API in the state that the code needs."""
    match code:
        case "unauthorized" | "forbidden":
            keys = folder / "keys"
            keys.write_text(
                '{"tenant": "a", "scopes": ["subscribe"], "blake2b": "' + digest("reader") + '"}'
            )
            return Api(api_keys_file=keys)
        case "quota_exceeded":
            return Api(subscriptions_max=1)
        case "rate_limited":
            return Api(dry_runs_per_s=0.1)
        case "internal":
            return Api(publisher=Broken())
        case "kafka_unavailable":
            return Api(publisher=Away())
        case "index_loading":
            monkeypatch.setattr("subscriptions_api.follower.NEWEST_WAIT_S", 0.01)
            monkeypatch.setattr("subscriptions_api.follower.Follower.start", lambda self: None)
    return Api()


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_code_is_reached(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with api_for(code, tmp_path, monkeypatch) as api:
        response = REACHED[code](api)
        document = problem(response, PROBLEMS[code].status, code)
    assert document["title"] == PROBLEMS[code].title
    assert document["instance"].startswith("/v")
    retried = document["status"] in RETRIED_STATUSES and code != "quota_exceeded"
    assert ("retry-after" in response.headers) is retried


def test_the_documented_codes_are_those_there_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \| (.*?) \|$", DOCS, re.MULTILINE)
    documented = {code: (int(status), words) for code, status, words in rows}
    assert documented == {code: (kind.status, kind.title) for code, kind in PROBLEMS.items()}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (StoreReadOnly("a replica"), "store_unavailable"),
        (StoreDamaged("a stranger wrote here"), "internal"),
        (StoreUnavailable("x" * 2_000, "look", may_have_happened=True), "store_unavailable"),
    ],
)
def test_what_the_store_says_is_passed_on(api: Api, failure: Exception, code: str) -> None:
    document = problem(failing(api, failure), PROBLEMS[code].status, code)
    assert len(document["detail"]) <= 501
    assert document.get("may_have_happened", False) is (document.get("hint") == "look")


def test_a_problem_quotes_little_of_what_was_sent(api: Api) -> None:
    long = "x" * 100_000
    for response in (
        api.post(ALL, {"expr": "x = 1", long: 1}),
        api.post(ALL, {"expr": "x = 1", "mode": long}),
        api.post(ALL, {"expr": "x = 1", "id": long}),
        api.post(ALL, {"expr": long + " ="}),
        api.get(f"{ALL}/{'x' * 10_000}"),
    ):
        assert response.status_code in (404, 422)
        assert len(response.json()["detail"]) <= 501
        assert len(response.json().get("pointer", "")) <= 201
