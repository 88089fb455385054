"""API keys, scopes, tenants that never see each other, and the API without keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.environment import REPOSITORY
from subscriptions_api.auth import KeyRing, KeysFileError, digest
from subscriptions_api.settings import ApiSettings, is_loopback
from tests.subscriptions_api.client import NDJSON, Api, problem

KEYS = {
    "ann": ("acme", ["publish", "subscribe"]),
    "bob": ("bolt", ["subscribe"]),
    "pub": ("acme", ["publish"]),
    "root": ("acme", ["admin"]),
}


def key_line(key: str, tenant: str, scopes: list[str]) -> str:
    return json.dumps({"tenant": tenant, "scopes": scopes, "blake2b": digest(key)})


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.jsonl"
    file.write_text("\n".join(key_line(key, *KEYS[key]) for key in KEYS) + "\n\n")
    return file


@pytest.fixture
def keyed(keys_file: Path) -> Iterator[Api]:
    with Api(api_keys_file=keys_file) as running:
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_key_is_sent_in_either_header(keyed: Api) -> None:
    path = "/v1/subscriptions"
    for headers in (bearer("ann"), {"x-api-key": "ann"}, {"authorization": "bearer  ann "}):
        assert keyed.get(path, headers=headers).status_code == 200
    wrong: list[dict[str, str]] = [
        {},
        bearer("eve"),
        bearer(digest("ann")),
        {"authorization": "ann"},
        {"authorization": "Basic ann"},
        {"x-api-key": "eve", **bearer("ann")},
    ]
    for headers in wrong:
        refused = keyed.get(path, headers=headers)
        problem(refused, 401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"


READING: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/subscriptions", {"json": {"id": "a", "expr": "x = 1"}}),
    ("GET", "/v1/subscriptions", {}),
    ("GET", "/v1/subscriptions:export", {}),
    ("POST", "/v1/subscriptions:batch", {"content": b"", "headers": NDJSON}),
    ("POST", "/v1/subscriptions:validate", {"json": {"expr": "x = 1"}}),
    ("GET", "/v1/subscriptions/a", {}),
    ("PUT", "/v1/subscriptions/a", {"json": {"expr": "x = 1"}}),
    ("PATCH", "/v1/subscriptions/a", {"json": {}}),
    ("DELETE", "/v1/subscriptions/a", {}),
    ("POST", "/v1/events:match", {"json": {}}),
]
PUBLISHING: tuple[str, str, dict[str, Any]] = ("POST", "/v1/events", {"json": {}})


def test_scopes(keyed: Api) -> None:
    for method, path, given in READING:
        headers = {**given.get("headers", {}), **bearer("pub")}
        problem(keyed(method, path, **{**given, "headers": headers}), 403, "forbidden")
        headers = {**given.get("headers", {}), **bearer("root")}
        assert keyed(method, path, **{**given, "headers": headers}).status_code < 400, path
    method, path, given = PUBLISHING
    problem(keyed(method, path, headers=bearer("bob"), **given), 403, "forbidden")
    for key in ("ann", "pub", "root"):
        assert keyed(method, path, headers=bearer(key), **given).status_code == 202
    assert keyed.get("/v1/store/epoch", headers=bearer("pub")).status_code == 200


def test_every_route_but_the_service_itself_wants_a_key(keyed: Api) -> None:
    for method, path, given in [*READING, PUBLISHING, ("GET", "/v1/store/epoch", {})]:
        problem(keyed(method, path, **given), 401, "unauthorized")
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
        assert keyed.get(path).status_code in (200, 503)


def test_tenants_never_see_each_other(keyed: Api) -> None:
    """What one tenant may do with an id of its own, the other is told does not exist."""
    form = {"id": "a", "expr": "x = 1", "labels": {"l": "1"}}
    path = "/v1/subscriptions/a"
    assert keyed.post("/v1/subscriptions", form, headers=bearer("ann")).status_code == 201
    before = keyed.get(path, headers=bearer("ann")).content
    bob = bearer("bob")
    change = {"expr": "x = 2"}
    for refused in (
        keyed.get(path, headers=bob),
        keyed("PATCH", path, json=change, headers=bob),
        keyed("DELETE", path, headers=bob),
        keyed.put(path, change, headers={**bob, "if-match": '"1"'}),
        keyed.put(path, change, headers={**bob, "if-match": "*"}),
        keyed.post("/v1/events:match?subscription=a", {"x": 1}, headers=bob),
    ):
        problem(refused, 404, "not_found")
    assert keyed.get("/v1/subscriptions?label=l:1", headers=bob).json() == {"subscriptions": []}
    assert keyed.get("/v1/subscriptions:export", headers=bob).content == b""
    assert keyed.post("/v1/events:match", {"x": 1}, headers=bob).json()["count"] == 0
    (told,) = keyed.batch([{"op": "delete", "id": "a"}], headers=bob)
    assert told["code"] == "not_found"
    token = None
    for number in range(2):
        keyed.post("/v1/subscriptions", {**form, "id": f"n{number}"}, headers=bearer("ann"))
    page = keyed.get("/v1/subscriptions?page_size=1", headers=bearer("ann")).json()
    token = page["next_page_token"]
    refused = keyed.get(f"/v1/subscriptions?page_token={token}", headers=bob)
    problem(refused, 400, "invalid_page_token")
    # The same id, label and idempotency key are free for the other tenant.
    key = {"idempotency-key": "k"}
    for who in ("ann", "bob"):
        form = {"id": "own", "expr": f"who = '{who}'"}
        created = keyed.post("/v1/subscriptions", form, headers={**bearer(who), **key})
        assert (created.status_code, created.json()["tenant"]) == (201, KEYS[who][0])
    assert keyed.get(path, headers=bearer("ann")).content == before


def test_keys_come_and_go_while_the_api_runs(keyed: Api, keys_file: Path) -> None:
    def status(key: str) -> int:
        return keyed.get("/v1/subscriptions", headers=bearer(key)).status_code

    keys_file.write_text(key_line("new", "acme", ["subscribe"]))
    assert (status("new"), status("ann")) == (200, 401)
    keys_file.write_text("half a li")
    assert status("new") == 200
    keys_file.unlink()
    assert status("new") == 200


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"tenant": "a", "scopes": ["subscribe"]}',
        '{"tenant": "a", "scopes": ["all"], "blake2b": "0"}',
        '{"tenant": "", "scopes": ["admin"], "blake2b": "0"}',
        '{"tenant": 5, "scopes": ["admin"], "blake2b": "0"}',
    ],
)
def test_a_keys_file_that_is_wrong_at_the_start_says_where(tmp_path: Path, line: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"\n{line}\n")
    with pytest.raises(KeysFileError, match="line 2"):
        KeyRing(file)
    with pytest.raises(KeysFileError, match="cannot read"):
        KeyRing(tmp_path / "none")


def test_without_keys_only_this_machine_is_served(api: Api) -> None:
    for host in ("127.0.0.1:8080", "localhost", "[::1]:1", "127.1.2.3"):
        assert api.get("/v1/subscriptions", headers={"host": host}).status_code == 200
    for host in ("evil.example", "10.0.0.1", "localhost.evil.example"):
        problem(api.get("/v1/subscriptions", headers={"host": host}), 403, "forbidden")


def test_without_keys_no_other_address_is_listened_on(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "herald.example", "10.0.0.1"):
        assert "HERALD_API_KEYS_FILE" in ApiSettings(api_host=host).refusal()
        assert ApiSettings(api_host=host, api_keys_file=tmp_path).refusal() == ""
    for host in ("127.0.0.1", "localhost", "::1"):
        assert is_loopback(host)
        assert ApiSettings(api_host=host).refusal() == ""


def run(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_made_key_opens_its_tenant(tmp_path: Path) -> None:
    made = run("subscriptions_api.keys", "--tenant", "acme", "--scopes", "publish, subscribe")
    assert made.returncode == 0, made.stderr
    key = made.stderr.split()[-1]
    assert key not in made.stdout
    file = tmp_path / "keys"
    file.write_text(made.stdout)
    caller = KeyRing(file).caller(key)
    assert (caller.tenant, sorted(caller.scopes)) == ("acme", ["publish", "subscribe"])
    wrong = run("subscriptions_api.keys", "--tenant", "acme", "--scopes", "all")
    assert wrong.returncode == 2
    assert "publish, subscribe, admin" in wrong.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HERALD_API_HOST": "0.0.0.0"}, "HERALD_API_KEYS_FILE"),
        ({"HERALD_API_PORT": "http"}, "HERALD_API_PORT=http"),
        ({"HERALD_API_KEYS_FILE": "/nowhere"}, "cannot read /nowhere"),
        ({"HERALD_ALGORITHM": "magic"}, "magic"),
    ],
)
def test_a_start_that_cannot_be_says_which_setting_to_mend(
    variables: dict[str, str], words: str
) -> None:
    started = run("subscriptions_api", HERALD_STORE_URL="redis://127.0.0.1:1/0", **variables)
    assert started.returncode in (1, 2)
    assert words in started.stderr
    assert "Traceback" not in started.stderr
