"""Key schemas: which sets of lanes subscriptions are filed by, chosen by cost.

Idea     an event looks for a key under every schema whose lanes it has parts on, and looks at every
         row under the keys it finds. So a schema has a price, which its rows share: it pays only if
         many rows, or rows that would be met often elsewhere, use it. (Fabret et al., section 4,
         choose the schemas of their tables by such a cost; there they are of equalities, are found
         greedily one after the other, and each row weighs as much as its bucket.)
Method   a sample of the rows lists its combinations of leaves. At first a schema's price is shared
         by all rows that could use it. Each row takes its cheapest combination; prices are shared
         anew by those that did; schemas that nobody took are gone. After a few rounds few change.
         Lanes have prices, too: an event tries each of its parts with all others.
Worked   a = 1 AND b = 2 AND x = 3, where x is another attribute in each subscription: all pairs and
         triples of a row are as rare as each other. ab can be shared by all, so ab with x is the
         cheapest triple of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.access import some_elements
from index.kernels.cover import Elements
from index.kernels.probe import Compiled
from index.kernels.schema_choice import (
    COMBINATIONS_MAX,
    Entries,
    LeafTable,
    Prices,
    choose_combinations,
    insert_prices,
    list_combinations,
    new_combinations,
)
from index.kernels.schemas import SchemaTrie, insert_edges
from index.key_filing import new_table, power_of_two

SAMPLE_ROWS_MIN, SAMPLE_ROWS_MAX, SAMPLE_SHARE = 2_000, 20_000, 8
"""One of so many rows is in the sample, within these bounds."""
ROUNDS = 6
WEIGHTS = 1.0, 8.0, 64.0
"""Prices are tried at so many times their worth, which drives rows to share schemas; the outcome
that costs least at their true worth is taken."""
BRIEF_ROWS, BRIEF_WEIGHTS = 16_384, (8.0,)
"""Segments of fewer rows are built often and soon built into others: there one is tried."""
LOOKUP_NS = 4.0
"""To look for a key that hardly any event has: mixing it, and a bit of a filter."""
LANE_NS = 60.0
"""To try the part of a lane with those of all other lanes of the event."""


def choose_elements(
    compiled: Compiled, table: LeafTable, rows: NDArray[np.int32], triples: bool
) -> Elements:
    """Where to file those of `rows` that have leaves to combine."""
    prices = _priced(compiled, table, rows, triples)
    elements = Elements(
        np.empty(rows.size, np.int32),
        np.empty((rows.size, 3), np.int32),
        np.empty(rows.size, np.bool_),
    )
    memory = new_combinations()
    count = choose_combinations(compiled.programs, table, prices, rows, triples, memory, elements)
    return some_elements(elements, slice(count))


def _priced(compiled: Compiled, table: LeafTable, rows: NDArray[np.int32], triples: bool) -> Prices:
    """The schemas to use, and what each row pays for its own and for its lanes."""
    sample = min(max(rows.size // SAMPLE_SHARE, SAMPLE_ROWS_MIN), SAMPLE_ROWS_MAX)
    step = max(1, rows.size // sample)
    entries = _entries(compiled, table, rows[::step], triples)
    schemas, which = np.unique(entries.schema, return_inverse=True)
    looked_up = np.zeros(schemas.size)
    looked_up[which] = LOOKUP_NS * entries.presence
    tried = LANE_NS * table.presence
    tried[0] = 0.0  # stands for no lane
    first = np.flatnonzero(np.diff(entries.row, prepend=-1))
    best, least = np.arange(entries.row.size), np.inf
    weights = WEIGHTS if rows.size >= BRIEF_ROWS else BRIEF_WEIGHTS
    for weight in weights if first.size else ():
        chosen = np.arange(entries.row.size)
        for _ in range(ROUNDS):
            of_schema = weight * _shared(looked_up, which[chosen], step)
            of_lane = weight * _shared(tried, entries.lane[chosen].ravel(), step)
            total = entries.cost + of_schema[which]
            for lane in entries.lane.T:
                total += of_lane[lane]
            before, chosen = chosen, _cheapest(total, entries.row, first)
            if np.array_equal(before, chosen):
                break
        cost = step * entries.cost[chosen].sum() + looked_up[np.unique(which[chosen])].sum()
        cost += tried[np.unique(entries.lane[chosen])].sum()
        if cost < least:
            best, least = chosen, cost
    chosen = best
    of_schema = _shared(looked_up, which[chosen], step)
    used = np.flatnonzero(np.isfinite(of_schema))
    slots = power_of_two(2 * used.size)
    prices = Prices(
        np.zeros(slots, np.uint64),
        np.zeros(slots),
        _shared(tried, entries.lane[chosen].ravel(), step),
    )
    insert_prices(prices, schemas[used], of_schema[used])
    return prices


def _cheapest(
    total: NDArray[np.float64], row: NDArray[np.int32], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """One entry of each row, of the least total; `first` is where each row's entries begin."""
    least = np.repeat(np.minimum.reduceat(total, first), np.diff(first, append=total.size))
    cheapest = np.flatnonzero(total == least)
    one: NDArray[np.int64] = cheapest[np.diff(row[cheapest], prepend=-1) > 0]
    return one


def _shared(price: NDArray[np.float64], users: NDArray[Any], step: int) -> NDArray[np.float64]:
    """What each of its users pays, if there are `step` rows for each in the sample."""
    count = np.bincount(users, minlength=price.size) * step
    return np.where(count > 0, price / np.maximum(count, 1), np.where(price > 0, np.inf, 0.0))


def _entries(
    compiled: Compiled, table: LeafTable, sample: NDArray[np.int32], triples: bool
) -> Entries:
    """The combinations of leaves of a sample of rows."""
    size = sample.size * COMBINATIONS_MAX
    entries = Entries(
        np.empty(size, np.int32),
        np.empty((size, 3), np.int32),
        np.empty(size, np.uint64),
        np.empty(size),
        np.empty(size),
    )
    memory = new_combinations()
    count = list_combinations(compiled.programs, table, sample, triples, memory, entries)
    return Entries._make(part[:count] for part in entries)


def build_trie(lanes: NDArray[np.int32], lane_count: int) -> SchemaTrie:
    """The trie of schemas, given as rows of three lanes, ascending by dimension, then 0."""
    lanes = np.unique(lanes, axis=0)
    lanes = lanes[lanes[:, 0] > 0]
    prefixes = np.unique(
        np.concatenate([_cut(lanes, width) for width in (1, 2, 3)]) if lanes.size else lanes,
        axis=0,
    )
    width = np.count_nonzero(prefixes, axis=1)
    order = np.argsort(width, kind="stable")
    prefixes, width = prefixes[order], width[order]
    number = {tuple(prefix): node for node, prefix in enumerate(prefixes.tolist(), 1)}
    root = np.zeros(lane_count, np.int32)
    ends = np.zeros(len(prefixes) + 1, np.bool_)
    ends[[number[tuple(schema)] for schema in lanes.tolist()]] = True
    parent = np.zeros(len(prefixes), np.int64)
    lane = np.zeros(len(prefixes), np.int64)
    for at, prefix in enumerate(prefixes.tolist()):
        last = int(width[at]) - 1
        lane[at] = prefix[last]
        if last == 0:
            root[prefix[0]] = at + 1
        else:
            parent[at] = number[(*prefix[:last], *(0,) * (3 - last))]
    below = np.flatnonzero(parent)
    is_deep = np.bincount(parent, minlength=len(prefixes) + 1)[below + 1] > 0
    order = np.lexsort((~is_deep, parent[below]))
    below, is_deep = below[order], is_deep[order]
    child_start = np.searchsorted(parent[below], np.arange(len(prefixes) + 2))
    deep_count = np.bincount(parent[below], is_deep, len(prefixes) + 1)
    trie = SchemaTrie(
        root,
        ends,
        child_start.astype(np.int32),
        (child_start[:-1] + deep_count).astype(np.int32),
        lane[below].astype(np.int32),
        (below + 1).astype(np.int32),
        new_table(below.size),
    )
    insert_edges(trie, parent[below], lane[below], below + 1)
    return trie


def _cut(lanes: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Schemas of at least so many lanes, without the lanes behind."""
    cut = lanes[lanes[:, width - 1] > 0].copy()
    cut[:, width:] = 0
    return cut
