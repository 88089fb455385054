"""Routes about the service itself: the epoch barrier, health, readiness, metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from store.base import Reader
from store.errors import StoreError
from subscriptions_api.context import AnyCaller, Context, Parts
from subscriptions_api.errors import Problem
from subscriptions_api.schemas import EpochAnswer, JsonAnswer, ServiceStatus

router = APIRouter()

QUERY_PREFIX = "query:"
"""Readers of this kind are streaming queries; others (a snapshot builder) notify nobody."""
POLL_S = 0.005
POLL_S_MAX = 0.05


@router.get("/v1/store/epoch", tags=["store"], response_model=EpochAnswer)
async def epoch(
    parts: Parts,
    caller: AnyCaller,
    least: Annotated[int | None, Query(alias="min")] = None,
    timeout: float = 10.0,
) -> JsonAnswer:
    """The newest epoch; with `min`, once that epoch is live in every running query.

    Live means: every event published from now on is matched at that epoch or a newer one.
    """
    newest = await run_in_threadpool(parts.store.newest_epoch)
    if least is None:
        return JsonAnswer(told(newest, await run_in_threadpool(queries, parts)))
    if not 0 <= timeout <= parts.settings.barrier_timeout_s_max:
        limit = parts.settings.barrier_timeout_s_max
        raise Problem("invalid_parameter", f"timeout is 0 to {limit:g} seconds, not {timeout:g}")
    if least > newest:
        raise Problem("invalid_parameter", f"there is no epoch {least} yet, only {newest}")
    with parts.metrics.barrier_seconds.time():
        return JsonAnswer(await wait_live(parts, least, timeout))


async def wait_live(parts: Context, least: int, timeout: float) -> dict[str, Any]:
    """Wait until every live query reports the epoch; Problem `epoch_timeout` if it takes longer."""
    deadline = time.monotonic() + timeout
    pause = POLL_S
    while True:  # in no thread of its own: many may wait, and long
        live = await run_in_threadpool(queries, parts)
        if live and all(reader.epoch >= least for reader in live):
            return told(await run_in_threadpool(parts.store.newest_epoch), live)
        if time.monotonic() >= deadline:
            behind = [f"{one.name} is at {one.epoch}" for one in live if one.epoch < least]
            raise Problem(
                "epoch_timeout",
                f"epoch {least} is not live after {timeout:g} s: "
                + ("; ".join(behind) or "no query runs"),
                "ask again with a longer timeout; if no query runs, start one",
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, POLL_S_MAX)  # most epochs are live at once


def queries(parts: Context) -> list[Reader]:
    """The streaming queries that reported lately."""
    return [one for one in parts.store.readers() if one.live and one.name.startswith(QUERY_PREFIX)]


def told(newest: int, live: list[Reader]) -> dict[str, Any]:
    """The answer: the newest epoch, the one live everywhere, and each query."""
    return {
        "epoch": newest,
        "live": min((one.epoch for one in live), default=None),
        "queries": [
            {"name": one.name.removeprefix(QUERY_PREFIX), "epoch": one.epoch} for one in live
        ],
    }


@router.get("/healthz", tags=["service"], response_model=ServiceStatus)
async def healthz() -> JsonAnswer:
    """Whether the process answers at all."""
    return JsonAnswer({"status": "ok"})


@router.get(
    "/readyz",
    tags=["service"],
    response_model=ServiceStatus,
    responses={503: {"model": ServiceStatus, "description": "Not yet"}},
)
def readyz(parts: Parts) -> JsonAnswer:
    """Whether requests can be served: the store answers and dry runs have their index."""
    try:
        parts.store.ping()
    except StoreError as error:
        return JsonAnswer({"status": "waiting", "waiting_for": error.message}, 503)
    if not parts.follower.loaded:
        return JsonAnswer({"status": "waiting", "waiting_for": "the index of dry runs"}, 503)
    return JsonAnswer({"status": "ready"})


@router.get("/metrics", tags=["service"])
def metrics(parts: Parts) -> Response:
    """Everything of `subscriptions_api.metrics` in Prometheus' text format."""
    return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)
