"""Compact: records that tell many subscriptions of one tenant of one event, in columns.

    {"tenant":…,"epoch":…,"event":{…},"subscriptions":[[id, revision], …]}

Which subscriptions share a record is fixed by their names, for the order of matches depends on how
the index is laid out, which a replay may find changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from index.runs import begins_run
from streaming.byte_columns import (
    LIST_END,
    ByteColumn,
    column_of,
    cut_runs,
    digests,
    joined,
    listed,
    sizes_of,
    values_of,
)
from streaming.targets import TargetTable

LIST_START = b',"subscriptions":['


class Lists(NamedTuple):
    """Records about events, given by number, each for subscriptions of one group.

    event, group   int32[n] ascending; groups are those of the target table.
    number         int32[n] of the record among those of its event and group.
    value          the n values.
    """

    event: NDArray[np.int32]
    group: NDArray[np.int32]
    number: NDArray[np.int32]
    value: ByteColumn

    def ids(self, origins: ByteColumn, targets: TargetTable, prefix: bytes) -> ByteColumn:
        """What the records are called.

        origins   by event: the beginning of what notification ids are made of.
        prefix    of the numbers: records of several parts of an event have equal ones.
        """
        place = np.stack((self.group, self.number), axis=1)
        told, which = np.unique(place, axis=0, return_inverse=True)
        groups = values_of((targets.group_names, np.ascontiguousarray(told[:, 0]))).to_pylist()
        numbers = told[:, 1].tolist()
        names = column_of(
            [b"%b%b%d" % (group, prefix, one) for group, one in zip(groups, numbers, strict=True)]
        )
        return digests(joined((origins, self.event), (names, which.ravel().astype(np.int32))))


def lists_of(
    event: NDArray[np.int32],
    place: NDArray[np.int32],
    targets: TargetTable,
    tails: ByteColumn,
    bytes_max: int,
) -> Lists:
    """The records about pairs of an event and a compact target.

    tails       by event: what a value has between its tenant and its list.
    bytes_max   no value is longer, except for one of a single subscription.
    """
    group = targets.groups_of(place)
    order = np.lexsort((_ranks(targets.names, place), group, event))
    event, place, group = event[order], place[order], group[order]
    first = np.flatnonzero(begins_run(event, group))
    heads = joined((targets.group_heads, group[first]), (tails, event[first]))
    items = targets.items, place
    room = bytes_max - np.diff(heads.start) - LIST_END.size
    run, start, number = cut_runs(first, sizes_of(items), room)
    at = first[run]
    return Lists(event[at], group[at], number, listed((heads, run), items, start))


def _ranks(names: ByteColumn, place: NDArray[np.int32]) -> NDArray[np.int64]:
    """By pair: the place of its target's name among all of them, sorted."""
    told, which = np.unique(place, return_inverse=True)
    rank = np.empty(told.size, np.int64)
    rank[pc.sort_indices(values_of((names, told))).to_numpy()] = np.arange(told.size)
    return rank[which]
