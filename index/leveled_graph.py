"""Leveled graph: the nodes of shared expressions numbered level by level, and what wakes what.

    leaves: filed | always tried | asked | pushed gates, level 1, 2, ... | gates that are asked
            0                            level_start[1]                  level_start[-1]

Filed leaves have results before any gate is looked at: those that are pushed, if something leads to
them, and all equalities, for a value leads to few of them.

A gate is awake as soon as an access child holds (`index.access_children`). It has then one child
less to count if that says all: a disjunction holds, a conjunction needs the others. Gates that one
child wakes are close together, and so are their children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.access_children import AccessChildren, access_counts


class LeveledGraph(NamedTuple):
    """g gates over l leaves, up to level h; the first m nodes are leaves or pushed gates."""

    level_start: NDArray[np.int32]  # [h+2] nodes of level k begin here; after level h, gates asked
    level: NDArray[np.uint8]  # [m-l]
    need: NDArray[np.int32]  # [g] children that must hold of an awake gate, or one that is asked
    start: NDArray[np.int64]  # [g+1] those to count are child[start[i]:start[i+1]] of node l + i
    child: NDArray[np.int32]  # filed leaves, gates, ~nodes to be evaluated by need; rare ones first
    parents: NDArray[np.int64]  # [m+1] node i wakes parent[parents[i]:parents[i+1]]
    parent: NDArray[np.int32]  # nodes, ascending of each child
    partner: NDArray[np.int32]  # a leaf without which that gate does not hold, or the child itself


class _Runs(NamedTuple):
    """What an awake gate has to count, as in `LeveledGraph`, but by the numbers of before."""

    need: NDArray[np.int64]  # [g]
    start: NDArray[np.int64]  # [g+1]
    child: NDArray[np.int64]

    def in_order(self, order: NDArray[np.int64]) -> _Runs:
        """The same gates in another order."""
        size = np.diff(self.start)[order]
        start = np.concatenate(([0], np.cumsum(size)))
        places = np.arange(int(start[-1])) + np.repeat(self.start[order] - start[:-1], size)
        return _Runs(self.need[order], start, self.child[places])


def lay_out(
    access: AccessChildren, is_filed: NDArray[np.bool_]
) -> tuple[LeveledGraph, NDArray[np.int64]]:
    """The graph, and its nodes by the numbers they had; filed leaves keep their order."""
    leaf_count = is_filed.size
    is_pushed = access.is_pushed
    runs = _runs(access, is_filed)
    partner = _partners(runs, is_filed)
    first_child = np.append(access.gates.child, 0)[access.gates.start[:-1]]
    gate = np.lexsort((partner, first_child, access.level, ~is_pushed[leaf_count:]))
    runs = runs.in_order(gate)
    order = np.concatenate((_leaf_order(is_filed, is_pushed, runs.child), gate + leaf_count))
    number = np.empty(order.size + 1, np.int32)
    number[order] = np.arange(order.size)
    number[-1] = -1
    has_result = is_pushed.copy()
    has_result[:leaf_count] |= is_filed
    level = access.level[gate[is_pushed[order[leaf_count:]]]]
    level_start = np.searchsorted(level, np.arange(1, level.max(initial=1) + 2)) + leaf_count
    parents, parent = _parents(access, number, int(level_start[-1]))
    partner_of = number[partner[gate]][parent - leaf_count]
    waking = np.repeat(np.arange(parents.size - 1, dtype=np.int32), np.diff(parents))
    graph = LeveledGraph(
        np.append(0, level_start).astype(np.int32),
        level.astype(np.uint8),
        runs.need.astype(np.int32),
        runs.start,
        np.where(has_result[runs.child], number[runs.child], ~number[runs.child]),
        parents,
        parent,
        np.where(partner_of < 0, waking, partner_of),
    )
    return graph, order


def _runs(access: AccessChildren, is_filed: NDArray[np.bool_]) -> _Runs:
    """The children that gates have to count, and how many of them."""
    is_pushed = access.is_pushed[is_filed.size :]
    need = access.gates.need.astype(np.int64)
    stop = access.gates.start[1:]
    size = np.diff(access.gates.start)
    is_told = is_pushed & ((need == size) | (need == 1))
    kept = np.where(is_told, np.where(need == size, size - 1, 0), size)
    need[is_told] -= 1
    start = np.concatenate(([0], np.cumsum(kept)))
    within = np.arange(int(start[-1])) - np.repeat(start[:-1], kept)
    # A disjunction that is asked is decided soonest by its most frequent child.
    is_backward = np.repeat(~is_pushed & (need == 1), kept)
    forward = np.repeat(stop - kept, kept) + within
    child = access.gates.child[np.where(is_backward, np.repeat(stop - 1, kept) - within, forward)]
    # What has a result costs nothing to look up, and that of a leaf is there before all others.
    effort = np.where(access.is_pushed, 1, 2)
    effort[: is_filed.size][is_filed] = 0
    by_effort = np.argsort(
        np.repeat(np.arange(kept.size) << 2, kept) | effort[child], kind="stable"
    )
    return _Runs(need, start, child[by_effort].astype(np.int64))


def _partners(runs: _Runs, is_filed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first child of each gate that needs all, if it is a filed leaf; else -1."""
    size = np.diff(runs.start)
    first_child = np.append(runs.child, -1)[runs.start[:-1]]
    is_leaf = (first_child >= 0) & (first_child < is_filed.size)
    is_leaf[is_leaf] = is_filed[first_child[is_leaf]]
    return np.where(is_leaf & (runs.need == size) & (size > 0), first_child, -1)


def _leaf_order(
    is_filed: NDArray[np.bool_], is_pushed: NDArray[np.bool_], child: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Filed leaves, those that are pushed, and the others as gates come to ask for them."""
    first_use = np.full(is_pushed.size, child.size)
    first_use[child[::-1]] = np.arange(child.size)[::-1]
    first_use = first_use[: is_filed.size]
    first_use[is_filed | is_pushed[: is_filed.size]] = 0
    return np.lexsort((first_use, ~is_pushed[: is_filed.size] & ~is_filed, ~is_filed))


def _parents(
    access: AccessChildren, number: NDArray[np.int32], node_count: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """`parents` and `parent`: the pushed gates that each node wakes."""
    gates = access.gates
    leaf_count = access.is_pushed.size - gates.need.size
    counts = np.where(access.is_pushed[leaf_count:], access_counts(gates), 0)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    child = gates.child[np.repeat(gates.start[:-1], counts) + within]
    parent = np.repeat(np.arange(leaf_count, access.is_pushed.size), counts)
    pairs = np.unique(number[child].astype(np.int64) << 32 | number[parent])
    parents = np.searchsorted(pairs >> 32, np.arange(node_count + 1))
    return parents, (pairs & 0xFFFFFFFF).astype(np.int32)


def check_graph(graph: LeveledGraph, tried_count: int) -> set[int]:
    """Assert that gates are distinct, above their children, and never sleep where they should
    hold; the nodes that some gate waits for. Leaves below `tried_count` have results.
    """
    leaf_count, pushed_count = int(graph.level_start[1]), int(graph.level_start[-1])
    assert graph.level_start[0] == 0 and pushed_count == leaf_count + graph.level.size
    levels = np.repeat(np.arange(graph.level_start.size - 1), np.diff(graph.level_start))
    assert np.array_equal(levels[leaf_count:], graph.level), "a gate of another level"
    bounds = zip(graph.start[:-1].tolist(), graph.start[1:].tolist(), strict=True)
    children = [graph.child[start:stop].tolist() for start, stop in bounds]
    nodes = [[child if child >= 0 else ~child for child in one] for one in children]
    level = levels.tolist()
    for asked in nodes[pushed_count - leaf_count :]:
        level.append(1 + max(level[node] for node in asked))
    waker = np.repeat(np.arange(pushed_count), np.diff(graph.parents)).tolist()
    wakers: list[list[int]] = [[] for _ in nodes]
    for child, parent, partner in zip(
        waker, graph.parent.tolist(), graph.partner.tolist(), strict=True
    ):
        gate = parent - leaf_count
        wakers[gate].append(child)
        is_needed = graph.need[gate] == len(nodes[gate]) and partner in children[gate]
        assert partner == child or (is_needed and partner < leaf_count), "a gate can do without"
    known = set()
    for gate, need in enumerate(graph.need.tolist()):
        waited = {*nodes[gate], *wakers[gate]}
        below = max((level[node] for node in waited), default=0)
        assert below < level[leaf_count + gate], "a gate waits for one that is not below it"
        for node, child in zip(nodes[gate], children[gate], strict=True):
            has_result = node < tried_count or leaf_count <= node < pushed_count
            assert has_result == (child >= 0), "it is not said who is evaluated by need"
        known.add(_asked_for(need, nodes[gate], wakers[gate], leaf_count + gate < pushed_count))
    assert len(known) == graph.need.size, "two gates are equal"
    return {one for gate, woken in zip(nodes, wakers, strict=True) for one in (*gate, *woken)}


def _asked_for(
    need: int, counted: list[int], wakers: list[int], is_pushed: bool
) -> tuple[int, ...]:
    """What a gate needs, and of which children, as its expression has it."""
    if not is_pushed:
        assert not wakers, "a gate that is only asked is woken"
    elif not counted:
        assert need == 0 and len(wakers) != 1, "a gate of one child"
        need, counted = 1, wakers
    elif need == len(counted):
        assert len(wakers) == 1, "a conjunction is not woken by one child"
        need, counted = need + 1, counted + wakers
    else:
        missing = sum(node not in wakers for node in counted)
        assert set(wakers) <= set(counted) and missing < need, "a gate may sleep on"
    return need, *sorted(counted)
