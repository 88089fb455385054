"""What happens to the store when its server does not fit, fails, fills up or forgets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from store import StoreSettings, SubscriptionStore, open_store
from store.base import Delete
from store.errors import (
    EpochWentBackError,
    LogGapError,
    StoreFull,
    StoreIncompatible,
    StoreReadOnly,
    StoreUnavailable,
)
from store.keys import Keys
from tests.store.cases import put
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


class TestServersThatDoNotFit:
    """What is refused when connecting, with the way to mend it."""

    def test_nobody_listens(self, own_server: StoreServer) -> None:
        own_server.kill()
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{own_server.port}") as caught:
            open_store(own_server.settings())
        assert not caught.value.may_have_happened

    def test_no_append_only_file(self, own_server: StoreServer) -> None:
        with own_server.client() as client:
            client.config_set("appendonly", "no")
        with pytest.raises(StoreIncompatible, match="--appendonly yes"):
            open_store(own_server.settings())
        with open_store(replace(own_server.settings(), require_durable=False)) as store:
            assert put(store) == 1

    def test_eviction(self, own_server: StoreServer) -> None:
        with own_server.client() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreIncompatible, match="noeviction"):
            open_store(own_server.settings())

    def test_a_password_is_missing_or_never_shown(self, own_server: StoreServer) -> None:
        with own_server.client() as client:
            client.config_set("requirepass", "secret-word")
        with pytest.raises(StoreIncompatible, match="refuses this user"):
            open_store(own_server.settings())
        url = f"redis://:wrong-word@127.0.0.1:{own_server.port}/0"
        with pytest.raises(StoreIncompatible) as caught:
            open_store(replace(own_server.settings(), url=url))
        assert "wrong-word" not in str(caught.value)
        with open_store(
            replace(own_server.settings(), url=url.replace("wrong", "secret"))
        ) as store:
            assert put(store) == 1

    def test_options_that_cost_memory_are_logged(
        self, own_server: StoreServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with own_server.client() as client:
            client.config_set("hash-max-listpack-value", 64)
        open_store(own_server.settings()).close()
        assert "hash-max-listpack-value 64; advised: 2048" in caplog.text

    @pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:6379", "redis://h:notaport/0"])
    def test_urls_that_name_no_store(self, url: str) -> None:
        with pytest.raises(StoreIncompatible, match="HERALD_STORE_URL"):
            open_store(StoreSettings(url=url))


class TestFaults:
    """Each fault happens to a real server; the numbers are those of the list of faults."""

    def test_8_a_kill_loses_no_acknowledged_write(self, own_server: StoreServer) -> None:
        acknowledged: list[list[tuple[str, int]]] = [[] for _ in range(4)]
        unknown: list[StoreUnavailable] = []

        def write(writer: int) -> None:
            with open_store(own_server.settings()) as store:
                for number in range(100_000):
                    name = f"{writer}-{number}"
                    try:
                        acknowledged[writer].append((name, put(store, name)))
                    except StoreUnavailable as error:
                        unknown.append(error)
                        return

        with ThreadPoolExecutor(4) as threads:
            writers = [threads.submit(write, writer) for writer in range(4)]
            deadline = time.monotonic() + 20
            while sum(map(len, acknowledged)) < 400:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            own_server.kill()
            for writer in writers:
                writer.result()
        assert len(unknown) == 4
        own_server.start()
        with open_store(own_server.settings()) as store:
            for name, revision in (one for written in acknowledged for one in written):
                found = store.get("t", name)
                assert found is not None
                assert found.revision == revision
            entries = store.read_since(0, limit=1_000_000)
            assert [entry.epoch for entry in entries] == list(range(1, store.newest_epoch() + 1))
            assert store.count("t") == len(list(store.scan_all()[1])) == len(entries)

    def test_8_the_store_serves_again_after_a_restart(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        own_server.kill()
        with pytest.raises(StoreUnavailable, match="unreachable"):
            own_store.get("t", "a")
        with pytest.raises(StoreUnavailable) as caught:
            put(own_store)
        assert not caught.value.may_have_happened
        own_server.start()
        assert put(own_store) == 2

    def test_9_a_lost_tail_is_noticed_even_when_written_over(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store, "a")
        keys = Keys("herald")
        with own_server.client() as client:
            before = client.dump(keys.epoch), client.dump(keys.log)
            lineages = [entry.lineage for entry in own_store.read_since(0)]
            put(own_store, "b")
            put(own_store, "c")
            lineages += [entry.lineage for entry in own_store.read_since(1)]

            # Epoch and log as a replica that missed two writes would have them.
            for name, value in zip((keys.epoch, keys.log), before, strict=True):
                client.restore(name, 0, value, replace=True)
        with pytest.raises(EpochWentBackError) as caught:
            own_store.read_since(3)
        assert (caught.value.applied, caught.value.newest) == (3, 1)
        for name in ("d", "e"):
            put(own_store, name)
            with pytest.raises(EpochWentBackError):
                own_store.read_since(3)
        with open_store(own_server.settings()) as fresh:
            with pytest.raises(EpochWentBackError):
                fresh.read_since(3, lineage=lineages[2])
            with pytest.raises(EpochWentBackError):
                fresh.read_since(2, lineage=lineages[1])
            assert [entry.epoch for entry in fresh.read_since(1, lineage=lineages[0])] == [2, 3]
            assert fresh.read_since(3) == []

    def test_9_a_snapshot_of_lost_epochs_does_not_move_the_trim(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        own_store.report_snapshot(500)
        own_store.report_snapshot(501)
        assert own_store.trim().count == 0
        assert own_store.snapshots() == []
        assert len(own_store.read_since(0)) == 1

    def test_10_a_missing_entry_is_a_gap(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        for name in "abcd":
            put(own_store, name)
        with own_server.client() as client:
            client.xdel(Keys("herald").log, "2-0")
        with pytest.raises(LogGapError) as caught:
            own_store.read_since(0)
        assert (caught.value.expected, caught.value.found) == (2, 3)
        assert [entry.epoch for entry in own_store.read_since(2)] == [3, 4]

    def test_12_a_full_server_refuses_writes_and_takes_deletions(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        with own_server.client() as client:
            client.config_set("maxmemory", 1_000_000)
            with pytest.raises(StoreFull, match="maxmemory"):
                put(own_store, "b")
            assert own_store.newest_epoch() == 1
            own_store.report_reader("query:q", 1, 1)
            own_store.report_snapshot(1)
            assert own_store.trim().count == 1
            assert own_store.get("t", "a") is not None
            assert own_store.write([Delete("t", "a")]).epoch == 2
            client.config_set("maxmemory", 0)
        assert put(own_store, "b") == 3

    def test_13_a_frozen_server_costs_one_timeout(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        settings = replace(own_server.settings(), command_timeout_s=1.0, durable_timeout_s=0.5)
        with open_store(settings) as store:
            own_server.pause()
            with pytest.raises(StoreUnavailable, match="may or may not have happened") as caught:
                put(store, "b")
            own_server.go_on()
        assert caught.value.may_have_happened
        assert own_store.get("t", "a") is not None

    def test_a_write_the_disk_has_not_confirmed_is_no_success(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        with own_server.client() as client:
            client.config_set("appendonly", "no")
        with pytest.raises(StoreUnavailable, match="not known to be durable") as caught:
            put(own_store, "b")
        assert caught.value.may_have_happened

    def test_replicas_that_do_not_confirm(self, own_server: StoreServer) -> None:
        settings = replace(own_server.settings(), durable_replicas=1, durable_timeout_s=0.1)
        with open_store(settings) as store, pytest.raises(StoreUnavailable, match="durable"):
            put(store)

    def test_a_replica_takes_no_writes(
        self, own_server: StoreServer, own_store: SubscriptionStore
    ) -> None:
        put(own_store)
        with own_server.client() as client:
            client.config_set("replica-serve-stale-data", "yes")
            client.replicaof("127.0.0.1", str(own_server.port + 1))
            with pytest.raises(StoreReadOnly, match="primary"):
                put(own_store)
            assert own_store.newest_epoch() == 1
            client.replicaof("NO", "ONE")
        assert put(own_store) == 2
