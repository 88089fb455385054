"""The epoch barrier, health, readiness and metrics."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from store.errors import StoreUnavailable
from store.memory import MemoryStore
from subscriptions_api.publisher import Address, MemoryPublisher
from tests.subscriptions_api.client import Api, problem

EPOCH = "/v1/store/epoch"


def test_the_epoch_and_who_has_it(api: Api) -> None:
    assert api.get(EPOCH).json() == {"epoch": 0, "live": None, "queries": []}
    api.create("a")
    api.create("b")
    api.store.report_reader("query:one", 1, 1)
    api.store.report_reader("query:two", 2, 2)
    api.store.report_reader("snapshots", 0, 0)
    answer = api.get(EPOCH).json()
    assert (answer["epoch"], answer["live"]) == (2, 1)
    assert answer["queries"] == [{"name": "one", "epoch": 1}, {"name": "two", "epoch": 2}]
    assert api.get(f"{EPOCH}?min=1").status_code == 200


def test_the_barrier_opens_when_the_last_query_is_there(api: Api) -> None:
    api.create("a")
    api.store.report_reader("query:one", 1, 1)
    api.store.report_reader("query:two", 0, 0)
    released = threading.Timer(0.2, lambda: api.store.report_reader("query:two", 1, 1))
    released.start()
    answer = api.get(f"{EPOCH}?min=1&timeout=30")
    released.join()
    assert (answer.status_code, answer.json()["live"]) == (200, 1)
    assert "herald_api_barrier_seconds_count 1.0" in api.get("/metrics").text


def test_the_barrier_says_who_is_behind(api: Api) -> None:
    api.create("a")
    refused = api.get(f"{EPOCH}?min=1&timeout=0")
    assert "no query runs" in problem(refused, 504, "epoch_timeout")["detail"]
    api.store.report_reader("query:two", 0, 0)
    refused = api.get(f"{EPOCH}?min=1&timeout=0.01")
    assert "query:two is at 0" in problem(refused, 504, "epoch_timeout")["detail"]
    assert "retry-after" in refused.headers


def test_a_query_that_fell_silent_holds_nobody_up() -> None:
    now = 1_000.0
    with Api(MemoryStore(clock=lambda: now)) as api:
        api.create("a")
        api.store.report_reader("query:gone", 0, 0, seconds_valid=5)
        now += 6
        api.store.report_reader("query:here", 1, 1)
        assert api.get(f"{EPOCH}?min=1&timeout=0").json()["live"] == 1


@pytest.mark.parametrize(
    "query", ["min=1", "min=x", "min=0&timeout=-1", "min=0&timeout=120.1", "min=0&timeout=nan"]
)
def test_a_barrier_that_makes_no_sense(api: Api, query: str) -> None:
    problem(api.get(f"{EPOCH}?{query}"), 400, "invalid_parameter")


def test_many_wait_without_holding_up_others(api: Api) -> None:
    """More waiters than there are threads."""
    api.create("a")
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(api.get, f"{EPOCH}?min=1&timeout=60") for _ in range(60)]
        assert api.get("/v1/subscriptions/a").status_code == 200
        api.store.report_reader("query:one", 1, 1)
        assert {one.result().status_code for one in waiting} == {200}


def test_readiness_follows_the_store(api: Api) -> None:
    api.wait_ready()
    assert api.get("/healthz").json() == {"status": "ok"}
    assert api.get("/readyz").json() == {"status": "ready"}
    api.store.fail(StoreUnavailable("the store is gone"))
    waiting = api.get("/readyz")
    assert waiting.status_code == 503
    assert waiting.json() == {"status": "waiting", "waiting_for": "the store is gone"}
    assert api.get("/healthz").status_code == 200


def test_readiness_waits_for_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subscriptions_api.follower.Follower._load", lambda self: None)
    with Api() as api:
        waiting = api.get("/readyz")
        assert (waiting.status_code, waiting.json()["waiting_for"]) == (
            503,
            "the index of dry runs",
        )


def test_requests_are_counted_by_route_never_by_what_a_client_makes_up(api: Api) -> None:
    for number in range(3):
        api.get(f"/v1/subscriptions/{number}")
        api.get(f"/nowhere/{number}")
        api(f"METHOD{number}", "/v1/subscriptions")
    text = api.get("/metrics").text
    counted = dict(re.findall(r"^herald_api_requests_total\{(.*)\} (.*)$", text, re.MULTILINE))
    one = 'method="GET",route="/v1/subscriptions/{subscription_id:path}",status="404"'
    assert counted[one] == "3.0"
    assert counted['method="GET",route="none",status="404"'] == "3.0"
    assert len(counted) == 3


def test_writes_and_events_are_counted(api: Api) -> None:
    api.create("a")
    api.post("/v1/subscriptions", {"id": "a", "expr": "x = 1"})
    api.post("/v1/events", {})
    text = api.get("/metrics").text
    for line in (
        'herald_api_writes_total{outcome="created"} 1.0',
        'herald_api_writes_total{outcome="precondition_failed"} 1.0',
        "herald_api_epoch 1.0",
        "herald_api_events_published_total 1.0",
    ):
        assert line in text


class Stuck(MemoryPublisher):
    """Takes nothing before it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def publish(self, records: Any) -> list[Address]:
        self.released.wait(60)
        return super().publish(records)


def test_a_stuck_kafka_holds_up_publishers_only() -> None:
    publisher = Stuck()
    with Api(publisher=publisher) as api, ThreadPoolExecutor(80) as pool:
        waiting = [pool.submit(api.post, "/v1/events", {}) for _ in range(80)]
        api.create("a")
        assert api.batch([{"id": "b", "expr": "x = 1"}])[0]["status"] == 201
        assert api.post("/v1/events:match", {"x": 1}).json()["count"] == 2
        publisher.released.set()
        assert {one.result().status_code for one in waiting} == {202}


class Broken(MemoryPublisher):
    """Fails in a way that nobody foresaw."""

    def publish(self, records: Any) -> list[Address]:
        raise RuntimeError("secret detail")


def test_an_unexpected_error_tells_nothing_but_that() -> None:
    with Api(publisher=Broken()) as api:
        refused = api.post("/v1/events", {})
        assert "secret" not in refused.text
        problem(refused, 500, "internal")


def test_the_path_of_a_problem_is_its_instance(api: Api) -> None:
    assert api.get("/v1/subscriptions/a").json()["instance"] == "/v1/subscriptions/a"


def test_a_method_that_a_path_does_not_take(api: Api) -> None:
    refused = api("PUT", "/v1/subscriptions")
    problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"]
