"""What every subscription store must do: a class of tests that each store's test class inherits."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
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
    Outcome,
    Put,
    PutChange,
    SubscriptionStore,
    Trimmed,
)
from store.errors import (
    IdempotencyMismatch,
    InvalidName,
    InvalidPageToken,
    LogGapError,
    WriteTooLarge,
)
from store.records import NAME_BYTES_MAX, Mode, SubscriptionRecord

TREE = {"attr": "price", "op": "gt", "value": 35.5}


def record(name: str = "a", tenant: str = "t", **fields: object) -> SubscriptionRecord:
    return SubscriptionRecord(tenant, name, (TREE,), **fields)  # type: ignore[arg-type]


def put(store: SubscriptionStore, name: str = "a", tenant: str = "t", **fields: object) -> int:
    """Write one subscription whatever is there; its revision."""
    (outcome,) = store.write([Put(record(name, tenant, **fields))]).outcomes
    assert outcome.revision is not None
    return outcome.revision


def statuses(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.status.value for outcome in outcomes]


def list_all(
    store: SubscriptionStore, tenant: str, page_size: int, labels: dict[str, str] | None = None
) -> list[str]:
    names: list[str] = []
    token = None
    while True:
        page = store.list_page(tenant, page_size, token, labels)
        assert len(page.records) <= page_size
        names += [found.id for found in page.records]
        token = page.next_token
        if token is None:
            return names


class StoreContract:
    """Tests of the interface alone. A subclass gives the fixture `store`, an empty store."""

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

    # --- listings

    @pytest.mark.parametrize("page_size", [1, 7, 100])
    def test_a_listing_has_each_once(self, store: SubscriptionStore, page_size: int) -> None:
        store.write([Put(record(f"s{number}")) for number in range(100)])
        names = list_all(store, "t", page_size)
        assert sorted(names) == sorted(f"s{number}" for number in range(100))
        assert len(names) == 100

    def test_the_last_page_says_so(self, store: SubscriptionStore) -> None:
        store.write([Put(record(f"s{number}")) for number in range(10)])
        assert store.list_page("t", 10).next_token is None
        assert store.list_page("t", 9).next_token is not None

    def test_labels_filter(self, store: SubscriptionStore) -> None:
        store.write(
            [
                Put(record(f"s{number}", labels={"team": f"{number % 2}", "kind": "x"}))
                for number in range(30)
            ]
        )
        odd = list_all(store, "t", 4, {"team": "1", "kind": "x"})
        assert sorted(odd) == sorted(f"s{number}" for number in range(1, 30, 2))
        assert list_all(store, "t", 4, {"team": "1", "kind": "y"}) == []

    def test_labels_are_not_looked_for_elsewhere(self, store: SubscriptionStore) -> None:
        labels = {'te"am\\': "é\n"}
        put(store, "b", labels=labels)
        store.write([Put(SubscriptionRecord("t", "c", (labels,)))])
        assert list_all(store, "t", 4, labels) == ["b"]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_listing_is_stable_under_writes(self, store: SubscriptionStore, seed: int) -> None:
        chosen = random.Random(seed)
        steady = {f"steady{number}" for number in range(40)}
        restless = [f"restless{number}" for number in range(40)]
        store.write([Put(record(name)) for name in steady])
        names, token = [], None
        while True:
            page = store.list_page("t", chosen.randint(1, 9), token)
            names += [found.id for found in page.records]
            token = page.next_token
            if token is None:
                break
            picked = chosen.sample(restless, 8)
            store.write([Put(record(name, priority=chosen.randrange(9))) for name in picked[:4]])
            store.write([Delete("t", name) for name in picked[4:]])
            store.write([Put(record(chosen.choice(sorted(steady)), priority=1))])
        assert steady <= set(names)
        assert len(names) == len(set(names))

    def test_tokens_are_refused_when_touched_or_taken_elsewhere(
        self, store: SubscriptionStore
    ) -> None:
        store.write([Put(record(f"s{number}")) for number in range(10)])
        token = store.list_page("t", 3).next_token
        assert token is not None
        for at in range(len(token)):
            for other in ("A", "z", "=", "é"):
                if token[at] == other:
                    continue
                touched = token[:at] + other + token[at + 1 :]
                with pytest.raises(InvalidPageToken, match="next_token unchanged"):
                    store.list_page("t", 3, touched)
        for broken in ("", "!", token[:-1], token + "A", "x" * 10_000):
            with pytest.raises(InvalidPageToken):
                store.list_page("t", 3, broken)
        with pytest.raises(InvalidPageToken):
            store.list_page("other", 3, token)
        with pytest.raises(InvalidPageToken):
            store.list_page("t", 3, token, {"team": "blue"})

    @pytest.mark.parametrize("page_size", [0, -1, 1_001])
    def test_page_sizes_out_of_bounds(self, store: SubscriptionStore, page_size: int) -> None:
        with pytest.raises(ValueError, match="1 to 1000"):
            store.list_page("t", page_size)

    def test_impossible_expectations(self, store: SubscriptionStore) -> None:
        with pytest.raises(ValueError, match="absent"):
            store.write([Delete("t", "a", ABSENT)])
        with pytest.raises(ValueError, match="at least 1"):
            store.write([Put(record(), 0)])
