"""What a change of a BE-Tree works with: what is left to do, and the rows at hand.

Every step asks for room before it changes anything. Where room is short the caller makes some and
calls again; what is left to do stands in `Work`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.betree_keys import (
    KEY_FIRST,
    KEY_LAST,
    leaf_interval,
    leaf_share,
    short_key,
)
from index.kernels.betree_pool import (
    ENTRY_RUNS,
    NODE_STOP,
    PARTITION_RUNS,
    ROOT,
    TEST_WORDS,
    TESTS,
    Tree,
)
from index.kernels.probe import Compiled
from index.program import POLARITY_BITS

PARTITION_ROWS_MIN = 3
"""Section 7: an attribute that fewer rows name is no partition."""

STATE_SIZE = 13
STACK, PENDING, TOUCHED, STAMP, ROW_STAMP, SETTLING, JUDGED, JUDGED_ATTRIBUTE, REMOVED = range(9)
NODES_NEEDED, PARTITIONS_NEEDED, ENTRIES_NEEDED, PAIRS_NEEDED = range(9, STATE_SIZE)
"""Places in `Work.state`: sizes of the stacks, the last stamps, the c-node and the attribute of a
p-node whose window is over, rows removed so far, and the extents that pools and pairs must have."""

PLACE, NEXT = range(2)
_STOP = 0


class Work(NamedTuple):
    """Working memory of a change, and what is left to do."""

    share: NDArray[np.float64]  # of predicates, from statistics
    used: NDArray[np.int32]  # [attributes] stamp of the path that has a p-node of the attribute
    seen: NDArray[np.int32]  # [attributes] stamp of the row that names it
    named: NDArray[np.int32]  # [attributes] rows of an overflowing l-node that name it
    listed: NDArray[np.int32]  # [attributes] 1 + the first of the pairs of these, or 0
    score: NDArray[np.float64]  # [attributes] its gain less its loss
    pair: NDArray[np.int32]  # [pairs, 2] a row's place in the l-node; 1 + the next of the attribute
    touched: NDArray[np.int32]  # [attributes] those that such rows name
    cost: NDArray[np.float64]  # [TESTS] of the tests chosen so far
    chosen: NDArray[np.int32]  # [TESTS]
    stack: NDArray[np.int32]  # nodes whose l-node may overflow
    walk: NDArray[np.int32]  # nodes to visit
    pending: NDArray[np.int32]  # rows to insert, the last first
    filled: NDArray[np.int32]  # [nodes] stamp of the settling that knows the intervals of its rows
    low: NDArray[np.int64]  # [entries] the keys that the row of an entry covers, in its directory
    high: NDArray[np.int64]
    state: NDArray[np.int64]  # [STATE_SIZE]


@leaf
def has_room(tree: Tree, work: Work, nodes: int, partitions: int, entries: int) -> bool:
    """Is there room for so many more? If not, `Work.state` says what extents are needed."""
    state = work.state
    state[NODES_NEEDED] = tree.control[NODE_STOP] + nodes
    state[PARTITIONS_NEEDED] = tree.control[PARTITION_RUNS + _STOP] + partitions
    state[ENTRIES_NEEDED] = tree.control[ENTRY_RUNS + _STOP] + entries
    return bool(
        state[NODES_NEEDED] <= tree.node.size
        and state[PARTITIONS_NEEDED] <= tree.partition.shape[0]
        and state[ENTRIES_NEEDED] <= tree.entry.shape[0]
    )


@leaf
def row_interval(compiled: Compiled, row: int, attribute: int) -> tuple[bool, int, int]:
    """Does a row name an attribute, and the keys it covers there: of several leaves the one that
    covers least, because of an array each may be satisfied by another value.
    """
    found, low, high = False, KEY_FIRST, KEY_LAST
    for word in range(compiled.programs.start[row], compiled.programs.start[row + 1]):
        code = compiled.programs.code[word]
        if compiled.predicates.record[code >> POLARITY_BITS]["attribute"] != attribute:
            continue
        first, last = leaf_interval(compiled.predicates, code)
        if not found or float(last) - float(first) < float(high) - float(low):
            low, high = first, last
        found = True
    return found, low, high


@leaf
def mark_path(tree: Tree, work: Work, node: int) -> None:
    """Stamp the attributes that have a p-node above a node."""
    work.state[STAMP] += 1
    while node != ROOT:
        work.used[tree.node[node]["attribute"]] = work.state[STAMP]
        node = tree.node[node]["parent"]


@leaf
def write_entry(tree: Tree, compiled: Compiled, work: Work, at: int, row: int) -> None:
    """Fill an entry with the row's most selective tests; those of the path are satisfied mostly."""
    count, programs, predicates = 0, compiled.programs, compiled.predicates
    for word in range(programs.start[row], programs.start[row + 1]):
        code = programs.code[word]
        cost = leaf_share(predicates, work.share, code)
        if work.used[predicates.record[code >> POLARITY_BITS]["attribute"]] == work.state[STAMP]:
            cost += 1.0
        place = min(count, TESTS - 1)
        if count == TESTS and cost >= work.cost[place]:
            continue
        count = min(count + 1, TESTS)
        while place > 0 and work.cost[place - 1] > cost:
            work.cost[place], work.chosen[place] = work.cost[place - 1], work.chosen[place - 1]
            place -= 1
        work.cost[place], work.chosen[place] = cost, code
    entry = tree.entry
    entry[at, 0] = row
    for place in range(TESTS):
        word = 1 + TEST_WORDS * place
        entry[at, word] = -1
        if place < count:
            low, high = leaf_interval(predicates, work.chosen[place])
            number = work.chosen[place] >> POLARITY_BITS
            entry[at, word] = predicates.record[number]["attribute"]
            entry[at, word + 1], entry[at, word + 2] = short_key(low), short_key(high)
