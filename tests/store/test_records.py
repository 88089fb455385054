from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import StoreDamaged, StoreIncompatible
from store.records import (
    Mode,
    StoredRecord,
    SubscriptionRecord,
    accepted,
    decode_stored,
    encode_stored,
    format_ms,
)

NAMES = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20)
RECORDS = st.builds(
    SubscriptionRecord,
    tenant=NAMES,
    id=NAMES,
    filters=st.lists(
        st.recursive(
            st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
            lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
            max_leaves=6,
        ).filter(lambda tree: "inf" not in repr(tree)),
        max_size=3,
    ).map(tuple),
    expr=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    enabled=st.booleans(),
    labels=st.dictionaries(NAMES, NAMES, max_size=3),
    priority=st.integers(-(2**31), 2**31),
    expires_at=st.none() | st.just("2030-01-01T00:00:00Z"),
    consumer_key=st.none() | NAMES,
    mode=st.sampled_from(Mode),
)


@given(RECORDS, st.integers(1, 2**53), st.integers(0, 10**13), st.integers(0, 10**12))
def test_both_forms_come_back(
    record: SubscriptionRecord, revision: int, created_ms: int, age_ms: int
) -> None:
    updated_ms = created_ms + age_ms
    written = accepted(record, record.id, revision, created_ms, updated_ms)
    stored = encode_stored(record.content(), revision, created_ms, updated_ms)
    assert decode_stored(record.tenant, record.id, stored) == written
    assert StoredRecord(record.tenant, record.id, stored).record() == written
    assert StoredRecord(record.tenant, record.id, stored).revision() == revision
    assert SubscriptionRecord.from_bytes(written.to_bytes()) == written


def test_defaults_take_no_room() -> None:
    assert SubscriptionRecord("t", "a", (True,)).content() == b'{"v":1,"filters":[true]}'


def test_times_are_rfc_3339() -> None:
    assert format_ms(0) == "1970-01-01T00:00:00.000Z"
    assert format_ms(1_767_225_599_999) == "2025-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"v":1}', b"\xff", b'{"v":1,"tenant":"t","id":"a","filters":[]}'],
)
def test_damage_is_named(text: bytes) -> None:
    with pytest.raises(StoreDamaged):
        SubscriptionRecord.from_bytes(text)
    with pytest.raises(StoreDamaged):
        decode_stored("t", "a", text)


def test_a_later_format_is_refused_not_guessed() -> None:
    record = SubscriptionRecord("t", "a", (True,))
    later = orjson.dumps(orjson.loads(record.to_bytes()) | {"v": 2})
    with pytest.raises(StoreIncompatible, match="format 2"):
        SubscriptionRecord.from_bytes(later)


def test_a_record_does_not_change() -> None:
    record = SubscriptionRecord("t", "a", (True,))
    assert replace(record, id="b").id == "b"
    with pytest.raises(AttributeError):
        record.id = "b"  # type: ignore[misc]
