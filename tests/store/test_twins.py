"""The stub against the real store: the same calls, the same answers, but for the clock."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import SubscriptionStore, open_store
from store.base import (
    ABSENT,
    ANY,
    Delete,
    Idempotency,
    LogEntry,
    Operation,
    Outcome,
    Put,
    PutChange,
    WriteResult,
)
from store.errors import StoreError
from store.memory import MemoryStore
from store.records import SubscriptionRecord
from tests.store.cases import list_all
from tests.store.server import StoreServer

pytestmark = pytest.mark.connected

TENANTS = st.sampled_from(["t", "u"])
NAMES = st.sampled_from(["a", "b", "c", "d"])
REVISIONS = st.integers(1, 12)
RECORDS = st.builds(
    SubscriptionRecord,
    tenant=TENANTS,
    id=NAMES,
    filters=st.just((True,)),
    priority=st.integers(0, 3),
    labels=st.sampled_from([{}, {"team": "blue"}]),
)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Put, RECORDS, st.one_of(st.just(ANY), st.just(ABSENT), REVISIONS)),
    st.builds(Delete, TENANTS, NAMES, st.one_of(st.just(ANY), REVISIONS)),
)
WRITES = st.tuples(
    st.lists(OPERATIONS, min_size=1, max_size=5),
    st.none()
    | st.builds(Idempotency, TENANTS, st.sampled_from(["k", "l"]), st.sampled_from(["f", "g"])),
)
TRIMS = st.tuples(st.integers(0, 12), st.integers(0, 12))
STEPS = st.lists(st.one_of(WRITES, TRIMS), max_size=25)


@settings(max_examples=40)
@given(steps=STEPS)
def test_the_stub_answers_as_the_real_store(
    shared_server: StoreServer, steps: list[object]
) -> None:
    with _twins(shared_server) as (stub, real):
        for step in steps:
            assert _take(stub, step) == _take(real, step)
            assert _observe(stub) == _observe(real)


@contextmanager
def _twins(server: StoreServer) -> Iterator[tuple[SubscriptionStore, SubscriptionStore]]:
    with ExitStack() as stack:
        settings_of_real = server.settings(namespace=f"twin-{uuid.uuid4().hex}")
        yield stack.enter_context(MemoryStore()), stack.enter_context(open_store(settings_of_real))


def _take(store: SubscriptionStore, step: object) -> object:
    """Do one step; what came of it, without times."""
    match step:
        case list() as operations, idempotency:
            return _attempt(lambda: _timeless(store.write(operations, idempotency)))  # type: ignore[arg-type]
        case int() as snapshot, int() as oldest:
            epoch = store.newest_epoch()
            store.report_snapshot(snapshot)
            store.report_reader("query:q", min(oldest, epoch), min(oldest, epoch))
            return store.trim()
    raise AssertionError(step)


def _observe(store: SubscriptionStore) -> object:
    """Everything a reader can learn, without times, lineages and the store's own order."""
    newest = store.newest_epoch()
    return {
        "epoch": newest,
        "counts": store.counts(),
        "all": {(one.tenant, one.id): _plain(one) for one in store.scan_all()[1]},
        "one": [store.get(tenant, name) is None for tenant in "tuv" for name in "abcd"],
        "listed": [sorted(list_all(store, tenant, 2)) for tenant in "tuv"],
        "labelled": sorted(list_all(store, "t", 2, {"team": "blue"})),
        "log": [_attempt(lambda at=at: _entries(store.read_since(at))) for at in range(newest + 2)],
        "readers": [(one.name, one.epoch, one.oldest_epoch, one.live) for one in store.readers()],
        "snapshots": store.snapshots(),
    }


def _attempt(call: object) -> object:
    try:
        return call()  # type: ignore[operator]
    except StoreError as error:
        return type(error), error.message


def _timeless(result: WriteResult) -> WriteResult:
    return replace(result, outcomes=tuple(map(_timeless_outcome, result.outcomes)))


def _timeless_outcome(outcome: Outcome) -> Outcome:
    if outcome.record is None:
        return outcome
    return replace(outcome, record=_plain(outcome.record))


def _entries(entries: list[LogEntry]) -> list[object]:
    return [
        (
            entry.epoch,
            [
                _plain(change.record) if isinstance(change, PutChange) else change
                for change in entry.changes
            ],
        )
        for entry in entries
    ]


def _plain(record: SubscriptionRecord) -> SubscriptionRecord:
    return replace(record, created_at="", updated_at="")
