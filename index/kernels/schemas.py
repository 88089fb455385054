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
from index.kernels.event_memory import PARTS, EventMemory
from index.kernels.keys import ask_for_bit, find_bucket, has_bit, insert_bucket, pair_of

SCHEMA_LANES_MAX = 3
TRIPLE_PARTS_MAX = 1 << 21
"""Keys of three parts need their numbers to be below this."""

_TRIPLE = np.uint64(1 << 63)
_PAIR_SHIFT, _TRIPLE_SHIFT = np.uint64(31), np.uint64(21)
_HALF = np.uint64(32)
_UNKNOWN = -1
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class SchemaTrie(NamedTuple):
    """Schemas by their first lanes; node 0 is none."""

    root: NDArray[np.int32]  # [lanes] node of a first lane
    ends: NDArray[np.bool_]  # [nodes] the lanes down to here are a schema
    child_start: NDArray[np.int32]  # [nodes + 1]
    deep_stop: NDArray[np.int32]  # [nodes] the children before here have children, the others none
    child_lane: NDArray[np.int32]
    child_node: NDArray[np.int32]
    edge: NDArray[np.uint64]  # [slots, 2] node and lane, and the child as where its bucket stops


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
def _before_second(first: int) -> np.uint64:
    """What the number of a second part is added to."""
    return np.uint64(first + 1) << _PAIR_SHIFT | np.uint64(1)


@inlined
def _before_third(first: int, second: int) -> np.uint64:
    """What the number of a third part is added to."""
    return _TRIPLE | (np.uint64(first) << _TRIPLE_SHIFT | np.uint64(second)) << _TRIPLE_SHIFT


@inlined
def key_of_two(first: int, second: int) -> np.uint64:
    """The key of two parts; that of the smaller dimension is first."""
    return mix(_before_second(first) + np.uint64(second))


@inlined
def key_of_three(first: int, second: int, third: int) -> np.uint64:
    """The key of three parts in the order of their dimensions."""
    return mix(_before_third(first, second) + np.uint64(third))


@inlined
def edge_of(node: int, lane: int) -> np.uint64:
    """What stands for a child in the table of edges; one product spreads it well enough."""
    edge = (np.uint64(node) << _HALF | np.uint64(lane)) * _FIRST
    return edge ^ (edge >> _HALF)


@inlined
def _child_of(trie: SchemaTrie, node: int, lane: int) -> int:
    """The child of a node by a lane, 0 for none."""
    return int(find_bucket(trie.edge, edge_of(node, lane))[1])


@leaf
def insert_edges(
    trie: SchemaTrie, node: NDArray[np.int64], lane: NDArray[np.int64], child: NDArray[np.int64]
) -> None:
    """Fill the table of edges, which is empty."""
    for at in range(node.size):
        insert_bucket(trie.edge, edge_of(node[at], lane[at]), 0, child[at])


@leaf
def list_event_keys(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """Append the keys of the event at hand that may be filed; returns how many there are now.

    Returns -1 if there is no room.
    Among the keys are pairs that only begin triples, and pairs of no schema that the filter lets
    pass: to look for them in vain is cheaper than to ask for the schema of each pair.
    """
    part_count = int(memory.counts[PARTS])
    filed = count
    for one in range(part_count):
        node = int(trie.root[memory.lane[one]])
        if node == 0:
            continue
        if count + part_count > keys.size:
            return -1
        first = int(memory.part[one])
        if trie.ends[node]:
            count = _push(key_filter, keys, count, key_of_one(first))
        prefix = node, one, _before_second(first)
        count = _list_last(trie, key_filter, memory, prefix, keys, count)
        if trie.deep_stop[node] > trie.child_start[node]:
            count = _list_below(trie, key_filter, memory, (node, one, first), keys, count)
            if count < 0:
                return -1
    return _keep_filed(key_filter, keys, filed, count)


@inlined
def _push(
    key_filter: NDArray[np.uint64], keys: NDArray[np.uint64], count: int, key: np.uint64
) -> int:
    """Append a key, and ask for the word of the filter that tells whether it may be filed."""
    ask_for_bit(key_filter, key)
    keys[count] = key
    return count + 1


@inlined
def _keep_filed(
    key_filter: NDArray[np.uint64], keys: NDArray[np.uint64], first: int, stop: int
) -> int:
    """Leave of some keys those that may be filed; returns where they end.

    All keys of an event are listed before, so their words of the filter are on their way; which
    may be filed cannot be foreseen, so there is no branch.
    """
    kept = first
    for at in range(first, stop):
        key = keys[at]
        keys[kept] = key
        kept += int(has_bit(key_filter, key))
    return kept


@inlined
def _list_last(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    prefix: tuple[int, int, np.uint64],
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """The keys whose parts but the last are given, by node, place and what the last is added to."""
    node, place, before = prefix
    part_count = int(memory.counts[PARTS])
    start, stop = trie.child_start[node], trie.child_start[node + 1]
    if stop - start < part_count - place - 1:
        for at in range(start, stop):
            last = int(memory.place_of[trie.child_lane[at]]) - 1
            while last >= 0:
                key = mix(before + np.uint64(memory.part[last]))
                count = _push(key_filter, keys, count, key)
                last = int(memory.next_of[last]) - 1
    elif stop > start:
        for last in range(place + 1, part_count):
            key = mix(before + np.uint64(memory.part[last]))
            count = _push(key_filter, keys, count, key)
    return count


@inlined
def _list_below(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    part: tuple[int, int, int],
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """The keys of three parts, of which the first is given by node, place and number."""
    node, one, _ = part
    start, stop = int(trie.child_start[node]), int(trie.deep_stop[node])
    part_count = int(memory.counts[PARTS])
    if stop - start < part_count - one - 1:
        for at in range(start, stop):
            place = int(memory.place_of[trie.child_lane[at]]) - 1
            while place >= 0:
                child = int(trie.child_node[at])
                count = _list_third(trie, key_filter, memory, part, child, place, keys, count)
                if count < 0:
                    return -1
                place = int(memory.next_of[place]) - 1
        return count
    for place in range(one + 1, part_count):
        # A pair is known to begin triples before its child is looked for.
        child = _UNKNOWN
        count = _list_third(trie, key_filter, memory, part, child, place, keys, count)
        if count < 0:
            return -1
    return count


@inlined
def _list_third(
    trie: SchemaTrie,
    key_filter: NDArray[np.uint64],
    memory: EventMemory,
    part: tuple[int, int, int],
    child: int,
    place: int,
    keys: NDArray[np.uint64],
    count: int,
) -> int:
    """The keys of three parts, of which the first and the place of the second are given."""
    node, _, first = part
    second = int(memory.part[place])
    if not has_bit(key_filter, key_of_two(first, second)):
        return count
    if child == _UNKNOWN:
        child = _child_of(trie, node, memory.lane[place])
    if count + memory.counts[PARTS] > keys.size:
        return -1
    prefix = child, place, _before_third(first, second)
    return int(_list_last(trie, key_filter, memory, prefix, keys, count))


@leaf
def schema_hash(first: int, second: int, third: int) -> np.uint64:
    """What stands for a schema while schemas are chosen; lanes ascend by dimension, 0 is none."""
    return pair_of(pair_of(np.uint64(first), np.uint64(second)), np.uint64(third))
