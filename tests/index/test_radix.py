"""Sorting words by some of their bits."""

from __future__ import annotations

import numpy as np
import pytest

from index.kernels.radix import DIGITS, sort_words


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 1_000])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 33), (32, 45), (32, 64), (5, 16)])
def test_words_are_sorted_by_their_bits_and_equal_ones_stay_in_order(
    count: int, low: int, high: int
) -> None:
    rng = np.random.default_rng(count)
    words = np.zeros((2, count + 7), np.uint64)
    # Of few distinct values, so that many are equal in the bits that count.
    words[1] = rng.choice(rng.integers(0, 1 << 63, 40, np.uint64), count + 7)
    words[1] ^= rng.integers(0, 1 << low, count + 7, np.uint64)
    before = words[1].copy()
    mask = np.uint64(((1 << (high - low)) - 1) << low)
    run = before[3 : count + 3]
    expected = run[np.argsort(run & mask, kind="stable")]
    side = sort_words(words, np.empty(DIGITS + 1, np.int64), (1, 3, count + 3), low, high)
    assert np.array_equal(words[side, 3 : count + 3], expected)
    outside = np.r_[0:3, count + 3 : count + 7]
    assert np.array_equal(words[1, outside], before[outside])
    assert not words[0, outside].any()
