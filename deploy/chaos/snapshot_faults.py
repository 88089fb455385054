"""Faults of snapshot files and of the process that builds them: 11."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from deploy.chaos.faults import FAULTS, Fault, fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.worker_faults import BUILDER, processes
from deploy.chaos.world import SNAPSHOT_CHANGES_MIN, World
from streaming.failpoints import NAMES
from streaming.snapshot_files import find_snapshots, snapshot_path

STILL_S = 5.0
PAGE_BYTES = 4096
TIDY = "a checksum refuses it; an older snapshot or the log serves"


def truncate(path: Path, random: Random) -> None:
    """Cut off the end, anywhere."""
    os.truncate(path, random.randrange(path.stat().st_size))


def flip_bit(path: Path, random: Random) -> None:
    """Change one bit, anywhere."""
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def empty(path: Path, random: Random) -> None:
    """Leave the name without the content, as a file system may after a power failure."""
    path.write_bytes(b"")


def damage_newest(damage: Callable[[Path, Random], None], world: World, random: Random) -> None:
    """The driver finds its newest snapshot damaged when it starts."""
    build_one(world)
    world.stack.stop_service("driver")
    damage(find_snapshots(world.snapshots)[-1].path, random)
    world.healed()
    world.restart_driver()
    world.await_recovery()
    world.await_live()


for _name, _damage in {"truncated": truncate, "bit-flipped": flip_bit, "empty": empty}.items():
    FAULTS.append(
        Fault(
            11,
            f"snapshot {_name}",
            f"the newest snapshot is {_name} while the driver is down",
            TIDY,
            partial(damage_newest, _damage),
            seconds=70,
        )
    )


@fault(
    11,
    "disk full while a snapshot is built",
    "the snapshot process may not write more than a page to any file, as on a full disk",
    "the older snapshot serves on, a later one is built",
    seconds=45,
)
def fill_disk(world: World, random: Random) -> None:
    """The index is complete, and its file cannot be written to the end."""
    build_one(world)
    before = {found.path for found in find_snapshots(world.snapshots)}
    failures = world.metric("herald_snapshot_failures_total")
    world.arm(f"snapshot.built=sleep:{STILL_S:g}!")
    churn(world)
    world.await_mark("snapshot.built")
    builders = processes(world, BUILDER)
    expect(len(builders) == 1, f"there are {len(builders)} snapshot processes")
    resource.prlimit(builders[0], resource.RLIMIT_FSIZE, (PAGE_BYTES, PAGE_BYTES))
    await_failure(world, failures)
    there = {found.path for found in find_snapshots(world.snapshots)}
    expect(there <= before, f"a snapshot was published: {there - before}")
    world.healed()
    world.await_recovery()
    build_one(world)
    expect(world.injection.restarts == 0, "the driver died of it")


def await_failure(world: World, failures: float) -> None:
    """Wait until the driver has counted more failures than these."""
    await_true(
        lambda: world.metric("herald_snapshot_failures_total") > failures,
        "the driver has not noticed that a snapshot failed",
    )


def kill_builder(failpoint: str, world: World, random: Random) -> None:
    """A snapshot is not finished, or finished and not told of; another one is built later."""
    build_one(world)
    failures = world.metric("herald_snapshot_failures_total")
    world.arm(f"{failpoint}=kill!")
    churn(world)
    world.await_mark(failpoint)
    world.healed()
    world.await_recovery()
    await_failure(world, failures)
    build_one(world)
    expect(world.injection.restarts == 0, "the driver died of it")


for _failpoint in (name for name in NAMES if name.startswith("snapshot.")):
    FAULTS.append(
        Fault(
            11,
            f"builder killed at {_failpoint}",
            f"kill -9 where {NAMES[_failpoint].removeprefix('snapshot process: ')}",
            "the older snapshot serves on, a later one is built",
            partial(kill_builder, _failpoint),
            killed="builder",
            seconds=40,
        )
    )


@fault(
    11,
    "snapshot half-renamed",
    "strays lie beside the snapshots",
    "they are passed over",
    seconds=80,
)
def leave_strays(world: World, random: Random) -> None:
    """What a builder that was killed leaves, and a name that is of no epoch the driver knows."""
    build_one(world)
    world.stack.stop_service("driver")
    newest = find_snapshots(world.snapshots)[-1].path
    half = newest.read_bytes()[: newest.stat().st_size // 2]
    (world.snapshots / f".{newest.name}.stray").write_bytes(half)
    snapshot_path(world.snapshots, 10**12).write_bytes(half)
    world.healed()
    world.restart_driver()
    world.await_recovery()
    world.await_live()
    build_one(world)
    snapshot_path(world.snapshots, 10**12).unlink(missing_ok=True)


def churn(world: World) -> None:
    """Change more subscriptions than a snapshot is worth building for."""
    for number in range(SNAPSHOT_CHANGES_MIN + 20):
        world.load.put(f"churn{number % 20}", {"expr": f"level = {number % 100}"})


def build_one(world: World) -> None:
    """See to it that a snapshot newer than now is published."""
    with world.store() as store:
        now = store.newest_epoch()
    churn(world)
    await_true(
        lambda: any(now < found.epoch < 10**12 for found in find_snapshots(world.snapshots)),
        "no snapshot was built",
    )
