"""Steps: what may happen next in a world, and how likely it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from store.base import Delete, Operation, Put
from store.records import Mode, SubscriptionRecord
from streaming.changes import files_of
from streaming.pins import instant_now
from streaming.snapshot_files import SnapshotFile, find_snapshots
from tests.simulation.broker import Sent
from tests.simulation.driver import Driver
from tests.simulation.world import World

READER = "query:simulated"
NAMES = tuple(f"s{number}" for number in range(6))
TENANTS = ("acme", "other")
FILTERS: tuple[object, ...] = (
    True,
    {"attr": "a", "op": "eq", "value": 1},
    {"attr": "a", "op": "ge", "value": 2},
    {"attr": "b", "op": "exists"},
    {"or": [{"attr": "a", "op": "eq", "value": 0}, {"attr": "b", "op": "eq", "value": "x"}]},
    {"not": {"attr": "a", "op": "eq", "value": 3}},
    {"attr": "b", "op": "like", "value": "x%"},
    {"attr": "type", "op": "eq", "value": "order"},
)
EVENTS: tuple[bytes | None, ...] = (
    *(b'{"a":%d}' % number for number in range(4)),
    b'{"a":1,"b":"x"}',
    b'{"b":"xy"}',
    b'{"b":null}',
)
DEAD_EVENTS: tuple[bytes | None, ...] = (None, b"{", b"\xff", b'{"a":NaN}', b'{"a":1,"a":2}', b"[]")
CLOUDEVENT = (("ce_specversion", b"1.0"), ("ce_id", b"e"), ("ce_type", b"order"))
HOPPED = (*CLOUDEVENT, ("ce_heraldhops", b"5"))


def publish(world: World) -> None:
    """Some events, of which a few are none."""
    course = world.course
    for _ in range(1 + course.below(4)):
        value = course.pick(DEAD_EVENTS if course.chance(0.1) else EVENTS)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if course.chance(0.15):
            headers = HOPPED if course.chance(0.2) else CLOUDEVENT
        key = course.pick((None, b"k", b"l"))
        record = world.broker.append(Sent("events", key, headers, value))
        course.note(f"event {record.partition}@{record.offset} {value!r}")


def write(world: World) -> None:
    """One write of some operations."""
    course = world.course
    operations = [_drawn_operation(world) for _ in range(1 + course.below(3))]
    course.note(f"write {', '.join(map(_describe, operations))}")
    world.write(operations)


def _drawn_operation(world: World) -> Operation:
    course = world.course
    tenant, name = course.pick(TENANTS), course.pick(NAMES)
    if course.chance(0.25):
        return Delete(tenant, name)
    expires_at = None
    if course.chance(0.2):
        expires_at = instant_now(world.wall_ns() + (course.below(40) - 10) * 1_000_000_000)
    return Put(
        SubscriptionRecord(
            tenant,
            name,
            (course.pick(FILTERS),),
            enabled=not course.chance(0.1),
            expires_at=expires_at,
            consumer_key="desk" if course.chance(0.2) else None,
            mode=course.pick((Mode.THIN, Mode.THIN, Mode.FULL, Mode.COMPACT)),
        )
    )


def _describe(operation: Operation) -> str:
    if isinstance(operation, Delete):
        return f"delete {operation.tenant}/{operation.id}"
    record = operation.record
    return f"put {record.tenant}/{record.id} {record.filters[0]} {record.mode}" + (
        "" if record.enabled else " disabled"
    )


def run_batch(world: World) -> None:
    idle = [driver for driver in world.drivers if not driver.in_batch]
    if idle:
        world.run_batch(world.course.pick(idle))


def start_driver(world: World) -> None:
    """A driver where there is none, as a supervisor does it; or a second one beside it."""
    if not world.drivers or ("second driver" in world.faults and len(world.drivers) < 2):
        if not world.drivers or world.course.chance(0.3):
            world.start_driver()


def kill_driver(world: World) -> None:
    if (driver := _idle_driver(world)) is not None:
        world.kill(driver)
        if world.course.chance(0.3):
            _tear_changes(world)


def kill_worker(world: World) -> None:
    if (driver := _idle_driver(world)) is not None:
        driver.frame.kill_worker()


def run_snapshot_process(world: World) -> None:
    """A snapshot process that was started runs, whether or not its driver lives."""
    waiting = [one for one in world.snapshot_processes if one.returncode is None]
    if waiting:
        world.course.note("a snapshot process runs")
        waiting[0].run()


def pass_time(world: World) -> None:
    world.pass_time(world.course.pick((0.05, 0.3, 0.9, 3.0, 12.0)))


def break_store(world: World) -> None:
    """The store goes away, for all or for drivers only; or comes back."""
    if "store away" in world.faults and not world.course.calm:
        world.store_is_away = not world.store_is_away
        world.course.note(f"the store is {'away' if world.store_is_away else 'back'}")


def cut_driver_off(world: World) -> None:
    if "driver cut off" in world.faults and not world.course.calm:
        world.driver_is_cut_off = not world.driver_is_cut_off
        world.course.note(f"drivers are {'cut off' if world.driver_is_cut_off else 'connected'}")


def lose_tail(world: World) -> None:
    """A failover to a replica that lags."""
    kept = world.store._log
    if kept and not world.store_is_away:
        lost = 1 + world.course.below(min(3, len(kept)))
        epoch = kept[-1].epoch - lost
        world.course.note(f"the store fails over and is at {epoch} again")
        world.lose_tail(epoch)


def trim_log(world: World) -> None:
    """The log is cut although a reader still needs it: it was silent for too long."""
    store = world.store
    if world.store_is_away:
        return
    for reader in store.readers():
        store.forget_reader(reader.name)
    for epoch in (store.newest_epoch() - 1, store.newest_epoch()):
        store.report_snapshot(max(0, epoch))
    world.course.note(f"the log is trimmed to {store.trim().epoch}")


def damage_snapshot(world: World) -> None:
    """A snapshot is cut, has a wrong bit, or is gone; others may have it mapped and keep it."""
    found = find_snapshots(world.settings.snapshot_dir)
    if not found:
        return
    victim = world.course.pick(found)
    how = world.course.pick(("truncated", "flipped", "missing"))
    world.course.note(f"the snapshot of epoch {victim.epoch} is {how}")
    if how == "missing":
        victim.path.unlink()
        return
    content = bytearray(victim.path.read_bytes())
    if how == "truncated":
        content = content[: world.course.below(len(content))]
    else:
        place = flipped_byte(world, victim, bytes(content))
        content[place] ^= 1 << world.course.below(8)
    replace_file(world, victim.path, bytes(content))


def flipped_byte(world: World, victim: SnapshotFile, content: bytes) -> int:
    """Where a bit goes wrong: anywhere."""
    return world.course.below(len(content))


def replace_file(world: World, path: Path, content: bytes) -> None:
    """Another file in its place, changed at another time: what is mapped must stay as it was."""
    aside = path.with_suffix(".damaged")
    aside.write_bytes(content)
    os.utime(aside, ns=(0, world.wall_ns()))
    os.replace(aside, path)


def lose_snapshots(world: World) -> None:
    """The folder of snapshots is lost, between two drivers or under a living one."""
    if world.settings.snapshot_dir.exists():
        world.course.note("the snapshot folder is lost")
        shutil.rmtree(world.settings.snapshot_dir)


def lose_checkpoint(world: World) -> None:
    if not world.drivers and world.settings.checkpoint_dir.exists():
        world.course.note("the checkpoint is lost")
        world.has_lost_checkpoint = True
        shutil.rmtree(world.settings.checkpoint_dir)


def copy_checkpoint(world: World) -> None:
    """An older copy of the checkpoint is kept, or takes its place."""
    folder = world.settings.checkpoint_dir
    copy = folder.with_name("copy")
    if world.drivers or not folder.exists():
        return
    if not copy.exists():
        shutil.copytree(folder, copy)
        world.course.note("the checkpoint is copied")
    else:
        world.course.note("an older checkpoint is restored")
        world.has_lost_checkpoint = True
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)


def jump_clock(world: World) -> None:
    """The clock of drivers or of the store jumps by up to an hour, to either side."""
    jump_ns = (world.course.below(7_200) - 3_600) * 1_000_000_000
    if world.course.chance(0.5):
        world.course.note(f"the store's clock jumps {jump_ns // 10**9} s")
        world.store_offset_ns += jump_ns
    else:
        world.jump_wall(jump_ns)


def deliver_late(world: World) -> None:
    """Requests to the broker arrive although their driver has given them up, or is dead."""
    for link in world.links:
        link.deliver_late()


def _idle_driver(world: World) -> Driver | None:
    idle = [one for one in world.drivers if not one.in_batch and not one.in_tail]
    return world.course.pick(idle) if idle else None


def _tear_changes(world: World) -> None:
    """The driver died while it appended a line."""
    files = files_of(world.settings.snapshot_dir)
    if files:
        world.course.note("its last line of changes is torn")
        with files[-1][1].open("ab") as file:
            file.write(b'{"epoch":99,"line')


Step = Callable[[World], None]
STEPS: dict[Step, float] = {
    publish: 5,
    write: 5,
    run_batch: 6,
    start_driver: 3,
    pass_time: 3,
    run_snapshot_process: 2,
    kill_worker: 0.3,
    deliver_late: 0.5,
}
FAULTY_STEPS: dict[str, tuple[Step, float]] = {
    "kill": (kill_driver, 0.7),
    "store away": (break_store, 0.7),
    "driver cut off": (cut_driver_off, 0.7),
    "lost tail": (lose_tail, 0.5),
    "trimmed log": (trim_log, 0.5),
    "damaged snapshot": (damage_snapshot, 0.8),
    "lost snapshots": (lose_snapshots, 0.2),
    "lost checkpoint": (lose_checkpoint, 2.0),
    "old checkpoint": (copy_checkpoint, 1.5),
    "clocks jump": (jump_clock, 0.5),
}


def weights_of(world: World) -> dict[Step, float]:
    """The steps of a world, by weight."""
    faulty = dict(step for fault, step in FAULTY_STEPS.items() if fault in world.faults)
    return STEPS | faulty


def take_step(world: World) -> None:
    """One step, drawn."""
    world.course.pick_by_weight(world.weights)(world)
    world.pass_time(0.01 * world.course.below(10))
