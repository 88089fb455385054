"""An application and a client for it in one process, used from plain synchronous tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import httpx
import orjson
from anyio.from_thread import start_blocking_portal

from store.memory import MemoryStore
from subscriptions_api.app import create_app
from subscriptions_api.context import Context
from subscriptions_api.publisher import MemoryPublisher, Publisher
from subscriptions_api.settings import ApiSettings

READY_S = 180
NDJSON = {"content-type": "application/x-ndjson"}


class Api:
    """The running application; `with` starts and stops it."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        publisher: Publisher | None = None,
        **settings: Any,
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.publisher = MemoryPublisher() if publisher is None else publisher
        options = ApiSettings.model_validate({"algorithm": "scan", **settings})
        self.app = create_app(options, self.store, self.publisher)
        self._stack = ExitStack()

    @property
    def parts(self) -> Context:
        """The application's own parts."""
        context = self.app.state.context
        assert isinstance(context, Context)
        return context

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(start_blocking_portal())
        lifespan = self.app.router.lifespan_context(self.app)
        self._stack.enter_context(self._portal.wrap_async_context_manager(lifespan))
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        self._client = self._stack.enter_context(self._portal.wrap_async_context_manager(client))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        """One request; `given` as httpx takes it."""

        async def send() -> httpx.Response:
            return await self._client.request(method, path, **given)

        return self._portal.call(send)

    def get(self, path: str, **given: Any) -> httpx.Response:
        """GET."""
        return self("GET", path, **given)

    def post(self, path: str, json: object = None, **given: Any) -> httpx.Response:
        """POST of JSON, or of `content`."""
        return self("POST", path, **given, **({} if json is None else {"json": json}))

    def put(self, path: str, json: object, **given: Any) -> httpx.Response:
        """PUT of JSON."""
        return self("PUT", path, json=json, **given)

    def create(self, subscription_id: str, expr: str = "x = 1", **members: Any) -> dict[str, Any]:
        """A subscription that must be accepted."""
        response = self.post("/v1/subscriptions", {"id": subscription_id, "expr": expr, **members})
        assert response.status_code == 201, response.text
        document: dict[str, Any] = response.json()
        return document

    def batch(
        self, lines: Iterable[object], headers: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The answers to lines, given as objects or as bytes."""
        body = b"\n".join(one if isinstance(one, bytes) else orjson.dumps(one) for one in lines)
        response = self.post(
            "/v1/subscriptions:batch", content=body, headers={**NDJSON, **(headers or {})}
        )
        assert response.status_code == 200, response.text
        return [orjson.loads(line) for line in response.content.splitlines()]

    def wait_ready(self) -> None:
        """Return once dry runs have their index, whose first use may compile it."""
        deadline = time.monotonic() + READY_S
        while self.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline, f"not ready within {READY_S} s"
            time.sleep(0.05)

    def ids(self, query: str = "") -> list[str]:
        """The ids of a listing, through all of its pages."""
        ids: list[str] = []
        token = ""
        while True:
            page = self.get(f"/v1/subscriptions?{query}{token}").json()
            ids += [one["id"] for one in page["subscriptions"]]
            if "next_page_token" not in page:
                return ids
            token = f"&page_token={page['next_page_token']}"


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response that must be this one."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    document: dict[str, Any] = response.json()
    assert (response.status_code, document["status"], document["code"]) == (status, status, code)
    assert document["type"] == f"urn:herald:problem:{code}"
    assert document["title"] and document["detail"]
    return document


async def pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A body that comes in pieces."""
    for part in parts:
        yield part
