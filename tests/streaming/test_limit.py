"""The limit of a batch follows what events cost, within bounds, and is not moved by noise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.limit import CHANGE_MIN, FILE, FIRST, LEAST, BatchLimit, load_limit, save_limit

TARGET_S = 3.0
MAX = 50_000
costs = st.floats(1e-6, 10.0)


def full_batches(
    limit: BatchLimit, cost_s: float, count: int, noise: random.Random | None = None
) -> int:
    """Run full batches of events of this cost; how often the limit changed."""
    changes = 0
    for _ in range(count):
        factor = noise.lognormvariate(0, 0.2) if noise else 1.0
        changes += limit.note(limit.value, limit.value * cost_s * factor)
    return changes


def ideal(cost_s: float) -> float:
    return max(LEAST, min(MAX, TARGET_S / cost_s))


@given(costs, costs)
def test_full_batches_come_to_take_the_target(before: float, after: float) -> None:
    limit = BatchLimit(FIRST, MAX, TARGET_S)
    for cost in (before, after):
        full_batches(limit, cost, 12)
        assert 1 / CHANGE_MIN <= limit.value / ideal(cost) <= CHANGE_MIN
        assert full_batches(limit, cost, 50) == 0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e5))), st.integers(1, MAX))
def test_no_batch_moves_it_out_of_its_bounds(
    batches: list[tuple[int, float]], events_max: int
) -> None:
    limit = BatchLimit(FIRST, events_max, TARGET_S)
    for events, seconds in batches:
        before = limit.value
        changed = limit.note(events, seconds)
        assert min(LEAST, events_max) <= limit.value <= events_max
        assert changed == (limit.value != before)
        if changed:
            assert max(before, limit.value) >= CHANGE_MIN * min(before, limit.value)


@pytest.mark.parametrize("seed", range(20))
def test_noise_does_not_move_it(seed: int) -> None:
    limit = BatchLimit(FIRST, MAX, TARGET_S)
    noise = random.Random(seed)
    full_batches(limit, 3e-4, 20, noise)
    assert full_batches(limit, 3e-4, 500, noise) <= 1


def test_small_batches_tell_nothing_unless_they_take_long() -> None:
    limit = BatchLimit(MAX, MAX, TARGET_S)
    for _ in range(100):
        assert not limit.note(3, 0.08)
    assert limit.note(1_000, 60.0)
    assert limit.value == 50


def test_one_that_is_disturbed_among_many_costs_less_than_it_seems() -> None:
    limit = BatchLimit(20_000, MAX, TARGET_S)
    full_batches(limit, TARGET_S / 20_000, 10)
    limit.note(20_000, 10 * TARGET_S)
    assert limit.value == 20_000
    limit.note(20_000, 10 * TARGET_S)
    assert limit.value < 20_000


def test_the_next_driver_begins_with_what_the_last_one_knew(tmp_path: Path) -> None:
    assert load_limit(tmp_path) == FIRST
    save_limit(tmp_path, 321)
    assert load_limit(tmp_path) == 321
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v":2,"limit":7}', '{"v":1}', '{"v":1,"limit":"x"}']
)
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert load_limit(tmp_path) == FIRST
