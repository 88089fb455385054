"""Pivots: the attribute of each conjunction that fewest events have, as far as is known.

Paper    Zhang, Chan, Tan, PVLDB 7(8) 2014, section 4.1 (OpIndex).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.access import Shares


def visibility(
    place: NDArray[np.int32], attribute: NDArray[np.int32], attribute_count: int, shares: Shares
) -> NDArray[np.float64]:
    """The share of events that have each attribute; where unknown, of rows that name it."""
    pairs = np.unique(attribute.astype(np.int64) << 32 | place)
    row_count = max(int(place[-1]) + 1 if place.size else 0, 1)
    seen: NDArray[np.float64] = np.bincount(pairs >> 32, minlength=attribute_count) / row_count
    known = np.flatnonzero(~np.isnan(shares.of_attribute[:attribute_count]))
    seen[known] = shares.of_attribute[known]
    return seen


def pivots(
    place: NDArray[np.int32], attribute: NDArray[np.int32], seen: NDArray[np.float64]
) -> NDArray[np.int32]:
    """The least visible attribute of each row; of several, that of the leaf tested first."""
    order = np.lexsort((seen[attribute], place))
    is_first = np.ones(place.size, np.bool_)
    is_first[1:] = place[1:] != place[:-1]
    return attribute[order[is_first]].astype(np.int32)
