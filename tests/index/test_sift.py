"""SIFT against scan: thinned spaces, counters that start anew, and broken lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from index.algorithms import sift
from index.algorithms.scan import Scan
from index.algorithms.sift import PostingLists, Sift
from index.enumeration import COUNTS, KILLS, ROLES, TESTED, enumerate_leaves
from index.language import parse_text
from index.model import Subscription
from index.predicate_table import PredicateTable
from index.program import ProgramTable
from index.vocabulary import Vocabulary
from tests.index.segments import built, matched, reopened, subscriptions


def wide_ranges() -> list[Subscription]:
    """Ranges over so many ends that most of these are no cuts."""
    rng = np.random.default_rng(5)
    texts = []
    for _ in range(600):
        low, high = sorted(rng.integers(0, 2_000, 2).tolist())
        word = "abcdefghij"[rng.integers(10)] + "abc"[rng.integers(3)]
        texts.append(
            f"n BETWEEN {low} AND {high} AND t >= '{word}' AND m {'<' if high % 2 else '>='} {low}"
        )
    return subscriptions(texts)


def test_the_ends_of_thinned_ranges_are_tested() -> None:
    given = wide_ranges()
    index, scan = Sift.build(given), Scan.build(given)
    index.check()
    rng = np.random.default_rng(6)
    events: list[dict[str, Any]] = [
        {"n": int(rng.integers(2_000)), "m": int(rng.integers(2_000)), "t": "eb"} for _ in range(40)
    ]
    events += [{"n": [0, int(n)], "m": [int(n), 5.5], "t": ["a", "z"]} for n in range(0, 2_000, 90)]
    found = matched(index, events)
    assert found == matched(scan, events) and any(found)


def test_every_leaf_says_of_its_spaces_what_is_true_of_them() -> None:
    """One value of each space: where a leaf is counted it holds, where it is killed it does not."""
    programs = ProgramTable(PredicateTable(Vocabulary()))
    for text in ("n < 5", "n BETWEEN 3 AND 8", "n IN (2, 5)", "n != 5", "n NOT IN (1, 7)"):
        programs.append(parse_text(text))
    leaves = np.sort(programs.columns().code)
    listed = enumerate_leaves(programs.predicates.columns(), leaves, 1)
    roles: dict[int, dict[int, set[int]]] = {role: {} for role in range(ROLES)}
    for number in range(leaves.size):
        for key in listed.key[listed.start[number] : listed.start[number + 1]].tolist():
            roles[key % ROLES].setdefault(number, set()).add(key // ROLES)
    assert not roles[TESTED]
    # Points 2, 5, 1 and 7 in some order, then the cells up to 2, 3 to 4, 5 to 8, and from 9 on.
    assert listed.points.number.size == 4 and listed.first.tolist() == [4, 8, 9]
    counted = sorted(map(sorted, roles[COUNTS].values()))
    killed = sorted(map(len, roles[KILLS].values()))
    assert [4, 5] in counted and [5, 6] in counted and counted.count([9]) == 2
    assert killed == [1, 2]


def test_counters_begin_anew_when_their_base_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is compiled in, so the base is set near to it instead."""
    given = subscriptions(["a = 1 AND b = 2", "a = 1 AND NOT b = 3", "a = 1"])
    working = sift.Working

    def nearly_full(*parts: Any) -> sift.Working:
        made = working(*parts)
        made.base[0] = (1 << 30) - 3 * made.base[1]
        return made

    index, scan = Sift.build(given), Scan.build(given)
    events = [{"a": 1, "b": number % 4} for number in range(12)]
    expected = matched(scan, events)
    monkeypatch.setattr(sift, "Working", nearly_full)
    assert matched(index, events) == expected and any(expected)


def test_what_was_written_is_read_again() -> None:
    given = wide_ranges()[:50]
    events = [{"n": 900, "m": 900, "t": "eb"}, {"n": 3, "m": 1_990, "t": "jc"}]
    assert reopened(Sift.build(given), events) == matched(Scan.build(given), events)


@pytest.mark.parametrize("column", ["member", "start", "needed", "row"])
def test_check_finds_a_broken_list(column: str) -> None:
    segment, rows = built(PostingLists, ["a IN (1, 2) AND b = 2", "a = 1 AND b = 2 AND NOT c = 1"])
    segment.check(rows)
    arrays = segment.to_arrays()
    broken = arrays[column].copy()
    broken[np.flatnonzero(broken)[-1]] -= 1
    with pytest.raises(AssertionError):
        PostingLists.from_arrays({**arrays, column: broken}).check(rows)
