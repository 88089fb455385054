from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming import sink
from streaming.patience import patiently, within
from streaming.positions import Positions


def failing(code: int, times: int) -> Callable[[], int]:
    calls = count(1)

    def ask() -> int:
        number = next(calls)
        if number <= times:
            raise KafkaException(KafkaError(code))
        return number

    return ask


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_a_coordinator_or_leader_that_is_elsewhere_is_asked_again(code: int) -> None:
    assert patiently(failing(code, 2), 10) == 3


def test_another_error_is_raised_at_once() -> None:
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION"):
        patiently(failing(KafkaError.GROUP_AUTHORIZATION_FAILED, 1), 10)


def test_patience_ends() -> None:
    seconds = count(0.0, 4.0)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        patiently(failing(KafkaError.NOT_COORDINATOR, 100), 10, lambda: next(seconds))


def test_a_call_that_hangs_is_given_up() -> None:
    ended = threading.Event()
    try:
        with pytest.raises(KafkaException) as given_up:
            within(0.05, ended.wait)
        assert given_up.value.args[0].name() == "_TIMED_OUT"
    finally:
        ended.set()


def test_what_a_call_raises_is_raised() -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException) as failed:
        within(5, fail)
    assert failed.value.args[0].name() == "_FENCED"


def test_offsets_that_cannot_be_sent_end_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client waits for a coordinator that does not come back, past its own timeout."""
    ended = threading.Event()

    class Hanging:
        def begin_transaction(self) -> None:
            pass

        def send_offsets_to_transaction(self, *arguments: object) -> None:
            ended.wait()

    class Group:
        def consumer_group_metadata(self) -> None:
            pass

    monkeypatch.setattr(sink, "OFFSETS_TIMEOUT_S", 0.01)
    monkeypatch.setattr(sink, "GRACE_S", 0.04)
    transactional = object.__new__(sink.TransactionalSink)
    transactional._producer, transactional._consumer = Hanging(), Group()
    try:
        with pytest.raises(KafkaException, match="_TIMED_OUT"):
            transactional._attempt([], Positions({"events": {0: 1}}))
    finally:
        ended.set()
