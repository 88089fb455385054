"""Hash configurations: the schemas that multi-attribute tables could have, and what a table costs.

Paper    Fabret et al., SIGMOD 2001, section 3.1: access predicates, the costs of matching and of
         space; 3.2: the attribute groups GA(S) of the subscriptions.
Idea     a row may be filed under any group of its equalities on different attributes. The groups of
         all rows are found level by level, from one attribute to ATTRIBUTES_MAX, and those that
         cannot pay for a table are left out with all that contain them.
Layout   schema     int32[c, 4]   attributes of candidate c, ascending, then -1
         first      int64[c+1]    its rows: row[first[c]:first[c+1]], those that could move there
         row        int32[o]
         predicate  int32[o]      the access predicate of the row there, ascending
         cost       float64[o]    what checking the row there costs an event
Worked   s0: a = 1 AND b = 2 AND c = 3    s1: a = 1 AND b = 4
         groups of two: ab {s0, s1}, ac {s0}, bc {s0}; of three: abc {s0}
         ab has two access predicates: a = 1, b = 2 of s0 and a = 1, b = 4 of s1

Values of different attributes are taken to be independent, so the share of events that satisfy an
access predicate is the product of those of its equalities (as in the paper's example 3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.clusters import RowLeaves
from index.kernels.access_tables import ATTRIBUTES_MAX

RETRIEVAL_NS = 0.5
"""K_r: to see whether an event has the attributes of a table."""
LOOKUP_NS = 20.0
"""C_h: to look for an access predicate in a table."""
ATTRIBUTE_NS = 4.0
"""K_h: to add a value to the hash."""
CHECK_NS = 3.0
"""To check a row of a cluster. All four are measured on events of 32 attributes and 50,000
subscriptions of five equalities each: 50 tables of two, three and four attributes take 27, 32 and
36 ns each, and 0.5 where the attributes are absent; a row takes 1.5 ns in a long cluster and 6 in
one of 40 rows that is not in the cache."""

EQUALITIES_MAX = 6
"""Equalities of a row, the rarest, that groups are made of: at most 50 groups a row."""

TABLE_BYTES = 4 * ATTRIBUTES_MAX
"""An empty table: its schema."""
PREDICATE_BYTES = 60
"""An access predicate: two slots, one of them empty, its leaves, its list and a cluster in it."""
LEAF_BYTES = 4
"""A leaf to check."""


class Equalities(NamedTuple):
    """The equalities of n rows that access predicates are made of: one an attribute and row."""

    owner: NDArray[np.int64]  # [e] number of the row; ascending, then by attribute
    attribute: NDArray[np.int64]  # [e]
    leaf: NDArray[np.int64]  # [e]


class Candidates(NamedTuple):
    """c schemas of tables, each with the rows that it could take."""

    schema: NDArray[np.int32]  # [c, ATTRIBUTES_MAX]
    overhead: NDArray[np.float64]  # [c] ns an event spends on the table, whatever it finds
    first: NDArray[np.int64]  # [c+1]
    row: NDArray[np.int32]  # [o]
    predicate: NDArray[np.int32]  # [o] numbers of access predicates, shared by no two candidates
    cost: NDArray[np.float64]  # [o]


def equalities_of(
    leaves: RowLeaves, usable: NDArray[np.bool_], attribute: NDArray[np.int64]
) -> Equalities:
    """The rarest equality of each attribute of a row; `usable` and `attribute` are by leaf."""
    at = np.flatnonzero(usable[leaves.leaf])
    keys = leaves.owner[at] << 32 | attribute[leaves.leaf[at]]
    # Leaves ascend by share, so the first of equal keys is the rarest.
    _, rarest = np.unique(keys, return_index=True)
    at = at[np.sort(rarest)]
    owner = leaves.owner[at]
    place = np.arange(at.size) - np.searchsorted(owner, owner)
    at = at[place < EQUALITIES_MAX]
    leaf = leaves.leaf[at]
    order = np.argsort(leaves.owner[at] << 32 | attribute[leaf])
    return Equalities(leaves.owner[at[order]], attribute[leaf[order]], leaf[order])


def table_overhead_ns(presence: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """What tables of `width` attributes cost an event that has all of these with `presence`."""
    overhead: NDArray[np.float64] = RETRIEVAL_NS + presence * (LOOKUP_NS + ATTRIBUTE_NS * width)
    return overhead


def candidate_tables(
    equalities: Equalities,
    share: NDArray[np.float64],
    base: NDArray[np.float64],
    presence: NDArray[np.float64],
) -> Candidates:
    """Every schema of several attributes that could pay for a table.

    share     of each leaf         base      what checking a row costs an event now, by row
    presence  of each attribute
    """
    level = _Level(
        equalities.owner,
        np.arange(equalities.owner.size),
        equalities.attribute,
        equalities.leaf,
        share[equalities.leaf],
        np.arange(presence.size)[:, None],
    )
    found: list[Candidates] = []
    for width in range(2, ATTRIBUTES_MAX + 1):
        level = _extended(level, equalities, share, base)
        found.append(_worthwhile(level, base, presence, width))
    return _together(found)


class _Level(NamedTuple):
    """Groups of so many equalities of a row; t schemas."""

    owner: NDArray[np.int64]
    last: NDArray[np.int64]  # place of the group's last equality
    table: NDArray[np.int64]  # number of the schema
    predicate: NDArray[np.int64]  # number of the access predicate
    share: NDArray[np.float64]
    schema: NDArray[np.int64]  # [t, width]


def _extended(
    level: _Level, equalities: Equalities, share: NDArray[np.float64], base: NDArray[np.float64]
) -> _Level:
    """Groups of one equality more, without those of schemas that hardly any row has.

    A schema's rows have all its subsets, too, and a table saves no more than its rows cost now. So
    what cannot even pay for a look at the table need not be extended.
    """
    stop = np.searchsorted(equalities.owner, level.owner, "right")
    count = stop - 1 - level.last
    source = np.repeat(np.arange(level.owner.size), count)
    last = np.arange(source.size) - np.repeat(np.cumsum(count) - count, count)
    last += level.last[source] + 1
    attribute = equalities.attribute[last]
    radix = int(attribute.max(initial=0)) + 1
    keys, table = np.unique(level.table[source] * radix + attribute, return_inverse=True)
    paying = np.bincount(table, base[level.owner[source]], keys.size) > RETRIEVAL_NS
    kept = paying[table]
    source, last = source[kept], last[kept]
    table = (np.cumsum(paying) - 1)[table[kept]]
    keys = keys[paying]
    leaf = equalities.leaf[last]
    together = level.predicate[source] * share.size + leaf
    schema = np.column_stack((level.schema[keys // radix], keys % radix))
    return _Level(
        level.owner[source],
        last,
        table,
        np.unique(together, return_inverse=True)[1],
        level.share[source] * share[leaf],
        schema,
    )


def _worthwhile(
    level: _Level, base: NDArray[np.float64], presence: NDArray[np.float64], width: int
) -> Candidates:
    """The schemas that save more than a table costs, with the rows that gain."""
    cost = level.share * CHECK_NS
    gain = base[level.owner] - cost
    overhead = table_overhead_ns(presence[level.schema].prod(axis=1), width)
    saved = np.bincount(level.table, np.maximum(gain, 0), overhead.size)
    paying = saved > overhead
    at = np.flatnonzero((gain > 0) & paying[level.table])
    table = (np.cumsum(paying) - 1)[level.table[at]]
    order = np.lexsort((level.predicate[at], table))
    at = at[order]
    schema = np.full((int(paying.sum()), ATTRIBUTES_MAX), -1, np.int32)
    schema[:, :width] = level.schema[paying]
    return Candidates(
        schema,
        overhead[paying],
        np.searchsorted(table[order], np.arange(len(schema) + 1)),
        level.owner[at].astype(np.int32),
        level.predicate[at].astype(np.int32),
        cost[at],
    )


def _together(found: list[Candidates]) -> Candidates:
    """The candidates of all widths, access predicates renumbered."""
    first, row_count, predicate_count = [np.zeros(1, np.int64)], 0, 0
    predicates = []
    for part in found:
        first.append(part.first[1:] + row_count)
        row_count += part.row.size
        numbers, predicate = np.unique(part.predicate, return_inverse=True)
        predicates.append((predicate + predicate_count).astype(np.int32))
        predicate_count += numbers.size
    return Candidates(
        np.concatenate([part.schema for part in found]),
        np.concatenate([part.overhead for part in found]),
        np.concatenate(first),
        np.concatenate([part.row for part in found]),
        np.concatenate(predicates),
        np.concatenate([part.cost for part in found]),
    )
