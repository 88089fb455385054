"""Judge: what the checker says of a window, and what it cannot see.

The checker knows what was told. Whether the broker has kept every event it acknowledged, and the
store every write, is compared here, with what the load itself was answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from deploy.chaos.injection import Outage
from deploy.chaos.world import World
from deploy.checker import check, place_of
from deploy.history import Acknowledged, History
from deploy.verdicts import Verdict
from index.instants import parse_instant
from store.base import LogEntry, PutChange
from streaming.pins import instant_now

SOON_NS = 1_000_000_000
"""A write may take so long to be heard of, so one shortly before an outage may fall into it."""


def judge(world: World, history: History) -> tuple[Verdict, list[str]]:
    """The checker's verdict, and in words what else does not hold."""
    judged = replace(history, writes=list(excused(world, history)))
    return check(judged), [*lost_events(world, history), *lost_writes(world, history)]


def excused(world: World, history: History) -> Iterator[Acknowledged]:
    """The writes, those of an outage as if they were acknowledged at its end."""
    for write in history.writes:
        yield write._replace(at=shifted(write.at, world.injection.outages))


def shifted(at: str, outages: list[Outage]) -> str:
    """The time of a write, or the end of the outage it fell into."""
    instant = parse_instant(at)
    nanoseconds = instant.seconds * 1_000_000_000 + instant.nanoseconds
    for outage in outages:
        if outage.began - SOON_NS <= nanoseconds < outage.ended:
            nanoseconds = outage.ended
    return instant_now(nanoseconds)


def lost_events(world: World, history: History) -> Iterator[str]:
    """Events that the broker acknowledged and does not have."""
    kept = {place_of(record) for record in history.events}
    for place in world.load.acknowledged_events:
        if place not in kept:
            yield f"event {place} was acknowledged and is not in the topic"


def lost_writes(world: World, history: History) -> Iterator[str]:
    """Writes that the store acknowledged and does not have; gaps in its log."""
    entries = surviving(history.entries)
    for before, entry in pairwise(entries):
        if entry.epoch != before.epoch + 1:
            yield f"the log has no entry between {before.epoch} and {entry.epoch}"
    by_epoch = {entry.epoch: entry for entry in entries}
    for wrote in world.load.wrote:
        known = by_epoch.get(wrote.epoch)
        changes = known.changes if known else ()
        if not any(
            one.id == wrote.id and isinstance(one, PutChange) == wrote.is_there for one in changes
        ):
            yield f"the write of {wrote.id} at epoch {wrote.epoch} was acknowledged and is lost"
    told = {
        (one.id, one.revision)
        for entry in by_epoch.values()
        for one in (change.record for change in entry.changes if isinstance(change, PutChange))
    }
    with world.store() as store:
        _, records = store.scan_all()
        for record in records:
            if (record.id, record.revision) not in told:
                yield f"subscription {record.id} is there, but no entry has its revision"


def surviving(entries: list[LogEntry]) -> list[LogEntry]:
    """The entries of the newest history: of two with one epoch, the later; none beyond the end."""
    kept: list[LogEntry] = []
    for entry in entries:
        while kept and kept[-1].epoch >= entry.epoch:
            kept.pop()
        kept.append(entry)
    return kept
