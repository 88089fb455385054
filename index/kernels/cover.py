"""Access covers: which leaves of a threshold tree to file a row under, so that no match is missed.

A cover is a list of elements, each up to N leaves of different attributes; whenever the tree holds,
all leaves of some element hold. Bottom up, with the cost of a leaf the expected share
of events in which it holds, and of a cover the sum over its elements:

    leaf           itself; no cover if the leaf may hold where the attribute is absent
    need of n      the covers of the n - need + 1 cheapest children together: if need children hold,
                   at least one of these does. AND: the cheapest child. OR: all children
    AND            or two of its leaves, up to N together, if their product is cheaper

    a = 1 AND (b = 2 OR c > 3) AND d < 9      leaves .1, OR .02 + .3, .5      a with d: .1 * .5
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.predicates import ALL, NOCASE, PredicateColumns, PredicateKind
from index.program import GATE_WORDS, POLARITY_BITS, Programs
from index.threshold import Polarity

# How a leaf is filed: not at all, under presence of its attribute, under points, under cells.
UNFILED = 0
BY_EXISTENCE = 1
BY_PRESENCE = 2
BY_POINTS = 3
BY_CELLS = 4

ACCESS_PREDICATES_MAX = 3
"""The largest N: with more, an event has too many combinations of spaces to look up."""
PAIRED_LEAVES_MAX = 8
"""Of a conjunction's leaves only that many cheapest are tried together."""
PAIR_KEYS_MAX = 256
"""Leaves that together would file a row under more keys are not chosen."""
SINGLE_KEYS_MAX = 1024
"""A leaf of more spaces is filed under the presence of its attribute."""
ROW_KEYS_MAX = 16_384
"""A row of more keys is filed under presences alone, at most one key a leaf."""
KEYS_AT_DOUBLE_COST = 32
"""Leaves of that many keys together must be twice as selective to be preferred to a single key."""

_LEAF = -2
_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE, _IS_FALSE = int(Polarity.IS_TRUE), int(Polarity.IS_FALSE)
_EXISTS, _MISSING = int(PredicateKind.EXISTS), int(PredicateKind.MISSING)
_OPAQUE_ENTRY = int(PredicateKind.OPAQUE_ENTRY)
_EQUAL, _IN = int(PredicateKind.EQUAL), int(PredicateKind.IN)
_IS_NULL, _RANGE = int(PredicateKind.IS_NULL), int(PredicateKind.RANGE)
_TEXT_RANGE, _PREFIX = int(PredicateKind.TEXT_RANGE), int(PredicateKind.PREFIX)
_LIKE = int(PredicateKind.LIKE)


class LeafCosts(NamedTuple):
    """What filing under a predicate costs, for the predicates in use."""

    position: NDArray[np.int32]  # [p] predicate number -> its place in the next two
    cost: NDArray[np.float64]  # [u] share of events in which the predicate is TRUE
    key_count: NDArray[np.int64]  # [u] spaces it covers
    presence: NDArray[np.float64]  # [a] share of events that have the attribute
    is_text: NDArray[np.bool_]  # [u] it has one space of its own: the strings that it holds of


class Elements(NamedTuple):
    """The elements of the covers of all rows, row after row."""

    row: NDArray[np.int32]
    leaf: NDArray[np.int32]  # [elements, N] codes of leaves of different attributes, then -1
    coarse: NDArray[np.bool_]  # file the leaves under presence


class Tree(NamedTuple):
    """One row's tree unrolled: nodes in the order of its code. Working memory of one thread."""

    at: NDArray[np.int64]  # first word of node k in the code
    stop: NDArray[np.int64]  # where its code ends
    misses: NDArray[np.int64]  # of a gate: children that may fail; -2 for a leaf
    node_at: NDArray[np.int64]  # word, counted from that of node 0 -> node
    cost: NDArray[np.float64]  # of the node's cover
    key_count: NDArray[np.int64]
    partner: NDArray[np.int64]  # [k, N] of a conjunction filed under leaves together: these, or -1
    chosen: NDArray[np.bool_]  # the node's cover is part of its parent's


def new_tree(words: int, access_predicates: int) -> Tree:
    """Memory for programs of that many words."""
    size = words + GATE_WORDS + 1
    return Tree(
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.float64),
        np.zeros(size, np.int64),
        np.zeros((size, access_predicates), np.int64),
        np.zeros(size, np.bool_),
    )


@njit(cache=True, nogil=True)
def filing_of_leaf(predicates: PredicateColumns, leaf: int) -> int:
    """How a leaf can be filed, from what must be true of an event in which it holds."""
    polarity = leaf & _POLARITY_MASK
    if polarity != _IS_TRUE and polarity != _IS_FALSE:
        return UNFILED
    record = predicates.record[leaf >> POLARITY_BITS]
    kind, flags = record["kind"], record["flags"]
    if kind == _MISSING:
        return UNFILED
    if kind == _EXISTS or kind == _OPAQUE_ENTRY:
        return BY_EXISTENCE
    if polarity == _IS_FALSE or flags & ALL:
        return BY_PRESENCE
    if kind == _EQUAL or kind == _IN or kind == _IS_NULL:
        return BY_POINTS
    if kind == _RANGE:
        return BY_CELLS
    if (kind == _TEXT_RANGE or kind == _PREFIX or kind == _LIKE) and flags & NOCASE == 0:
        return BY_CELLS
    return BY_PRESENCE


@njit(cache=True, nogil=True)
def conjunction_start(programs: Programs, row: int) -> int:
    """The first leaf of a row whose leaves must all hold; -1 if there is none, or a gate."""
    at, stop = programs.start[row], programs.start[row + 1]
    if at < stop and programs.code[at] < 0:
        if programs.code[at + 1] != 0:
            return -1
        at += GATE_WORDS
    return int(at) if at < stop and programs.code[at] >= 0 else -1


@njit(cache=True, nogil=True)
def count_leaves(programs: Programs, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], int]:
    """How often these rows ask each predicate, up to the last that is asked; and their words."""
    words = 0
    highest = -1
    for row in rows:
        at, stop = programs.start[row], programs.start[row + 1]
        words += stop - at
        while at < stop:
            if programs.code[at] < 0:
                at += GATE_WORDS
            else:
                highest = max(highest, programs.code[at] >> POLARITY_BITS)
                at += 1
    counts = np.zeros(highest + 1, np.int64)
    for row in rows:
        at, stop = programs.start[row], programs.start[row + 1]
        while at < stop:
            if programs.code[at] < 0:
                at += GATE_WORDS
            else:
                counts[programs.code[at] >> POLARITY_BITS] += 1
                at += 1
    return counts, words


@njit(cache=True, nogil=True)
def cover_rows(
    programs: Programs,
    predicates: PredicateColumns,
    costs: LeafCosts,
    rows: NDArray[np.int32],
    elements: Elements,
    tree: Tree,
) -> tuple[int, NDArray[np.int32]]:
    """Fill `elements` with the covers of `rows`; returns their number and the rows without cover.

    On entry `elements` has room for as many elements as the rows have words of code; an element
    has up to as many leaves as there is room for in `elements` and in `tree`.
    """
    count = 0
    residue = np.empty(rows.size, np.int32)
    residue_count = 0
    for row in rows:
        node_count = _unroll(programs, row, tree)
        _choose(programs, predicates, costs, tree, node_count, False)
        coarse = np.isfinite(tree.cost[0]) and tree.key_count[0] > ROW_KEYS_MAX
        if coarse:
            _choose(programs, predicates, costs, tree, node_count, True)
        if np.isfinite(tree.cost[0]):
            emitted = _emit(programs, row, tree, node_count, elements, count)
            elements.coarse[count:emitted] = coarse
            count = emitted
        else:
            residue[residue_count] = row
            residue_count += 1
    return count, residue[:residue_count].copy()


@njit(cache=True, nogil=True)
def _unroll(programs: Programs, row: int, tree: Tree) -> int:
    """List the nodes of a row; the leaves of a plain conjunction get a gate above them."""
    start, stop = programs.start[row], programs.start[row + 1]
    nodes = 0
    at = start
    if start == stop or programs.code[start] >= 0:
        tree.at[0], tree.stop[0] = start - GATE_WORDS, stop
        tree.misses[0] = 0
        nodes = 1
    while at < stop:
        tree.at[nodes] = at
        tree.node_at[at - tree.at[0]] = nodes
        if programs.code[at] < 0:
            tree.misses[nodes] = programs.code[at + 1]
            tree.stop[nodes] = at + programs.code[at + 2]
            at += GATE_WORDS
        else:
            tree.misses[nodes] = _LEAF
            tree.stop[nodes] = at + 1
            at += 1
        nodes += 1
    tree.node_at[stop - tree.at[0]] = nodes
    return nodes


@njit(cache=True, nogil=True)
def _choose(
    programs: Programs,
    predicates: PredicateColumns,
    costs: LeafCosts,
    tree: Tree,
    node_count: int,
    coarse: bool,
) -> None:
    """Find the cheapest cover of every node, children before parents."""
    for node in range(node_count - 1, -1, -1):
        tree.chosen[node] = node == 0
        tree.partner[node, 0] = -1
        if tree.misses[node] == _LEAF:
            leaf = programs.code[tree.at[node]]
            cost, key_count = _cost_of_leaf(predicates, costs, leaf, coarse)
            tree.cost[node], tree.key_count[node] = cost, key_count
        else:
            _choose_children(tree, node)
            if tree.misses[node] == 0:
                _choose_together(programs, predicates, tree, node)


@njit(cache=True, nogil=True)
def is_coarse(predicates: PredicateColumns, costs: LeafCosts, leaf: int) -> bool:
    """Has the leaf so many spaces that it is filed under the presence of its attribute?"""
    return bool(costs.key_count[costs.position[leaf >> POLARITY_BITS]] > SINGLE_KEYS_MAX)


@njit(cache=True, nogil=True)
def _cost_of_leaf(
    predicates: PredicateColumns, costs: LeafCosts, leaf: int, coarse: bool
) -> tuple[float, int]:
    filing = filing_of_leaf(predicates, leaf)
    if filing == UNFILED:
        return np.inf, 0
    number = leaf >> POLARITY_BITS
    position = costs.position[number]
    is_text = costs.is_text[position] and leaf & _POLARITY_MASK == _IS_TRUE
    has_spaces = is_text or filing >= BY_POINTS
    if has_spaces and not coarse and not is_coarse(predicates, costs, leaf):
        return costs.cost[position], costs.key_count[position]
    return costs.presence[predicates.record[number]["attribute"]], 1


@njit(cache=True, nogil=True)
def _choose_children(tree: Tree, gate: int) -> None:
    """The cover of a gate: its misses + 1 cheapest children."""
    tree.cost[gate], tree.key_count[gate] = 0.0, 0
    wanted = tree.misses[gate] + 1
    children = _children(tree, gate)
    if wanted > children.size:
        tree.cost[gate] = np.inf  # a conjunction of nothing always holds
        return
    if wanted < children.size:
        children = children[np.argsort(tree.cost[children])]
    for child in children[:wanted]:
        tree.chosen[child] = True
        tree.cost[gate] += tree.cost[child]
        tree.key_count[gate] += tree.key_count[child]


@njit(cache=True, nogil=True)
def _children(tree: Tree, gate: int) -> NDArray[np.int64]:
    """The nodes right below a gate."""
    stop = _after(tree, gate)
    count = 0
    child = gate + 1
    while child < stop:
        count += 1
        child = _after(tree, child)
    children = np.empty(count, np.int64)
    child = gate + 1
    for place in range(count):
        children[place] = child
        child = _after(tree, child)
    return children


@njit(cache=True, nogil=True)
def _after(tree: Tree, node: int) -> int:
    """The node after a node and all below it."""
    return int(tree.node_at[tree.stop[node] - tree.at[0]])


@njit(cache=True, nogil=True)
def _choose_together(
    programs: Programs, predicates: PredicateColumns, tree: Tree, gate: int
) -> None:
    """Replace the cover of a conjunction by two or three of its leaves, if together they cost less.

    On exit tree.partner[gate] has them, cheaper ones first, and -1 behind the last.
    """
    width = tree.partner.shape[1]
    leaves = np.empty(PAIRED_LEAVES_MAX, np.int64)
    attributes = np.empty(PAIRED_LEAVES_MAX, np.int64)
    count = _cheapest_leaves(tree, gate, leaves) if width > 1 else 0
    for place in range(count):
        number = programs.code[tree.at[leaves[place]]] >> POLARITY_BITS
        attributes[place] = predicates.record[number]["attribute"]
    best = tree.cost[gate]
    for one in range(count):
        for other in range(one + 1, count):
            pair_keys = tree.key_count[leaves[one]] * tree.key_count[leaves[other]]
            if pair_keys > PAIR_KEYS_MAX or attributes[one] == attributes[other]:
                continue
            cost = tree.cost[leaves[one]] * tree.cost[leaves[other]]
            weight = _weight(cost, pair_keys)
            if weight < best:
                best = weight
                tree.cost[gate], tree.key_count[gate] = cost, pair_keys
                tree.partner[gate, 0], tree.partner[gate, 1] = leaves[one], leaves[other]
                tree.partner[gate, 2:] = -1
            for third in range(other + 1, count if width > 2 else 0):
                key_count = pair_keys * tree.key_count[leaves[third]]
                weight = _weight(cost * tree.cost[leaves[third]], key_count)
                if key_count > PAIR_KEYS_MAX or weight >= best:
                    continue
                if attributes[third] == attributes[one] or attributes[third] == attributes[other]:
                    continue
                best = weight
                tree.cost[gate] = cost * tree.cost[leaves[third]]
                tree.key_count[gate] = key_count
                tree.partner[gate, 0], tree.partner[gate, 1] = leaves[one], leaves[other]
                tree.partner[gate, 2] = leaves[third]


@njit(cache=True, nogil=True)
def _cheapest_leaves(tree: Tree, gate: int, leaves: NDArray[np.int64]) -> int:
    """Fill `leaves` with the cheapest leaves right below a gate, ascending; returns how many."""
    count = 0
    for child in _children(tree, gate):
        if tree.misses[child] != _LEAF or not np.isfinite(tree.cost[child]):
            continue
        place = min(count, leaves.size - 1)
        if count == leaves.size and tree.cost[child] >= tree.cost[leaves[place]]:
            continue
        count = min(count + 1, leaves.size)
        while place > 0 and tree.cost[leaves[place - 1]] > tree.cost[child]:
            leaves[place] = leaves[place - 1]
            place -= 1
        leaves[place] = child
    return count


@njit(cache=True, nogil=True)
def _weight(cost: float, key_count: int) -> float:
    """What leaves cost together, the more keys the more."""
    return cost * (1 + (key_count - 1) / KEYS_AT_DOUBLE_COST)


@njit(cache=True, nogil=True)
def _emit(
    programs: Programs, row: int, tree: Tree, node_count: int, elements: Elements, count: int
) -> int:
    """Append the elements of the cover of node 0; returns how many there are now."""
    node = 0
    while node < node_count:
        leaf = tree.misses[node] == _LEAF
        paired = tree.partner[node, 0] >= 0
        if tree.chosen[node] and not leaf and not paired:
            node += 1
            continue
        if tree.chosen[node]:
            elements.row[count] = row
            for part in range(elements.leaf.shape[1]):
                member = tree.partner[node, part] if paired else node
                if member < 0 or (part and not paired):
                    elements.leaf[count, part] = -1
                else:
                    elements.leaf[count, part] = programs.code[tree.at[member]]
            count += 1
        node = _after(tree, node)
    return count
