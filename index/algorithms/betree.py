"""BE-Tree: cut the space of subscriptions in two phases, by attribute and then by value.

Paper    Sadoghi and Jacobsen, SIGMOD 2011. Section 3 events as expressions, 4.1 nodes, 4.2 space
         partitioning, 4.3 space clustering and table 1, 5 ranks and recycling, 6 algorithms 1 to 6,
         7 parameters and table 4.
Idea     an l-node that overflows gives all rows that name one attribute to a p-node; there a bucket
         that overflows is halved, and rows that a half encloses go down into it. A bucket that
         cannot be halved any more, or keeps rows that its middle cuts, begins again with another
         attribute. An event visits the p-nodes of its attributes, and the buckets that enclose its
         values: a row elsewhere names an attribute it lacks, or a range that its value is not in.
Layout   node       64 bytes each: a bucket low..high, its two halves, its l-node, its p-nodes
         partition  int32[p, 2]    (attribute, top bucket), runs that ascend by attribute
         ranking    int64[p, 4]    rows, rank and window of the same p-nodes
         entry      int32[e, 16]   runs of (row, up to five tests), a test being (attribute, low,
                                   high); one cache line a row, read before its filter is
         control    int64[...]     extents, and heads of the lists of free nodes and runs
         low and high are order keys, see index.kernels.betree_keys
Worked   leaves of 16; s0..s8 are a = 1 AND b = 0, 1, ... 8, and s9..s17 a = 4 AND c = 0, 1, ... 8.
         The root overflows; a is named by all 18, so its p-node takes them. Its bucket of all
         values overflows, too: all rows are in the half from 0 on, hence that is its only child;
         cut at 2, one half holds s0..s8 and the other s9..s17, and no leaf overflows. The event
         a = 1, b = 2 meets the half from 0 to below 2. All tests there but that of s2 want another
         b; the filter of s2 is verified, and holds (tests/golden/betree.json).
Cost     match O(visited nodes + rows of their l-nodes); insert one path and what it cuts, delete a
         search by the row's own attributes; 64 bytes a row, and some 20 for nodes. Best where rows
         name many attributes or narrow ranges; poor where all name the same few by wide ranges:
         these stay in buckets that most events meet.
Differs  The domain of every attribute is that of all doubles by their bits, with strings by code,
         booleans and null behind: finite, as the paper needs, and nobody has to know its ends.
         Halvings that leave all rows in one half are passed over, and halves nobody is in are not
         made; a row that needs one of them makes it, so every row is where the paper has it.
         `build` loads all rows into the root and then cuts (the paper's batch variant); changes are
         made one by one. Leaves are larger than the paper's 5, 20 and 160 rows, because here a row
         costs one cache line and a node several. A directory is a sorted run instead of a hash
         table. Gain less loss of a new p-node is the sum of 1 - share over the rows that name the
         attribute, shares as known from statistics or guessed by operator. Later loss is counted in
         tests that fail, over all events of a window. Rows of recycled and under-full p-nodes are
         inserted again from the root; the attribute of a recycled one is the last choice there.
         Two predicates on one attribute are filed by the narrower, as an array may satisfy them by
         different values. A leaf merges with its parent only together with its sibling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.algorithms.psthash import PSTHash
from index.betree_tree import (
    GROWTH_PART,
    bytes_of,
    cell_in_words,
    check_tree,
    empty_tree,
    has_gaps,
    new_memory,
    new_work,
    walk_tree,
    with_room,
    without_gaps,
)
from index.columns import EventBatch, Matches
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment
from index.expressions import Expressions, KnownSets
from index.frozen import writable
from index.growing_segment import GrowingSegment
from index.in_place import InPlace
from index.kernels.betree_pool import (
    EVENTS,
    LEAF_MAX,
    NODE,
    NODE_LIVE,
    RECYCLED,
    ROOT,
    ROW_COUNT,
    Tree,
)
from index.kernels.betree_shrink import change_rows, find_row
from index.kernels.betree_stab import (
    CANDIDATES,
    COUNTS,
    HITS,
    VERIFIED,
    VISITED,
    match_values,
    stab,
)
from index.kernels.betree_work import STACK
from index.kernels.probe import Compiled, Hits
from index.kernels.verify import new_scratch
from index.model import Filter
from index.segment import collect_hits
from index.vocabulary import Vocabulary

HITS_PER_EVENT = 8
"""Room for hits at first; it grows when the first events need more."""
EVENTS_TRUSTED = 100
"""After so many events the share of rows that match is taken to be known."""


class BETreeSegment(ConjunctionSegment[Tree], GrowingSegment):
    """The tree of one segment. Readers write counts into it, of which some may be lost when several
    read at once; nothing depends on them but later cuts.
    """

    columns_type = Tree
    leaf_max_by_share: ClassVar[tuple[tuple[float, int], ...]] = (0.01, 16), (0.10, 40), (1.0, 160)
    """After table 4: how many rows an l-node holds if an event matches up to that share of all."""

    def __init__(self, columns: Tree) -> None:
        super().__init__(columns)
        self._counts = np.zeros(COUNTS, np.int64)
        self._event_count = 0
        self._pair_count = 0

    @staticmethod
    def _kept(columns: Tree) -> Tree:
        """A tree grows, also that of a mapped snapshot."""
        return writable(columns)

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """All rows into the root's l-node, and then cut with all of them in view."""
        leaf_max = cls.leaf_max_by_share[0][1]
        segment = cls(empty_tree(leaf_max))
        for added, capacity in ((rows, max(rows.size, leaf_max)), (rows[:0], leaf_max)):
            segment._columns.node[ROOT]["capacity"] = capacity
            changes = added, rows[:0]
            segment._columns = segment._changed(compiled, changes, attribute_count, shares, 1)
        segment._columns = without_gaps(segment._columns)
        return segment

    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        """One row after the other."""
        changes = rows, rows[:0]
        tree = self._changed(compiled, changes, attribute_count, shares, GROWTH_PART)
        self._columns = without_gaps(tree) if has_gaps(tree) else tree

    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        """One row after the other."""
        attribute_count = int(compiled.predicates.record["attribute"].max(initial=-1)) + 1
        changes = rows[:0], rows
        tree = self._changed(compiled, changes, attribute_count, Shares.unknown(), GROWTH_PART)
        self._columns = without_gaps(tree) if has_gaps(tree) else tree

    def _changed(
        self,
        compiled: Compiled,
        changes: tuple[NDArray[np.int32], NDArray[np.int32]],
        attribute_count: int,
        shares: Shares,
        growth_part: int,
    ) -> Tree:
        """The tree with the first rows and without the second, and with nothing that overflows;
        pools grow, by that part of theirs, when they are found too small.
        """
        added, removed = changes
        tree = self._columns
        work = new_work(tree, added, attribute_count, shares.of_predicate)
        work.stack[0], work.state[STACK] = ROOT, 1
        while not change_rows(tree, compiled, work, removed):
            tree, work = with_room(tree, work, growth_part)
        return tree

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Stab event after event; how many rows match sets the size of later l-nodes."""
        tree = self._columns
        value_at = batch.value_start[batch.entry_start]
        entry_count = int(np.diff(batch.entry_start).max(initial=0))
        key_count = entry_count + 2 * int(np.diff(value_at).max(initial=0))
        memory = new_memory(tree, attribute_count, entry_count, key_count)
        memories = memory, new_scratch(attribute_count)
        event_count = batch.entry_start.size - 1
        hits = collect_hits(
            lambda room, event: match_values(tree, compiled, batch, memories, room, event),
            event_count,
            HITS_PER_EVENT * event_count,
        )
        self._counts += memory.counts
        self._event_count += event_count
        self._pair_count += event_count * int(tree.control[ROW_COUNT])
        tree.control[EVENTS] += event_count
        if self._event_count >= EVENTS_TRUSTED:
            share = self._counts[HITS] / max(self._pair_count, 1)
            fitting = (size for most, size in self.leaf_max_by_share if share <= most)
            tree.control[LEAF_MAX] = next(fitting)
        return hits

    def stabbed(
        self, compiled: Compiled, expressions: Expressions, event: int, attribute_count: int
    ) -> NDArray[np.int64]:
        """The rows that an event of expressions may meet, as far as intervals tell."""
        intervals = expressions.intervals_of(event)
        entry_count = intervals[0].size
        memory = new_memory(self._columns, attribute_count, entry_count, entry_count)
        count = stab(self._columns, compiled, intervals, memory)
        return memory.candidate[:count].astype(np.int64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All pools, nodes as words."""
        return {**super().to_arrays(), "node": self._columns.node.view(np.int64).reshape(-1, 8)}

    @classmethod
    def from_arrays(cls, arrays: Any) -> Self:
        """The pools that `to_arrays` wrote."""
        node = arrays["node"].reshape(-1).view(NODE)
        return super().from_arrays({**arrays, "node": node})

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of an l-node that an event visited."""
        tree = self._columns
        visits = list(walk_tree(tree))
        records = tree.node[[visit.node for visit in visits]]
        return {
            "node_count": int(tree.control[NODE_LIVE]),
            "partition_node_count": int(records["partition_count"].sum()),
            "leaf_node_count": int(np.count_nonzero(records["size"])),
            "recycled_count": int(tree.control[RECYCLED]),
            "tree_bytes": bytes_of(tree),
            "visited_node_count": int(self._counts[VISITED]),
            "verified_count": int(self._counts[VERIFIED]),
            "candidate_count": int(self._counts[CANDIDATES]),
            "hit_count": int(self._counts[HITS]),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the tree: its rows, its grid, what may be cut and what may be used, and its runs."""
        check_tree(self._columns, rows)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The buckets above the row's l-node, the lowest of each attribute."""
        tree = self._columns
        nobody = np.zeros(0, np.int32)
        work = new_work(tree, nobody, vocabulary.attribute_count, np.zeros(0))
        node, _ = find_row(tree, compiled, work, row)
        size = int(tree.node[node]["size"])
        words: list[str] = []
        below = -1
        while node != ROOT:
            record = tree.node[node]
            attribute = int(record["attribute"])
            if attribute != below:
                low, high = int(record["low"]), int(record["high"])
                words.insert(0, cell_in_words(vocabulary, attribute, low, high))
            below, node = attribute, int(record["parent"])
        return f"in a leaf of {size} under {', '.join(words) or 'the root'}"


class BETree(InPlace):
    """Two-phase cuts; conjunctions of any predicates a kernel can test."""

    name = "betree"
    paper = (
        "Sadoghi, Jacobsen: BE-Tree: An Index Structure to Efficiently Match Boolean Expressions "
        "over High-dimensional Discrete Space. SIGMOD 2011"
    )
    summary = "cuts subscriptions by attribute and then by value, again and again"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(BETreeSegment, PSTHash.segment_type)

    def match_expressions(self, filters: Sequence[Filter]) -> Matches:
        """The rows that meet each event, where an event is a conjunction of predicates: each
        predicate of the row shares some value with what the event says of its attribute (3).

        Both sides may use comparisons, BETWEEN, IN, IS NULL and EXISTS, negated ones too, on
        scalar attributes. Another filter is a ValueError as an event, and matches nothing as a
        subscription. Operands of events are added to the vocabulary.
        """
        with self._writing:
            expressions = Expressions(filters, self.vocabulary)
            state, attribute_count = self._state, self.vocabulary.attribute_count
            found: list[list[int]] = [[] for _ in filters]
            for store, tree, first_row in (
                (state.base, self._base_segment(state).own, 0),
                (state.recent, self._recent, len(state.base)),
            ):
                assert isinstance(tree, BETreeSegment)
                compiled = store.compiled()
                known: KnownSets = {}
                for event, rows_found in enumerate(found):
                    rows = tree.stabbed(compiled, expressions, event, attribute_count)
                    visible = store.visible(rows, state.version)
                    rows = rows if visible is None else rows[visible]
                    met = expressions.met(event, compiled, rows, known)
                    rows_found += [row + first_row for row in met]
        start = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return Matches(start, np.array([row for rows in found for row in sorted(rows)], np.int32))
