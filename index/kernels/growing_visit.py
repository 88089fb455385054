"""Visiting growing clusters: the second phase of dynamic clustering; events are counted, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.access_tables import Equals, note_equal, satisfied_access
from index.kernels.clusters import LINE_ROWS, Lines, visit_cluster
from index.kernels.growing_clusters import (
    BELOW,
    COUNT,
    FIRST,
    HELD,
    LAST,
    LIVE,
    NEXT,
    NO_ACCESS,
    ROW,
    SINGLE,
    SIZE,
    START,
    GrowingColumns,
    room_of,
)
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Hits


class Visit(NamedTuple):
    """Working memory of one call."""

    held: NDArray[np.uint8]  # [l] 1 if the leaf holds of the event at hand
    equals: Equals
    candidate_count: NDArray[np.int64]  # [1]


@leaf
def visit_events(
    columns: GrowingColumns,
    found: Hits,
    visit: Visit,
    hits: Hits,
    at: int,
    first_event: int,
) -> tuple[int, int]:
    """Visit the clusters of events from first_event + at on; returns as `collect_hits` asks for.

    found   the leaves that hold of the events from first_event on
    """
    tables, held, row_count = columns.tables, visit.held, columns.counter[LIVE]
    lines = Lines(columns.word, columns.word)
    hit_count = hits.start[at]
    for event in range(at, found.start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, int(row_count)
        start, stop, stamp = found.start[event], found.start[event + 1], first_event + event + 1
        for place in range(start, stop):
            held[found.hit[place]] = 1
            columns.share[found.hit[place], HELD] += np.float32(1)
            note_equal(tables, visit.equals, found.hit[place], stamp)
        access_count = satisfied_access(tables, visit.equals, held, stamp)
        begin = hit_count
        for place in range(start, stop + access_count + 1):
            number = NO_ACCESS
            if place < stop:
                number = columns.leaf[found.hit[place], SINGLE]
            elif place < stop + access_count:
                number = visit.equals.access[place - stop]
                columns.satisfied[number] += np.float32(1)
            cluster = columns.predicate[number, FIRST] if number >= 0 else -1
            while cluster >= 0:
                size, left = columns.cluster[cluster, SIZE], columns.cluster[cluster, COUNT]
                visit.candidate_count[0] += left
                block = columns.cluster[cluster, LAST]
                while block >= 0:
                    below = columns.block[block, BELOW]
                    if below >= 0:
                        prefetch(columns.word, columns.block[below, START])
                    column, room = columns.block[block, START], room_of(columns, block)
                    count = (left - 1) % LINE_ROWS + 1
                    block_at = column, room, column + size * room, count, size
                    hit_count = visit_cluster(lines, block_at, held, hits, hit_count, 0)
                    left -= count
                    block = below
                cluster = columns.cluster[cluster, NEXT]
        for one in range(begin, hit_count):
            place = hits.hit[one] >> VERDICT_BITS
            verdict = hits.hit[one] - (place << VERDICT_BITS)
            hits.hit[one] = np.int64(columns.place[place, ROW]) << VERDICT_BITS | verdict
        for place in range(start, stop):
            held[found.hit[place]] = 0
        hits.start[event + 1] = hit_count
    return found.start.size - 1, 0
