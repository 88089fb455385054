"""Which text predicates hold of the strings of a batch: string by string, before any event.

A text predicate is a prefix, suffix, substring, LIKE pattern or regular expression asked of any
string of an attribute. Needles are shared by all attributes, so what is found in a string is told
for all of them, and each attribute takes what is its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels import inlined, leaf
from index.kernels.needles import BEGIN, END, NeedleTrie, after_byte
from index.kernels.text_match import is_like
from index.predicates import PredicateColumns


class TextColumns(NamedTuple):
    """The `t` text predicates of a segment, by ascending attribute, of `a` attributes."""

    exact: NeedleTrie  # needles as they are; of PREFIX, SUFFIX, CONTAINS and LIKE
    folded: NeedleTrie  # needles of NOCASE; numbered on from those of `exact`
    owner_start: NDArray[np.int32]  # [needles + 1] needle -> run of `owner`
    owner: NDArray[np.int32]  # text predicates, which hold if one of their needles is found
    pattern: NDArray[np.int32]  # [t] predicate whose pattern must fit besides, -1 for none
    attribute: NDArray[np.int32]  # [t]
    first: NDArray[np.int32]  # [a + 1] attribute -> its text predicates
    lane: NDArray[np.int32]  # [t] lane of tests, 0 for none
    flip: NDArray[np.uint64]  # [t] bits of the lane's word that differ where the predicate holds
    lane_start: NDArray[np.int32]  # [a + 1] attribute -> its lanes of tests
    default: NDArray[np.uint64]  # [lanes of tests] the word of a string of which nothing holds
    key_lane: NDArray[np.int32]  # [a] lane of keys
    expression: NDArray[np.int32]  # [t] regular expression predicate, -1 for others


class TextMemory(NamedTuple):
    """Working memory of one call, and what it finds; `s` strings."""

    run: NDArray[np.int64]  # [s, 2] string -> what holds of it in `found`; -1 if nobody asks
    asker: NDArray[np.int32]  # [s] the attribute that asks about the string, MANY if several do
    found: NDArray[np.int32]  # [room] text predicates
    mark: NDArray[np.int64]  # [nodes of both tries + t] the last string that came by
    counts: NDArray[np.int64]  # [3] strings done, `found` filled, most of what holds in an event


DONE, FILLED, MOST = 0, 1, 2
MANY = -1


@inlined
def asks_texts(texts: TextColumns, attribute: int) -> bool:
    """Does some text predicate ask about an attribute?"""
    is_known = attribute + 1 < texts.first.size
    return bool(is_known and texts.first[attribute] < texts.first[attribute + 1])


@leaf
def mark_strings(texts: TextColumns, batch: EventBatch, memory: TextMemory) -> None:
    """Note who asks about the strings, by a 0 in `run`."""
    for entry in range(batch.entry_attribute.size):
        attribute = batch.entry_attribute[entry]
        if not asks_texts(texts, attribute):
            continue
        for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
            string = batch.value_string[value]
            if string < 0:
                continue
            is_other = memory.run[string, 0] == 0 and memory.asker[string] != attribute
            memory.asker[string] = MANY if is_other else attribute
            memory.run[string, 0] = 0


@leaf
def scan_strings(
    texts: TextColumns,
    predicates: PredicateColumns,
    batch: EventBatch,
    told: tuple[NDArray[np.int64], NDArray[np.int32]],
    first_mark: int,
    memory: TextMemory,
) -> bool:
    """Find what holds of each string that is asked about; False if `found` is full.

    told        [s + 1] and text predicates of each string that are known to hold from elsewhere
    first_mark  above all marks that earlier strings have left
    """
    told_start, told_predicate = told
    exact_nodes = texts.exact.label.size
    for string in range(memory.counts[DONE], batch.string_code.size):
        if memory.run[string, 0] < 0:
            continue
        if memory.counts[FILLED] + texts.attribute.size > memory.found.size:
            memory.counts[DONE] = string
            return False
        memory.run[string, 0] = memory.counts[FILLED]
        for at in range(told_start[string], told_start[string + 1]):
            _append(memory, told_predicate[at])
        named = string, first_mark + string
        if exact_nodes > 1:
            bounds = batch.string_start[string], batch.string_start[string + 1]
            _scan(texts, texts.exact, 0, predicates, batch.text, bounds, named, memory)
        if texts.folded.label.size > 1:
            bounds = batch.folded_start[string], batch.folded_start[string + 1]
            text = batch.folded_text
            _scan(texts, texts.folded, exact_nodes, predicates, text, bounds, named, memory)
        memory.run[string, 1] = memory.counts[FILLED]
    memory.counts[DONE] = batch.string_code.size
    return True


@inlined
def _append(memory: TextMemory, predicate: int) -> None:
    memory.found[memory.counts[FILLED]] = predicate
    memory.counts[FILLED] += 1


@leaf
def _scan(
    texts: TextColumns,
    trie: NeedleTrie,
    offset: int,
    predicates: PredicateColumns,
    text: NDArray[np.uint8],
    bounds: tuple[int, int],
    named: tuple[int, int],
    memory: TextMemory,
) -> None:
    """Append what holds of one string, by the needles of one trie; `named` is string and mark."""
    start, stop = bounds
    node = 0
    for at in range(start - 1, stop + 1):
        byte = BEGIN
        if at >= start:
            byte = int(text[at]) if at < stop else END
        node = after_byte(trie, node, byte)
        if node:
            _take(texts, trie, offset, predicates, text, bounds, named, memory, node)


@inlined
def _take(
    texts: TextColumns,
    trie: NeedleTrie,
    offset: int,
    predicates: PredicateColumns,
    text: NDArray[np.uint8],
    bounds: tuple[int, int],
    named: tuple[int, int],
    memory: TextMemory,
    node: int,
) -> None:
    """Take the needles that end where the pass stands; what falls from a node seen before in this
    string was taken with it.
    """
    stamp = named[1]
    if trie.needle[node] < 0:
        node = int(trie.next_end[node])
    while node > 0 and memory.mark[offset + node] != stamp:
        memory.mark[offset + node] = stamp
        _take_needle(texts, int(trie.needle[node]), predicates, text, bounds, named, memory)
        node = int(trie.next_end[node])


@inlined
def _take_needle(
    texts: TextColumns,
    needle: int,
    predicates: PredicateColumns,
    text: NDArray[np.uint8],
    bounds: tuple[int, int],
    named: tuple[int, int],
    memory: TextMemory,
) -> None:
    """Append the owners of a needle that are asked and not yet known to hold of the string."""
    string, stamp = named
    offset = memory.mark.size - texts.attribute.size
    asker = memory.asker[string]
    for at in range(texts.owner_start[needle], texts.owner_start[needle + 1]):
        owner = texts.owner[at]
        if asker != MANY and asker != texts.attribute[owner]:
            continue
        if memory.mark[offset + owner] == stamp:
            continue
        memory.mark[offset + owner] = stamp
        pattern = texts.pattern[owner]
        if pattern < 0 or _fits(predicates, pattern, text, bounds):
            _append(memory, owner)


@inlined
def _fits(
    predicates: PredicateColumns, number: int, text: NDArray[np.uint8], bounds: tuple[int, int]
) -> bool:
    """Does a whole string, folded for NOCASE, fit the pattern of a LIKE predicate?"""
    needle = predicates.record[number]["start"]
    start, stop = predicates.needle_start[needle], predicates.needle_start[needle + 1]
    return bool(is_like(text, bounds[0], bounds[1], predicates.needle, start, stop))


@leaf
def count_most(texts: TextColumns, batch: EventBatch, memory: TextMemory) -> None:
    """Find the most text predicates that hold in one event, for room."""
    for event in range(batch.entry_start.size - 1):
        count = 0
        for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
            if batch.entry_attribute[entry] + 1 >= texts.first.size:
                continue
            for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
                string = batch.value_string[value]
                if string >= 0 and memory.run[string, 0] >= 0:
                    count += memory.run[string, 1] - memory.run[string, 0]
        memory.counts[MOST] = max(memory.counts[MOST], count)
