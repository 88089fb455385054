"""The subscriptions as they stood at any epoch, from the entries of the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from deploy.verdicts import Told
from index.evaluate import truth
from index.model import Filter, Instant
from store.base import Change, LogEntry, PutChange
from streaming.target import Target, decode_target, subscription_of


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription that was there, as the checker sees it."""

    told: Told
    target: Target
    filter: Filter

    def matches(self, event: dict[str, object], now: Instant) -> bool:
        """Is it to be told of an event?"""
        return not self.target.has_expired(now) and truth(self.filter, event, now) is True


class States:
    """What was subscribed, by epoch and lineage.

    A lineage begins where the store lost the end of the one before: it goes on from the entries
    that are older than its first.
    """

    def __init__(self, entries: Iterable[LogEntry]) -> None:
        self._chains: dict[str, list[LogEntry]] = {}
        newest: list[LogEntry] = []
        for entry in entries:
            chain = self._chains.get(entry.lineage)
            if chain is None:
                kept = [known for known in newest if known.epoch < entry.epoch]
                chain = self._chains[entry.lineage] = kept
            if not chain or chain[-1].epoch < entry.epoch:
                chain.append(entry)
            newest = chain
        self._newest = newest
        self._lineage, self._next = "", 0
        self._living: dict[tuple[str, str], Subscribed] = {}

    def went_on(self, epoch: int, lineage: str) -> bool:
        """Whether the store had an epoch when it was given a later one: it cannot have lost it."""
        place = bisect_right(self._newest, epoch, key=lambda entry: entry.epoch)
        is_last = place == len(self._newest)
        return not is_last and (place == 0 or self._newest[place - 1].lineage == lineage)

    def at(self, epoch: int, lineage: str) -> list[Subscribed]:
        """The subscriptions that may match at an epoch; ValueError if its entries are not known.

        Asking for ascending epochs of one lineage costs no more than its entries.
        """
        chain = self._chains.get(lineage, [])
        stop = bisect_right(chain, epoch, key=lambda entry: entry.epoch)
        if epoch and (stop == 0 or chain[stop - 1].epoch != epoch):
            raise ValueError(f"it has no entry of epoch {epoch} in lineage {lineage!r}")
        if lineage != self._lineage or stop < self._next:
            self._lineage, self._next, self._living = lineage, 0, {}
        for entry in chain[self._next : stop]:
            for change in entry.changes:
                self._living.pop((change.tenant, change.id), None)
                subscribed = _subscribed(change)
                if subscribed is not None:
                    self._living[change.tenant, change.id] = subscribed
        self._next = stop
        return list(self._living.values())


def _subscribed(change: Change) -> Subscribed | None:
    """A subscription after a change; None if it is gone, disabled, or of a later version."""
    if not isinstance(change, PutChange):
        return None
    try:
        subscription = subscription_of(change.record)
    except ValueError:
        return None
    if subscription is None:
        return None
    told = Told(change.tenant, change.id, change.record.revision)
    return Subscribed(told, decode_target(subscription.attachment), subscription.filter)
