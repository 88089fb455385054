from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.patience import patiently


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
    ],
)
def test_a_coordinator_that_is_elsewhere_is_asked_again(code: int) -> None:
    assert patiently(failing(code, 2), 10) == 3


def test_another_error_is_raised_at_once() -> None:
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION"):
        patiently(failing(KafkaError.GROUP_AUTHORIZATION_FAILED, 1), 10)


def test_patience_ends() -> None:
    seconds = count(0.0, 4.0)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        patiently(failing(KafkaError.NOT_COORDINATOR, 100), 10, lambda: next(seconds))
