"""List entries: what the predicates of OpIndex are filed under, each in the list of its operator.

    =, IN, = and IN without case      the value; a set has an entry for each member
    PREFIX, SUFFIX, with and without case    the node of a trie at which a needle ends
    <=    >=    both ends             the upper end    the lower end    both
    anything else, opaque             nothing: each is tested; opaque ones are left to Python

Only what one value makes TRUE is filed under values; ALL, NOT and the like are tested.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels.cover import SINGLE_KEYS_MAX
from index.kernels.lookups import (
    AT_LEAST,
    AT_MOST,
    BETWEEN,
    EQUAL,
    FOLDED,
    OPAQUE,
    OTHER,
    PREFIX,
    SUFFIX,
    TRIES,
)
from index.kernels.tries import Needles, Tries, grow_tries
from index.predicates import ALL, NO_MARK, NOCASE, STRING_MARK, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.threshold import Polarity


class ListEntries(NamedTuple):
    """What asks are filed under, whatever their pivots."""

    operator: NDArray[np.int64]
    ask: NDArray[np.int64]
    number: NDArray[np.float64]
    mark: NDArray[np.int16]
    high: NDArray[np.float64]
    high_mark: NDArray[np.int16]


def operators_of(predicates: PredicateColumns, code: NDArray[np.int32]) -> NDArray[np.int64]:
    """The list that each leaf belongs to; of a set, that of its members without case."""
    record = predicates.record[code >> POLARITY_BITS]
    kind, flags, size = record["kind"], record["flags"], record["size"]
    folds = flags & NOCASE != 0
    operator = np.full(code.size, OTHER, np.int64)
    operator[kind >= PredicateKind.OPAQUE_TEXT] = OPAQUE
    # Only these are TRUE by a single value.
    by_value = (code & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE) & (flags & ALL == 0)
    is_short = by_value & (size <= SINGLE_KEYS_MAX)
    is_equality = by_value & ((kind == PredicateKind.EQUAL) | (kind == PredicateKind.IS_NULL))
    operator[is_equality | is_short & (kind == PredicateKind.IN)] = EQUAL
    for affix, list_kind in ((PredicateKind.PREFIX, PREFIX), (PredicateKind.SUFFIX, SUFFIX)):
        is_affix = is_short & (kind == affix)
        operator[is_affix] = list_kind + folds[is_affix]
    is_range = by_value & (kind == PredicateKind.RANGE)
    operator[is_range] = BETWEEN
    operator[is_range & np.isposinf(record["high"])] = AT_LEAST
    operator[is_range & np.isneginf(record["low"])] = AT_MOST
    return operator


def list_entries(
    predicates: PredicateColumns, code: NDArray[np.int32], attribute_count: int
) -> tuple[Tries, ListEntries]:
    """The tries, and the entries of every ask: a list of values or needles has one for each."""
    record = predicates.record[code >> POLARITY_BITS]
    operator = operators_of(predicates, code)
    is_set = (operator == EQUAL) & (record["kind"] == PredicateKind.IN)
    is_affix = (operator >= PREFIX) & (operator < AT_MOST)
    size = np.where(is_set | is_affix, record["size"], 1).astype(np.int64)
    ask = np.repeat(np.arange(code.size), size)
    at = record["start"][ask] + np.arange(ask.size) - np.repeat(np.cumsum(size) - size, size)
    is_plain = ((operator == EQUAL) & (record["kind"] == PredicateKind.EQUAL)) | (
        (operator >= AT_MOST) & (operator <= BETWEEN)
    )
    from_high = operator == AT_MOST
    number = np.where(from_high, record["high"], np.where(is_plain, record["low"], 0.0))
    mark = np.where(from_high, record["high_residual"], record["low_residual"])
    mark[~is_plain] = 0
    mark[(operator == EQUAL) & (record["kind"] == PredicateKind.IS_NULL)] = NO_MARK
    tries, node_of = _grow(predicates, code[is_affix], operator[is_affix], attribute_count)
    high, high_mark = record["high"][ask], record["high_residual"][ask]
    operator, number, mark = operator[ask], number[ask], mark[ask].astype(np.int16)
    of_set, of_affix = is_set[ask], is_affix[ask]
    number[of_set] = predicates.member_number[at[of_set]]
    mark[of_set] = predicates.member_mark[at[of_set]]
    number[of_affix] = node_of[at[of_affix]]
    folds = (operator == EQUAL) & (record["flags"][ask] & NOCASE != 0) & (mark == STRING_MARK)
    operator[folds] = FOLDED
    return tries, ListEntries(operator, ask, number, mark, high, high_mark)


def _grow(
    predicates: PredicateColumns,
    code: NDArray[np.int32],
    operator: NDArray[np.int64],
    attribute_count: int,
) -> tuple[Tries, NDArray[np.int32]]:
    """The tries of the needles of leaves `code`, and the node of each needle by its number."""
    number, place = np.unique(code >> POLARITY_BITS, return_index=True)
    record, kind = predicates.record[number], operator[place] - PREFIX
    count = record["size"].astype(np.int64)
    owner = np.repeat(np.arange(number.size), count)
    needle = (
        record["start"][owner] + np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    )
    trie = kind[owner] * attribute_count + record["attribute"][owner]
    order = np.argsort(trie, kind="stable")
    owner, needle, trie = owner[order], needle[order], trie[order]
    start, stop = predicates.needle_start[needle], predicates.needle_start[needle + 1]
    is_backward = kind[owner] >= SUFFIX - PREFIX
    needles = Needles(
        trie,
        np.where(is_backward, stop - 1, start),
        np.where(is_backward, -1, 1),
        stop - start,
    )
    node = np.empty(needle.size, np.int32)
    columns = grow_tries(needles, predicates.needle, node)
    root = np.full(TRIES * attribute_count if needle.size else 0, -1, np.int32)
    tries = np.unique(trie)
    root[tries] = np.arange(tries.size)
    node_of = np.empty(predicates.needle_start.size - 1, np.int32)
    node_of[needle] = node
    return Tries(root.reshape(TRIES, -1), *columns), node_of
