"""The kept snapshot of the present format: `python -m tests.formats.present` writes it anew.

Do so together with a new `index.snapshot.FORMAT_VERSION`, never to make a test pass: the file that
fails is what stands in the snapshot folders of those who upgrade.
"""

from __future__ import annotations

from pathlib import Path

from index.algorithms.herald import Herald
from index.language import parse_text
from index.model import Subscription
from index.snapshot import FORMAT_VERSION

PRESENT = Path(__file__).parent / "snapshots" / f"format-{FORMAT_VERSION}.herald"
EXPRESSIONS = (
    *(f"carrier = '{code}'" for code in ("UA", "AA", "DL", "WN", "B6")),
    *(f"gate = {gate} AND delay > {gate * 10}" for gate in range(8)),
    "delay BETWEEN 30 AND 60",
    "delay >= 60 AND carrier IN ('UA', 'AA', 'DL')",
    "delay != 5",
    "NOT delay < 90",
    "price = 0.5 OR price = 1e300",
    "name LIKE 'ab%'",
    "name LIKE '%_z'",
    "name STARTS WITH 'été'",
    "name ENDS WITH ('abc', 'xyz')",
    "name CONTAINS 'b'",
    "name = 'ABC' NOCASE",
    "name MATCHES '^a.c$'",
    "host IN CIDR '10.0.0.0/8'",
    "at > TIMESTAMP '2026-01-01T00:00:00Z'",
    "until > NOW() - 5m",
    "EXISTS gate AND MISSING carrier",
    "carrier IS NULL",
    "ok = TRUE AND ok != FALSE",
    "ANY tags = 'late' AND NOT ALL tags = 'late'",
    "items[sku = 'a' AND count > 1]",
    "ATLEAST 2 OF (gate = 1, delay > 50, carrier = 'UA')",
    "(gate = 1 OR gate = 2) AND (carrier = 'UA' OR delay > 100)",
    "TRUE",
)
EVENTS: tuple[bytes, ...] = (
    b'{"carrier":"UA","delay":61,"gate":1}',
    b'{"carrier":"AA","delay":5,"gate":2,"price":0.5}',
    b'{"carrier":"B6","delay":120,"gate":7,"name":"abc","ok":true}',
    '{"name":"été au z","gate":3,"delay":45,"host":"10.1.2.3"}'.encode(),
    b'{"name":"xyz","at":"2026-05-01T00:00:00Z","until":"2026-01-01T00:00:00Z","carrier":null}',
    b'{"tags":["late","new"],"items":[{"sku":"a","count":2},{"sku":"b"}],"price":1e300}',
    b'{"delay":[1,95],"carrier":["DL","WN"],"gate":0}',
    b'{"host":"11.0.0.1","ok":false,"name":"Abc"}',
    b"{}",
)


def subscriptions() -> list[Subscription]:
    """Some of everything that an index lays out in a way of its own."""
    return [
        Subscription(f"s{number}", parse_text(text), b"%d" % number)
        for number, text in enumerate(EXPRESSIONS)
    ]


if __name__ == "__main__":
    Herald.build(subscriptions(), version=7).save(PRESENT, {"lineage": "present"})
