"""The API as a process, with the real store and the real Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.settings import StackSettings
from deploy.stack import Stack
from subscriptions_api.limits import CHUNK_OPERATIONS
from tests.subscriptions_api.client import NDJSON, problem

pytestmark = [pytest.mark.connected, pytest.mark.slow]

WAIT_S = 60
CONTEXT = {"ce-id": "1", "ce-source": "/s", "ce-specversion": "1.0", "ce-type": "t"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Store, Kafka and API."""
    settings = StackSettings().on_free_ports()
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, settings, ("kafka", "valkey", "api")) as running:
        yield running


@pytest.fixture
def client(stack: Stack) -> Iterator[httpx.Client]:
    """A client of the API."""
    address = f"http://127.0.0.1:{stack.env['HERALD_API_PORT']}"
    with httpx.Client(base_url=address, timeout=WAIT_S, trust_env=False) as open_client:
        yield open_client


def kafka_record(stack: Stack, address: dict[str, object]) -> tuple[object, object, object]:
    """Key, value and headers of a record."""
    consumer = Consumer(
        {"bootstrap.servers": stack.env["HERALD_KAFKA_BOOTSTRAP"], "group.id": "test"}
    )
    try:
        place = (str(address["topic"]), int(str(address["partition"])), int(str(address["offset"])))
        consumer.assign([TopicPartition(*place)])
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None
        return message.key(), message.value(), message.headers()
    finally:
        consumer.close()


def test_events_lie_where_the_api_says(stack: Stack, client: httpx.Client) -> None:
    body = b'{ "x": 1 }'
    headers = {"content-type": "application/json"}
    sent = client.post("/v1/events?key=k", content=body, headers=headers)
    assert sent.status_code == 202
    assert kafka_record(stack, sent.json()) == (b"k", body, None)
    sent = client.post("/v1/events", content=b"\xff", headers={**CONTEXT, "content-type": "a/b"})
    _, value, record_headers = kafka_record(stack, sent.json())
    assert value == b"\xff"
    assert isinstance(record_headers, list)
    assert sorted(record_headers) == [
        ("ce_id", b"1"),
        ("ce_source", b"/s"),
        ("ce_specversion", b"1.0"),
        ("ce_type", b"t"),
        ("content-type", b"a/b"),
    ]
    largest = b'{"x":"' + b"x" * (2**20 - 8) + b'"}'
    assert client.post("/v1/events", content=largest, headers=headers).status_code == 202
    too_large = client.post(
        "/v1/events", content=b"x" * (4 * 2**20), headers=CONTEXT | {"content-type": "a/b"}
    )
    problem(too_large, 413, "too_large")


def test_a_batch_is_durable_listed_and_matched(client: httpx.Client) -> None:
    count = 2 * CHUNK_OPERATIONS + 1
    lines = [
        orjson.dumps({"id": f"s{number}", "expr": f"x = {number}", "labels": {"in": "batch"}})
        for number in range(count)
    ]
    key = {"idempotency-key": "batch"}
    first, again = (
        client.post("/v1/subscriptions:batch", content=b"\n".join(lines), headers={**NDJSON, **key})
        for _ in range(2)
    )
    told = [orjson.loads(line) for line in first.content.splitlines()]
    assert [one["line"] for one in told] == list(range(1, count + 1))
    assert {one["status"] for one in told} == {201}
    assert len({one["epoch"] for one in told}) == 3
    repeated = [orjson.loads(line) for line in again.content.splitlines()]
    assert all(one.pop("replayed") for one in repeated)
    assert repeated == told
    exported = client.get("/v1/subscriptions:export?label=in:batch").content.splitlines()
    assert sorted(orjson.loads(line)["id"] for line in exported) == sorted(
        one["id"] for one in told
    )
    deadline = time.monotonic() + WAIT_S
    while (answer := client.post("/v1/events:match", json={"x": 7})).status_code == 503:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [one["id"] for one in answer.json()["matches"]] == ["s7"]


def test_a_store_that_goes_and_comes_back(stack: Stack, client: httpx.Client) -> None:
    form = {"expr": "x = 1"}
    assert client.put("/v1/subscriptions/kept", json=form).status_code in (200, 201)
    stack.stop_service("valkey")
    problem(client.get("/v1/subscriptions/kept"), 503, "store_unavailable")
    refused = client.put("/v1/subscriptions/kept", json=form)
    problem(refused, 503, "store_unavailable")
    assert refused.headers["retry-after"]
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    stack.start_services(["valkey"])
    deadline = time.monotonic() + WAIT_S
    while client.get("/v1/subscriptions/kept").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert client.put("/v1/subscriptions/kept", json=form).status_code == 200


def test_a_kafka_that_is_gone(stack: Stack, client: httpx.Client) -> None:
    stack.stop_service("kafka")
    headers = {"content-type": "application/json"}
    refused = client.post("/v1/events", content=b"{}", headers=headers)
    problem(refused, 503, "kafka_unavailable")
    assert client.post("/v1/subscriptions", json={"expr": "x = 1"}).status_code == 201
