"""What every store must do with its log and its readers."""

from __future__ import annotations

import random
import threading

import pytest

from store.base import (
    Delete,
    Put,
    PutChange,
    SubscriptionStore,
    Trimmed,
)
from store.errors import (
    LogGapError,
)
from tests.store.cases import put, record


class LogContract:
    """A subclass gives the fixture `store`, an empty store."""

    # --- the log

    def test_reading_in_pages_gives_every_entry_once(self, store: SubscriptionStore) -> None:
        for number in range(150):
            put(store, f"s{number}")
        epoch, names = 0, []
        while entries := store.read_since(epoch, limit=37):
            assert len(entries) <= 37
            names += [change.id for entry in entries for change in entry.changes]
            epoch = entries[-1].epoch
        assert names == [f"s{number}" for number in range(150)]

    def test_a_waiting_reader_is_woken(self, store: SubscriptionStore) -> None:
        put(store)
        writer = threading.Timer(0.05, lambda: put(store, "b"))
        writer.start()
        (entry,) = store.read_since(1, block_ms=5_000)
        writer.join()
        assert entry.changes[0].id == "b"

    def test_waiting_ends(self, store: SubscriptionStore) -> None:
        assert store.read_since(0, block_ms=30) == []

    def test_lineage_proves_the_history(self, store: SubscriptionStore) -> None:
        put(store)
        put(store)
        first, second = store.read_since(0)
        assert first.lineage != second.lineage
        assert store.lineage() == (2, second.lineage)
        assert store.read_since(1, lineage=first.lineage) == [second]

    def test_a_scan_and_the_log_after_it_give_the_set(self, store: SubscriptionStore) -> None:
        chosen = random.Random(5)
        for number in range(60):
            put(store, f"s{number}", tenant=f"t{number % 3}")
        epoch, scanned = store.scan_all()
        found = {}
        for at, stored in enumerate(scanned):
            found[stored.tenant, stored.id] = stored
            if at % 4 == 0:
                name = f"s{chosen.randrange(70)}"
                tenant = f"t{chosen.randrange(3)}"
                store.write([Delete(tenant, name), Put(record(f"{name}x", tenant))])
        for entry in store.read_since(epoch, limit=1_000):
            for change in entry.changes:
                if isinstance(change, PutChange):
                    found[change.tenant, change.id] = change.record
                else:
                    found.pop((change.tenant, change.id), None)
        assert found == {(kept.tenant, kept.id): kept for kept in store.scan_all()[1]}

    # --- readers and trimming

    def test_readers_say_where_they_are(self, store: SubscriptionStore) -> None:
        put(store)
        store.report_reader("query:b", 1, 0)
        store.report_reader("query:a", 0, 0, seconds_valid=30.0)
        store.report_reader("query:a", 1, 1)
        first, second = store.readers()
        assert (first.name, first.epoch, first.oldest_epoch, first.live) == ("query:a", 1, 1, True)
        assert second.name == "query:b"
        assert 0 <= first.age_seconds < 5
        store.forget_reader("query:a")
        assert [reader.name for reader in store.readers()] == ["query:b"]

    def test_trim_keeps_what_readers_and_snapshots_need(self, store: SubscriptionStore) -> None:
        for number in range(10):
            put(store, f"s{number}")
        assert store.trim().count == 0
        store.report_snapshot(8)
        store.report_reader("slow", 5, 3)
        store.report_reader("fast", 9, 9)
        assert store.trim() == Trimmed(3, 3)
        assert [entry.epoch for entry in store.read_since(3)] == list(range(4, 11))
        with pytest.raises(LogGapError) as caught:
            store.read_since(2)
        assert (caught.value.expected, caught.value.found) == (3, 4)
        store.forget_reader("slow")
        assert store.trim().epoch == 8
        assert [entry.epoch for entry in store.read_since(8)] == [9, 10]

    def test_trim_reaches_back_to_the_snapshot_before_the_newest(
        self, store: SubscriptionStore
    ) -> None:
        for number in range(10):
            put(store, f"s{number}")
        for epoch in (2, 9, 6):
            store.report_snapshot(epoch)
        assert store.snapshots() == [6, 9]
        assert store.trim().epoch == 6

    def test_a_gap_shows_when_nothing_follows(self, store: SubscriptionStore) -> None:
        put(store)
        put(store)
        store.report_snapshot(2)
        assert store.trim().count == 2
        with pytest.raises(LogGapError):
            store.read_since(1)
        assert store.read_since(2) == []
        assert put(store) == 3
        assert [entry.epoch for entry in store.read_since(2)] == [3]

    def test_a_silent_reader_holds_nothing_back(self, store: SubscriptionStore) -> None:
        put(store)
        put(store)
        store.report_snapshot(2)
        store.report_reader("gone", 0, 0, seconds_valid=0.0)
        assert [reader.live for reader in store.readers()] == [False]
        assert store.trim().epoch == 2
