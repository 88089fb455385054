"""The comparison of deliveries without a stack: what is told, and when it must not be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import delivery, latency, pipeline, variant
from deploy.stack import Stack

PAYLOADS = [b"{}", b"{}", b"{}"]
RECORDS = [2, 0, 1]
SECONDS = {"exactly_once": [0.030, 0.034, 0.050], "at_least_once": [0.020, 0.022, 0.030]}
RATES = {"exactly_once": 9_000.0, "at_least_once": 10_000.0}


class Bench:
    """A stack that measures what it is told to, and notes in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lost: int = 0) -> None:
        self.order: list[str] = []
        self._lost = lost
        monkeypatch.setattr(variant, "start", self._start)
        monkeypatch.setattr(pipeline, "rate", self._rate)
        monkeypatch.setattr(latency, "notification_latencies", self._latencies)

    def _start(self, stack: Stack, name: str, variables: Mapping[str, str], folder: str) -> None:
        assert name == variables["HERALD_DELIVERY"].replace("_", "-")
        self.order.append(variables["HERALD_DELIVERY"])

    def _rate(self, stack: Stack, payloads: Sequence[bytes], watch: object, count: int) -> float:
        assert (len(payloads), count) == (3, 3)
        return RATES[self.order[-1]]

    def _latencies(self, *_: object) -> latency.Latencies:
        return latency.Latencies(7, 8 - self._lost, SECONDS[self.order[-1]])

    def run(self) -> dict[str, object]:
        stack = cast(Stack, SimpleNamespace(env={"HERALD_CHECKPOINT_DIR": "c"}))
        return delivery.bench(stack, PAYLOADS, RECORDS, (2, 1.0), lambda _: None)


def test_both_are_measured_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    figures: dict[str, Any] = bench.run()
    assert bench.order == ["exactly_once", "at_least_once", "at_least_once", "exactly_once"]
    assert (figures["ratio"], figures["ratio_by_round"]) == (0.9, [0.9, 0.9])
    assert figures["exactly_once_latency_p50_ms"] == 34.0
    assert figures["latency_p50_ms_more"] == 12.0


def test_nothing_is_told_when_a_notification_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="7 notifications came out of 7 events, not 8"):
        Bench(monkeypatch, lost=1).run()


def test_payloads_are_published_over_and_over() -> None:
    assert [delivery.told_of(RECORDS, count) for count in range(8)] == [0, 2, 2, 3, 5, 5, 6, 8]
