"""Examples drawn once: each property has its own, and a failure is told by a small one."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.drawn import EXAMPLES, Drawn, at_most


def test_each_property_has_examples_of_its_own() -> None:
    numbers = Drawn(st.integers(0, 10**9))
    seen: dict[str, list[int]] = {"one": [], "again": [], "other": []}

    def holds(number: int) -> None:
        seen[name].append(number)

    def other(number: int) -> None:
        seen["other"].append(number)

    name = "one"
    numbers.check(holds)
    name = "again"
    numbers.check(holds)
    numbers.check(other)
    assert len(seen["one"]) == at_most(EXAMPLES)
    assert seen["one"] == seen["again"] != seen["other"]


def test_a_failure_is_made_smaller() -> None:
    failed: list[int] = []

    def holds(number: int) -> None:
        if number > 700:
            failed.append(number)
            raise AssertionError(number)

    with pytest.raises(AssertionError, match="701"):
        Drawn(st.integers(0, 10**9)).check(holds)
    assert failed[-1] == 701
