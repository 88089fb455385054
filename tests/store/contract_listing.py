"""What every store must do with listings."""

from __future__ import annotations

import random

import pytest

from store.base import (
    ABSENT,
    Delete,
    Put,
    SubscriptionStore,
)
from store.errors import (
    InvalidPageToken,
)
from store.records import SubscriptionRecord
from tests.store.cases import list_all, put, record


class ListingContract:
    """A subclass gives the fixture `store`, an empty store."""

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
