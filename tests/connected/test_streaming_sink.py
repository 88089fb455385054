"""Sinks on the real broker: what a crash at each moment of a transaction leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from deploy.settings import StackSettings
from deploy.stack import Stack
from streaming.packing import DeadLetter, Output
from streaming.positions import Mark, Positions
from streaming.settings import StreamingSettings
from streaming.sink import Fenced, IdempotentSink, Sink, TransactionalSink, open_sink
from streaming.topics import TopicError, ensure_topics, refuse_lost_topics
from tests.connected.topics import Publisher, reading

pytestmark = pytest.mark.connected
SOON_S = 30.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings().on_free_ports()
    with Stack(tmp_path_factory.mktemp("stack"), settings, {"kafka"}) as stack:
        yield stack


@pytest.fixture(scope="module")
def bootstrap(stack: Stack) -> str:
    return stack.env["HERALD_KAFKA_BOOTSTRAP"]


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


def end_of(settings: StreamingSettings, offset: int) -> Positions:
    return Positions({settings.events_topic: {0: offset, 1: offset}})


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
    assert second.positions == end_of(settings, 9)
    assert second.committed == end_of(settings, 9).offsets
    assert visible(settings, 1) == [b"a"]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_an_event_told_of_in_part_is_marked_at_its_own_offset(
    settings: StreamingSettings, delivery: str
) -> None:
    settings = settings.model_copy(update={"delivery": delivery})
    sink, topic = open_sink(settings), settings.events_topic
    mark = Mark(3, 40, 9, "x-1", "2026-01-01T00:00:00Z")
    partly = Positions({topic: {0: 7, 1: 2}}, {topic: {0: mark}})
    sink.write([output_of(b"a")], partly)
    assert sink.committed == {topic: {0: 7, 1: 2}}, "consumer lag counts the event"
    await_committed(settings, partly)
    sink.write([output_of(b"b")], Positions({topic: {0: 8}}))
    sink.write([], Positions({topic: {0: 5, 1: 1}}))
    await_committed(settings, Positions({topic: {0: 8, 1: 2}}))


def await_committed(settings: StreamingSettings, wanted: Positions) -> None:
    """What a new driver finds; at_least_once does not wait for it to be committed."""
    finder = IdempotentSink(settings)  # which fences nobody
    deadline = time.monotonic() + SOON_S
    finder.open()
    while finder.positions != wanted:
        assert time.monotonic() < deadline, finder.positions
        time.sleep(0.2)
        finder.open()
    finder.close()


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

    def lose_the_answer(outputs: Sequence[Output], end: Positions) -> None:
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
    assert sink.positions == end_of(settings, 3)
    assert visible(settings, 1) == [b"once"]


def _timed_out() -> KafkaError:
    return KafkaError(KafkaError._TIMED_OUT, "no answer")


def test_a_transaction_does_not_hang_on_a_broker_that_was_away(
    stack: Stack, settings: StreamingSettings, caplog: pytest.LogCaptureFixture
) -> None:
    sink = open_sink(settings)
    sink.write([output_of(b"a")], end_of(settings, 1))
    stack.kill("kafka")
    time.sleep(3)  # in which the client finds that all brokers it knows are away
    stack.restart("kafka")
    sink.write([output_of(b"b")], end_of(settings, 2))
    assert "no answer" not in caplog.text, "a call that hangs is left to its thread"
    assert visible(settings, 2) == [b"a", b"b"]


def test_at_least_once_writes_again_what_it_is_not_sure_of(settings: StreamingSettings) -> None:
    sink: Sink = IdempotentSink(settings)
    sink.open()
    sink.write([output_of(b"a")], end_of(settings, 3))
    sink.write([output_of(b"a")], end_of(settings, 3))
    assert visible(settings, 2) == [b"a", b"a"]


def test_a_topic_made_anew_is_refused_and_not_skipped(settings: StreamingSettings) -> None:
    publish(settings, 4)
    refuse_lost_topics(settings, end_of(settings, 0).offsets)
    with pytest.raises(TopicError, match="made anew"):
        refuse_lost_topics(settings, end_of(settings, 1_000).offsets)


def test_missing_topics_are_refused_when_they_may_not_be_made(bootstrap: str) -> None:
    wanted = StreamingSettings(
        kafka_bootstrap=bootstrap, events_topic="nowhere", create_topics=False
    )
    with pytest.raises(TopicError, match=r"nowhere.*HERALD_CREATE_TOPICS"):
        ensure_topics(wanted)
