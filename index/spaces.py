"""Predicate spaces: an attribute's values in disjoint pieces, and which of them predicates cover.

Paper    PS-Tree: Ji and Jacobsen, PVLDB 12(3), 2018, section 4.
Idea     a predicate is a set of values, and all sets together cut an attribute into disjoint
         spaces. A value lies in exactly one of them, and meets whoever covers that space.
Facets   an attribute has several independent divisions, and a value has one space in each:

         PRESENT EXISTS            one space each: the attribute has a value / is there at all
         POINT FOLDED              a space for each operand of = and IN (FOLDED: strings of NOCASE)
         NUMBER_CELL STRING_CELL   cells between cuts, which are the ends of ranges and prefixes

Worked   age in [20, 60] and age in [30, 80] (section 4.4; tests/golden) make five cells

         cuts          20        30        60+       80+       60+: right after 60
         cell      0    |    1    |    2    |    3    |    4
         counter   0         1         2         1         0       predicates that cover the cell

Cost     building sorts the ends once. A value finds its point by hashing, its cell by one binary
         search, O(log cuts).
Differs  Flat sorted arrays, not a tree of digits: the same disjoint spaces, smaller and closer in
         memory. A new predicate goes to a small new segment with spaces of its own; the paper would
         split a space that millions of rows are filed under. Points are a division of their own, so
         a range does not cover every operand of `=` inside it. Cuts are thinned where ranges are
         wide, and ranges rounded outwards to the cuts that are left: every candidate is verified
         anyway, and so a row is filed under some CELLS_PER_RANGE cells instead of thousands.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.predicates import (
    ALL,
    ANY_ONE,
    ANY_RUN,
    NOCASE,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
    needles_of,
)
from index.runs import begins_run

CELLS_PER_RANGE = 16
"""The mean number of cells of a range that thinning aims at."""
WHOLE_MAX = 2.0**52
"""Below this the number after an integer's last fraction is the next integer."""
CUTS_UNTHINNED = 31
"""An attribute with this many cuts or fewer keeps them all."""


_IN_ORDER = PredicateKind.TEXT_RANGE, PredicateKind.PREFIX, PredicateKind.LIKE
"""Predicates that hold of strings in a row."""


class Facet(IntEnum):
    """A division of an attribute's values."""

    PRESENT = 0
    EXISTS = 1
    POINT = 2
    FOLDED = 3
    NUMBER_CELL = 4
    STRING_CELL = 5


FACET_BITS = 3
"""A dimension, which is one facet of one attribute, is numbered attribute << FACET_BITS | facet."""


class SpaceColumns(NamedTuple):
    """The cuts of `a` attributes, ascending in each: what a kernel needs to find a value's cell."""

    number_cut_start: NDArray[np.int32]  # [a+1]
    number_cut_double: NDArray[np.float64]  # a cut lies before the number (double, residual)
    number_cut_residual: NDArray[np.int16]
    string_cut_start: NDArray[np.int32]  # [a+1]
    string_start: NDArray[np.int64]  # UTF-8 of cut j is string_text[string_start[j]:...]
    string_text: NDArray[np.uint8]


class Covers(NamedTuple):
    """The runs of cells that each of `u` predicates covers; none for one that is no range."""

    run_start: NDArray[np.int64]  # [u+1]
    facet: NDArray[np.int8]
    first: NDArray[np.int32]
    last: NDArray[np.int32]


class _Ranges(NamedTuple):
    """Ranges by the ranks of their ends among all cuts; one beyond its attribute's is unbounded."""

    owner: NDArray[np.int64]  # position of the predicate
    attribute: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    rank_start: NDArray[np.int64]  # [a+1] cuts of each attribute


class Division(NamedTuple):
    """Every cut that some predicate asks for, and which of them thinning keeps."""

    spaces: SpaceColumns
    covers: Covers
    number_kept: NDArray[np.bool_]  # [number cuts]
    string_kept: NDArray[np.bool_]  # [string cuts]
    whole: NDArray[np.bool_]  # [a] cells tell integers apart, and nothing of numbers between


def divide(
    predicates: PredicateColumns, used: NDArray[np.int64], attribute_count: int
) -> tuple[SpaceColumns, Covers]:
    """The spaces of the predicates numbered `used`, and what each of them covers."""
    numbers = _number_ranges(predicates, used, attribute_count)
    strings = _string_ranges(predicates, used, attribute_count)
    kept = _thinned(numbers.ranges), _thinned(strings.ranges)
    return _divided(numbers, strings, kept, used.size)


def divide_finely(
    predicates: PredicateColumns, used: NDArray[np.int64], attribute_count: int, cells_wanted: int
) -> Division:
    """The same with all cuts, so that a cell tells exactly which ranges its values lie in.

    Prefixes and patterns are no ranges here. Where all ends of numbers are integers, the cells
    between one and the next are left out if then, and only then, no more than `cells_wanted` are
    left.
    """
    numbers = _number_ranges(predicates, used, attribute_count)
    whole = _whole_attributes(numbers, cells_wanted)
    if whole.any():
        numbers = _number_ranges(predicates, used, attribute_count, whole)
    ranges_only = (PredicateKind.TEXT_RANGE,)
    strings = _string_ranges(predicates, used, attribute_count, ranges_only)
    every = np.arange(numbers.double.size), np.arange(len(strings.text))
    spaces, covers = _divided(numbers, strings, every, used.size)
    number_kept, string_kept = (np.zeros(one.size, np.bool_) for one in every)
    number_kept[_thinned(numbers.ranges)] = True
    string_kept[_thinned(strings.ranges)] = True
    return Division(spaces, covers, number_kept, string_kept, whole)


class _NumberEnds(NamedTuple):
    """Ranges of numbers and their distinct cuts, attribute after attribute, ascending."""

    ranges: _Ranges
    double: NDArray[np.float64]
    residual: NDArray[np.int16]


class _StringEnds(NamedTuple):
    """Ranges of strings and their distinct cuts."""

    ranges: _Ranges
    text: list[bytes]


def _whole_attributes(numbers: _NumberEnds, cells_wanted: int) -> NDArray[np.bool_]:
    """Attributes whose cuts are all at integers or right after, and too many but for that."""
    rank_start = numbers.ranges.rank_start
    cuts = np.diff(rank_start)
    attribute = np.repeat(np.arange(cuts.size), cuts)
    is_whole = (numbers.double == np.floor(numbers.double)) & (np.abs(numbers.double) < WHOLE_MAX)
    is_whole &= (numbers.residual == 0) | (numbers.residual == 1)
    is_new = begins_run(attribute, numbers.double + numbers.residual)
    left = np.bincount(attribute[is_new], minlength=cuts.size)
    all_whole = np.bincount(attribute[is_whole], minlength=cuts.size) == cuts
    whole: NDArray[np.bool_] = all_whole & (cuts >= cells_wanted) & (left < cells_wanted)
    return whole


def _divided(
    numbers: _NumberEnds,
    strings: _StringEnds,
    kept: tuple[NDArray[np.int64], NDArray[np.int64]],
    predicate_count: int,
) -> tuple[SpaceColumns, Covers]:
    """The spaces between the cuts whose ranks are `kept`, and what each predicate covers."""
    number_kept, string_kept = kept
    kept_texts = [strings.text[rank] for rank in string_kept]
    string_start = np.zeros(len(kept_texts) + 1, np.int64)
    np.cumsum([len(text) for text in kept_texts], out=string_start[1:])
    columns = SpaceColumns(
        np.searchsorted(number_kept, numbers.ranges.rank_start).astype(np.int32),
        numbers.double[number_kept],
        numbers.residual[number_kept],
        np.searchsorted(string_kept, strings.ranges.rank_start).astype(np.int32),
        string_start,
        np.frombuffer(b"".join(kept_texts), np.uint8),
    )
    cells = _cells(numbers.ranges, number_kept), _cells(strings.ranges, string_kept)
    first, last = (np.concatenate(ends).astype(np.int32) for ends in zip(*cells, strict=True))
    owner = np.concatenate((numbers.ranges.owner, strings.ranges.owner))
    facet = np.full(owner.size, Facet.NUMBER_CELL, np.int8)
    facet[numbers.ranges.owner.size :] = Facet.STRING_CELL
    order = np.argsort(owner, kind="stable")
    run_start = np.searchsorted(owner[order], np.arange(predicate_count + 1))
    return columns, Covers(run_start, facet[order], first[order], last[order])


def _number_ranges(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    attribute_count: int,
    whole: NDArray[np.bool_] | None = None,
) -> _NumberEnds:
    """Ranges of numbers and the distinct cuts; a closed range ends before its end's successor.

    That of an integer is the next integer for attributes that are `whole`.
    """
    record = predicates.record[used]
    owner = np.flatnonzero((record["kind"] == PredicateKind.RANGE) & (record["flags"] & ALL == 0))
    record = record[owner]
    attribute = record["attribute"].astype(np.int64)
    double = np.concatenate((record["low"], record["high"]))
    residual = np.concatenate((record["low_residual"], record["high_residual"] + np.int16(1)))
    if whole is not None:
        moved = np.tile(whole[attribute], 2)
        double[moved] += residual[moved]
        residual[moved] = 0
    bounded = np.flatnonzero(np.isfinite(double))
    ends = np.concatenate((attribute, attribute))[bounded], double[bounded], residual[bounded]
    order = np.lexsort(ends[::-1])
    is_new = begins_run(*(part[order] for part in ends))
    distinct = order[is_new]
    rank = np.full(double.size, -1, np.int64)
    rank[bounded[order]] = np.cumsum(is_new) - 1
    rank_start = np.searchsorted(ends[0][distinct], np.arange(attribute_count + 1))
    low, high = rank[: owner.size], rank[owner.size :]
    ranges = _ranges(owner, attribute, low, high, rank_start)
    return _NumberEnds(ranges, ends[1][distinct], ends[2][distinct])


def _string_ranges(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    attribute_count: int,
    kinds: tuple[PredicateKind, ...] = _IN_ORDER,
) -> _StringEnds:
    """Ranges of strings, those that prefixes are among them, and the distinct cuts."""
    found: list[tuple[int, int, bytes, bytes]] = []
    record = predicates.record[used]
    textual = np.isin(record["kind"], kinds)
    for owner in np.flatnonzero(textual & (record["flags"] & (ALL | NOCASE) == 0)).tolist():
        attribute = int(record["attribute"][owner])
        for low, high in text_bounds(predicates, int(used[owner])):
            found.append((owner, attribute, low, high))
    ends = sorted(
        {(attribute, low) for _, attribute, low, _ in found if low}
        | {(attribute, high) for _, attribute, _, high in found if high != TEXT_END}
    )
    rank_of = {end: rank for rank, end in enumerate(ends)}
    attributes = np.array([attribute for attribute, _ in ends], np.int64)
    rank_start = np.searchsorted(attributes, np.arange(attribute_count + 1))
    ranges = _ranges(
        np.array([one[0] for one in found], np.int64),
        np.array([one[1] for one in found], np.int64),
        np.array([rank_of.get((one[1], one[2]), -1) for one in found], np.int64),
        np.array([rank_of.get((one[1], one[3]), -1) for one in found], np.int64),
        rank_start,
    )
    return _StringEnds(ranges, [text for _, text in ends])


def text_bounds(predicates: PredicateColumns, number: int) -> list[tuple[bytes, bytes]]:
    """The ranges [low, high) of strings outside of which a textual predicate cannot be TRUE.

    No UTF-8 text holds the byte 0xFF, so all texts with a prefix lie before prefix + 0xFF.
    """
    kind = int(predicates.record[number]["kind"])
    needles = needles_of(predicates, number)
    if kind == PredicateKind.TEXT_RANGE:
        return [(needles[0], needles[1])]
    if kind == PredicateKind.LIKE:
        wildcards = [needles[0].find(token) for token in (ANY_RUN, ANY_ONE)]
        literal = [at for at in wildcards if at >= 0]
        needles = [needles[0][: min(literal)]] if literal else [needles[0]]
    return [(needle, needle + TEXT_END) for needle in needles]


def _ranges(
    owner: NDArray[np.int64],
    attribute: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    rank_start: NDArray[np.int64],
) -> _Ranges:
    """Ranges where -1 stands for an end without bound."""
    return _Ranges(
        owner,
        attribute,
        np.where(low < 0, rank_start[attribute] - 1, low),
        np.where(high < 0, rank_start[attribute + 1], high),
        rank_start,
    )


def _thinned(ranges: _Ranges) -> NDArray[np.int64]:
    """The ranks of the cuts to keep: all of few, else quantiles of the ends."""
    kept = np.ones(int(ranges.rank_start[-1]), np.bool_)
    order = np.argsort(ranges.attribute, kind="stable")
    first = np.searchsorted(ranges.attribute[order], np.arange(ranges.rank_start.size))
    for attribute in np.flatnonzero(np.diff(ranges.rank_start) > CUTS_UNTHINNED):
        start, stop = ranges.rank_start[attribute : attribute + 2].tolist()
        mine = order[first[attribute] : first[attribute + 1]]
        low, high = ranges.low[mine], ranges.high[mine]
        spans = np.minimum(high, stop) - np.maximum(low, start)
        part = max(float(np.mean(spans)) / (stop - start), 1 / (stop - start))
        wanted = max(int(CELLS_PER_RANGE / part), CUTS_UNTHINNED)
        if wanted >= stop - start:
            continue
        ends = np.concatenate((low[low >= start], high[high < stop])) - start
        cumulative = np.cumsum(np.bincount(ends, minlength=stop - start))
        targets = np.linspace(0, cumulative[-1], wanted + 2)[1:-1]
        kept[start:stop] = False
        kept[start + np.searchsorted(cumulative, targets)] = True
    return np.flatnonzero(kept)


def _cells(ranges: _Ranges, kept: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last cell of each range, rounded outwards to the cuts kept."""
    cut_start = np.searchsorted(kept, ranges.rank_start)[ranges.attribute]
    first = np.searchsorted(kept, ranges.low, "right") - cut_start
    last = np.searchsorted(kept, ranges.high, "left") - cut_start
    return first, last
