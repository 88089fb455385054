"""Answers: the hits of several segments as the matches of a batch, rows ascending in each event.

    segment   hits, by event                     settled, visible       joined
    base      row 3 yes, row 7 undecided         3, 7                   3, 7, 10 + 0
    recent    row 0 yes                          0 (from row 10 on)

Segments hold ascending ranges of rows, so joining them is copying. What a segment answers out of
order is sorted first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from index.columns import Matches
from index.kernels.answers import ascend, copy_rows, copy_visible
from index.kernels.probe import VERDICT_BITS, Hits

_ROW_BITS = 31
_HIT_BITS = _ROW_BITS + VERDICT_BITS
_HIT_MASK = (1 << _HIT_BITS) - 1


def event_of_hits(hits: Hits) -> NDArray[np.int64]:
    """int64[hits] the event of each."""
    return np.repeat(np.arange(hits.start.size - 1), np.diff(hits.start))


def in_order(hits: Hits) -> Hits:
    """The same hits, rows ascending in each event."""
    if ascend(hits):
        return hits
    codes: NDArray[np.int64] = event_of_hits(hits) << _HIT_BITS | hits.hit
    codes.sort()
    return Hits(hits.start, codes & _HIT_MASK)


def visible_hits(
    hits: Hits, born: NDArray[np.int64], died: NDArray[np.int64], version: int
) -> Hits:
    """The hits of rows that a version sees."""
    visible = Hits(np.zeros_like(hits.start), np.empty_like(hits.hit))
    copy_visible(hits, born, died, version, visible)
    return visible._replace(hit=visible.hit[: visible.start[-1]])


def some_hits(hits: Hits, kept: NDArray[np.bool_]) -> Hits:
    """The hits that are `kept`."""
    before = np.zeros(kept.size + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    return Hits(before[hits.start], hits.hit[kept])


def joined_hits(parts: Sequence[Hits]) -> Hits:
    """The hits of all parts, in no order within an event; there is one part at least."""
    order = np.argsort(np.concatenate([event_of_hits(hits) for hits in parts]), kind="stable")
    start = np.sum([hits.start for hits in parts], axis=0)
    return Hits(start, np.concatenate([hits.hit for hits in parts])[order])


def joined_rows(parts: Sequence[tuple[Hits, int]]) -> Matches:
    """The rows of all parts; those of a part are counted from a first row, which ascends."""
    start = np.sum([hits.start for hits, _ in parts], axis=0)
    rows = np.empty(int(start[-1]), np.int32)
    place = start[:-1].copy()
    for hits, first_row in parts:
        if hits.hit.size:
            copy_rows(hits, first_row, place, rows)
    return Matches(start, rows)
