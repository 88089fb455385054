"""Scan as an index: rows, ids and writes."""

from __future__ import annotations

from index.algorithms.scan import Scan
from index.events import decode_payloads
from index.language import parse_text
from index.model import Subscription
from tests.strategies import NOW


def subscription(subscription_id: str, text: str, attachment: bytes = b"") -> Subscription:
    return Subscription(subscription_id, parse_text(text), attachment)


def ids(scan: Scan, *payloads: bytes) -> list[list[str]]:
    events, _ = decode_payloads(payloads, scan.vocabulary)
    return scan.ids_by_event(scan.match(events, NOW))


def test_rows_ascend_within_each_event() -> None:
    scan = Scan.build([subscription(name, "EXISTS a") for name in "CAB"])
    events, _ = decode_payloads([b'{"a": 1}', b"{}", b'{"a": 2}'], scan.vocabulary)
    matches = scan.match(events, NOW)
    assert matches.start.tolist() == [0, 3, 3, 6]
    assert matches.row.tolist() == [0, 1, 2, 0, 1, 2]
    assert scan.ids_of([2, 0]) == ["B", "C"]


def test_of_two_with_one_id_the_later_stands() -> None:
    scan = Scan.build([subscription("A", "a = 1"), subscription("A", "a = 2")])
    assert len(scan) == 1
    assert ids(scan, b'{"a": 1}', b'{"a": 2}') == [[], ["A"]]


def test_a_row_keeps_its_meaning_when_its_subscription_goes() -> None:
    scan = Scan.build([subscription("A", "a = 1", b"first"), subscription("B", "a = 1")])
    events, _ = decode_payloads([b'{"a": 1}'], scan.vocabulary)
    earlier = scan.match(events, NOW)
    assert scan.remove("A")
    assert not scan.remove("A")
    scan.add(subscription("A", "a = 1", b"second"))
    scan.check()
    assert scan.ids_of(earlier.row) == ["A", "B"]
    assert scan.attachments_of(earlier.row) == [b"first", b""]
    assert ids(scan, b'{"a": 1}') == [["B", "A"]]
    assert scan.attachments_of(scan.match(events, NOW).row) == [b"", b"second"]
    assert scan.stats() == {"subscription_count": 2, "row_count": 3}


def test_a_refused_event_matches_nothing_and_keeps_its_row() -> None:
    scan = Scan.build([subscription("A", "TRUE"), subscription("B", "MISSING a")])
    assert ids(scan, b"{", b"{}", b"[]") == [[], ["A", "B"], []]


def test_nothing_against_nothing() -> None:
    assert ids(Scan.build([]), b"{}") == [[]]
    events, _ = decode_payloads([], Scan().vocabulary)
    assert Scan.build([subscription("A", "TRUE")]).match(events, NOW).start.tolist() == [0]
