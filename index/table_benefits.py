"""Benefits of tables: what growing clusters cost events, and which tables would save that.

Paper    Fabret et al., SIGMOD 2001, section 4: the benefit margin of a cluster, the benefit of a
         hash table.
Idea     margin    share of events that satisfy the access predicate * rows: checks an event, of
                   which a better access predicate could save nearly all
         benefit   checks that a table saves an event: for each row that it has, or would have, the
                   share that the row is checked at without it, less that at which it is with it
Worked   table ab has 100 rows of access predicates of share 1/1000; the rarest of their single
         equalities have 1/20. Its benefit is 100 * (1/20 - 1/1000) = 4.9 checks an event.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.growing_clusters import leaves_max, new_row_memory
from index.kernels.access_choice import Potential, count_benefits, list_shares
from index.kernels.access_tables import ATTRIBUTES_MAX
from index.kernels.growing_clusters import (
    AT,
    CLUSTER,
    CLUSTERS,
    COUNT,
    LEAVES,
    LINE_BITS,
    NO_ACCESS,
    OWNER,
    PLACES,
    PREDICATES,
    ROWS,
    GrowingColumns,
)

SAMPLE_ROWS = 16_384
"""Rows that potential tables are counted over; each stands for as many as were passed over."""
POTENTIAL_SLOTS = 1 << 16
"""Half as many schemas are counted at once."""


def excessive_places(columns: GrowingColumns, margin_max: float) -> NDArray[np.int64]:
    """The places of all rows in clusters of too large a margin."""
    clusters = columns.cluster[: columns.counter[CLUSTERS]]
    _, share = _shares(columns)
    margin = share[clusters[:, OWNER]] * clusters[:, COUNT]
    excessive: NDArray[np.bool_] = (margin > margin_max) & (clusters[:, OWNER] > NO_ACCESS)
    places, cluster = _filed(columns)
    found: NDArray[np.int64] = places[excessive[cluster]]
    return found


def places_in_tables(columns: GrowingColumns, which: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places of all rows that are filed in some tables."""
    places, cluster = _filed(columns)
    table = columns.tables.table_of[columns.cluster[cluster, OWNER]]
    found: NDArray[np.int64] = places[(table >= 0) & np.append(which, False)[table]]
    return found


def table_benefits(columns: GrowingColumns) -> NDArray[np.float64]:
    """The benefit of each table; rows without it would be under their rarest equality."""
    tables = columns.tables
    of_leaf, of_predicate = _shares(columns)
    number = np.flatnonzero(tables.table_of[: of_predicate.size] >= 0)
    rarest = np.append(of_leaf, np.inf)[tables.access[number]].min(axis=1)
    saved = columns.predicate[number, ROWS] * (rarest - of_predicate[number])
    return np.bincount(tables.table_of[number], saved, len(tables.schema)).astype(np.float64)


def wanted_schema(
    columns: GrowingColumns, places: NDArray[np.int64], benefit_min: float
) -> NDArray[np.int32] | None:
    """The schema that has no table and would save most among these rows, if it saves enough."""
    sample = places[:: -(-places.size // SAMPLE_ROWS)]
    potential = Potential(
        np.zeros(POTENTIAL_SLOTS, np.uint64),
        np.full((POTENTIAL_SLOTS, ATTRIBUTES_MAX), -1, np.int32),
        np.zeros(POTENTIAL_SLOTS),
    )
    memory = new_row_memory(leaves_max(columns))
    weight, room = places.size / sample.size, POTENTIAL_SLOTS // 2
    count_benefits(columns, sample, weight, memory, potential, room)
    at = np.flatnonzero(potential.benefit >= benefit_min)
    schemas, benefit = potential.schema[at], potential.benefit[at]
    is_new = ~(schemas[:, None] == columns.tables.schema[None]).all(axis=2).any(axis=1)
    schemas, benefit = schemas[is_new], benefit[is_new]
    if not benefit.size:
        return None
    # Of equal benefits the schema of fewer attributes, then the one that comes first.
    order = np.lexsort((*schemas.T[::-1], (schemas >= 0).sum(axis=1), -benefit))
    best: NDArray[np.int32] = schemas[order[0]]
    return best


def _filed(columns: GrowingColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The places of all rows, and their clusters."""
    at = columns.place[: columns.counter[PLACES], AT]
    places = np.flatnonzero(at >= 0)
    return places, columns.block[at[places] >> LINE_BITS, CLUSTER]


def _shares(columns: GrowingColumns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The shares of all leaves, and of all access predicates."""
    counter = columns.counter
    shares = np.empty(int(counter[LEAVES])), np.empty(int(counter[PREDICATES]))
    list_shares(columns, *shares)
    return shares
