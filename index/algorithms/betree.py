"""BE-Tree: cut the space of subscriptions in two phases, by attribute and then by value.

Paper    Sadoghi and Jacobsen, SIGMOD 2011. Section 4.1 nodes, 4.2 space partitioning, 4.3 space
         clustering and table 1, 5 ranks and recycling, 6 algorithms 1 to 6, 7 parameters.
TODO
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.betree_tree import (
    bytes_of,
    check_tree,
    empty_tree,
    has_gaps,
    new_work,
    walk_tree,
    with_room,
    without_gaps,
)
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import ConjunctionSegment
from index.growing_segment import GrowingSegment
from index.kernels.betree_change import STACK
from index.kernels.betree_keys import SHORT_ABSENT
from index.kernels.betree_pool import (
    EVENTS,
    LEAF_MAX,
    NODE,
    NODE_LIVE,
    NODE_STOP,
    RECYCLED,
    ROOT,
    ROW_COUNT,
    Tree,
    class_of,
)
from index.kernels.betree_shrink import change_rows
from index.kernels.betree_stab import (
    CANDIDATES,
    COUNTS,
    HITS,
    VERIFIED,
    VISITED,
    Memory,
    match_values,
)
from index.kernels.probe import Compiled, Hits
from index.kernels.verify import new_scratch
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

LEAF_MAX_BY_SHARE = (0.01, 5), (0.10, 20), (1.0, 160)
"""Table 4: below which share of rows that match an event an l-node holds how many."""
HITS_PER_EVENT = 8


class BETreeSegment(ConjunctionSegment[Tree], GrowingSegment):
    """The tree of one segment."""

    columns_type = Tree
    leaf_max: ClassVar[int] = LEAF_MAX_BY_SHARE[0][1]

    def __init__(self, columns: Tree) -> None:
        super().__init__(columns)
        self._counts = np.zeros(COUNTS, np.int64)
        self._pair_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """All rows in the root's l-node first, so that the cuts are made with all in view."""
        segment = cls(empty_tree(cls.leaf_max))
        root = segment._columns.node[ROOT]
        root["capacity"] = max(rows.size, cls.leaf_max)
        segment._change(compiled, (rows, rows[:0]), attribute_count, shares)
        segment._columns.node[ROOT]["capacity"] = cls.leaf_max
        segment._change(compiled, (rows[:0], rows[:0]), attribute_count, shares)
        segment._columns = without_gaps(segment._columns)
        return segment

    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        """One row after the other."""
        self._change(compiled, (rows, rows[:0]), attribute_count, shares)

    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        """One row after the other."""
        attribute_count = int(compiled.predicates.record["attribute"].max(initial=-1)) + 1
        self._change(compiled, (rows[:0], rows), attribute_count, Shares.unknown())

    def _change(
        self,
        compiled: Compiled,
        changes: tuple[NDArray[np.int32], NDArray[np.int32]],
        attribute_count: int,
        shares: Shares,
    ) -> None:
        """Insert the first rows, delete the second; pools grow as they are found short."""
        added, removed = changes
        tree = self._columns
        work = new_work(tree, added, attribute_count, shares.of_predicate)
        work.stack[0], work.state[STACK] = ROOT, 1
        while not change_rows(tree, compiled, work, removed):
            tree, work = with_room(tree, work)
        self._columns = without_gaps(tree) if has_gaps(tree) else tree

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Stab event after event; what was found guides the size of later l-nodes."""
        tree = self._columns
        memory = _new_memory(tree, batch, attribute_count)
        memories = memory, new_scratch(attribute_count)
        event_count = batch.entry_start.size - 1
        hits = collect_hits(
            lambda room, event: match_values(tree, compiled, batch, memories, room, event),
            event_count,
            HITS_PER_EVENT * event_count,
        )
        self._counts += memory.counts
        tree.control[EVENTS] += event_count
        self._pair_count += event_count * int(tree.control[ROW_COUNT])
        share = self._counts[HITS] / max(self._pair_count, 1)
        tree.control[LEAF_MAX] = next(size for below, size in LEAF_MAX_BY_SHARE if share <= below)
        return hits

    def stats(self) -> dict[str, int]:
        tree = self._columns
        visits = list(walk_tree(tree))
        return {
            "node_count": int(tree.control[NODE_LIVE]),
            "partition_count": int(tree.node["partition_count"][[v.node for v in visits]].sum()),
            "depth": max(len(v.path) for v in visits),
            "recycled_count": int(tree.control[RECYCLED]),
            "tree_bytes": bytes_of(tree),
            "visited_node_count": int(self._counts[VISITED]),
            "verified_count": int(self._counts[VERIFIED]),
            "candidate_count": int(self._counts[CANDIDATES]),
            "hit_count": int(self._counts[HITS]),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        check_tree(self._columns, rows)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        return "somewhere"


class BETree(Updatable):
    """Two-phase cuts; conjunctions of any predicates a kernel can test."""

    name = "betree"
    paper = "Sadoghi, Jacobsen: BE-Tree: An Index Structure to Match Boolean Expressions. SIGMOD 2011"
    summary = "cuts subscriptions by attribute and then by value, and adapts as they come and go"
    companion = PSTHash.name
    segment_type = accompanied(BETreeSegment, PSTHash.segment_type)


def _new_memory(tree: Tree, batch: EventBatch, attribute_count: int) -> Memory:
    """Working memory for the largest event, the tree and its rows."""
    value_at = batch.value_start[batch.entry_start]
    entry_count = int(np.diff(batch.entry_start).max(initial=0))
    key_count = entry_count + 2 * int(np.diff(value_at).max(initial=0))
    return new_memory(tree, attribute_count, entry_count, key_count)


def new_memory(tree: Tree, attribute_count: int, entry_count: int, key_count: int) -> Memory:
    hull = np.full((attribute_count, 2), SHORT_ABSENT, np.int32)
    hull[:, 1] = -SHORT_ABSENT
    node_count = int(tree.control[NODE_STOP])
    return Memory(
        np.full(attribute_count, -1, np.int32),
        hull,
        np.empty(entry_count, np.int32),
        np.zeros(entry_count + 1, np.int32),
        np.empty(key_count, np.int64),
        np.empty(key_count, np.int64),
        np.empty(node_count, np.int32),
        np.empty(node_count, np.int32),
        np.empty(int(tree.control[ROW_COUNT]), np.int32),
        np.zeros(COUNTS, np.int64),
    )
