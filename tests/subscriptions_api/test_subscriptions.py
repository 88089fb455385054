"""Single subscriptions: what is stored, what is refused and where, and preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.subscriptions_api.client import Api, problem

SUBSCRIPTIONS = "/v1/subscriptions"


def test_a_created_subscription_is_answered_as_it_is_read(api: Api) -> None:
    form = {
        "id": "late",
        "filters": [{"attr": "delay", "op": "gt", "value": 60}, True],
        "labels": {"team": "ops"},
        "priority": 3,
        "expiresat": "2999-01-01T00:00:00Z",
        "consumer_key": "k",
        "mode": "full",
        "enabled": False,
    }
    created = api.post(SUBSCRIPTIONS, form)
    assert created.status_code == 201
    assert created.headers["location"] == "/v1/subscriptions/late"
    assert created.headers["etag"] == '"1"'
    assert created.headers["herald-epoch"] == "1"
    assert (
        created.json().items() >= {**form, "tenant": "default", "revision": 1, "epoch": 1}.items()
    )
    read = api.get("/v1/subscriptions/late")
    assert (read.status_code, read.json()) == (200, created.json())
    assert read.headers["etag"] == '"1"'


def test_text_is_kept_and_answered_with_its_tree(api: Api) -> None:
    document = api.create("a", "NOT delay > 6e1")
    assert document["expr"] == "NOT delay > 6e1"
    assert document["filters"] == [{"not": {"attr": "delay", "op": "gt", "value": 60}}]


def test_a_filter_is_kept_as_it_was_written(api: Api) -> None:
    tree = {"or": [{"attr": "b", "op": "eq", "value": 2}, {"attr": ["a.b"], "op": "exists"}]}
    created = api.post(SUBSCRIPTIONS, {"filter": tree})
    assert created.json()["filters"] == [tree]


def test_an_id_is_made_when_none_is_given(api: Api) -> None:
    first, second = (api.post(SUBSCRIPTIONS, {"expr": "x = 1"}).json()["id"] for _ in range(2))
    assert first != second
    assert api.get(f"/v1/subscriptions/{first}").status_code == 200


@pytest.mark.parametrize("name", ["a/b", "/", "a b", "ä\u2028", "%2F", "x?y#z", "a:export", ":"])
def test_any_id_is_reached_by_its_location(api: Api, name: str) -> None:
    location = api.post(SUBSCRIPTIONS, {"id": name, "expr": "x = 1"}).headers["location"]
    assert api.get(location).json()["id"] == name
    assert api("DELETE", location).status_code == 204
    problem(api.get(location), 404, "not_found")


def test_put_creates_then_replaces(api: Api) -> None:
    created = api.put("/v1/subscriptions/a", {"expr": "x = 1"})
    assert (created.status_code, created.headers["location"]) == (201, "/v1/subscriptions/a")
    replaced = api.put("/v1/subscriptions/a", {"id": "a", "expr": "x = 2"})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert "location" not in replaced.headers
    assert api.get("/v1/subscriptions/a").json()["expr"] == "x = 2"


def test_delete_tells_its_epoch(api: Api) -> None:
    api.create("a")
    deleted = api("DELETE", "/v1/subscriptions/a")
    assert (deleted.status_code, deleted.headers["herald-epoch"], deleted.content) == (
        204,
        "2",
        b"",
    )
    problem(api("DELETE", "/v1/subscriptions/a"), 404, "not_found")


def test_if_match_guards_every_change(api: Api) -> None:
    api.create("a")
    path = "/v1/subscriptions/a"
    change = {"json": {"expr": "x = 2"}}
    for method, given in (("PUT", change), ("PATCH", change), ("DELETE", {})):
        for tag in ('"7"', "1", 'W/"1"', '"x"', '"²"', '""', f'"{"9" * 40}"'):
            refused = api(method, path, headers={"if-match": tag.encode()}, **given)
            problem(refused, 412, "precondition_failed")
    assert api.put(path, {"expr": "x = 2"}, headers={"if-match": '"1"'}).status_code == 200
    patched = api("PATCH", path, json={"priority": 1}, headers={"if-match": '"2"'})
    assert (patched.status_code, patched.headers["etag"]) == (200, '"3"')
    assert api.put(path, {"expr": "x = 3"}, headers={"if-match": "*"}).status_code == 200
    assert api("DELETE", path, headers={"if-match": '"4"'}).status_code == 204
    problem(api.put(path, {"expr": "x = 3"}, headers={"if-match": "*"}), 404, "not_found")


def test_if_none_match_creates_only(api: Api) -> None:
    path, only_new = "/v1/subscriptions/a", {"if-none-match": "*"}
    assert api.put(path, {"expr": "x = 1"}, headers=only_new).status_code == 201
    problem(api.put(path, {"expr": "x = 2"}, headers=only_new), 412, "precondition_failed")
    wrong = api.put(path, {"expr": "x = 2"}, headers={"if-none-match": '"1"'})
    problem(wrong, 400, "invalid_parameter")
    problem(api("DELETE", path, headers=only_new), 400, "invalid_parameter")


def test_an_unchanged_subscription_needs_no_body(api: Api) -> None:
    api.create("a")
    same = api.get("/v1/subscriptions/a", headers={"if-none-match": '"1"'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", '"1"')
    assert api.get("/v1/subscriptions/a", headers={"if-none-match": '"0"'}).status_code == 200


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({"labels": {"b": "2", "a": None}}, {"labels": {"b": "2"}}),
        ({"labels": None}, {"labels": {}}),
        ({"priority": 5, "enabled": False}, {"priority": 5, "enabled": False}),
        ({"expr": "y = 2"}, {"expr": "y = 2"}),
        ({"filter": True}, {"filters": [True]}),
        ({"filter": True, "expr": None}, {"filters": [True]}),
        ({}, {}),
    ],
)
def test_a_merge_patch_changes_what_it_names(
    api: Api, patch: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = api.create("a", labels={"a": "1"}, expiresat="2999-01-01T00:00:00Z")
    headers = {"content-type": "application/merge-patch+json"}
    after = api("PATCH", "/v1/subscriptions/a", json=patch, headers=headers).json()
    ignored = {"revision", "epoch", "updated_at", "expr", "filters"}
    expected = {**before, **changed}
    assert {k: v for k, v in after.items() if k not in ignored} == {
        k: v for k, v in expected.items() if k not in ignored
    }
    assert after.items() >= changed.items()


def test_a_patch_may_not_take_the_filter_away(api: Api) -> None:
    api.create("a")
    refused = api("PATCH", "/v1/subscriptions/a", json={"expr": None})
    assert "expr, filter and filters" in problem(refused, 422, "invalid_subscription")["detail"]
    problem(api("PATCH", "/v1/subscriptions/b", json={}), 404, "not_found")


@pytest.mark.parametrize(
    ("form", "pointer", "words"),
    [
        ({"expr": "x = 1", "colour": 1}, "/colour", "there is no member 'colour'"),
        ({"expr": "x = 1", "a/b~": 1}, "/a~1b~0", "there is no member"),
        ({}, "", "exactly one of expr, filter and filters is needed"),
        ({"expr": "x = 1", "filter": True}, "", "not expr and filter"),
        ({"expr": None}, "", "expr may not be null"),
        ({"filters": []}, "/filters", "at least 1"),
        ({"filters": [True] * 101}, "/filters", "at most 100"),
        ({"expr": 1}, "/expr", "string"),
        ({"expr": "x = 1", "id": ""}, "/id", "1 to 256 are allowed"),
        ({"expr": "x = 1", "id": "é" * 128 + "x"}, "/id", "257 bytes"),
        ({"expr": "x = 1", "id": "a\nb"}, "/id", "control character"),
        ({"expr": "x = 1", "id": ".."}, "/id", "no request could reach"),
        ({"expr": "x = 1", "id": 5}, "/id", "string"),
        ({"expr": "x = 1", "priority": 2**31}, "/priority", "less than or equal"),
        ({"expr": "x = 1", "priority": 1.5}, "/priority", "integer"),
        ({"expr": "x = 1", "enabled": "yes"}, "/enabled", "boolean"),
        ({"expr": "x = 1", "mode": "fat"}, "/mode", "there is no mode 'fat'"),
        ({"expr": "x = 1", "expiresat": "soon"}, "/expiresat", "expiresat"),
        ({"expr": "x = 1", "consumer_key": ""}, "/consumer_key", "at least 1"),
        ({"expr": "x = 1", "labels": {"a": 1}}, "/labels/a", "string"),
        ({"expr": "x = 1", "labels": {"a": "é" * 129}}, "/labels", "256 bytes"),
        ({"expr": "x = 1", "labels": {str(n): "" for n in range(65)}}, "/labels", "at most 64"),
    ],
)
def test_a_refused_member_is_named(
    api: Api, form: dict[str, Any], pointer: str, words: str
) -> None:
    document = problem(api.post(SUBSCRIPTIONS, form), 422, "invalid_subscription")
    assert document["pointer"] == pointer
    assert words in document["detail"] + document.get("hint", "")
    assert not document["detail"].startswith("Value error")


def test_members_at_their_limits_are_taken(api: Api) -> None:
    labels = {f"{n:0256}": "é" * 128 for n in range(64)}
    api.create("é" * 128, labels=labels, priority=2**31 - 1)
    assert api.post(SUBSCRIPTIONS, {"filters": [True] * 100}).status_code == 201


def test_the_body_may_repeat_the_id_of_the_path_but_not_change_it(api: Api) -> None:
    refused = api.put("/v1/subscriptions/a", {"id": "b", "expr": "x = 1"})
    assert problem(refused, 422, "invalid_subscription")["pointer"] == "/id"


def test_a_refused_text_has_its_place(api: Api) -> None:
    document = problem(
        api.post(SUBSCRIPTIONS, {"expr": "a = 1 AND\nb == 2"}), 422, "invalid_filter"
    )
    assert document["reason"] == "unknown_operator"
    place = (document["pointer"], document["position"], document["line"], document["column"])
    assert place == ("/expr", 12, 2, 3)
    assert "^" in document["excerpt"]
    assert document["hint"]


def test_a_refused_tree_has_its_place(api: Api) -> None:
    tree = {"and": [True, {"attr": "a", "op": "eq", "value": None}]}
    document = problem(api.post(SUBSCRIPTIONS, {"filters": [True, tree]}), 422, "invalid_filter")
    assert (document["reason"], document["pointer"]) == ("null_operand", "/filters/1/and/1/value")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"id": "a", "id": "b", "expr": "x = 1"}', "duplicate_key"),
        (b'{"filter": {"attr": "a", "op": "eq", "value": 1e400}}', "invalid_number"),
        (b"{", "invalid_json"),
        (b'{"id": "\xff"}', "invalid_unicode"),
        (b'{"id": "\\ud800"}', "invalid_unicode"),
    ],
)
def test_json_that_loses_something_is_refused(api: Api, body: bytes, reason: str) -> None:
    refused = api.post(SUBSCRIPTIONS, content=body, headers={"content-type": "application/json"})
    assert problem(refused, 400, "invalid_json")["reason"] == reason


def test_a_repeated_create_is_answered_as_the_first_one(api: Api) -> None:
    form, key = {"expr": "x = 1"}, {"idempotency-key": "k"}
    first = api.post(SUBSCRIPTIONS, form, headers=key)
    again = api.post(SUBSCRIPTIONS, form, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    other = api.post(SUBSCRIPTIONS, {"expr": "x = 2"}, headers=key)
    problem(other, 409, "idempotency_mismatch")
    assert len(api.ids()) == 1


@pytest.mark.parametrize("key", ["", "é" * 101, "k" * 201])
def test_a_key_that_cannot_be_kept_is_refused(api: Api, key: str) -> None:
    form, headers = {"expr": "x = 1"}, {"idempotency-key": key.encode("latin-1")}
    problem(api.post(SUBSCRIPTIONS, form, headers=headers), 400, "invalid_parameter")
    longest = {"idempotency-key": "k" * 200}
    assert api.post(SUBSCRIPTIONS, form, headers=longest).status_code == 201
