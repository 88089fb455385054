"""Gryphon: a tree of tests that subscriptions share; an event follows every edge whose test holds.

Paper    Aguilera, Strom, Sturman, Astley, Chandra, "Matching events in a content-based subscription
         system", PODC 1999; as Sadoghi and Jacobsen, BE-Tree, SIGMOD 2011, section 7.2, and Fabret
         et al., SIGMOD 2001, section 5, compare with it.
Idea     all subscriptions test their attributes in one order, and those that begin alike share the
         beginning. A node of this tree has an edge for each value that some subscription asks of
         the node's attribute, one for each other test, and a star edge for those that do not care.
         An event follows the star and all edges that hold, in parallel; each subscription lies at
         the end of one path.
Layout   leaf    int32[l]      codes of the distinct leaves in the order of tests: equalities first,
                               each by how many subscriptions have its attribute; a place is a test
         points  value -> test, of the e equalities, see index.kernels.points
         test    int32[a]      tests of the rows, ascending in each row; rows ascend by their tests
         start   int64[n+1]    row -> its run of `test`      row   int32[n]   place -> row
         rest    int64[n]      where the tests begin that are left when a row is reached
         node    int32[k * 8]  chain of tests, rows that end here, edges: equalities, then others
         edge    int32[g * 4]  test | child: a node, or -1 - the place of a row | attribute | star:
                               the next edge of another attribute
         table   int32[...]    slot -> edge + 1, of equality edges of nodes that have many
Worked   order: a =, b =, c =, then c <       s0: a = 1 AND b = 2      s1: a = 1 AND b = 2 AND c < 5
                                              s2: a = 2 AND c = 7      s3: b = 2
         root    a = 1 -> node 1      a = 2 -> s2, left c = 7      b = 2 -> s3 (after the star of a)
         node 1  chain b = 2, s0 ends here, c < 5 -> s1
         event a = 1, b = 2, c = 7: a = 1 to node 1, where b = 2 holds, so s0 matches; c < 5 does
         not hold; from the root b = 2 leads to s3, which matches
Cost     match O(nodes reached + edges looked at there): an equality edge is found by hash, or by a
         look at each of a few; other tests of a node are all made, each once an event. A node has
         two rows or more below it, so nodes and edges grow with the rows, not with their tests: 32
         bytes a node, 16 an edge, 20 a row, 4 a predicate and 4 a distinct one; 100 bytes for a row
         of 8 predicates of ads, at most 200. Best where few attributes are asked for by equality
         and all subscriptions ask for them; poor where attributes are many, for then few
         subscriptions share more than their first test.
Differs  Chains of stars are one node, whose edges test several attributes; so are chains of nodes
         with one edge. A subscription alone below an edge keeps the rest of its tests at the edge.
         The tree branches on DEPTH_MAX tests at most. Equalities are tested before all else, also
         those of other attributes: an attribute has one level for `=` and a later one for the rest.
         Several tests of one attribute are several levels. Nodes are followed in the order in which
         they are reached, not depth first, so that the next ones can be prefetched. IN is one test,
         as an edge for each member would put a subscription at several ends. Filters that are no
         plain conjunctions go to PSTHash.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares, words_of_leaf
from index.algorithms.psthash import PSTHash
from index.columns import EventBatch
from index.companion import accompanied
from index.conjunctions import PLAIN_OPERATORS, ConjunctionSegment
from index.kernels import inlined, leaf
from index.kernels.matching_tree import (
    ATTRIBUTE,
    CHAIN,
    CHAIN_STOP,
    CHILD,
    EDGE,
    EDGE_FIELDS,
    EDGE_STOP,
    EDGES_SCANNED_MAX,
    NODE_FIELDS,
    OTHER,
    ROW,
    ROW_STOP,
    STAR,
    TEST,
    TreeColumns,
    file_edges,
    find_edge,
    grow,
    reordered,
    sorted_rows,
)
from index.kernels.points import points_of_value
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.points import names_points, numbered_points, operands_of
from index.predicate_phase import leaves_of_rows
from index.predicates import PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.segment import collect_hits
from index.threshold import Polarity
from index.updatable import Updatable
from index.vocabulary import Vocabulary

NODES_AHEAD = 4
"""So many nodes or rows before one's turn its tests are prefetched, and itself as many before."""

EDGES_AHEAD = 4
"""So many edges before it is tested, the predicate of one is prefetched."""

COUNTS = 3
NODES, CANDIDATES, HITS = range(COUNTS)
"""Places in `Working.counts`."""


class Working(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    known: NDArray[np.int32]  # [l] 2 * stamp | 1 if the leaf holds, 2 * stamp if it does not
    held: NDArray[np.int32]  # equalities that hold of the event at hand
    reached: NDArray[np.int32]  # [n + k] nodes, and -1 - the places of rows
    counts: NDArray[np.int64]


class MatchingTree(ConjunctionSegment[TreeColumns]):
    """The tree of one segment."""

    columns_type = TreeColumns

    def __init__(self, columns: TreeColumns) -> None:
        super().__init__(columns)
        self._node_count = 0

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Order the tests, sort the rows by them, and let the tree grow over the sorted rows.

        The order is by how many rows test an attribute; what events have does not matter.
        """
        predicates = compiled.predicates
        place, code = leaves_of_rows(compiled.programs, rows)
        # Each leaf of a row once, however often the row has it.
        asks = np.unique(place.astype(np.int64) << 32 | code)
        place, code = (asks >> 32).astype(np.int32), (asks & 0xFFFFFFFF).astype(np.int32)
        leaves, asked = np.unique(code, return_inverse=True)
        of_leaf = np.bincount(asked, minlength=leaves.size)
        order, equality_count = _order_of_tests(predicates, leaves, of_leaf, attribute_count)
        leaves, rank = leaves[order], np.argsort(order)
        operands = operands_of(predicates, leaves, np.arange(equality_count))
        points, numbered = numbered_points(operands, attribute_count)
        assert np.array_equal(numbered, np.arange(equality_count)), "two leaves of one equality"
        sorted_asks = np.sort(place.astype(np.int64) << 32 | rank[asked])
        test = (sorted_asks & 0xFFFFFFFF).astype(np.int32)
        start = np.searchsorted(sorted_asks >> 32, np.arange(rows.size + 1))
        order = sorted_rows(test, start)
        test, start = reordered(test, start, order)
        columns = TreeColumns(
            points,
            leaves,
            test,
            start,
            np.empty(rows.size, np.int64),
            rows[order].astype(np.int32),
            np.zeros((rows.size + 1) * NODE_FIELDS, np.int32),
            np.zeros((2 * rows.size + 1) * EDGE_FIELDS, np.int32),
            np.zeros(0, np.int32),
        )
        node_count, edge_count = grow(columns, predicates, np.empty((rows.size + 1, 2), np.int32))
        columns = columns._replace(
            node=columns.node[: node_count * NODE_FIELDS].copy(),
            edge=columns.edge[: edge_count * EDGE_FIELDS].copy(),
        )
        tabled = _tabled(columns)
        columns = columns._replace(table=np.zeros(1 << (2 * tabled).bit_length(), np.int32))
        file_edges(columns)
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Follow the edges event after event."""
        columns, row_count = self._columns, self._columns.row.size
        value_at = batch.value_start[batch.entry_start]
        working = Working(
            new_scratch(attribute_count),
            np.zeros(columns.leaf.size, np.int32),
            np.empty(int((2 * np.diff(value_at)).max(initial=0)), np.int32),
            np.empty(row_count + columns.node.size // NODE_FIELDS + 1, np.int32),
            np.zeros(COUNTS, np.int64),
        )
        hits = collect_hits(
            lambda room, event: follow_events(columns, compiled, batch, working, room, event),
            batch.entry_start.size - 1,
            row_count,
        )
        self._node_count += int(working.counts[NODES])
        self._found(working.counts[CANDIDATES], working.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row that was reached."""
        columns = self._columns
        return {
            "node_count": columns.node.size // NODE_FIELDS,
            "edge_count": columns.edge.size // EDGE_FIELDS,
            "visited_node_count": self._node_count,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Walk the tree: every row is at the end of one path, which has all its tests."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        equality_count = columns.points.number.size
        nodes, edges = columns.node.reshape(-1, NODE_FIELDS), columns.edge.reshape(-1, EDGE_FIELDS)
        runs = [columns.test[columns.start[at] : columns.start[at + 1]] for at in range(rows.size)]
        assert all(np.all(np.diff(run) > 0) for run in runs), "tests of a row are not in order"
        reached = np.zeros(rows.size, np.int64)
        paths: list[tuple[int, list[int]]] = [(0, [])] if rows.size else []
        visited = 0
        while paths:
            at, path = paths.pop()
            visited += 1
            node = nodes[at]
            path = path + columns.test[node[CHAIN] : node[CHAIN_STOP]].tolist()
            ends = [(place, path) for place in range(node[ROW], node[ROW_STOP])]
            for number in range(node[EDGE], node[EDGE_STOP]):
                test, child, attribute, star = edges[number].tolist()
                others = np.flatnonzero(edges[number : node[EDGE_STOP], ATTRIBUTE] != attribute)
                assert star == number + (others[0] if others.size else node[EDGE_STOP] - number)
                assert (test < equality_count) == (number < node[OTHER]), "an edge among the wrong"
                if number < node[OTHER] and node[OTHER] - node[EDGE] > EDGES_SCANNED_MAX:
                    assert find_edge(columns, at, test) == child, "an edge cannot be found"
                if child >= 0:
                    paths.append((child, [*path, test]))
                else:
                    ends.append((-1 - child, [*path, test]))
            for place, tests in ends:
                reached[place] += 1
                left = columns.test[columns.rest[place] : columns.start[place + 1]].tolist()
                assert tests + left == runs[place].tolist(), "a path is not that of its row"
        assert np.all(reached == 1), "a row is reached on no path, or on several"
        assert visited == len(nodes), "a node is not reached"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The tests on the path to the row, and those that are left there."""
        columns = self._columns
        place = int(np.flatnonzero(columns.row == row)[0])
        start, stop = columns.start[place], columns.start[place + 1]
        words = [
            words_of_leaf(compiled.predicates, vocabulary, int(code), False)
            for code in columns.leaf[columns.test[start:stop]]
        ]
        rest = int(columns.rest[place] - start)
        left = f", left to test: {', '.join(words[rest:])}" if rest < len(words) else ""
        return f"at the end of {' / '.join(words[:rest]) or 'no test'}{left}"


class Gryphon(Updatable):
    """A tree of tests; conjunctions of any predicates a kernel can test."""

    name = "gryphon"
    paper = "Aguilera et al.: Matching Events in a Content-based Subscription System. PODC 1999"
    summary = "follows every edge of a tree of tests that subscriptions share from the first on"
    operators = PLAIN_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(MatchingTree, PSTHash.segment_type)


def _order_of_tests(
    predicates: PredicateColumns,
    leaves: NDArray[np.int32],
    of_leaf: NDArray[np.int64],
    attribute_count: int,
) -> tuple[NDArray[np.int64], int]:
    """The order in which leaves are tested, and how many of them are equalities."""
    record = predicates.record[leaves >> POLARITY_BITS]
    is_true = leaves & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE
    is_equality = names_points(predicates, leaves) & is_true & (record["kind"] != PredicateKind.IN)
    level = record["attribute"].astype(np.int64) + attribute_count * ~is_equality
    frequency = np.bincount(level, of_leaf, 2 * attribute_count)
    order = np.lexsort((leaves, level, -frequency[level], ~is_equality))
    return order, int(np.count_nonzero(is_equality))


def _tabled(columns: TreeColumns) -> int:
    """How many edges belong into the table."""
    nodes = columns.node.reshape(-1, NODE_FIELDS)
    counts = nodes[:, OTHER] - nodes[:, EDGE]
    return int(counts[counts > EDGES_SCANNED_MAX].sum())


@leaf
def follow_events(
    columns: TreeColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    row_count, counts, reached = columns.row.size, working.counts, working.reached
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        stamp = 2 * (event + 1)
        enter_event(batch, event, working.scratch.entry_of)
        held_count = _held(columns, batch, event, working, stamp)
        reached[0] = 0
        at, reached_count = 0, min(1, row_count)
        while at < reached_count:
            _prefetch_ahead(columns, working, at, reached_count)
            number = int(reached[at])
            at += 1
            if number >= 0:
                counts[NODES] += 1
                to = number, held_count, stamp
                reached_count = _follow(columns, compiled, batch, working, to, reached_count)
                continue
            counts[CANDIDATES] += 1
            left = columns.rest[-1 - number], columns.start[-number]
            if _all_hold(columns, compiled.predicates, batch, working, left, stamp):
                hits.hit[hit_count] = np.int64(columns.row[-1 - number]) << VERDICT_BITS | YES
                hit_count += 1
        leave_event(batch, event, working.scratch.entry_of)
        counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@leaf
def _held(columns: TreeColumns, batch: EventBatch, event: int, working: Working, stamp: int) -> int:
    """Let the equalities that hold be known, and list them in `held`; returns how many there are.

    On exit all other equalities do not hold, as they are not known to.
    """
    count = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        if attribute >= columns.points.facets.size:
            continue
        for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
            for point in points_of_value(columns.points, batch, value, attribute):
                if point >= 0 and working.known[point] != stamp + 1:
                    working.known[point] = stamp + 1
                    working.held[count] = point
                    count += 1
    return count


@inlined
def _prefetch_ahead(columns: TreeColumns, working: Working, at: int, reached_count: int) -> None:
    """Ask for a node or row to come, and for the tests of one that has arrived by now."""
    if at + 2 * NODES_AHEAD < reached_count:
        number = int(working.reached[at + 2 * NODES_AHEAD])
        if number >= 0:
            prefetch(columns.node, number * NODE_FIELDS)
        else:
            prefetch(columns.rest, -1 - number)
            prefetch(columns.start, -number)
    if at + NODES_AHEAD < reached_count:
        number = int(working.reached[at + NODES_AHEAD])
        if number >= 0:
            prefetch(columns.test, columns.node[number * NODE_FIELDS + CHAIN])
            prefetch(columns.edge, columns.node[number * NODE_FIELDS + EDGE] * EDGE_FIELDS)
        else:
            prefetch(columns.test, columns.rest[-1 - number])


@leaf
def _follow(
    columns: TreeColumns,
    compiled: Compiled,
    batch: EventBatch,
    working: Working,
    to: tuple[int, int, int],
    reached_count: int,
) -> int:
    """Append what is reached from node to[0], given to[1] equalities held and the event's stamp."""
    number, held_count, stamp = to
    fields, edges = number * NODE_FIELDS, columns.edge
    node, reached, predicates = columns.node, working.reached, compiled.predicates
    chain = int(node[fields + CHAIN]), int(node[fields + CHAIN_STOP])
    if not _all_hold(columns, predicates, batch, working, chain, stamp):
        return reached_count
    for place in range(node[fields + ROW], node[fields + ROW_STOP]):
        reached[reached_count] = -1 - place
        reached_count += 1
    first, other, stop = node[fields + EDGE], node[fields + OTHER], node[fields + EDGE_STOP]
    if other - first > EDGES_SCANNED_MAX:
        for at in range(held_count):
            child = find_edge(columns, number, working.held[at])
            if child >= -columns.row.size:
                reached[reached_count] = child
                reached_count += 1
        first = other
    edge = int(first)
    while edge < stop:
        fields = edge * EDGE_FIELDS
        if edge + EDGES_AHEAD < stop:
            ahead = columns.leaf[edges[fields + EDGES_AHEAD * EDGE_FIELDS + TEST]]
            prefetch(predicates.record, ahead >> POLARITY_BITS)
        if working.scratch.entry_of[edges[fields + ATTRIBUTE]] < 0:
            edge = int(edges[fields + STAR])
            continue
        test = edges[fields + TEST]
        if working.known[test] == stamp + 1 or (
            edge >= other and _holds(columns, predicates, batch, working, test, stamp)
        ):
            reached[reached_count] = edges[fields + CHILD]
            reached_count += 1
        edge += 1
    return reached_count


@inlined
def _all_hold(
    columns: TreeColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    working: Working,
    run: tuple[int, int],
    stamp: int,
) -> bool:
    """Whether the tests run[0]..run[1] hold."""
    for at in range(run[0], run[1]):
        test = columns.test[at]
        if working.known[test] != stamp + 1 and not _holds(
            columns, predicates, batch, working, test, stamp
        ):
            return False
    return True


@leaf
def _holds(
    columns: TreeColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    working: Working,
    test: int,
    stamp: int,
) -> bool:
    """Whether a test holds that is not known to; no test but equalities is made twice an event."""
    if test < columns.points.number.size or working.known[test] == stamp:
        return False
    holds = leaf_holds(predicates, columns.leaf[test], batch, working.scratch) == YES
    working.known[test] = stamp + holds
    return holds
