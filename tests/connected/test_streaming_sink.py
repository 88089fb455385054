"""Sinks on the real broker: what a crash at each moment of a transaction leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from deploy.settings import StackSettings
from deploy.stack import Stack
from streaming.packing import DeadLetter, Output
from streaming.settings import StreamingSettings
from streaming.sink import Fenced, IdempotentSink, Sink, TransactionalSink, open_sink
from streaming.topics import TopicError, ensure_topics, refuse_lost_topics
from tests.connected.topics import Publisher, reading

pytestmark = pytest.mark.connected
SOON_S = 30.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = StackSettings().on_free_ports()
    with Stack(tmp_path_factory.mktemp("stack"), settings, {"kafka"}) as stack:
        yield stack.env["HERALD_KAFKA_BOOTSTRAP"]


@pytest.fixture
def settings(bootstrap: str, request: pytest.FixtureRequest) -> StreamingSettings:
    name = request.node.name.replace("[", "-").replace("]", "")[:80]
    made = StreamingSettings(
        kafka_bootstrap=bootstrap,
        query_name=name,
        events_topic=f"{name}-events",
        notifications_topic=f"{name}-out",
        dead_letters_topic=f"{name}-dead",
        topic_partitions=2,
    )
    ensure_topics(made)
    return made


def end_of(settings: StreamingSettings, offset: int) -> dict[str, dict[int, int]]:
    return {settings.events_topic: {0: offset, 1: offset}}


def output_of(*names: bytes) -> Output:
    output = Output()
    for name in names:
        output.notify([b"key"], [name], [b"id-" + name], [1])
    return output


def visible(settings: StreamingSettings, count: int) -> list[bytes]:
    with reading(settings.kafka_bootstrap, settings.notifications_topic, from_start=True) as out:
        assert out.read_until(lambda seen: len(seen) >= count, SOON_S)
        out.read_for(0.5)
        return [message.value for message in out.messages]


def publish(settings: StreamingSettings, count: int) -> None:
    """Commit marks need events to be behind them."""
    publisher = Publisher(settings.kafka_bootstrap, settings.events_topic)
    for _ in range(count):
        publisher.publish(b"{}")
    publisher.flush()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_records_keep_order_and_headers(settings: StreamingSettings, delivery: str) -> None:
    sink = open_sink(settings.model_copy(update={"delivery": delivery}))
    first = output_of(*(b"%d" % number for number in range(1_000)))
    first.bury(DeadLetter(b"k", None, [("herald_reason", b"null_value"), ("empty", None)]))
    sink.write([first, output_of(b"last")], end_of(settings, 7))
    sink.close()
    assert visible(settings, 1_001) == [*(b"%d" % number for number in range(1_000)), b"last"]
    with reading(settings.kafka_bootstrap, settings.dead_letters_topic, from_start=True) as dead:
        assert dead.read_until(len, SOON_S)
    assert dead.messages[0].value is None
    assert dead.messages[0].headers["herald_reason"] == b"null_value"


def test_offsets_and_records_are_committed_together(settings: StreamingSettings) -> None:
    first = open_sink(settings)
    assert first.committed == {}
    first.write([output_of(b"a")], end_of(settings, 7))
    first.write([], end_of(settings, 9))
    second = open_sink(settings)
    assert second.committed == end_of(settings, 9)
    assert second.covers(end_of(settings, 9))
    assert not second.covers(end_of(settings, 10))
    assert visible(settings, 1) == [b"a"]


def test_a_driver_that_died_before_its_commit_leaves_nothing(settings: StreamingSettings) -> None:
    dead = TransactionalSink(settings)
    dead.open()
    dead._producer.begin_transaction()
    dead._produce([output_of(b"torn")])
    dead._producer.flush(10)
    alive = open_sink(settings)
    assert alive.committed == {}
    alive.write([output_of(b"whole")], end_of(settings, 1))
    assert visible(settings, 1) == [b"whole"]


def test_an_older_driver_is_fenced_and_does_not_try_again(settings: StreamingSettings) -> None:
    older = open_sink(settings)
    older.write([output_of(b"a")], end_of(settings, 1))
    newer = open_sink(settings)
    with pytest.raises(Fenced, match="HERALD_QUERY_NAME"):
        older.write([output_of(b"b")], end_of(settings, 2))
    newer.write([output_of(b"c")], end_of(settings, 2))
    assert visible(settings, 2) == [b"a", b"c"]


def test_a_fence_that_is_noticed_between_two_records_is_told_as_one(
    settings: StreamingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = open_sink(settings)
    newer = open_sink(settings)
    enqueue = older._enqueue

    def slowly(*record: Any) -> None:
        time.sleep(0.05)
        enqueue(*record)

    monkeypatch.setattr(older, "_enqueue", slowly)
    with pytest.raises(Fenced, match="HERALD_QUERY_NAME"):
        older.write([output_of(*(b"%d" % n for n in range(200)))], end_of(settings, 2))
    newer.write([output_of(b"c")], end_of(settings, 2))
    assert visible(settings, 1) == [b"c"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_was_lost_is_looked_up_and_not_repeated(
    settings: StreamingSettings, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = TransactionalSink(settings)
    sink.open()
    attempt = sink._attempt
    calls = []

    def lose_the_answer(outputs: list[Output], end: dict[str, dict[int, int]]) -> None:
        calls.append(1)
        if len(calls) == 1 and not committed:
            sink._producer.begin_transaction()
            sink._produce(outputs)
        else:
            attempt(outputs, end)
        if len(calls) == 1:
            raise KafkaException(_timed_out())

    monkeypatch.setattr(sink, "_attempt", lose_the_answer)
    sink.write([output_of(b"once")], end_of(settings, 3))
    assert len(calls) == (1 if committed else 2)
    assert sink.committed == end_of(settings, 3)
    assert visible(settings, 1) == [b"once"]


def _timed_out() -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, "no answer")


def test_at_least_once_writes_again_what_it_is_not_sure_of(settings: StreamingSettings) -> None:
    sink: Sink = IdempotentSink(settings)
    sink.open()
    sink.write([output_of(b"a")], end_of(settings, 3))
    assert not sink.covers(end_of(settings, 3))
    assert sink.skips_committed is False
    sink.write([output_of(b"a")], end_of(settings, 3))
    assert visible(settings, 2) == [b"a", b"a"]


def test_a_topic_made_anew_is_refused_and_not_skipped(settings: StreamingSettings) -> None:
    publish(settings, 4)
    refuse_lost_topics(settings, end_of(settings, 0))
    with pytest.raises(TopicError, match="made anew"):
        refuse_lost_topics(settings, end_of(settings, 1_000))


def test_missing_topics_are_refused_when_they_may_not_be_made(bootstrap: str) -> None:
    wanted = StreamingSettings(
        kafka_bootstrap=bootstrap, events_topic="nowhere", create_topics=False
    )
    with pytest.raises(TopicError, match=r"nowhere.*HERALD_CREATE_TOPICS"):
        ensure_topics(wanted)
