"""Faults of clocks: 18."""

from __future__ import annotations

import time
from functools import partial
from random import Random

import httpx
import redis

from deploy.chaos.clock import COMPILER, Clock
from deploy.chaos.faults import FAULTS, Fault
from deploy.chaos.injection import Outage, expect
from deploy.chaos.world import World
from index.instants import parse_instant
from streaming.pins import instant_now

HOUR_S = 3600
APART_S = 6.0
FOLLOWING = ("valkey", "api", "driver")
NEAR_S = 60.0
DUE = "due"
"""A subscription that expires halfway between the two times of the clocks."""


def jump(hours: int, world: World, random: Random) -> None:
    """The clocks of store, API and driver jump, stay so for some seconds, and jump back."""
    clock = Clock(world.folder)
    before = world.stack.env.copy()
    world.stack.env.update(clock.environment)
    try:
        restart(world)
        began = time.time_ns()
        put_due(world, instant_now(began + hours * HOUR_S * 10**9 // 2))
        world.await_live()
        # Nobody can say what came a second before a batch whose clock has jumped.
        outage = Outage(began)
        world.injection.outages.append(outage)
        pins = len(world.recorder.pins)
        clock.set(hours * HOUR_S)
        time.sleep(APART_S)
        expect_set(world, pins, hours)
        clock.set(0)
        time.sleep(APART_S)
        outage.ended = time.time_ns() + HOUR_S * 10**9
        world.healed()
        world.await_recovery()
        expect(world.injection.restarts == 0, "the driver died of it")
    finally:
        world.stack.env = before
    restart(world)
    world.await_live()
    world.load.delete(DUE)


for _hours, _way in {1: "ahead", -1: "back"}.items():
    FAULTS.append(
        Fault(
            18,
            f"clocks an hour {_way}",
            f"the clocks of store, API and driver jump an hour {_way}, for {APART_S:g} s",
            "expiry goes by the pinned time; epochs stay dense",
            partial(jump, _hours),
            seconds=100,
            needs=COMPILER,
        )
    )


def restart(world: World) -> None:
    """Start what has a clock of its own with the environment of the stack, users last."""
    with world.outage():
        for name in FOLLOWING:
            world.stack.restart(name)


def put_due(world: World, expires_at: str) -> None:
    """Subscribe to all events of the load until some time."""
    form = {"expr": "level >= 0", "mode": "compact", "expiresat": expires_at}
    status = world.load.put(DUE, form)
    expect(status in (200, 201), f"a subscription was answered by {status}")


def expect_set(world: World, pins: int, hours: int) -> None:
    """Broken unless store, API and driver are so many hours from this process."""
    there = time.time() + hours * HOUR_S
    with redis.Redis.from_url(world.store_url) as client:
        seconds, _ = client.time()
    expect(abs(seconds - there) < NEAR_S, f"the store's clock is at {seconds}, not at {there:.0f}")
    answer = httpx.post(
        f"{world.api}/v1/events:match",
        params={"subscription": DUE},
        json={"level": 1},
        timeout=30,
        trust_env=False,
    )
    expect(
        answer.status_code == 200 and answer.json()["matches"] == (hours < 0),
        f"the API does not judge expiry by its clock: {answer.text}",
    )
    newest = world.recorder.pins[-1]
    expect(len(world.recorder.pins) > pins, "no batch was pinned meanwhile")
    seconds = parse_instant(newest.now).seconds
    expect(abs(seconds - there) < NEAR_S, f"batch {newest.batch} was pinned at {newest.now}")
