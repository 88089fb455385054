"""Access children: which children wake a gate, and which are only asked once it is awake.

A gate that needs k of its n children cannot hold unless one of any n - k + 1 of them does: one
child of a conjunction, all children of a disjunction. The rarest are its access children: they wake
it when they hold, and the others are looked up then. So nodes are of two kinds:

    pushed   tells its parents as soon as it holds: roots, and access children of pushed gates
    asked    is evaluated when a gate that is awake asks for it, and not at all otherwise

    a = 1 AND (b > 2 OR c > 3)     shares 0.1, 0.5 + 0.6: a = 1 wakes the AND, which asks the OR

The share of events in which a node holds is estimated as if its children were independent: the
product of a conjunction's, and of any other gate the sum over k, which is never too small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, leaf_shares
from index.kernels import leaf
from index.kernels.cover import BY_POINTS, UNFILED, filing_of_leaf
from index.kernels.hash_consing import Gates
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.threshold import Polarity

_FIRST_OPAQUE, _EQUAL = int(PredicateKind.OPAQUE_TEXT), int(PredicateKind.EQUAL)


class AccessChildren(NamedTuple):
    """The gates of a segment over l leaves, children from rare to frequent."""

    gates: Gates
    level: NDArray[np.int32]  # [g] one more than the highest child's; a leaf's is 0
    is_pushed: NDArray[np.bool_]  # [l+g] by node


def choose_access_children(
    gates: Gates,
    leaf_share: NDArray[np.float64],
    is_findable: NDArray[np.bool_],
    root: NDArray[np.int32],
) -> AccessChildren:
    """Order the children of all gates, and push from the nodes in `root` down to leaves.

    Of leaves that hold equally often those are preferred that need not be tried on every event.
    """
    gate_count, leaf_count = gates.need.size, leaf_share.size
    share = np.concatenate((leaf_share, np.empty(gate_count)))
    level = np.zeros(gate_count, np.int32)
    combine_shares(gates, share, level)
    is_tried = np.concatenate((~is_findable, np.zeros(gate_count, np.bool_)))
    rarest = np.lexsort((is_tried, share))
    rank = np.empty(share.size, np.int64)
    rank[rarest] = np.arange(share.size)
    gate_of = np.repeat(np.arange(gate_count), np.diff(gates.start))
    places = np.sort(gate_of << 32 | rank[gates.child])
    child = rarest[places & 0xFFFFFFFF].astype(np.int32)
    is_pushed = np.zeros(share.size, np.bool_)
    is_pushed[root[root >= 0]] = True
    ordered = gates._replace(child=child)
    push_down(ordered, leaf_count, is_pushed)
    return AccessChildren(ordered, level, is_pushed)


def access_counts(gates: Gates) -> NDArray[np.int64]:
    """How many access children each gate has; they are the first of its children."""
    size = np.diff(gates.start)
    return np.where(size == 0, 0, size - gates.need + 1)


def holding_shares(
    predicates: PredicateColumns,
    leaves: NDArray[np.int32],
    attribute_count: int,
    shares: Shares,
) -> NDArray[np.float64]:
    """The share of events in which each leaf is expected to hold.

    Of a negation it is known only if that of its predicate is: a guess is an upper bound.
    """
    number = leaves >> POLARITY_BITS
    share = leaf_shares(predicates, leaves, attribute_count, shares)
    known = np.full(leaves.size, np.nan)
    within = number < shares.of_predicate.size
    known[within] = shares.of_predicate[number[within]]
    polarity = leaves & ((1 << POLARITY_BITS) - 1)
    is_negation = (polarity == Polarity.IS_FALSE) | (polarity == Polarity.NOT_TRUE)
    share[is_negation] = 1 - np.nan_to_num(known[is_negation], nan=0.0)
    share[polarity == Polarity.NOT_FALSE] = 1.0
    return share


@leaf
def combine_shares(gates: Gates, share: NDArray[np.float64], level: NDArray[np.int32]) -> None:
    """Fill in the shares of gates, which are the last of `share`, and their levels."""
    leaf_count = share.size - level.size
    for gate in range(level.size):
        start, stop = gates.start[gate], gates.start[gate + 1]
        product, total, highest = 1.0, 0.0, 0
        for at in range(start, stop):
            child = gates.child[at]
            product *= share[child]
            total += share[child]
            if child >= leaf_count:
                highest = max(highest, level[child - leaf_count])
        is_conjunction = gates.need[gate] == stop - start
        share[leaf_count + gate] = product if is_conjunction else min(1.0, total / gates.need[gate])
        level[gate] = highest + 1


@leaf
def push_down(gates: Gates, leaf_count: int, is_pushed: NDArray[np.bool_]) -> None:
    """Let the access children of pushed gates be pushed, too: parents come after children."""
    for gate in range(gates.need.size - 1, -1, -1):
        if is_pushed[leaf_count + gate]:
            start, stop = gates.start[gate], gates.start[gate + 1]
            for at in range(start, min(stop, stop - gates.need[gate] + 1)):
                is_pushed[gates.child[at]] = True


@njit(cache=True, nogil=True)
def findable_leaves(
    predicates: PredicateColumns, code: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which leaves a predicate phase can find, and which of them are an equality that must hold."""
    findable, equality = np.empty(code.size, np.bool_), np.empty(code.size, np.bool_)
    for place in range(code.size):
        kind = predicates.record[code[place] >> POLARITY_BITS]["kind"]
        filing = filing_of_leaf(predicates, code[place])
        findable[place] = kind < _FIRST_OPAQUE and filing != UNFILED
        equality[place] = kind == _EQUAL and filing == BY_POINTS
    return findable, equality
