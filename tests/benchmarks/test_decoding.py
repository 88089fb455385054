from __future__ import annotations

from typing import Any

import orjson
import pytest

from benchmarks import decoding
from benchmarks.matching import CountsDifferError
from index.events import Events, encode
from index.language import parse_text
from index.model import Subscription
from index.vocabulary import Vocabulary

SUBSCRIPTIONS = [Subscription(f"s{n}", parse_text(f"a = {n} AND b.c = 'x'")) for n in range(5)]
PAYLOADS = [b'{"a":%d,"b":{"c":"x"},"other":[1,2]}' % n for n in range(40)]


def bench(payloads: list[bytes]) -> dict[str, Any]:
    told: list[str] = []
    figures = decoding.bench(SUBSCRIPTIONS, payloads, 2, told.append)
    assert told
    return figures


def test_every_way_has_a_figure() -> None:
    figures = bench(PAYLOADS)
    assert figures["events"] == 40
    assert figures["attributes_in_use"] == 2
    assert len(figures["us_per_event"]) == 6
    assert all(value > 0 for value in figures["us_per_event"].values())
    assert figures["refused"] == {}


def test_a_way_that_cannot_read_the_events_says_why() -> None:
    figures = bench([*PAYLOADS, b'{"a":"one"}'])
    assert figures["us_per_event"]["pyarrow, table"] is None
    assert "JSON" in figures["refused"]["pyarrow, table"]
    assert figures["us_per_event"]["kernel"] > 0


def test_no_figure_is_told_when_matches_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(events: list[dict[str, object]], vocabulary: Vocabulary) -> Events:
        return encode([{**event, "a": 0} for event in events], vocabulary)

    assert orjson.loads(PAYLOADS[1])["a"] == 1
    monkeypatch.setattr(decoding, "encode", careless)
    with pytest.raises(CountsDifferError, match="read by the kernel"):
        bench(PAYLOADS)
