"""Which leaves a conjunction is filed under: the combination that costs an event least.

A combination is up to three leaves on different attributes. Its cost is what its row adds to an
event: the share of events that meet it, times a look at the row, plus a charge for each place the
row is filed under; and its part of the price of the combination's schema, which every event pays
that has the schema's lanes (see `index.key_schemas`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.cover import Elements, conjunction_start
from index.kernels.schemas import schema_hash
from index.program import POLARITY_BITS, Programs
from index.spaces import FACET_BITS
from index.threshold import Polarity

_POLARITY_MASK, _IS_TRUE = (1 << POLARITY_BITS) - 1, int(Polarity.IS_TRUE)

LEAVES_MAX = 6
"""Of a conjunction's leaves so many, those of the least share, are combined."""
COMBINATIONS_MAX = 41
"""6 alone, 15 pairs and 20 triples."""
FILINGS_MAX = 32
"""A row is filed under no more keys of one combination of leaves."""
CANDIDATE_NS = 8.0
"""To look at a row: a cache line that is not in the cache, asked for ahead."""
FILING_NS = 1e-3
"""What a filing must save an event: it takes memory."""


class LeafTable(NamedTuple):
    """The predicates in use, `u` of them, as parts of keys."""

    position: NDArray[np.int32]  # [p] predicate number -> its place in the others
    share: NDArray[np.float64]  # [u] of events in which it is TRUE
    lane: NDArray[np.int32]  # [u] of its parts; 0 if they are in several lanes, or too many
    part_count: NDArray[np.int32]  # [u]
    dimension: NDArray[np.int64]  # [lanes]
    presence: NDArray[np.float64]  # [lanes] share of events that have a part


class Combinations(NamedTuple):
    """Those of the row at hand. Working memory of one thread."""

    leaf: NDArray[np.int32]  # [LEAVES_MAX] by ascending share
    combined: NDArray[np.int32]  # [COMBINATIONS_MAX, 3] leaf codes, then -1
    lane: NDArray[np.int32]  # [COMBINATIONS_MAX, 3] their lanes by dimension, then 0
    schema: NDArray[np.uint64]
    cost: NDArray[np.float64]
    presence: NDArray[np.float64]


class Entries(NamedTuple):
    """Combinations of many rows."""

    row: NDArray[np.int32]  # place among the rows asked for
    lane: NDArray[np.int32]  # [entries, 3]
    schema: NDArray[np.uint64]
    cost: NDArray[np.float64]
    presence: NDArray[np.float64]


class Prices(NamedTuple):
    """What a row pays for its schema and its lanes. Schemas by open addressing; 0 is empty."""

    schema: NDArray[np.uint64]  # hashes
    of_schema: NDArray[np.float64]
    of_lane: NDArray[np.float64]  # [lanes]


def new_combinations() -> Combinations:
    """Memory for one row."""
    return Combinations(
        np.zeros(LEAVES_MAX, np.int32),
        np.zeros((COMBINATIONS_MAX, 3), np.int32),
        np.zeros((COMBINATIONS_MAX, 3), np.int32),
        np.zeros(COMBINATIONS_MAX, np.uint64),
        np.zeros(COMBINATIONS_MAX, np.float64),
        np.zeros(COMBINATIONS_MAX, np.float64),
    )


@leaf
def combine_leaves(
    programs: Programs,
    table: LeafTable,
    row: int,
    triples: bool,
    memory: Combinations,
) -> int:
    """Fill `memory` with the combinations of a row's leaves; returns their number."""
    count = _rarest_leaves(programs, table, row, memory.leaf)
    total = 0
    for one in range(count):
        total = _combine(table, memory, total, one, -1, -1)
        for other in range(one + 1, count):
            total = _combine(table, memory, total, one, other, -1)
            for third in range(other + 1, count if triples else 0):
                total = _combine(table, memory, total, one, other, third)
    return total


@inlined
def _rarest_leaves(
    programs: Programs,
    table: LeafTable,
    row: int,
    leaves: NDArray[np.int32],
) -> int:
    at, stop = conjunction_start(programs, row), programs.start[row + 1]
    if at < 0:
        return 0
    count = 0
    while at < stop and programs.code[at] >= 0:
        code = programs.code[at]
        at += 1
        position = table.position[code >> POLARITY_BITS]
        if code & _POLARITY_MASK != _IS_TRUE or table.lane[position] == 0:
            continue
        if table.part_count[position] > FILINGS_MAX:
            continue
        share = table.share[position]
        place = min(count, LEAVES_MAX - 1)
        if count == LEAVES_MAX and share >= _share_of(table, leaves[place]):
            continue
        count = min(count + 1, LEAVES_MAX)
        while place > 0 and _share_of(table, leaves[place - 1]) > share:
            leaves[place] = leaves[place - 1]
            place -= 1
        leaves[place] = code
    return count


@inlined
def _share_of(table: LeafTable, code: int) -> float:
    return float(table.share[table.position[code >> POLARITY_BITS]])


@inlined
def _combine(
    table: LeafTable, memory: Combinations, total: int, one: int, other: int, third: int
) -> int:
    """Append a combination, unless two of its leaves share an attribute or it has many keys."""
    first = second = 0
    position = table.position[memory.leaf[one] >> POLARITY_BITS]
    lane = int(table.lane[position])
    share, presence = table.share[position], table.presence[lane]
    filings = int(table.part_count[position])
    memory.combined[total, 0] = memory.leaf[one]
    memory.combined[total, 1] = memory.combined[total, 2] = -1
    for place in range(1, 3):
        at = other if place == 1 else third
        if at < 0:
            break
        position = table.position[memory.leaf[at] >> POLARITY_BITS]
        added = int(table.lane[position])
        share *= table.share[position]
        presence *= table.presence[added]
        filings *= int(table.part_count[position])
        memory.combined[total, place] = memory.leaf[at]
        if _same_attribute(table, lane, added) or _same_attribute(table, first, added):
            return total
        # Lanes in the order of their dimensions, `second` and `first` behind `lane`.
        if table.dimension[added] < table.dimension[lane]:
            lane, added = added, lane
        if first != 0 and table.dimension[added] > table.dimension[first]:
            first, second = first, added
        elif first != 0:
            first, second = added, first
        else:
            first = added
    if filings > FILINGS_MAX:
        return total
    memory.schema[total] = schema_hash(lane, first, second)
    memory.lane[total, 0], memory.lane[total, 1], memory.lane[total, 2] = lane, first, second
    memory.cost[total] = share * CANDIDATE_NS + filings * FILING_NS
    memory.presence[total] = presence
    return total + 1


@inlined
def _same_attribute(table: LeafTable, one: int, other: int) -> bool:
    """Are two lanes, the first of which may be none, of one attribute?"""
    return bool(one and table.dimension[one] >> FACET_BITS == table.dimension[other] >> FACET_BITS)


@leaf
def list_combinations(
    programs: Programs,
    table: LeafTable,
    rows: NDArray[np.int32],
    triples: bool,
    memory: Combinations,
    entries: Entries,
) -> int:
    """Fill `entries`, which have room for all, with the combinations of rows; returns how many."""
    total = 0
    for place in range(rows.size):
        count = combine_leaves(programs, table, rows[place], triples, memory)
        for at in range(count):
            entries.row[total] = place
            for each in range(3):
                entries.lane[total, each] = memory.lane[at, each]
            entries.schema[total] = memory.schema[at]
            entries.cost[total] = memory.cost[at]
            entries.presence[total] = memory.presence[at]
            total += 1
    return total


@inlined
def _price_place(prices: Prices, schema: np.uint64) -> np.int64:
    """Where a schema is in the table, or where it would be."""
    mask = np.int64(prices.schema.size - 1)
    place = np.int64(schema >> np.uint64(32)) & mask
    while prices.schema[place] != np.uint64(0) and prices.schema[place] != schema:
        place = (place + 1) & mask
    return place


@leaf
def insert_prices(prices: Prices, schema: NDArray[np.uint64], price: NDArray[np.float64]) -> None:
    """File the prices of schemas in a table that has room for them."""
    for at in range(schema.size):
        place = _price_place(prices, schema[at])
        prices.schema[place] = schema[at]
        prices.of_schema[place] = price[at]


@leaf
def choose_combinations(
    programs: Programs,
    table: LeafTable,
    prices: Prices,
    rows: NDArray[np.int32],
    triples: bool,
    memory: Combinations,
    elements: Elements,
) -> int:
    """Fill `elements` with the cheapest combination of each row that has one; returns how many.

    Schemas without a price are not chosen, apart from those of one lane.
    """
    total = 0
    for row in rows:
        count = combine_leaves(programs, table, row, triples, memory)
        best, least = -1, np.inf
        for at in range(count):
            place = _price_place(prices, memory.schema[at])
            cost = memory.cost[at]
            for each in range(3):
                cost += prices.of_lane[memory.lane[at, each]]
            if prices.schema[place] == memory.schema[at]:
                cost += prices.of_schema[place]
            elif memory.combined[at, 1] >= 0:
                continue
            if cost < least:
                best, least = at, cost
        if best >= 0:
            elements.row[total] = row
            elements.leaf[total, 0] = memory.combined[best, 0]
            elements.leaf[total, 1] = memory.combined[best, 1]
            elements.leaf[total, 2] = memory.combined[best, 2]
            elements.coarse[total] = False
            total += 1
    return total
