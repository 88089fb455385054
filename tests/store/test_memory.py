from __future__ import annotations

import pytest

from store import StoreSettings, open_store
from store.base import Delete, Put
from store.errors import EpochWentBackError, StoreUnavailable
from store.memory import MemoryStore
from tests.store.cases import put, record
from tests.store.contract import StoreContract


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestMemoryStore(StoreContract):
    """The stub that ships with the product."""

    def test_it_can_be_opened_by_url(self) -> None:
        with open_store(StoreSettings(url="memory://")) as store:
            assert put(store) == 1

    def test_a_failure_lasts_until_mended(self, store: MemoryStore) -> None:
        put(store)
        store.fail(StoreUnavailable("The store is gone."))
        for call in (
            store.ping,
            store.newest_epoch,
            lambda: put(store),
            lambda: store.read_since(0),
        ):
            with pytest.raises(StoreUnavailable):
                call()
        store.fail(None)
        assert store.newest_epoch() == 1

    def test_a_lost_tail_is_noticed(self, store: MemoryStore) -> None:
        put(store, "a")
        put(store, "b")
        store.write([Delete("t", "a"), Put(record("c"))])
        store.read_since(0)
        store.lose_tail(1)
        assert [found.id for found in store.scan_all()[1]] == ["a"]
        with pytest.raises(EpochWentBackError) as caught:
            store.read_since(3)
        assert (caught.value.applied, caught.value.newest) == (3, 1)
        put(store, "other b")
        put(store, "other c")
        with pytest.raises(EpochWentBackError):
            store.read_since(3)

    def test_expiry_of_readers_follows_the_clock(self) -> None:
        now = [1_000.0]
        store = MemoryStore(clock=lambda: now[0])
        put(store)
        store.report_reader("query:q", 1, 0, seconds_valid=60.0)
        now[0] += 61
        (reader,) = store.readers()
        assert (reader.live, reader.age_seconds) == (False, 61.0)
        now[0] += 86_400
        store.report_snapshot(1)
        store.trim()
        assert store.readers() == []
