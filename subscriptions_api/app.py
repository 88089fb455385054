"""The application: routes, errors, and the parts that they share, wired in one place."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from store.base import SubscriptionStore
from store.errors import StoreError
from subscriptions_api import (
    batch_routes,
    event_routes,
    listing_routes,
    match_routes,
    service_routes,
    subscription_routes,
)
from subscriptions_api.auth import KeyRing
from subscriptions_api.context import Context
from subscriptions_api.description import describe
from subscriptions_api.errors import MEDIA_TYPE, Problem, of_store
from subscriptions_api.follower import Follower
from subscriptions_api.limits import RateLimit
from subscriptions_api.metrics import Metrics
from subscriptions_api.publisher import Publisher
from subscriptions_api.settings import ApiSettings
from subscriptions_api.threads import Threads

_log = logging.getLogger(__name__)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods that metrics tell apart: a client may make up any number of others."""
ROUTED_CODES = {404: "no_route", 405: "method_not_allowed"}


def create_app(settings: ApiSettings, store: SubscriptionStore, publisher: Publisher) -> FastAPI:
    """An application on a store and a publisher, which it closes at its end."""
    metrics = Metrics()
    threads = Threads()
    follower = Follower(
        store, settings.algorithm, writing=lambda: threads.batches.borrowed_tokens > 0
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        follower.start()
        yield
        follower.stop()
        publisher.close()
        store.close()

    app = FastAPI(
        title="Herald",
        version="1",
        lifespan=lifespan,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.context = Context(
        settings,
        store,
        publisher,
        follower,
        KeyRing(settings.api_keys_file),
        metrics,
        RateLimit("writes", settings.writes_per_s),
        RateLimit("events", settings.events_per_s),
        RateLimit("dry runs", settings.dry_runs_per_s),
        threads,
    )
    for routes in (
        subscription_routes,
        listing_routes,
        batch_routes,
        event_routes,
        match_routes,
        service_routes,
    ):
        app.include_router(routes.router)
    app.openapi = partial(describe, app)  # type: ignore[method-assign]
    app.add_middleware(Measure, metrics=metrics)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(StoreError, _on_store_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_exception)
    return app


class Measure:
    """Counts and times requests by route; the route is a template, so labels are few."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note how it went."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - started
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.request_seconds.labels(method, route).observe(seconds)


def problem_response(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A problem as RFC 9457 has it."""
    document = {**problem.document(), "instance": request.url.path}
    headers = {**problem.headers(), **(headers or {})}
    return JSONResponse(document, problem.status, headers, media_type=MEDIA_TYPE)


def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return problem_response(request, error)


def _on_store_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StoreError)
    problem = of_store(error)
    if problem.status == 500:
        _log.error("%s %s: %s", request.method, request.url.path, error)
    return problem_response(request, problem)


def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    return problem_response(request, Problem("invalid_parameter", f"{name}: {first['msg']}"))


def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = ROUTED_CODES.get(error.status_code, "invalid_parameter")
    detail = f"{request.method} {request.url.path}: {error.detail}"
    problem = Problem(code, detail, "the paths are listed at /docs")
    return problem_response(request, problem, error.headers)


def _on_exception(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s", request.method, request.url.path, exc_info=error)
    return problem_response(
        request, Problem("internal", "an unexpected error", "the API's log has the details")
    )
