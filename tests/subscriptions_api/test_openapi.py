"""The OpenAPI file is that of the code, and docs/rest.md tells of every route and setting."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from deploy.environment import REPOSITORY
from subscriptions_api.errors import PROBLEMS
from subscriptions_api.metrics import Metrics
from subscriptions_api.openapi import FILE, document, main
from subscriptions_api.settings import ApiSettings
from tests.subscriptions_api.client import Api

DOCS = (REPOSITORY / "docs" / "rest.md").read_text(encoding="utf-8")
OPENAPI = json.loads(FILE.read_text(encoding="utf-8"))
OPERATIONS = [
    (path, method, operation)
    for path, operations in OPENAPI["paths"].items()
    for method, operation in operations.items()
]


def test_the_file_is_that_of_the_code() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), (
        "python -m subscriptions_api.openapi writes it anew"
    )


def test_the_check_tells_an_old_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["openapi", "--check"])
    assert main() == 0
    monkeypatch.setattr("subscriptions_api.openapi.document", lambda: "another")
    assert main() == 1
    assert "python -m subscriptions_api.openapi" in capsys.readouterr().out


def test_the_api_serves_it(api: Api) -> None:
    assert api.get("/openapi.json").json() == OPENAPI
    assert "Herald" in api.get("/docs").text


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_is_complete(path: str, method: str, operation: dict[str, object]) -> None:
    assert operation["summary"] and operation["operationId"]
    responses = operation["responses"]
    assert isinstance(responses, dict)
    assert "default" in responses
    assert "422" not in responses
    assert ("security" in operation) is path.startswith("/v1/")
    assert f"{method.upper()} {path}".replace("{subscription_id}", "{id}") in DOCS


def test_the_problems_are_those_of_the_catalogue() -> None:
    assert OPENAPI["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == sorted(
        PROBLEMS
    )


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `HERALD_(\w+)` \| (.*?) \|", DOCS, re.MULTILINE))
    defaults = {
        name.upper(): "" if field.default is None else f"`{field.default}`"
        for name, field in ApiSettings.model_fields.items()
    }
    assert rows == defaults


def test_every_metric_is_documented() -> None:
    names = {
        sample.name
        for family in Metrics().registry.collect()
        for sample in family.samples
        if not sample.name.endswith(("_created", "_bucket", "_sum"))
    }
    families = {family.name for family in Metrics().registry.collect()}
    assert families
    for name in families:
        assert f"`{name}" in DOCS, name
    assert all(name.startswith("herald_api_") for name in names)


def request_of(words: list[str]) -> tuple[str, str, dict[str, Any]]:
    """The request that a curl command makes."""
    method, path, headers, given = "GET", "", {}, dict[str, Any]()
    rest = iter(words)
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d" | "--data-binary":
                method, given["content"] = "POST" if method == "GET" else method, next(rest)
            case _:
                path = word.removeprefix("$API")
    return method, path, {**given, "headers": headers}


def test_the_examples_run(api: Api) -> None:
    """Each curl of docs/rest.md, in order, has the status that stands behind it."""
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    calls = re.findall(r"^curl (.*?)# (\d{3})$", "".join(blocks), re.MULTILINE | re.DOTALL)
    assert len(calls) >= 8
    for words, status in calls:
        method, path, given = request_of(shlex.split(words.replace("\\\n", "")))
        response = api(method, path, **given)
        assert response.status_code == int(status), f"{words}: {response.text}"
