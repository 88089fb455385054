"""The stage of the pipeline's benchmark without a stack: how many notifications must come out."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Message

from benchmarks.latency import Heard
from benchmarks.pipeline_run import Load, records_of
from deploy.traffic import Publisher

FORMS = [{"id": "warm", "expr": "t > 20"}, {"id": "hot", "expr": "t > 30"}]
EVENTS = [b'{"t": 10}', b'{"t": 25}', b'{"t": 35}']


@pytest.mark.parametrize(
    ("mode", "records"), [("thin", [0, 1, 2]), ("full", [0, 1, 2]), ("compact", [0, 1, 1])]
)
def test_compact_notifications_are_one_an_event(mode: str, records: list[int]) -> None:
    assert records_of(Load(lambda: iter(FORMS), EVENTS), mode) == records


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (b'"subscription":"hot","revision":1', {"hot"}),
        (b'"subscriptions":[["hot",1],["warm",2]]', {"hot", "warm"}),
    ],
)
def test_a_notification_is_heard_by_all_it_names(words: bytes, names: set[str]) -> None:
    publisher = cast(Publisher, SimpleNamespace(row=lambda partition, offset: offset))
    heard = Heard(publisher)
    value = b'{"event":{"topic":"events","partition":0,"offset":7},%b}' % words
    before = time.time()
    heard.receive([cast(Message, SimpleNamespace(value=lambda: value))])
    assert (set(heard.first), heard.rows) == (names, [7])
    assert min(heard.first.values()) >= before
