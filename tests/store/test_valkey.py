from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from store import StoreSettings, SubscriptionStore, open_store
from store.base import ABSENT, Delete, Idempotency, Put
from store.errors import (
    StoreDamaged,
    StoreFull,
    StoreIncompatible,
)
from store.keys import Keys
from tests.store.cases import put, record
from tests.store.contract import StoreContract
from tests.store.server import StoreServer

pytestmark = pytest.mark.connected


@pytest.fixture
def settings(shared_server: StoreServer) -> StoreSettings:
    return shared_server.settings(namespace=f"test-{uuid.uuid4().hex}")


@pytest.fixture
def store(settings: StoreSettings) -> Iterator[SubscriptionStore]:
    with open_store(settings) as store:
        yield store


@pytest.fixture
def own_store(own_server: StoreServer) -> Iterator[SubscriptionStore]:
    with open_store(own_server.settings()) as store:
        yield store


class TestValkeyStore(StoreContract):
    """The real store, on a server that all these tests share."""

    def test_two_processes_share_one_store(
        self, store: SubscriptionStore, settings: StoreSettings
    ) -> None:
        with open_store(settings) as other:
            put(store)
            assert other.get("t", "a") == store.get("t", "a")
            key = Idempotency("t", "key", "digest")
            first = store.write([Put(record("b"), ABSENT)], key)
            again = other.write([Put(record("b"), ABSENT)], key)
            assert (again.replayed, again.outcomes) == (True, first.outcomes)

    def test_a_server_holds_several_stores(
        self, store: SubscriptionStore, settings: StoreSettings
    ) -> None:
        put(store)
        with open_store(replace(settings, namespace=f"{settings.namespace}-2")) as other:
            assert other.get("t", "a") is None
            assert (other.newest_epoch(), other.counts()) == (0, {})

    def test_the_number_of_buckets_is_fixed(
        self, store: SubscriptionStore, settings: StoreSettings
    ) -> None:
        with pytest.raises(StoreIncompatible, match="created with 16 buckets, not 32"):
            open_store(replace(settings, buckets=32))
        with open_store(replace(settings, buckets=None)) as other:
            assert put(other) == put(store) - 1

    def test_a_store_of_a_later_format_is_refused(
        self, store: SubscriptionStore, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        put(store)
        meta = Keys(settings.namespace).meta
        with shared_server.client() as client:
            client.hset(meta, "format", "2")
            with pytest.raises(StoreIncompatible, match=r"has format 2, but only 1 .* Upgrade"):
                open_store(settings)
            client.hdel(meta, "format")
        with open_store(settings) as other:
            assert other.count("t") == 1, "without a format it is the first"

    def test_keys_lie_in_one_cluster_slot_and_none_expires(
        self, store: SubscriptionStore, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        put(store, "a{b}", tenant="t{u}")
        store.write([Put(record())], Idempotency("t", "key", "digest"))
        store.report_reader("query:q", 1, 1)
        store.report_snapshot(1)
        with shared_server.client() as client:
            names = client.keys(f"*{settings.namespace}*")
            slots = {client.cluster("KEYSLOT", name) for name in names}
            assert len(slots) == 1
            assert {client.ttl(name) for name in names} == {-1}
            assert len(names) == 11

    def test_an_emptied_store_leaves_no_subscription_key(
        self, store: SubscriptionStore, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        store.write([Put(record(f"s{number}")) for number in range(50)])
        store.write([Delete("t", f"s{number}") for number in range(50)])
        with shared_server.client() as client:
            left = client.keys(f"{{{settings.namespace}}}:records:*")
            assert left == []
            assert client.bitcount(Keys(settings.namespace).used("t")) == 0

    def test_replies_are_dropped_after_a_day_and_bounded(
        self, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        keys = Keys(settings.namespace)
        now_turn = int(time.time()) // (6 * 3600)
        with open_store(settings) as store, shared_server.client() as client:
            store.write([Put(record())], Idempotency("t", "now", "digest"))
            slot = keys.replies[now_turn % 5]
            for age, kept in ((4, True), (5, False)):
                old_slot = keys.replies[(now_turn - age) % 5]
                reply = client.hget(slot, "t\nnow")
                client.hset(old_slot, mapping={f"t\nold{age}": reply, "": f"{now_turn - age} 100"})
                result = store.write([Put(record())], Idempotency("t", f"old{age}", "digest"))
                assert result.replayed == kept
            assert client.hexists(slot, "t\nold5")

    def test_idempotency_keys_have_a_limit(self, settings: StoreSettings) -> None:
        with open_store(replace(settings, idempotency_bytes_max=230)) as store:
            for number in range(4):
                store.write([Put(record())], Idempotency("t", f"key{number}", "digest"))
            with pytest.raises(StoreFull, match="idempotency"):
                store.write([Put(record())], Idempotency("t", "one more", "digest"))
            assert store.write([Put(record())]).epoch == 5
            assert store.write([Put(record())], Idempotency("t", "key0", "digest")).replayed

    def test_a_log_that_was_touched_is_not_written_over(
        self, store: SubscriptionStore, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        put(store)
        with shared_server.client() as client:
            client.xadd(Keys(settings.namespace).log, {"x": "y"}, id="2-0")
        with pytest.raises(StoreDamaged, match="refused"):
            put(store, "b")
        assert store.get("t", "b") is None
        assert store.count("t") == 1
        with pytest.raises(StoreDamaged, match="2-0"):
            store.read_since(1)

    def test_a_damaged_record_is_named(
        self, store: SubscriptionStore, settings: StoreSettings, shared_server: StoreServer
    ) -> None:
        put(store)
        with shared_server.client() as client:
            (bucket,) = client.keys(f"{{{settings.namespace}}}:records:*")
            client.hset(bucket, "a", b"1 2 3 {")
        with pytest.raises(StoreDamaged, match="no JSON"):
            store.get("t", "a")
        with shared_server.client() as client:
            client.hset(bucket, "a", b'1 2 3 {"v":2}')
        with pytest.raises(StoreIncompatible, match="format 2"):
            store.get("t", "a")

    def test_functions_come_back_when_the_server_lost_them(
        self, store: SubscriptionStore, shared_server: StoreServer
    ) -> None:
        put(store)
        for call in (lambda: put(store), store.trim):
            with shared_server.client() as client:
                client.function_flush()
            call()
        assert store.newest_epoch() == 2
