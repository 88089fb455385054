"""Ordered domains: rows as intervals of attributes, and the end points that cut each domain.

Paper    Tatbul, "Index Structures and Algorithms for Efficient Profile Matching", 2001, section
         4.1: one tree an attribute, elementary intervals (4.1.2, after de Berg et al.).
Idea     a leaf on one attribute is a set of intervals: `=` a point, a comparison or BETWEEN one
         interval with open or closed ends, IN several points. A row whose leaves are on different
         attributes holds if each of its attributes has a value in one of that attribute's
         intervals. Values of different types never compare, so trees are also kept apart by kind,
         see `index.kernels.ordered_domains`.
Worked   x >= 2 AND y = 5, x < 5    tree of x: end points 2, 5    tree of y: end point 5
         elementary intervals of x  (-inf, 2) [2] (2, 5) [5] (5, +inf)   x >= 2 is 1..4, x < 5 0..2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self, get_type_hints

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, key_in_words
from index.column_segment import Columns
from index.conjunctions import ConjunctionSegment
from index.kernels.ordered_domains import (
    BOOLEANS,
    CANDIDATES,
    CODES,
    DOMAIN_KINDS,
    EVALUATIONS,
    FOLDED,
    HITS,
    NUMBERS,
    TEXTS,
    Points,
)
from index.kernels.probe import Compiled
from index.model import Operator
from index.pivots import pivots, visibility
from index.predicate_phase import leaves_of_rows
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NOCASE,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS, Programs
from index.runs import begins_run
from index.spaces import text_bounds
from index.threshold import Polarity
from index.vocabulary import Vocabulary

WORDS_MAX = 16
"""Pieces or nodes that `filing_of` names."""

_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE = int(Polarity.IS_TRUE)
_EQUAL, _IN = int(PredicateKind.EQUAL), int(PredicateKind.IN)
_RANGE, _TEXT_RANGE = int(PredicateKind.RANGE), int(PredicateKind.TEXT_RANGE)
_EXACT_BELOW = 2.0**53
"""Integers below it are doubles, so a residual there can only say that an end is open."""
_NEXT_TEXT = b"\x00"
"""Nothing lies between a text and itself with this at its end."""

INTERVAL_OPERATORS = frozenset(
    {
        Operator.EQ,
        Operator.LT,
        Operator.LE,
        Operator.GT,
        Operator.GE,
        Operator.IN,
        Operator.BETWEEN,
    }
)
"""Of predicates that are intervals of an ordered domain, or points."""


class DomainSegment(ConjunctionSegment[Columns]):
    """A segment of rows that are one interval set an attribute; its columns may have parts.

    Matching counts evaluations, the paper's measure (section 4.1.5): looks of a value at a key, at
    an elementary interval, at an end in a list, and tests of a predicate of a row.
    """

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._evaluation_count = 0

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Conjunctions of comparisons, BETWEEN, `=` and IN, no two of one attribute."""
        attribute = compiled.predicates.record["attribute"]
        seen = np.full(int(attribute.max(initial=-1)) + 1, -1, np.int32)
        return interval_rows(compiled.programs, compiled.predicates, rows, seen)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns, those of a part under its name."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, part in zip(self.columns_type._fields, self._columns, strict=True):
            if isinstance(part, tuple):
                arrays.update({f"{name}.{field}": one for field, one in _fields_of(part)})
            else:
                arrays[name] = part
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The columns that `to_arrays` wrote."""
        types = get_type_hints(cls.columns_type)
        parts = (
            types[name](*(arrays[f"{name}.{field}"] for field in types[name]._fields))
            if hasattr(types[name], "_fields")
            else arrays[name]
            for name in cls.columns_type._fields
        )
        return cls(cls.columns_type(*parts))

    def stats(self) -> dict[str, int]:
        """Size, and what `match` has counted so far."""
        return {
            "tree_bytes": sum(array.nbytes for array in self.to_arrays().values()),
            **super().stats(),
            "evaluation_count": self._evaluation_count,
        }

    def _count(self, counts: NDArray[np.int64]) -> None:
        """Add what a call of the kernels has counted."""
        self._evaluation_count += int(counts[EVALUATIONS])
        self._found(counts[CANDIDATES], counts[HITS])


class Asks(NamedTuple):
    """What rows ask, sorted by place: the place of a row in the order at hand, and its leaf."""

    place: NDArray[np.int64]
    attribute: NDArray[np.int32]
    leaf: NDArray[np.int64]  # number of a distinct leaf


@dataclass(frozen=True, slots=True)
class LeafIntervals:
    """The intervals of distinct leaves; ends are numbers of keys, and -1 where there is none."""

    start: NDArray[np.int64]  # [leaves+1]
    kind: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    is_open: NDArray[np.bool_]  # [2, intervals] at the low end, at the high end
    number: NDArray[np.float64]  # keys, ascending
    mark: NDArray[np.int16]
    texts: list[bytes]


@dataclass(frozen=True, slots=True)
class DomainTrees:
    """The domains of t trees, and the m intervals on them, by tree and then by low end.

    A tree is of one attribute, one kind, and the rows of one block.
    """

    points: Points
    key: NDArray[np.int64]  # [t] (block * attributes + attribute) * DOMAIN_KINDS + kind, ascending
    start: NDArray[np.int64]  # [t+1]
    place: NDArray[np.int32]  # [m] place of the row
    low: NDArray[np.int32]  # [m] first elementary interval
    high: NDArray[np.int32]  # [m] last one


@njit(cache=True, nogil=True)
def interval_rows(
    programs: Programs,
    predicates: PredicateColumns,
    rows: NDArray[np.int32],
    seen: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Which rows are conjunctions of leaves that are sets of intervals, no two of one attribute.

    `seen` has a place for each attribute, -1 on entry.
    """
    taken = np.ones(rows.size, np.bool_)
    for place in range(rows.size):
        start, stop = programs.start[rows[place]], programs.start[rows[place] + 1]
        taken[place] = start < stop
        for at in range(start, stop):
            leaf = programs.code[at]
            if leaf < 0 or leaf & _POLARITY_MASK != _IS_TRUE:
                taken[place] = False
                break
            record = predicates.record[leaf >> POLARITY_BITS]
            kind, attribute = record["kind"], record["attribute"]
            is_interval = kind == _EQUAL or kind == _IN or kind == _RANGE or kind == _TEXT_RANGE
            if not is_interval or record["flags"] & ALL or seen[attribute] == place:
                taken[place] = False
                break
            seen[attribute] = place
    return taken


def ordered_rows(
    compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
) -> tuple[NDArray[np.int64], NDArray[np.int64], Asks, LeafIntervals]:
    """(order, rank, asks, intervals): `rows` in an order in which those that hold together lie
    together, rank[attribute] from rare to common, and what the rows ask.

    Rows are ordered by their rarest attribute, and then by where their interval there begins.
    """
    place, code = leaves_of_rows(compiled.programs, rows)
    leaves, leaf_number = np.unique(code, return_inverse=True)
    intervals = _intervals_of(compiled.predicates, leaves)
    attribute = compiled.predicates.record["attribute"][code >> POLARITY_BITS].astype(np.int32)
    rank = np.empty(attribute_count, np.int64)
    seen = visibility(place, attribute, attribute_count, shares)
    rank[np.argsort(seen, kind="stable")] = np.arange(attribute_count)
    pivot = pivots(place, attribute, rank.astype(np.float64))
    # No two leaves of a row are on one attribute, so each row has one on its pivot.
    of_pivot = attribute == pivot[place]
    low = intervals.low[intervals.start[leaf_number[of_pivot]]]
    order = np.lexsort((low, rank[pivot]))
    return order, rank, Asks(place.astype(np.int64), attribute, leaf_number), intervals


def placed(asks: Asks, order: NDArray[np.int64]) -> Asks:
    """The asks of rows in another order: order[place] is where a row has been."""
    place_of = np.empty(order.size, np.int64)
    place_of[order] = np.arange(order.size)
    by_place = np.lexsort((asks.attribute, place_of[asks.place]))
    return Asks(place_of[asks.place][by_place], asks.attribute[by_place], asks.leaf[by_place])


def plant(
    asks: Asks, intervals: LeafIntervals, attribute_count: int, block_rows: int
) -> DomainTrees:
    """The domains of rows in blocks of so many places."""
    count = np.diff(intervals.start)[asks.leaf]
    ask = np.repeat(np.arange(count.size), count)
    first = np.cumsum(count) - count
    at = intervals.start[asks.leaf][ask] + np.arange(ask.size) - first[ask]
    place, attribute = asks.place[ask], asks.attribute[ask].astype(np.int64)
    key = (place // block_rows * attribute_count + attribute) * DOMAIN_KINDS + intervals.kind[at]
    keys, tree = np.unique(key, return_inverse=True)
    width = max(intervals.number.size, 1)
    ends = intervals.low[at], intervals.high[at]
    bounded = ends[0] >= 0, ends[1] >= 0
    points = np.unique(
        np.concatenate([(tree * width + end)[has] for end, has in zip(ends, bounded, strict=True)])
    )
    start = np.searchsorted(points, np.arange(keys.size + 1) * width)
    low, high = (np.searchsorted(points, tree * width + end) - start[tree] for end in ends)
    low = np.where(bounded[0], 2 * low + 1 + intervals.is_open[0, at], 0)
    high = np.where(bounded[1], 2 * high + 1 - intervals.is_open[1, at], 2 * np.diff(start)[tree])
    # What no value can satisfy is in no tree.
    order = np.lexsort((place, low, tree))
    order = order[low[order] <= high[order]]
    return DomainTrees(
        Points(
            start.astype(np.int32),
            intervals.number[points % width],
            intervals.mark[points % width],
            np.cumsum([0, *map(len, intervals.texts)]).astype(np.int64),
            np.frombuffer(b"".join(intervals.texts), np.uint8),
        ),
        keys,
        np.searchsorted(tree[order], np.arange(keys.size + 1)),
        place[order].astype(np.int32),
        low[order].astype(np.int32),
        high[order].astype(np.int32),
    )


def kinds_by_attribute(key: NDArray[np.int64], attribute_count: int) -> NDArray[np.uint8]:
    """For each attribute the kinds of its trees, given by their keys, as bits."""
    kinds = np.zeros(attribute_count, np.uint8)
    bits = np.left_shift(1, key % DOMAIN_KINDS).astype(np.uint8)
    np.bitwise_or.at(kinds, key // DOMAIN_KINDS % max(attribute_count, 1), bits)
    return kinds


def check_points(points: Points) -> None:
    """Assert that the end points of every tree ascend."""
    assert points.start[0] == 0 and points.start[-1] == points.number.size
    for start, stop in pairwise(points.start.tolist()):
        pairs = list(zip(points.number[start:stop], points.mark[start:stop], strict=True))
        assert all(one < other for one, other in pairwise(pairs)), "end points do not ascend"


def elementary_in_words(
    points: Points, vocabulary: Vocabulary, tree: int, kind: int, run: tuple[int, int]
) -> str:
    """A run of elementary intervals of a tree: the first and the last as the paper writes them."""
    start, stop = points.start[tree : tree + 2].tolist()
    words = []
    for elementary in sorted(set(run)):
        at = start + (elementary >> 1)
        if elementary & 1:
            words.append(f"[{point_in_words(points, vocabulary, kind, at)}]")
            continue
        low = point_in_words(points, vocabulary, kind, at - 1) if at > start else "any"
        high = point_in_words(points, vocabulary, kind, at) if at < stop else "any"
        words.append(f"({low}, {high})")
    return " to ".join(words)


def some_of(words: list[str]) -> str:
    """The first words, and how many more there are."""
    if len(words) > WORDS_MAX:
        words = [*words[:WORDS_MAX], f"{len(words) - WORDS_MAX} more"]
    return ", ".join(words)


def point_in_words(points: Points, vocabulary: Vocabulary, kind: int, at: int) -> str:
    """An end point as it is written in a filter."""
    if kind == TEXTS:
        text = int(points.number[at])
        start, stop = points.text_start[text : text + 2].tolist()
        return repr(points.text[start:stop].tobytes().decode())
    return key_in_words(vocabulary, float(points.number[at]), int(points.mark[at]))


def _fields_of(part: Any) -> Any:
    return part._asdict().items()


def _intervals_of(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> LeafIntervals:
    """The intervals of distinct leaves, each as often as it has members."""
    record = predicates.record[leaves >> POLARITY_BITS]
    size = np.where(record["kind"] == _IN, record["size"], 1).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(size)))
    leaf = np.repeat(np.arange(leaves.size), size)
    member = np.arange(leaf.size) - start[leaf]
    record = record[leaf]
    kind, number = record["kind"], np.stack((record["low"], record["high"]))
    mark = np.stack((record["low_residual"], record["high_residual"])).astype(np.int64)
    is_set, is_text = kind == _IN, kind == _TEXT_RANGE
    at = record["start"][is_set] + member[is_set]
    number[0, is_set], mark[0, is_set] = predicates.member_number[at], predicates.member_mark[at]
    is_point = is_set | (kind == _EQUAL)
    number[1, is_point], mark[1, is_point] = number[0, is_point], mark[0, is_point]
    domain = np.full(leaf.size, NUMBERS)
    folds = record["flags"] & NOCASE != 0
    domain[is_point & (mark[0] == STRING_MARK)] = CODES
    domain[is_point & (mark[0] == STRING_MARK) & folds] = FOLDED
    domain[is_point & (mark[0] == BOOLEAN_MARK)] = BOOLEANS
    domain[is_text] = TEXTS
    is_open = _opened(number, mark, kind == _RANGE)
    texts = _read_texts(predicates, leaves[leaf[is_text]], (number, mark, is_open), is_text)
    bounded = np.isfinite(number)
    order = np.lexsort((mark[bounded], number[bounded]))
    numbers, marks = number[bounded][order], mark[bounded][order]
    is_new = begins_run(numbers, marks)
    keys = np.full(order.size, -1, np.int64)
    keys[order] = np.cumsum(is_new) - 1
    ends = np.full(number.shape, -1, np.int64)
    ends[bounded] = keys
    distinct = numbers[is_new], marks[is_new].astype(np.int16)
    return LeafIntervals(start, domain, ends[0], ends[1], is_open, *distinct, texts)


def _opened(
    number: NDArray[np.float64], mark: NDArray[np.int64], is_range: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which ends of ranges are open: the pairs (double, residual) below or above a double that
    no number has become that double, `mark` included.
    """
    open_mark = np.stack((mark[0] > 0, mark[1] < 0))
    nobody = is_range & (np.abs(number) < _EXACT_BELOW)
    mark[nobody] = 0
    return open_mark & nobody


def _read_texts(
    predicates: PredicateColumns,
    leaves: NDArray[np.int32],
    ends: tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]],
    is_text: NDArray[np.bool_],
) -> list[bytes]:
    """Fill in the ends of ranges of strings, as numbers of the texts that are returned."""
    read = [
        _text_ends(*text_bounds(predicates, leaf >> POLARITY_BITS)[0]) for leaf in leaves.tolist()
    ]
    texts = sorted({text for ends_read in read for text, _ in ends_read if text is not None})
    number_of: dict[bytes | None, float] = {text: at for at, text in enumerate(texts)}
    number, mark, is_open = ends
    for side, none in enumerate((-np.inf, np.inf)):
        number[side, is_text] = [number_of.get(one[side][0], none) for one in read]
        is_open[side, is_text] = [one[side][1] for one in read]
    mark[:, is_text] = 0
    return texts


def _text_ends(low: bytes, high: bytes) -> list[tuple[bytes | None, bool]]:
    """(text or None, is open) of both ends of low <= text < high."""
    ends: list[tuple[bytes | None, bool]] = [(low or None, False), (high, True)]
    if low.endswith(_NEXT_TEXT):
        ends[0] = low[: -len(_NEXT_TEXT)], True
    if high == TEXT_END:
        ends[1] = None, False
    elif high.endswith(_NEXT_TEXT):
        ends[1] = high[: -len(_NEXT_TEXT)], False
    return ends
