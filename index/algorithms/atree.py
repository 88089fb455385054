"""A-Tree: all filters as one graph whose equal sub-expressions are one node, evaluated upwards.

Paper    Ji and Jacobsen, "A-Tree: A Dynamic Data Structure for Efficiently Indexing Arbitrary
         Boolean Expressions", SIGMOD 2021.
Idea     filters share not only predicates but whole sub-expressions, so each distinct one is a node
         that is evaluated at most once an event. What does not hold is never touched: results rise
         from the leaves that hold. And they rise on demand: one child of a conjunction, its access
         child, wakes it; the results of the others are looked up then, for lower levels are done.
Layout   phase       leaves that values lead to, see index.predicate_phase: the first nodes
         always      int32[a]     codes of leaves tried on every event: the next nodes
         asked       int32[b]     codes of leaves tried when a gate asks for them: the next nodes
         level_start int32[h+2]   where the nodes of each level begin; level 0 is the l leaves, and
                                  after level h there are gates that are only asked
         level       uint8[m-l]   of gates that are woken, the nodes l..m
         need        int32[g]     of gate l + i: children that must hold once it is awake
         start       int64[g+1]   its children are child[start[i]:start[i+1]]: none of a disjunction
         child       int32[...]   that is woken, of a conjunction all but the one that wakes it;
                                  ~node if it has to be evaluated, else it has a result
         parents     int64[m+1]   node i wakes the gates parent[parents[i]:parents[i+1]]
         parent      int32[...]
         partner     int32[...]   a leaf without which that gate does not hold, looked up before it
                                  is woken; the child itself if there is none
         rows        int32[m+2]   rows of node i are row[rows[i]:rows[i+1]]; the last always hold
         row         int32[n]     verdict  uint8[n]   what a hit of the row is worth
Worked   s0: a = 1 AND (b = 2 OR c < 3)    s1: d = 4 AND (b = 2 OR c < 3)    s2: b = 2 OR c < 3
             level 2   [a=1 x] s0   [d=4 x] s1         a=1 wakes the first, d=4 the second, where
             level 1   x = [b=2 c<3] s2                x is looked up; b=2 and c<3 wake x
         event a = 1, c = 0: x is woken and holds, so s2 matches; of level 2 only the gate of s0 is
         awake, and x holds: s0 matches (tests/golden/atree.json)
Cost     s satisfied leaves that wake w gates: match O(predicate phase + w + children looked up).
         Build O(code) and sorts of nodes and children. Best where filters are trees that repeat
         each other's parts, or have one rare predicate and several that are dear to find; poor
         where no predicate is rare: then all gates are awake, one by one.
Differs  The graph is built at once instead of by insertions; index.updatable adds segments and
         hides what is deleted. Equal sub-expressions are shared as they are written: a conjunction
         that is a part of a larger one is not cut out of it. ATLEAST k of n is a gate, too, with
         n - k + 1 access children. The access child is the one expected to hold least often. The
         predicate phase finds access children and equalities only; what a gate that is awake asks
         for beyond that, leaves and gates, is evaluated then and remembered. What is UNKNOWN does
         not hold, for negations are in the leaves. Leaves that only Python can test are taken to
         hold, and their rows to be undecided.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.access_children import choose_access_children, findable_leaves, holding_shares
from index.column_segment import ColumnSegment
from index.columns import EventBatch
from index.conjunctions import WORDS_MAX, words_of_leaves
from index.kernels import inlined, leaf
from index.kernels.event_parts import CANDIDATES, HITS, Memory
from index.kernels.hash_consing import ALWAYS, mark_leaves, new_gates, share_rows
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits
from index.kernels.rows import opaque_rows
from index.kernels.verify import NO, UNDECIDED, YES, enter_event, leaf_holds, leave_event
from index.leveled_graph import LeveledGraph, check_graph, lay_out
from index.predicate_phase import PhaseColumns, build_phase, phase_memory, satisfied
from index.predicates import PredicateColumns
from index.program import GATE_DEPTH_MAX, POLARITY_BITS
from index.segment import collect_hits
from index.updatable import Updatable
from index.vocabulary import Vocabulary

_LEAVES_AHEAD, _GATES_AHEAD, _PREDICATES_AHEAD = 4, 8, 4
"""So many leaves, gates and gates again before its use memory is asked for."""
_PREFETCHED_LEAVES = 3
"""Most gates that ask are decided by one of the first leaves."""


class ATreeColumns(NamedTuple):
    """g gates over l leaves, up to level h, of n rows; m nodes are leaves or pushed."""

    phase: PhaseColumns
    always: NDArray[np.int32]  # [a]
    asked: NDArray[np.int32]  # [b]
    level_start: NDArray[np.int32]  # [h+2]
    level: NDArray[np.uint8]  # [m-l]
    need: NDArray[np.int32]  # [g]
    start: NDArray[np.int64]  # [g+1]
    child: NDArray[np.int32]  # nodes, or ~node
    parents: NDArray[np.int64]  # [m+1]
    parent: NDArray[np.int32]  # nodes, ascending of each child
    partner: NDArray[np.int32]  # leaves, or the child
    rows: NDArray[np.int32]  # [m+2]
    row: NDArray[np.int32]  # [n]
    verdict: NDArray[np.uint8]  # [n]


class Climb(NamedTuple):
    """Results of the event at hand, whose stamp is 1 + its number, and the gates it woke."""

    result: NDArray[np.int32]  # by node: the stamp if it holds, -stamp if it does not or waits
    queue: NDArray[np.int32]  # [m-l] awake gates, by level; ~node if known to need all to count
    queued: NDArray[np.int64]  # [h+1] how many of each level
    next: NDArray[np.int64]  # [m-l] of a queued gate: where in `child` to go on
    frame: NDArray[np.int64]  # [GATE_DEPTH_MAX, 4] gates that ask, see `_counts_up`


class ATreeNodes(ColumnSegment[ATreeColumns]):
    """The graph of one segment."""

    columns_type = ATreeColumns

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Share sub-expressions, choose access children, and number the nodes level by level."""
        programs, predicates = compiled
        seen, word_count, gate_count = mark_leaves(programs, rows)
        code = np.flatnonzero(seen).astype(np.int32)
        node_of = np.zeros(seen.size, np.int32)
        node_of[code] = np.arange(code.size)
        longest = int((programs.start[rows + 1] - programs.start[rows]).max(initial=1))
        room, reading = new_gates(gate_count, word_count, longest)
        root = np.empty(rows.size, np.int32)
        count = share_rows(programs, rows, (node_of, code.size), room, reading, root)
        leaf_share = holding_shares(predicates, code, attribute_count, shares)
        is_findable, is_equality = findable_leaves(predicates, code)
        access = choose_access_children(room.trimmed(count), leaf_share, is_findable, root)
        is_pushed = access.is_pushed[: code.size]
        is_filed = is_findable & (is_pushed | is_equality)
        graph, order = lay_out(access, is_filed)
        number = np.empty(order.size + 1, np.int32)
        number[order] = np.arange(order.size)
        number[ALWAYS] = node_count = int(graph.level_start[-1])
        node = number[root]
        by_node = np.argsort(node, kind="stable")
        first_row = int(rows[0]) if rows.size else 0
        opaque = opaque_rows(programs, predicates, first_row)[rows - first_row]
        unfiled = code[order[int(is_filed.sum()) : code.size]]
        always_count = int((is_pushed & ~is_filed).sum())
        columns = ATreeColumns(
            build_phase(compiled, code[is_filed], attribute_count),
            unfiled[:always_count],
            unfiled[always_count:],
            *graph,
            np.searchsorted(node[by_node], np.arange(node_count + 2)).astype(np.int32),
            rows[by_node].astype(np.int32),
            np.where(opaque[by_node], UNDECIDED, YES).astype(np.uint8),
        )
        return cls(columns)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Climb event after event."""
        columns = self._columns
        memory = phase_memory(columns.phase, batch, attribute_count)
        climb = Climb(
            np.zeros(int(columns.level_start[1]) + columns.need.size, np.int32),
            np.empty(columns.level.size, np.int32),
            np.zeros(columns.level_start.size - 1, np.int64),
            np.empty(columns.level.size, np.int64),
            np.empty((GATE_DEPTH_MAX, 4), np.int64),
        )
        memories = memory, climb
        hits = collect_hits(
            lambda room, event: climb_events(columns, compiled, batch, memories, room, event),
            batch.entry_start.size - 1,
            columns.row.size,
        )
        self._found(memory.counts[CANDIDATES], memory.counts[HITS])
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a gate, once for each child that calls it."""
        columns = self._columns
        return {
            "distinct_predicate_count": int(columns.level_start[1]),
            "filed_predicate_count": columns.phase.leaf.size,
            "always_tried_count": columns.always.size,
            "gate_count": columns.need.size,
            "asked_gate_count": columns.need.size - columns.level.size,
            "level_count": columns.level_start.size - 1,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is at a node, the graph is sound, and each node is of use."""
        columns = self._columns
        assert np.array_equal(np.sort(columns.row), rows), "other rows than it was built for"
        assert columns.rows[0] == 0 and columns.rows[-1] == rows.size
        assert np.all(np.diff(columns.rows) >= 0), "rows of nodes overlap"
        tried_count = columns.phase.leaf.size + columns.always.size
        leaf_count = int(columns.level_start[1])
        assert leaf_count == tried_count + columns.asked.size, "a leaf without code"
        graph = LeveledGraph(*(getattr(columns, name) for name in LeveledGraph._fields))
        used = check_graph(graph, tried_count)
        used |= set(np.flatnonzero(np.diff(columns.rows[:-1])).tolist())
        assert used == set(range(leaf_count + columns.need.size)), "a node of nobody"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The node of the row, and the leaves that may wake it."""
        columns = self._columns
        at = int(np.flatnonzero(columns.row == row)[0])
        node = int(np.searchsorted(columns.rows, at, "right")) - 1
        leaf_count, pushed_count = int(columns.level_start[1]), int(columns.level_start[-1])
        if node == pushed_count:
            return "at no node: it always holds"
        level = int(np.searchsorted(columns.level_start, node, "right")) - 1
        child_of = np.repeat(np.arange(pushed_count), np.diff(columns.parents))
        below = {node}
        for _ in range(level):
            below |= set(child_of[np.isin(columns.parent, list(below))].tolist())
        places = np.array(sorted(one for one in below if one < leaf_count), np.int64)
        code = np.concatenate((columns.phase.leaf, columns.always))[places]
        filed = places < columns.phase.leaf.size
        words = [words_of_leaves(compiled, vocabulary, code[filed])] if filed.any() else []
        records = compiled.predicates.record[code[~filed][:WORDS_MAX] >> POLARITY_BITS]
        paths = {".".join(vocabulary.path(one)) for one in records["attribute"].tolist()}
        words += [f"{path} on every event" for path in sorted(paths)]
        woken = ", ".join(words) if words else "nothing"
        if not level:
            return f"at the leaf {woken}"
        gate = node - leaf_count
        size = int(columns.start[gate + 1] - columns.start[gate])
        asks = f", asks for {columns.need[gate]} of {size}" if size else ""
        return f"at a gate of level {level}, woken by {woken}{asks}"


class ATree(Updatable):
    """One graph of all sub-expressions; any filter."""

    name = "atree"
    paper = "Ji, Jacobsen: A-Tree: Indexing Arbitrary Boolean Expressions. SIGMOD 2021"
    summary = "evaluates each distinct sub-expression once, from the predicates that hold upwards"
    segment_type = ATreeNodes


@leaf
def climb_events(
    columns: ATreeColumns,
    compiled: Compiled,
    batch: EventBatch,
    memories: tuple[Memory, Climb],
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits may not fit
    any more, and how many must.
    """
    memory = memories[0]
    row_count = columns.row.size
    hit_count = hits.start[first_event]
    for event in range(first_event, batch.entry_start.size - 1):
        if hits.hit.size - hit_count < row_count:
            return event, row_count
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(columns.phase, compiled.predicates, batch, event, memory)
        tested = compiled.predicates, batch
        place = event + 1, leaf_count, hit_count
        hit_count = _climb(columns, tested, memories, hits, place)
        leave_event(batch, event, memory.scratch.entry_of)
        memory.counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@leaf
def _climb(
    columns: ATreeColumns,
    tested: tuple[PredicateColumns, EventBatch],
    memories: tuple[Memory, Climb],
    hits: Hits,
    place: tuple[int, int, int],
) -> int:
    """Append the rows of the nodes that hold, given the filed leaves that do; returns the hits."""
    stamp, leaf_count, hit_count = place
    memory, climb = memories
    filed_count, leaves = columns.phase.leaf.size, columns.level_start[1]
    for at in range(leaf_count):
        climb.result[memory.candidate[at]] = stamp
        prefetch(columns.parents, memory.candidate[at])
    for at in range(columns.always.size):
        holds = _may_hold(tested, columns.always[at], memory)
        climb.result[filed_count + at] = stamp if holds else -stamp
    for level in range(climb.queued.size):
        climb.queued[level] = 0
    for at in range(leaf_count + columns.always.size):
        if at + _LEAVES_AHEAD < leaf_count:
            first = columns.parents[memory.candidate[at + _LEAVES_AHEAD]]
            prefetch(columns.partner, first)
            prefetch(columns.parent, first)
        node = memory.candidate[at] if at < leaf_count else filed_count + at - leaf_count
        if climb.result[node] == stamp:
            _wake_parents(columns, node, memories, stamp)
            hit_count = _append_rows(columns, node, hits, hit_count)
    for level in range(1, climb.queued.size):
        first = columns.level_start[level] - leaves
        left_count = _rule_out(columns, climb, first, climb.queued[level], stamp)
        for at in range(first, first + left_count):
            _prefetch_ahead(columns, tested[0], climb, at, first + left_count)
            node = max(climb.queue[at], ~climb.queue[at])
            if _counts_up(columns, tested, memories, (at, node - leaves), stamp):
                climb.result[node] = stamp
                _wake_parents(columns, node, memories, stamp)
                hit_count = _append_rows(columns, node, hits, hit_count)
    return _append_rows(columns, columns.level_start[-1], hits, hit_count)


@inlined
def _wake_parents(
    columns: ATreeColumns, node: int, memories: tuple[Memory, Climb], stamp: int
) -> None:
    """Let the gates that a node wakes wait for the turn of their level, each once."""
    memory, climb = memories
    leaves = columns.level_start[1]
    first, stop = columns.parents[node], columns.parents[node + 1]
    memory.counts[CANDIDATES] += stop - first
    for slot in range(first, stop):
        partner = columns.partner[slot]
        if climb.result[partner] != stamp:
            continue
        gate = columns.parent[slot]
        if partner == node:
            if climb.result[gate] == stamp or climb.result[gate] == -stamp:
                continue
            climb.result[gate] = -stamp
        prefetch(columns.start, gate - leaves)
        level = 1 if gate < columns.level_start[2] else columns.level[gate - leaves]
        at = columns.level_start[level] - leaves + climb.queued[level]
        climb.queue[at] = gate if partner == node else ~gate
        climb.queued[level] += 1


@inlined
def _rule_out(columns: ATreeColumns, climb: Climb, first: int, count: int, stamp: int) -> int:
    """Keep the awake gates of a level that the children with results let hold; how many there are.

    On exit climb.next is where the other children of those begin that need all.
    """
    leaves = columns.level_start[1]
    left = first
    for at in range(first, first + count):
        if at + _GATES_AHEAD < first + count:
            coming = climb.queue[at + _GATES_AHEAD]
            prefetch(columns.child, columns.start[max(coming, ~coming) - leaves])
        gate = max(climb.queue[at], ~climb.queue[at]) - leaves
        place, stop = columns.start[gate], columns.start[gate + 1]
        needs_all = climb.queue[at] < 0 or columns.need[gate] == stop - place
        if needs_all:
            while place < stop and columns.child[place] >= 0:
                if climb.result[columns.child[place]] != stamp:
                    break
                place += 1
            if place < stop and columns.child[place] >= 0:
                continue
        climb.queue[left] = ~(leaves + gate) if needs_all else leaves + gate
        climb.next[left] = place
        left += 1
        if place < stop and columns.child[place] < 0:
            asked = ~columns.child[place]
            prefetch(climb.result, asked)
            prefetch(columns.asked, asked - columns.phase.leaf.size - columns.always.size)
    return left - first


@inlined
def _prefetch_ahead(
    columns: ATreeColumns, predicates: PredicateColumns, climb: Climb, at: int, stop: int
) -> None:
    """Ask for the predicates of the first leaves that a gate to come will ask for."""
    if at + _PREDICATES_AHEAD >= stop:
        return
    first_asked = columns.phase.leaf.size + columns.always.size
    coming = climb.queue[at + _PREDICATES_AHEAD]
    gate = max(coming, ~coming) - columns.level_start[1]
    first = climb.next[at + _PREDICATES_AHEAD]
    for place in range(first, min(first + _PREFETCHED_LEAVES, columns.start[gate + 1])):
        asked = ~columns.child[place] - first_asked
        if 0 <= asked < columns.asked.size:
            prefetch(predicates.record, columns.asked[asked] >> POLARITY_BITS)


@inlined
def _append_rows(columns: ATreeColumns, node: int, hits: Hits, hit_count: int) -> int:
    """Append the rows of a node; returns the hits so far."""
    for at in range(columns.rows[node], columns.rows[node + 1]):
        hits.hit[hit_count] = np.int64(columns.row[at]) << VERDICT_BITS | columns.verdict[at]
        hit_count += 1
    return hit_count


@inlined
def _counts_up(
    columns: ATreeColumns,
    tested: tuple[PredicateColumns, EventBatch],
    memories: tuple[Memory, Climb],
    place: tuple[int, int],
    stamp: int,
) -> bool:
    """Do as many children of the gate place[1] hold as it needs, which is number place[0] in the
    queue? Those that are only asked are evaluated, and remembered; the gates that wait for their
    answers are in climb.frame.
    """
    memory, climb = memories
    result, frame = climb.result, climb.frame
    leaves = columns.level_start[1]
    first_asked = columns.phase.leaf.size + columns.always.size
    gate, at, depth = place[1], climb.next[place[0]], 0
    need = columns.start[gate + 1] - at
    if climb.queue[place[0]] >= 0:
        need = np.int64(columns.need[gate])
    spare = columns.start[gate + 1] - at - need
    while True:
        if need > 0 and spare >= 0:
            child = columns.child[at]
            at += 1
            node = child if child >= 0 else ~child
            known = result[node] == stamp
            if child < 0 and not known and result[node] != -stamp:
                if node >= leaves:
                    frame[depth, 0], frame[depth, 1] = gate, at
                    frame[depth, 2], frame[depth, 3] = need, spare
                    depth += 1
                    gate = node - leaves
                    at, need = columns.start[gate], np.int64(columns.need[gate])
                    spare = columns.start[gate + 1] - at - need
                    continue
                known = _may_hold(tested, columns.asked[node - first_asked], memory)
                result[node] = stamp if known else -stamp
        else:
            known = need <= 0
            if depth == 0:
                return bool(known)
            result[leaves + gate] = stamp if known else -stamp
            depth -= 1
            gate, at = frame[depth, 0], frame[depth, 1]
            need, spare = frame[depth, 2], frame[depth, 3]
        need -= known
        spare -= not known


@inlined
def _may_hold(tested: tuple[PredicateColumns, EventBatch], code: int, memory: Memory) -> bool:
    """Does a leaf hold, or can only Python tell?"""
    predicates, batch = tested
    verdict: int = leaf_holds(predicates, code, batch, memory.scratch)
    return verdict != NO
