"""Key schemas as a trie, and the keys of an event: one for each schema whose lanes it has parts on.

    schema  a set of one to three lanes, in the order of their dimensions
    key     a part of each lane, packed, then mixed so that any of its bits may index a table

            one    part + 1
            two    part + 1 (31 bits) | part + 1 (31 bits)
            three  1 | part (21 bits) | part (21 bits) | part (21 bits)

Keys are mixed by a bijection: different keys stay different, so a row that is found under a key
need not be tested for what the key says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.event_words import PARTS, EventMemory
from index.kernels.keys import find_bucket, has_bit, insert_bucket, pair_of, set_bit

SCHEMA_LANES_MAX = 3
TRIPLE_PARTS_MAX = 1 << 21
"""Keys of three parts need their numbers to be below this."""

_TRIPLE = np.uint64(1 << 63)
_PAIR_SHIFT, _TRIPLE_SHIFT = np.uint64(31), np.uint64(21)
_HALF = np.uint64(32)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class SchemaTrie(NamedTuple):
    """Schemas by their first lanes; node 0 is none."""

    root: NDArray[np.int32]  # [lanes] node of a first lane
    ends: NDArray[np.bool_]  # [nodes] the lanes down to here are a schema
    child_start: NDArray[np.int32]  # [nodes + 1]
    child_lane: NDArray[np.int32]
    child_node: NDArray[np.int32]
    edge_filter: NDArray[np.uint64]  # pairs of node and lane that lead to a child
    edge: NDArray[np.uint64]  # [slots, 2] such a pair, and the child as where its bucket stops


@inlined
def mix(key: np.uint64) -> np.uint64:
    """A bijection under which keys are spread evenly (finaliser of SplitMix64, Steele et al.)."""
    key = (key ^ (key >> _SHIFTS[0])) * _FIRST
    key = (key ^ (key >> _SHIFTS[1])) * _SECOND
    return key ^ (key >> _SHIFTS[2])


@inlined
def key_of_one(part: int) -> np.uint64:
    """The key of one part."""
    return mix(np.uint64(part + 1))


@inlined
def key_of_two(first: int, second: int) -> np.uint64:
    """The key of two parts; that of the smaller dimension is first."""
    return mix(np.uint64(first + 1) << _PAIR_SHIFT | np.uint64(second + 1))


@inlined
def key_of_three(first: int, second: int, third: int) -> np.uint64:
    """The key of three parts in the order of their dimensions."""
    ahead = np.uint64(first) << _TRIPLE_SHIFT | np.uint64(second)
    return mix(_TRIPLE | ahead << _TRIPLE_SHIFT | np.uint64(third))


@inlined
def edge_of(node: int, lane: int) -> np.uint64:
    """What stands for a child in the table of edges; one product spreads it well enough."""
    edge = (np.uint64(node) << _HALF | np.uint64(lane)) * _FIRST
    return edge ^ (edge >> _HALF)


@inlined
def _child_of(trie: SchemaTrie, node: int, lane: int) -> int:
    """The child of a node by a lane, 0 for none."""
    key = edge_of(node, lane)
    if not has_bit(trie.edge_filter, key):
        return 0
    return int(find_bucket(trie.edge, key)[1])


@leaf
def insert_edges(
    trie: SchemaTrie, node: NDArray[np.int64], lane: NDArray[np.int64], child: NDArray[np.int64]
) -> None:
    """Fill the filter and the table of edges, which are empty."""
    for at in range(node.size):
        key = edge_of(node[at], lane[at])
        set_bit(trie.edge_filter, key)
        insert_bucket(trie.edge, key, 0, child[at])


@inlined
def _step(
    trie: SchemaTrie, memory: EventMemory, node: int, step: int, after: int, by_list: bool
) -> tuple[int, int]:
    """The child that a step of a search below a node leads to, or 0, and the place of its part."""
    if by_list:
        at = trie.child_start[node] + step
        place = int(memory.place_of[trie.child_lane[at]]) - 1
        return (int(trie.child_node[at]), place) if place >= 0 else (0, 0)
    place = after + 1 + step
    return _child_of(trie, node, memory.lane[place]), place


@leaf
def list_event_keys(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    unsure: bool,
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """Append the keys of the event at hand that may be filed; returns how many there are now.

    An event of `unsure` values may have several parts on a lane. Returns -1 if there is no room.
    """
    part_count = int(memory.counts[PARTS])
    for one in range(part_count):
        node = int(trie.root[memory.lane[one]])
        if node == 0:
            continue
        first = int(memory.part[one])
        if count >= keys.size:
            return -1
        if trie.ends[node]:
            count = _push(key_filter, keys, count, key_of_one(first))
        below = int(trie.child_start[node + 1] - trie.child_start[node])
        by_list = below < part_count - one - 1 and not unsure
        for step in range(below if by_list else part_count - one - 1 if below else 0):
            child, other = _step(trie, memory, node, step, one, by_list)
            if child == 0:
                continue
            second = int(memory.part[other])
            pair = key_of_two(first, second)
            if not has_bit(key_filter, pair):
                continue
            if count >= keys.size:
                return -1
            if trie.ends[child]:
                keys[count] = pair
                count += 1
            prefix = child, other, first, second
            count = _list_triples(trie, key_filter, memory, unsure, prefix, keys, count)
            if count < 0:
                return -1
    return count


@inlined
def _push(
    key_filter: NDArray[np.uint64], keys: NDArray[np.uint64], count: int, key: np.uint64
) -> int:
    """Append a key if it may be filed."""
    keys[count] = key
    return count + (1 if has_bit(key_filter, key) else 0)


@inlined
def _list_triples(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    unsure: bool,
    prefix: tuple[int, int, int, int],
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """The keys of three parts that begin with two, given by node, place and parts."""
    node, place, first, second = prefix
    below = int(trie.child_start[node + 1] - trie.child_start[node])
    left = int(memory.counts[PARTS]) - place - 1
    by_list = below < left and not unsure
    for step in range(below if by_list else left if below else 0):
        child, third = _step(trie, memory, node, step, place, by_list)
        if count >= keys.size:
            return -1
        if child:
            key = key_of_three(first, second, int(memory.part[third]))
            count = _push(key_filter, keys, count, key)
    return count


@leaf
def schema_hash(first: int, second: int, third: int) -> np.uint64:
    """What stands for a schema while schemas are chosen; lanes ascend by dimension, 0 is none."""
    return pair_of(pair_of(np.uint64(first), np.uint64(second)), np.uint64(third))
