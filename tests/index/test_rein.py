"""REIN against scan: several buckets, arrays with gaps, rows by the word, and broken buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from index.algorithms.rein import BUCKET_ENTRIES, WORDS_PER_MENTION, MarkedIntervals, Rein
from index.algorithms.scan import Scan
from index.intervals import DOMAIN_TYPE_BITS, DomainType, intervals_of
from index.kernels.marking import WORD_BITS
from index.language import parse_text
from index.predicate_table import PredicateTable
from index.program import ProgramTable
from index.vocabulary import Vocabulary
from tests.index.segments import built, matched, reopened, subscriptions


def intervals(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    texts = []
    for low, high, kind in rng.integers(0, 200, (count, 3)).tolist():
        low, high = min(low, high), max(low, high)
        texts.append(
            (f"n BETWEEN {low} AND {high}", f"n > {low}", f"n < {high}", f"n = {low}")[kind % 4]
        )
    return texts


@pytest.mark.parametrize("count", [1, BUCKET_ENTRIES, 40 * BUCKET_ENTRIES])
def test_values_miss_what_begins_above_or_ends_below(count: int) -> None:
    given = subscriptions(intervals(count, count))
    index, scan = Rein.build(given), Scan.build(given)
    index.check()
    rng = np.random.default_rng(count)
    events: list[dict[str, Any]] = [{"n": value} for value in (-1, 0, 99.5, 100, 199, 200, "x")]
    events += [{"n": rng.integers(-5, 205, size).tolist()} for size in (0, 2, 2, 3, 5, 30)]
    events += [{"n": [7, 7, 190, "x", None, 7]}, {}]
    found = matched(index, events)
    assert found == matched(scan, events)
    assert count == 1 or any(found)


def test_neighbours_that_double_numbers_cannot_tell_apart() -> None:
    base = 2**53
    given = subscriptions([f"n = {base + number}" for number in range(5)] + [f"n > {base + 1}"])
    index, scan = Rein.build(given), Scan.build(given)
    index.check()
    events: list[dict[str, Any]] = [{"n": base + number} for number in range(5)]
    events += [{"n": [base, base + 3]}, {"n": float(base)}]
    assert matched(index, events) == matched(scan, events)


@pytest.mark.parametrize("count", [WORD_BITS - 1, WORD_BITS, WORD_BITS + 1, 3 * WORD_BITS])
def test_bits_beyond_the_last_row_are_nobodys(count: int) -> None:
    index = Rein.build(subscriptions(["a >= 0"] * count))
    index.check()
    events = [{"a": 1}, {"a": -1}, {"b": 1}]
    assert [len(ids) for ids in matched(index, events)] == [count, 0, 0]
    assert index.stats()["candidate_count"] == count


def test_rows_that_mention_what_is_absent_are_marked_by_bits_or_by_lists() -> None:
    """A bit set has 16 words, so one or two rows are listed and five are not."""
    rows = 16 * WORD_BITS
    few = 16 // WORDS_PER_MENTION
    texts = [f"common >= 0 AND rare{number % 400} = 1" for number in range(rows - few - 1)]
    texts += ["common >= 0 AND often = 1"] * (few + 1)
    index, scan = Rein.build(subscriptions(texts)), Scan.build(subscriptions(texts))
    index.check()
    assert index.stats()["domain_count"] == 402
    assert index.stats()["bit_set_count"] == 2
    events = [{"common": 1, "rare7": 1}, {"rare7": 1}, {"common": 1, "rare7": 2, "often": 1}]
    found = matched(index, events)
    assert found == matched(scan, events)
    assert [len(ids) for ids in found] == [3, 0, few + 1]


def test_what_is_an_interval_and_of_which_domain() -> None:
    expected = {
        "p BETWEEN 2 AND 5": (DomainType.NUMBERS, 2, 5, True),
        "p = 3": (DomainType.NUMBERS, 3, 3, True),
        "p IN (9, 1, 4)": (DomainType.NUMBERS, 1, 9, False),
        "p IN (9, 'x')": (DomainType.PRESENCE, -np.inf, np.inf, False),
        "p = TRUE": (DomainType.BOOLEANS, 1, 1, True),
        "p IS NULL": (DomainType.NULLS, -np.inf, np.inf, True),
        "EXISTS p": (DomainType.EXISTENCE, -np.inf, np.inf, True),
        "p != 3": (DomainType.PRESENCE, -np.inf, np.inf, False),
        "NOT p > 3": (DomainType.PRESENCE, -np.inf, np.inf, False),
        "ALL p = 3": (DomainType.PRESENCE, -np.inf, np.inf, False),
        "p > 'x'": (DomainType.PRESENCE, -np.inf, np.inf, False),
    }
    programs = ProgramTable(PredicateTable(Vocabulary()))
    for text in expected:
        programs.append(parse_text(text))
    found = intervals_of(programs.predicates.columns(), programs.columns().code)
    types: NDArray[np.int64] = found.domain & ((1 << DOMAIN_TYPE_BITS) - 1)
    ends = zip(found.low.tolist(), found.high.tolist(), strict=True)
    seen = zip(types.tolist(), ends, found.is_exact.tolist(), strict=True)
    assert {
        text: (DomainType(one), *two, exact)
        for text, (one, two, exact) in zip(expected, seen, strict=True)
    } == expected
    words = ProgramTable(PredicateTable(Vocabulary()))
    for text in ("p = 'x'", "p = 'x' NOCASE", "p IN ('x', 'y')", "p IN (TRUE, FALSE)"):
        words.append(parse_text(text))
    found = intervals_of(words.predicates.columns(), words.columns().code)
    assert [DomainType(one).name for one in (found.domain & 7).tolist()] == [
        "STRINGS",
        "FOLDED",
        "STRINGS",
        "BOOLEANS",
    ]
    assert not found.low_mark.any() and not found.high_mark.any()


def test_what_was_written_is_read_again() -> None:
    given = subscriptions(intervals(300, 1))
    events: list[dict[str, Any]] = [{"n": 77}, {"n": [3, 150]}, {}]
    assert reopened(Rein.build(given), events) == matched(Scan.build(given), events)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        *(("lows_number", 1), ("lows_end", -1_000), ("lows_place", 1), ("highs_first", 1)),
        *(("upper", 1), ("mention_bits", 1), ("tests", 1)),
    ],
)
def test_check_finds_a_broken_bucket(column: str, change: int) -> None:
    texts = [f"{text} AND b IN (1, 2, {at})" for at, text in enumerate(intervals(300, 2))]
    segment, rows = built(MarkedIntervals, texts)
    segment.check(rows)
    arrays = segment.to_arrays()
    broken = arrays[column].copy()
    broken[np.flatnonzero(broken)[-1]] += broken.dtype.type(change)
    with pytest.raises(AssertionError):
        MarkedIntervals.from_arrays({**arrays, column: broken}).check(rows)
