"""Quotas, rates and sizes, each at its limit and one beyond."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from subscriptions_api import context
from subscriptions_api.errors import Problem
from subscriptions_api.limits import BODY_BYTES_MAX, BURST_S, RateLimit
from tests.subscriptions_api.client import Api, pieces, problem

FORM = {"expr": "x = 1"}
JSON = {"content-type": "application/json"}


@pytest.fixture
def small() -> Iterator[Api]:
    """A tenant of this API may have three subscriptions."""
    with Api(subscriptions_max=3) as running:
        yield running


def test_a_quota_is_held_to_one_by_one(small: Api) -> None:
    for name in "abc":
        small.create(name)
    refused = small.post("/v1/subscriptions", {"id": "d", **FORM})
    assert "3 subscriptions" in problem(refused, 429, "quota_exceeded")["detail"]
    assert "retry-after" not in refused.headers
    problem(small.put("/v1/subscriptions/d", FORM), 429, "quota_exceeded")
    # What is there can be changed, and what goes makes room.
    assert small.put("/v1/subscriptions/a", {"expr": "x = 2"}).status_code == 200
    problem(small.post("/v1/subscriptions", {"id": "a", **FORM}), 409, "already_exists")
    headers = {"if-match": '"9"'}
    problem(small.put("/v1/subscriptions/d", FORM, headers=headers), 404, "not_found")
    small("DELETE", "/v1/subscriptions/a")
    small.create("d")
    assert sorted(small.ids()) == ["b", "c", "d"]


def test_a_quota_is_held_to_in_a_batch(small: Api) -> None:
    lines = [
        {"id": "a", **FORM},
        {"id": "b", **FORM},
        {"id": "a", **FORM},
        {"id": "c", **FORM},
        {"id": "d", **FORM},
        {"op": "create", "id": "e", **FORM},
        {"op": "create", "id": "a", **FORM},
        {"op": "delete", "id": "b"},
        {"id": "f", **FORM},
        {"id": "g", **FORM},
        {"id": "a", "expr": "x = 2"},
    ]
    answers = small.batch(lines, {"idempotency-key": "k"})
    told = [one.get("code", one["status"]) for one in answers]
    full = "quota_exceeded"
    assert told == [201, 201, 200, 201, full, full, "already_exists", 204, 201, full, 200]
    assert sorted(small.ids()) == ["a", "c", "f"]
    again = small.batch(lines, {"idempotency-key": "k"})
    assert [one.pop("replayed") for one in again] == [True] * len(lines)
    assert again == answers


def test_a_repeated_create_needs_no_room(small: Api) -> None:
    key = {"idempotency-key": "k"}
    first = small.post("/v1/subscriptions", FORM, headers=key)
    small.create("b")
    small.create("c")
    again = small.post("/v1/subscriptions", FORM, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())


def test_quotas_are_each_tenants_own(small: Api) -> None:
    for name in "abc":
        small.create(name)
    assert small.store.count("default") == 3
    assert small.store.count("other") == 0


def test_a_rate_lets_a_burst_through_and_then_its_share() -> None:
    now = 0.0
    limit = RateLimit("things", 8.0, clock=lambda: now)

    def refused(count: int) -> float:
        with pytest.raises(Problem, match="8 a second") as problem:
            limit.take("a", count)
        return problem.value.retry_after

    limit.take("a", int(8 * BURST_S))
    limit.take("b")
    assert (refused(1), refused(1)) == (0.125, 0.125)
    now = 0.5
    assert refused(5) == 0.125
    limit.take("a", 4)
    assert refused(2) == 0.25
    now = 0.625
    limit.take("a", 1)
    assert refused(1) == 0.125


def test_more_than_a_burst_waits_for_a_full_bucket_and_leaves_a_debt() -> None:
    now = 0.0
    limit = RateLimit("things", 10.0, clock=lambda: now)
    limit.take("a", 250)
    with pytest.raises(Problem) as refused:
        limit.take("a", 250)
    assert refused.value.retry_after == pytest.approx(25.0)
    now = 25.0
    limit.take("a", 250)


def test_waiting_takes_as_soon_as_it_can() -> None:
    limit = RateLimit("things", 1_000.0)
    limit.take("a", int(1_000 * BURST_S))

    async def wait() -> None:
        await limit.wait("a", 20)

    asyncio.run(asyncio.wait_for(wait(), 10))


def test_tenants_beyond_those_remembered_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subscriptions_api.limits.TENANTS_REMEMBERED_MAX", 2)
    limit = RateLimit("things", 0.1, clock=lambda: 0.0)
    for tenant in ("a", "b", "c", "a"):
        limit.take(tenant)
    with pytest.raises(Problem):
        limit.take("a")


def test_every_kind_of_request_has_its_rate() -> None:
    with Api(writes_per_s=0.1, events_per_s=0.1, dry_runs_per_s=0.1) as api:
        api.create("a")
        for refused in (
            api.post("/v1/subscriptions", FORM),
            api.put("/v1/subscriptions/a", FORM),
            api("PATCH", "/v1/subscriptions/a", json={}),
            api("DELETE", "/v1/subscriptions/a"),
        ):
            assert "writes" in problem(refused, 429, "rate_limited")["detail"]
            assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert api.post("/v1/events", {}).status_code == 202
        problem(api.post("/v1/events", {}), 429, "rate_limited")
        assert api.post("/v1/events:match", {}).status_code == 200
        problem(api.post("/v1/events:match", {}), 429, "rate_limited")
        assert api.get("/v1/subscriptions/a").status_code == 200


def test_a_batch_is_slowed_down_not_refused() -> None:
    with Api(writes_per_s=50) as api:
        lines = ({"id": str(number), **FORM} for number in range(520))
        assert {one["status"] for one in api.batch(lines)} == {201}


def padded(size: int) -> bytes:
    return b'{"id":"a","expr":"x = 1"}'.ljust(size)


def test_a_body_is_held_to_its_limit(api: Api) -> None:
    created = api.post("/v1/subscriptions", content=padded(BODY_BYTES_MAX), headers=JSON)
    assert created.status_code == 201
    over = api.post("/v1/subscriptions", content=padded(BODY_BYTES_MAX + 1), headers=JSON)
    problem(over, 413, "too_large")


def test_a_body_far_over_its_limit_is_not_read_to_its_end(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "DISCARDED_BYTES_MAX", 2 * BODY_BYTES_MAX)
    parts = iter([b"x" * 1_000_000] * 100)
    over = api.post("/v1/subscriptions", content=pieces(parts), headers=JSON)
    problem(over, 413, "too_large")
    assert sum(1 for _ in parts) >= 90


def test_a_filter_is_held_to_its_limit_in_either_form(api: Api) -> None:
    def text(size: int) -> str:
        return "a = '" + "é" * ((size - 6) // 2) + "x" * (size % 2) + "'"

    for size, status in ((2**20, 201), (2**20 + 1, 422)):
        assert len(text(size).encode()) == size
        assert api.post("/v1/subscriptions", {"expr": text(size)}).status_code == status
    head, tail = '{"attr":"a","op":"eq","value":"', '"}'
    for size, status in ((2**20, 201), (2**20 + 1, 422)):
        value = "x" * (size - len(head) - len(tail))
        tree = {"attr": "a", "op": "eq", "value": value}
        answer = api.post("/v1/subscriptions", {"filters": [True, tree]})
        assert answer.status_code == status, answer.text
    assert (
        problem(answer, 422, "invalid_filter").items()
        >= {
            "reason": "too_large",
            "pointer": "/filters/1",
        }.items()
    )


def test_numbers_that_grow_in_compact_form_count_as_they_are_kept(api: Api) -> None:
    rows = [{"attr": "a", "op": "in", "value": ["1E15_"] * 10_000}] * 7
    body = b'{"filter":' + str(rows).replace("'", '"').replace('"1E15_"', "1E15").encode()
    body = body.replace(b"[{", b'{"and":[{', 1) + b"}}"
    assert len(body) < 2**20
    refused = api.post("/v1/subscriptions", content=body, headers=JSON)
    assert problem(refused, 422, "invalid_filter")["reason"] == "too_large"
