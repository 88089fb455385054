"""A growing array's views show what was there when they were asked for, and go on showing it."""

from __future__ import annotations

import numpy as np
import pytest

from index.growing import CAPACITY_MIN, GrowingArray


def test_each_view_has_the_elements_of_its_time() -> None:
    array = GrowingArray(np.int64)
    views = []
    for number in range(3 * CAPACITY_MIN):
        views.append(array.view())
        array.append(number)
    for length, view in enumerate(views):
        assert view.tolist() == list(range(length))


def test_a_view_is_made_once_for_what_has_not_changed() -> None:
    array = GrowingArray(np.int64, np.arange(5))
    assert array.view() is array.view()
    array.truncate(3)
    assert array.view().tolist() == [0, 1, 2]
    array.extend([7, 8])
    assert array.view().tolist() == [0, 1, 2, 7, 8]


def test_nobody_writes_to_a_view() -> None:
    with pytest.raises(ValueError, match="read-only"):
        GrowingArray(np.int64, np.arange(5)).view()[0] = 1
