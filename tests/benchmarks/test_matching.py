from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchmarks import matching, pipeline
from index import registry
from index.algorithms.scan import Scan
from index.columns import Matches
from index.events import Events
from index.language import parse_text
from index.model import Instant, Subscription

SUBSCRIPTIONS = [Subscription(f"s{n}", parse_text(f"a = {n % 7} AND b > {n}")) for n in range(60)]
PAYLOADS = [b'{"a": %d, "b": %d}' % (n % 7, n) for n in range(40)] + [b"not json"]


class Forgetful(Scan):
    """Loses the last match of a batch."""

    name = "forgetful"

    def match(self, events: Events, now: Instant) -> Matches:
        found = super().match(events, now)
        lost = max(0, found.row.size - 1)
        return Matches(found.start.clip(max=lost), found.row[:lost])


def bench(algorithms: Iterable[str]) -> dict[str, object]:
    told: list[str] = []
    figures = matching.bench(SUBSCRIPTIONS, PAYLOADS, list(algorithms), 2, told.append)
    assert told
    return figures


def test_every_figure_of_the_contract_is_there() -> None:
    figures = bench(["scan", "psthash"])
    algorithms = figures["algorithms"]
    assert isinstance(algorithms, dict)
    expected = sum(n % 7 == m % 7 and m > n for n in range(60) for m in range(40))
    for name in ("scan", "psthash"):
        one = algorithms[name]
        assert one["matches"] == expected
        for figure in ("build_s", "us_per_event", "us_per_event_batch", "decode_us_per_event"):
            assert one[figure] > 0
        assert one["insert_per_s"] > 0
        assert one["delete_per_s"] > 0
    assert algorithms["psthash"]["bytes"] > 0
    assert algorithms["psthash"]["candidates_per_event"] >= expected / len(PAYLOADS)


def test_no_figure_is_told_when_matches_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithms = {"scan": registry.get("scan"), "forgetful": Forgetful}
    monkeypatch.setattr(registry, "ALGORITHMS", algorithms)
    with pytest.raises(matching.CountsDifferError, match="1 events differ"):
        bench(["scan", "forgetful"])


def test_quantiles_are_of_the_values() -> None:
    values = [float(n) for n in range(1001)]
    assert pipeline.quantile(values, 0.5) == pytest.approx(500, abs=1)
    assert pipeline.quantile(values, 0.99) == pytest.approx(990, abs=1)
