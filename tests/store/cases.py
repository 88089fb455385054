"""Short words for the store's tests: a record, a write, a whole listing."""

from __future__ import annotations

from collections.abc import Sequence

from store.base import (
    Outcome,
    Put,
    SubscriptionStore,
)
from store.records import SubscriptionRecord

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
