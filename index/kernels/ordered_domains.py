"""Values on ordered domains: what of an event trees of end points are searched for.

A tree is of one attribute and one kind of values, so all its end points compare. The n end points
p0 < p1 < ... cut its domain into 2n + 1 elementary intervals, which are numbered:

    (-inf, p0)   [p0]   (p0, p1)   [p1]   ...   [pn-1]   (pn-1, +inf)
        0         1        2        3             2n-1        2n

So an interval, its ends open or closed, is the run of elementary intervals low..high.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.batch import sort
from index.kernels.text_match import compare
from index.predicates import BOOLEAN_MARK, STRING_MARK

DOMAIN_KINDS = 5
NUMBERS, BOOLEANS, CODES, FOLDED, TEXTS = range(DOMAIN_KINDS)
"""Kinds of values. Equality of strings is a search by operand code (of the folded string: FOLDED),
ranges of strings one by text."""

COUNTS = 3
EVALUATIONS, CANDIDATES, HITS = range(COUNTS)
"""Places in the `counts` of the memories of all kernels that search trees."""

_BOOLEAN, _NUMBER, _STRING = int(ValueType.BOOLEAN), int(ValueType.NUMBER), int(ValueType.STRING)


class Points(NamedTuple):
    """The end points of t trees, p in all, ascending in each."""

    start: NDArray[np.int32]  # [t+1]
    number: NDArray[np.float64]  # [p] first half of a key; of TEXTS, the number of a text
    mark: NDArray[np.int16]  # [p] second half
    text_start: NDArray[np.int64]  # text j is text[text_start[j]:text_start[j+1]]
    text: NDArray[np.uint8]


class Probes(NamedTuple):
    """Values to be searched for."""

    kind: NDArray[np.int8]
    number: NDArray[np.float64]
    mark: NDArray[np.int16]
    string: NDArray[np.int32]  # of TEXTS: number of the string in its batch


class Asked(NamedTuple):
    """The attributes of a batch's events that trees are of, by rank, and their probes."""

    start: NDArray[np.int64]  # [events+1] attributes of an event
    rank: NDArray[np.int32]  # ascending in each event
    entry: NDArray[np.int32]
    probe_start: NDArray[np.int64]
    probes: Probes


def asked_of(batch: EventBatch, rank: NDArray[np.int32], kinds: NDArray[np.uint8]) -> Asked:
    """What the events of a batch ask of attributes with these ranks and kinds of trees."""
    event_count, entry_count = batch.entry_start.size - 1, batch.entry_attribute.size
    probe_count = 3 * batch.value_type.size  # a string may be looked for in three ways
    asked = Asked(
        np.zeros(event_count + 1, np.int64),
        np.empty(entry_count, np.int32),
        np.empty(entry_count, np.int32),
        np.zeros(entry_count + 1, np.int64),
        Probes(
            np.empty(probe_count, np.int8),
            np.empty(probe_count, np.float64),
            np.empty(probe_count, np.int16),
            np.empty(probe_count, np.int32),
        ),
    )
    order = np.empty(int(np.diff(batch.entry_start).max(initial=0)), np.int64)
    _ask(batch, (rank, kinds), asked, order)
    return asked


@leaf
def _ask(
    batch: EventBatch,
    attributes: tuple[NDArray[np.int32], NDArray[np.uint8]],
    asked: Asked,
    order: NDArray[np.int64],
) -> None:
    """Fill `asked`; `order` has room for the attributes of an event."""
    ranks, kinds = attributes
    count = probe_count = 0
    for event in range(batch.entry_start.size - 1):
        size = 0
        for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
            attribute = batch.entry_attribute[entry]
            if attribute < kinds.size and batch.entry_flags[entry] & PRESENT:
                if kinds[attribute]:
                    order[size] = np.int64(ranks[attribute]) << 32 | entry
                    size += 1
        sort(order, size)
        for at in range(size):
            entry = order[at] & 0xFFFFFFFF
            asked.rank[count], asked.entry[count] = order[at] >> 32, entry
            kind = kinds[batch.entry_attribute[entry]]
            probe_count = _add_probes(batch, entry, kind, asked.probes, probe_count)
            count += 1
            asked.probe_start[count] = probe_count
        asked.start[event + 1] = count


@inlined
def _add_probes(batch: EventBatch, entry: int, kinds: int, probes: Probes, count: int) -> int:
    """Append the values of an entry that are of one of `kinds`; returns the probes so far."""
    for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
        value_type, number = batch.value_type[value], np.float64(batch.value_number[value])
        if value_type == _NUMBER:
            if kinds >> NUMBERS & 1:
                mark = int(batch.value_residual[value])
                count = _push(probes, count, NUMBERS, number, mark)
        elif value_type == _BOOLEAN:
            if kinds >> BOOLEANS & 1:
                count = _push(probes, count, BOOLEANS, number, BOOLEAN_MARK)
        elif value_type == _STRING:
            string = batch.value_string[value]
            code, folded = batch.string_code[string], batch.folded_code[string]
            if kinds >> CODES & 1 and code >= 0:
                count = _push(probes, count, CODES, np.float64(code), STRING_MARK)
            if kinds >> FOLDED & 1 and folded >= 0:
                count = _push(probes, count, FOLDED, np.float64(folded), STRING_MARK)
            if kinds >> TEXTS & 1:
                probes.string[count] = string
                count = _push(probes, count, TEXTS, 0.0, 0)
    return count


@inlined
def _push(probes: Probes, count: int, kind: int, number: float, mark: int) -> int:
    """Append a probe."""
    probes.kind[count], probes.number[count], probes.mark[count] = kind, number, mark
    return count + 1


@inlined
def order_of(points: Points, at: int, batch: EventBatch, probes: Probes, probe: int) -> int:
    """-1, 0 or 1 as the probe is below, at or above an end point of its kind."""
    if probes.kind[probe] == TEXTS:
        text = np.int64(points.number[at])
        start, stop = points.text_start[text], points.text_start[text + 1]
        string = probes.string[probe]
        begin, end = batch.string_start[string], batch.string_start[string + 1]
        return int(compare(batch.text, begin, end, points.text, start, stop))
    number, mark = probes.number[probe], probes.mark[probe]
    if number < points.number[at]:
        return -1
    if number > points.number[at]:
        return 1
    return int(mark > points.mark[at]) - int(mark < points.mark[at])


@inlined
def side_of(
    points: Points, tree: int, elementary: int, batch: EventBatch, probes: Probes, probe: int
) -> int:
    """-1, 0 or 1 as the probe is below, in or above an elementary interval of a tree."""
    start, stop = points.start[tree], points.start[tree + 1]
    at = start + (elementary >> 1)
    if elementary & 1:
        return int(order_of(points, at, batch, probes, probe))
    if at < stop and order_of(points, at, batch, probes, probe) >= 0:
        return 1
    if at > start and order_of(points, at - 1, batch, probes, probe) <= 0:
        return -1
    return 0


@inlined
def is_below(
    points: Points, tree: int, low: int, batch: EventBatch, probes: Probes, probe: int
) -> bool:
    """Does the probe lie before the elementary interval `low` > 0 of a tree?"""
    order = order_of(points, points.start[tree] + ((low - 1) >> 1), batch, probes, probe)
    return bool(order < 0 or (order == 0 and low & 1 == 0))


@inlined
def is_above(
    points: Points, tree: int, high: int, batch: EventBatch, probes: Probes, probe: int
) -> bool:
    """Does the probe lie after the elementary interval `high`, not the last of a tree?"""
    order = order_of(points, points.start[tree] + (high >> 1), batch, probes, probe)
    return bool(order > 0 or (order == 0 and high & 1 == 0))
