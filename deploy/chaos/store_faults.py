"""Faults of the store and of its log: 8, 9, 10, 12 and 13."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import redis

from deploy.chaos.faults import fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.world import World
from store.keys import Keys
from store.settings import StoreSettings

KILLS = 3
AWAY_S = 15.0
"""The specification says ten minutes; nothing that is waited for takes longer than this."""
FULL_CODES = (503, 507)


@contextmanager
def server(world: World) -> Iterator[Any]:
    """Valkey itself, past its proxy and past the store's own functions."""
    with redis.Redis.from_url(world.store_url) as client:
        yield client


@fault(
    8,
    "store killed",
    f"kill -9 of Valkey under writes, {KILLS} times",
    "every write that was acknowledged is there; epochs are dense",
    killed="store",
    seconds=25,
)
def kill_store(world: World, random: Random) -> None:
    """What was answered was on disk."""
    for _ in range(KILLS):
        time.sleep(random.uniform(0.5, 2))
        with world.outage():
            world.kill("valkey")
            world.stack.restart("valkey")
            world.healed()
    world.await_recovery()


@fault(
    9,
    "store gone back",
    "Valkey is killed and started with a copy of some seconds before, as after a failover that "
    "lost its tail",
    "the driver notices; no subscription that is gone is notified",
    seconds=25,
)
def set_store_back(world: World, random: Random) -> None:
    """Writes that were acknowledged are gone, and their epochs come again with other content."""
    folder, copy = world.folder / "valkey", world.folder / "valkey-copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    time.sleep(3)
    world.await_live()
    lost_before = world.metric("herald_epochs_lost_total")
    world.load.pause()
    with world.outage():
        world.kill("valkey")
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        world.stack.restart("valkey")
        with world.store() as store:
            world.forget_writes_after(store.newest_epoch())
        world.load.go()
        await_true(
            lambda: world.metric("herald_epochs_lost_total") > lost_before,
            "the driver has not noticed that the store went back",
        )
        world.healed()
    world.await_recovery()


@fault(
    10,
    "log trimmed past the driver",
    "the log loses all entries that a stopped driver has not read",
    "a snapshot of the store is taken instead; nothing is skipped",
    seconds=50,
)
def trim_log(world: World, random: Random) -> None:
    """The driver is slower than the log is long."""
    log = Keys(StoreSettings().namespace).log
    world.stack.stop_service("driver")
    time.sleep(3)
    with world.store() as store, server(world) as client:
        newest = store.newest_epoch()
        world.recorder.await_epoch(newest)
        client.xtrim(log, minid=f"{newest}-0", approximate=False)
    world.healed()
    world.restart_driver()
    world.await_recovery()
    world.await_live()


@fault(
    10,
    "log entry missing",
    "an entry is deleted from the log before a driver that sleeps has read it",
    "as above",
    seconds=20,
)
def delete_entry(world: World, random: Random) -> None:
    """The log has a hole in the middle of what is to be read."""
    log = Keys(StoreSettings().namespace).log
    with world.outage(), world.store() as store, server(world) as client:
        world.stack.kill("driver", signal.SIGSTOP)
        try:
            first = store.newest_epoch() + 3
            await_true(lambda: store.newest_epoch() > first + 5, "nothing was written")
            world.recorder.await_epoch(first + 2)
            expect(client.xdel(log, f"{first}-0") == 1, f"there was no entry {first}")
        finally:
            world.stack.kill("driver", signal.SIGCONT)
        world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")


@fault(
    12,
    "store full",
    "maxmemory is set to what is in use",
    "writes answer 507 or 503; matching goes on",
    seconds=15,
)
def fill_store(world: World, random: Random) -> None:
    """Nothing is evicted, and nothing more taken."""
    with world.outage(), server(world) as client:
        client.config_set("maxmemory", 1)
        try:
            await_true(
                lambda: any(world.load.statuses[code] for code in FULL_CODES),
                "no write was refused",
            )
            world.healed()
            world.await_recovery()
        finally:
            client.config_set("maxmemory", 0)
    refused = set(world.load.statuses) - {200, 201, 204, 404, *FULL_CODES}
    expect(not refused, f"writes were answered by {refused}")


def store_away(world: World, act: str) -> None:
    """The store cannot be reached for a while, by API and driver."""
    done = world.metric("herald_batches_total")
    with world.outage():
        if act == "cut":
            world.store_proxy.cut()
        else:
            world.store_proxy.hold()
        try:
            world.wait(AWAY_S)
            expect(world.metric("herald_store_up") == 0, "herald_store_up is not 0")
            expect(world.metric("herald_batches_total") > done, "matching does not go on")
        finally:
            world.store_proxy.heal()
        world.healed()
        # nothing was written meanwhile: without this, a driver that still waits to try again
        # would pass for one that has read everything
        await_true(lambda: world.metric("herald_store_up") == 1, "herald_store_up is not 1 again")
    world.await_recovery()


@fault(
    13,
    "store unreachable",
    f"connections to Valkey are refused for {AWAY_S:g} s",
    "matching goes on at the last epoch with an alarm, and catches up",
)
def cut_store(world: World, random: Random) -> None:
    """As when the server is down."""
    store_away(world, "cut")


@fault(13, "store silent", f"Valkey does not answer for {AWAY_S:g} s", "as above")
def hold_store(world: World, random: Random) -> None:
    """As when the network is parted."""
    store_away(world, "hold")
