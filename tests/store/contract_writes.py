"""What every store must do with writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from store.base import (
    ABSENT,
    OPERATIONS_MAX,
    WRITE_BYTES_MAX,
    Delete,
    DeleteChange,
    Idempotency,
    Operation,
    Put,
    PutChange,
    SubscriptionStore,
)
from store.errors import (
    IdempotencyMismatch,
    InvalidName,
    WriteTooLarge,
)
from store.records import NAME_BYTES_MAX, Mode, SubscriptionRecord
from tests.store.cases import TREE, list_all, put, record, statuses


class WriteContract:
    """A subclass gives the fixture `store`, an empty store."""

    # --- one subscription

    def test_a_new_store_is_empty(self, store: SubscriptionStore) -> None:
        assert store.newest_epoch() == 0
        assert store.lineage() == (0, "")
        assert store.get("t", "a") is None
        assert store.count("t") == 0
        assert store.counts() == {}
        assert store.list_page("t", 10).records == ()
        assert store.read_since(0) == []
        assert list(store.scan_all()[1]) == []
        assert store.readers() == []
        assert store.snapshots() == []
        store.ping()

    def test_every_field_comes_back(self, store: SubscriptionStore) -> None:
        written = SubscriptionRecord(
            "t",
            "ид-✓",
            ({"and": [TREE, True]}, {"attr": ["a.b"], "op": "in", "value": [1, 2**62, "é"]}),
            expr="price > 35.5",
            enabled=False,
            labels={"team": "blue", "": ""},
            priority=-3,
            expires_at="2030-01-01T00:00:00Z",
            consumer_key="k",
            mode=Mode.COMPACT,
        )
        (outcome,) = store.write([Put(written)]).outcomes
        read = store.get("t", "ид-✓")
        assert read == outcome.record
        assert read is not None
        assert read.content() == written.content()
        assert (read.revision, read.epoch) == (1, 1)
        assert read.created_at == read.updated_at
        assert read.created_at.endswith("Z")

    def test_revision_is_the_epoch_of_the_write(self, store: SubscriptionStore) -> None:
        assert [put(store, name) for name in ("a", "b", "a")] == [1, 2, 3]
        assert store.newest_epoch() == 3

    def test_created_at_survives_a_replacement(self, store: SubscriptionStore) -> None:
        put(store)
        first = store.get("t", "a")
        put(store, priority=1)
        second = store.get("t", "a")
        assert first is not None
        assert second is not None
        assert second.created_at == first.created_at
        assert second.updated_at >= first.updated_at
        assert second.priority == 1

    def test_revisions_never_come_back(self, store: SubscriptionStore) -> None:
        first = put(store)
        store.write([Delete("t", "a")])
        assert put(store) > first + 1

    @pytest.mark.parametrize(
        ("present", "operation", "expected"),
        [
            (False, Put(record()), "created"),
            (False, Put(record(), ABSENT), "created"),
            (False, Put(record(), 1), "absent"),
            (False, Delete("t", "a"), "absent"),
            (False, Delete("t", "a", 1), "absent"),
            (True, Put(record()), "replaced"),
            (True, Put(record(), ABSENT), "exists"),
            (True, Put(record(), 1), "replaced"),
            (True, Put(record(), 2), "conflict"),
            (True, Delete("t", "a"), "deleted"),
            (True, Delete("t", "a", 1), "deleted"),
            (True, Delete("t", "a", 2), "conflict"),
            (True, Put(record(tenant="other"), 1), "absent"),
            (True, Delete("other", "a"), "absent"),
        ],
    )
    def test_what_an_operation_meets(
        self, store: SubscriptionStore, present: bool, operation: Put | Delete, expected: str
    ) -> None:
        if present:
            put(store)
        before = store.newest_epoch()
        result = store.write([operation])
        assert statuses(result.outcomes) == [expected]
        assert result.epoch == store.newest_epoch() == before + result.outcomes[0].accepted
        if expected in ("conflict", "exists"):
            assert result.outcomes[0].revision == 1

    def test_another_tenant_sees_nothing(self, store: SubscriptionStore) -> None:
        put(store, "a", "t")
        assert store.get("other", "a") is None
        assert store.list_page("other", 10).records == ()
        assert store.count("other") == 0
        put(store, "a", "other", priority=9)
        mine = store.get("t", "a")
        assert mine is not None
        assert mine.priority == 0
        assert store.counts() == {"t": 1, "other": 1}

    # --- lists of operations

    def test_a_list_shares_one_epoch_and_sees_itself(self, store: SubscriptionStore) -> None:
        put(store, "old")
        result = store.write(
            [
                Put(record("new"), ABSENT),
                Put(record("new"), ABSENT),
                Put(record("new", priority=5)),
                Delete("t", "old", 1),
                Delete("t", "old"),
                Put(record("brief")),
                Delete("t", "brief"),
            ]
        )
        assert statuses(result.outcomes) == [
            "created", "exists", "replaced", "deleted", "absent", "created", "deleted",
        ]  # fmt: skip
        assert result.epoch == 2
        assert store.counts() == {"t": 1}
        (entry,) = store.read_since(1)
        kept = store.get("t", "new")
        assert kept is not None
        assert entry.changes == (
            PutChange(kept),
            DeleteChange("t", "old"),
            DeleteChange("t", "brief"),
        )
        assert kept.priority == 5

    def test_a_list_of_refusals_has_no_epoch(self, store: SubscriptionStore) -> None:
        put(store)
        result = store.write([Put(record(), ABSENT), Delete("t", "b"), Put(record(), 77)])
        assert statuses(result.outcomes) == ["exists", "absent", "conflict"]
        assert result.epoch == store.newest_epoch() == 1
        assert store.read_since(1) == []

    def test_the_longest_list(self, store: SubscriptionStore) -> None:
        operations = [Put(record(f"s{number}")) for number in range(OPERATIONS_MAX)]
        assert len(store.write(operations).outcomes) == OPERATIONS_MAX
        assert store.count("t") == OPERATIONS_MAX
        (entry,) = store.read_since(0)
        assert len(entry.changes) == OPERATIONS_MAX
        with pytest.raises(WriteTooLarge, match="1001 operations"):
            store.write([*operations, Put(record("more"))])
        with pytest.raises(WriteTooLarge, match="0 operations"):
            store.write([])
        assert store.newest_epoch() == 1

    def test_the_largest_list(self, store: SubscriptionStore) -> None:
        rest = 1024 + len(record(expr="").content())
        largest = Put(record(expr="x" * (WRITE_BYTES_MAX - rest)))
        small = record("b", expr="")
        fill = "y" * (1024 - len(small.content()))
        assert statuses(store.write([largest, Put(record("b", expr=fill))]).outcomes) == [
            "created",
            "created",
        ]
        with pytest.raises(WriteTooLarge, match="bytes"):
            store.write([largest, Put(record("b", expr=fill + "y"))])
        assert len(store.read_since(0)[0].changes) == 2

    @pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1), "a\nb", "a\x00", "\ud800"])
    def test_names_that_cannot_be_stored(self, store: SubscriptionStore, name: str) -> None:
        for operation in (Put(record(name)), Put(record(tenant=name)), Delete("t", name)):
            with pytest.raises(InvalidName):
                store.write([operation])
        with pytest.raises(InvalidName):
            store.write([Put(record())], Idempotency("t", name, "f"))
        with pytest.raises(InvalidName):
            store.report_reader(name, 0, 0)
        assert store.newest_epoch() == 0

    @pytest.mark.parametrize("name", ["", "\ud800", "a\x00", "x" * 10_000])
    def test_what_cannot_be_stored_is_absent(self, store: SubscriptionStore, name: str) -> None:
        assert store.get("t", name) is None
        assert store.get(name, "a") is None

    @pytest.mark.parametrize("name", ["x" * NAME_BYTES_MAX, " ", "{a}:*?\\", "é" * 128, "🚕"])
    def test_names_that_can(self, store: SubscriptionStore, name: str) -> None:
        put(store, name, tenant=name)
        assert list_all(store, name, 1) == [name]
        assert [found.id for found in store.scan_all()[1]] == [name]
        assert statuses(store.write([Delete(name, name)]).outcomes) == ["deleted"]
        assert store.read_since(1)[0].changes == (DeleteChange(name, name),)
        assert store.counts() == {}

    # --- many writers

    def test_of_racing_writers_one_wins_each_revision(self, store: SubscriptionStore) -> None:
        won: list[int] = []

        def race(writer: int) -> None:
            revision = 1
            for _ in range(20):
                result = store.write([Put(record(priority=writer), revision)])
                (outcome,) = result.outcomes
                if outcome.accepted:
                    won.append(result.epoch)
                assert outcome.revision is not None
                revision = outcome.revision

        put(store)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(race, range(8)))
        assert sorted(won) == list(range(2, store.newest_epoch() + 1))
        assert len(won) >= 20

    def test_updates_racing_deletions_leave_what_the_log_says(
        self, store: SubscriptionStore
    ) -> None:
        done: dict[int, Operation] = {}

        def race(writer: int) -> None:
            for number in range(25):
                operation: Operation = Put(record(priority=writer * 100 + number))
                if (writer + number) % 3 == 0:
                    operation = Delete("t", "a")
                result = store.write([operation])
                if result.outcomes[0].accepted:
                    done[result.epoch] = operation

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(race, range(4)))
        last: SubscriptionRecord | None = None
        for entry in store.read_since(0, limit=1_000):
            operation, (change,) = done.pop(entry.epoch), entry.changes
            assert isinstance(operation, Put) == isinstance(change, PutChange)
            assert isinstance(change, PutChange) or last is not None
            last = change.record if isinstance(change, PutChange) else None
            if isinstance(operation, Put):
                assert last is not None
                assert (last.priority, last.revision) == (operation.record.priority, entry.epoch)
        assert done == {}
        assert store.get("t", "a") == last

    def test_epochs_are_dense_under_concurrency(self, store: SubscriptionStore) -> None:
        def write(writer: int) -> list[int]:
            return [put(store, f"{writer}-{number % 7}") for number in range(25)]

        with ThreadPoolExecutor(8) as threads:
            epochs = [epoch for written in threads.map(write, range(8)) for epoch in written]
        assert sorted(epochs) == list(range(1, 201))
        entries = store.read_since(0, limit=1_000)
        assert [entry.epoch for entry in entries] == list(range(1, 201))

    def test_one_idempotency_key_writes_once(self, store: SubscriptionStore) -> None:
        def post(writer: int) -> str:
            result = store.write(
                [Put(record(f"made-by-{writer}"), ABSENT)], Idempotency("t", "key", "digest")
            )
            return result.outcomes[0].id

        with ThreadPoolExecutor(8) as threads:
            names = set(threads.map(post, range(16)))
        assert len(names) == 1
        assert store.count("t") == 1
        assert store.newest_epoch() == 1

    # --- idempotency

    def test_a_repeated_request_gets_the_first_outcomes(self, store: SubscriptionStore) -> None:
        put(store, "there")
        operations: list[Operation] = [Put(record("a"), ABSENT), Put(record("there"), ABSENT)]
        operations.append(Delete("t", "none"))
        key = Idempotency("t", "key", "digest")
        first = store.write(operations, key)
        store.write([Delete("t", "a"), Put(record("none"))])
        again = store.write(operations, key)
        assert again.replayed
        assert not first.replayed
        assert (again.epoch, again.outcomes) == (first.epoch, first.outcomes)
        assert store.newest_epoch() == 3
        assert store.get("t", "a") is None

    def test_a_key_stands_for_one_request(self, store: SubscriptionStore) -> None:
        store.write([Put(record())], Idempotency("t", "key", "digest"))
        with pytest.raises(IdempotencyMismatch, match="'key'"):
            store.write([Put(record("b"))], Idempotency("t", "key", "other digest"))
        assert store.newest_epoch() == 1
        other_tenant = Idempotency("u", "key", "other digest")
        assert not store.write([Put(record("b", "u"))], other_tenant).replayed

    def test_a_request_that_changed_nothing_is_judged_anew(self, store: SubscriptionStore) -> None:
        key = Idempotency("t", "key", "digest")
        assert statuses(store.write([Delete("t", "a")], key).outcomes) == ["absent"]
        put(store)
        assert statuses(store.write([Delete("t", "a")], key).outcomes) == ["deleted"]
