from __future__ import annotations

import pytest

import store.keys
from store.keys import Keys, bucket_of
from store.lineage import REMEMBERED_MAX, GivenOut
from store.settings import StoreSettings


def test_every_key_is_described() -> None:
    described = store.keys.__doc__ or ""
    names = [name for name, value in vars(Keys).items() if isinstance(value, property)]
    assert len(names) >= 7
    for name in [*names, "records", "used"]:
        assert f"\n    {name}" in described


def test_buckets_never_move() -> None:
    places = [bucket_of(name, 8_192) for name in ("", "a", "sub-0000001", "é")]
    assert places == [0, 7_747, 1_254, 3_390]


@pytest.mark.parametrize("namespace", ["", "a{b", "}"])
def test_namespaces_that_would_leave_the_slot(namespace: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        Keys(namespace)


@pytest.mark.parametrize(
    "wrong",
    [{"durable_timeout_s": 5.0}, {"buckets": 0}, {"buckets": (1 << 20) + 1}],
)
def test_settings_that_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StoreSettings(**wrong)  # type: ignore[arg-type]


def test_remembered_lineages_are_bounded_and_the_newest_stay() -> None:
    given_out = GivenOut()
    for epoch in range(REMEMBERED_MAX + 1):
        given_out.remember(epoch, f"lineage {epoch}")
    assert given_out.lineage_at(0) is None
    assert given_out.lineage_at(1) == "lineage 1"
    assert given_out.lineage_at(REMEMBERED_MAX) == f"lineage {REMEMBERED_MAX}"
