"""Digests rule out rows before their records are read, and never one that matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from index.algorithms.herald import Herald
from index.algorithms.scan import Scan
from index.kernels import leaf, record_memory
from index.kernels.digests import fill_digests, passes_digest
from index.kernels.lanes import INVERTED, NOTHING, PRESENT_ONLY
from index.kernels.record_filing import MORE, RECORD_WORDS, TESTS
from tests.index.segments import matched, subscriptions

FIRST_WIDE = 4
ALWAYS = ~np.uint64(0)
ABSENT = 1 << NOTHING


@leaf
def passes(digest: np.uint64, word: np.ndarray[Any, Any]) -> bool:
    return passes_digest(digest, word, np.uint64(0))


def digest_of(*tests: tuple[int, int | np.uint64], more: bool = False) -> np.uint64:
    """That of a record of (lane, operand); lanes from `FIRST_WIDE` on are wide."""
    record = np.full(RECORD_WORDS, ALWAYS)
    record[TESTS:] = 0
    for test, (lane, operand) in enumerate(tests):
        record[test] = operand
        record[TESTS + test // 4] |= np.uint64(lane) << np.uint64(16 * (test % 4))
    record[TESTS + 1] |= MORE if more else np.uint64(0)
    digest = np.empty(1, np.uint64)
    fill_digests(record, FIRST_WIDE, digest)
    return np.uint64(digest[0])


def shown(**lanes: int) -> np.ndarray[Any, Any]:
    """The words of an event: of lanes 1 to 3, named a to c, and of the wide lane 4, named w."""
    words = [ALWAYS, *(np.uint64(lanes.get(name, ABSENT)) for name in "abc")]
    return np.array([*words, np.uint64(lanes.get("w", 0))], np.uint64)


def test_a_folded_mask_passes_codes_that_differ_by_16() -> None:
    digest = digest_of((1, 1 << 3 | 1 << 20))
    for code, expected in ((3, True), (4, True), (19, True), (20, True), (52, True), (5, False)):
        assert passes(digest, shown(a=1 << code)) is expected
    assert not passes(digest, shown()), "a value is missing"
    assert passes(digest, shown(a=1 << 5 | 1 << 35)), "of a hash, or of an array"


def test_both_tests_have_to_pass_and_a_third_is_left_to_the_record() -> None:
    digest = digest_of((1, 1), (2, 2), (3, 4))
    assert passes(digest, shown(a=1, b=2, c=8))
    assert not passes(digest, shown(a=1, b=4, c=4))
    assert not passes(digest, shown(a=2, b=2, c=4))


def test_what_passes_without_a_value_has_no_digest() -> None:
    everything = digest_of()
    assert passes(everything, shown())
    assert digest_of((1, ABSENT)) == digest_of((1, ABSENT | 4)) == everything
    assert digest_of((4, INVERTED)) == everything
    assert digest_of((1, ABSENT), (4, INVERTED), (2, 1)) == digest_of((2, 1))


def test_a_wide_lane_asks_for_any_value() -> None:
    for operand in (np.uint64(7), np.uint64(7) | PRESENT_ONLY):
        digest = digest_of((4, operand))
        assert not passes(digest, shown())
        assert all(passes(digest, shown(w=1 + code)) for code in (0, 7, 0xFFFF, 0xFFFFFF))


def test_the_line_that_a_long_record_goes_on_in_is_no_test() -> None:
    tests = [(1, ABSENT)] * (TESTS - 1)
    assert digest_of(*tests, (1, 77), more=True) == digest_of()
    assert digest_of(*tests, (1, 77)) == digest_of((1, 77))


def agree(texts: Sequence[str], events: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The counts of an index that matches as scan does."""
    index = Herald.build(subscriptions(texts))
    assert matched(index, events) == matched(Scan.build(subscriptions(texts)), events)
    return index.stats()


def filed_together(count: int) -> list[str]:
    """All under the cells of c below 1,000."""
    return [f"a = 1 AND b < {1000 + each} AND c < {1000 + each % 3}" for each in range(count)]


FILED_TOGETHER = filed_together(40)


def test_rows_that_fail_are_ruled_out_before_their_records() -> None:
    failing = agree(FILED_TOGETHER, [{"c": 0}, {"a": 1, "c": 0}, {"b": 7, "c": 0}])
    assert failing["digest_count"] == failing["candidate_count"] == 3 * 40
    assert failing["digest_passed_count"] == 0
    folded = agree(FILED_TOGETHER, [{"a": 1, "b": 7000, "c": 0}])
    assert 0 < folded["digest_passed_count"] < 40, "the cell above all, and others 16 codes below"
    passing = agree(FILED_TOGETHER, [{"a": 1, "b": 7, "c": 0}])
    assert passing["digest_passed_count"] == passing["digest_count"] == 40


@pytest.mark.parametrize("count", [40, 100], ids=["narrow", "wide"])
def test_arrays_are_not_ruled_out(count: int) -> None:
    """A wide lane shows nothing of an array."""
    events: list[dict[str, Any]] = [
        {"a": 1, "b": [3, 90000], "c": 0},
        {"a": [1, 2], "b": [9, 10], "c": [0, 2]},
    ]
    seen = agree(filed_together(count), events)
    assert seen["digest_passed_count"] == seen["digest_count"] >= 2 * count


def test_digests_are_left_out_of_a_call_in_which_most_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_memory, "GROUP_WORDS_MAX", 1)  # two events a group
    seen = agree(FILED_TOGETHER, [{"a": 1, "b": 7, "c": 0}] * 6)
    assert seen["digest_count"] == 2 * 40
    assert seen["candidate_count"] == 6 * 40
    seen = agree(FILED_TOGETHER, [{"a": 1, "c": 0}] * 6)
    assert seen["digest_count"] == seen["candidate_count"] == 6 * 40
