"""Lookups: what an event looks for in sorted lists of predicates, one kind of operator a list.

    event a = [3, 5], b = 'Xy'   EQUAL     a 3, a 5, b 'Xy'     FOLDED    b 'xy'
                                 PREFIX    b node of 'X'        SUFFIX    b node of 'y', of 'Xy'
                                 AT_MOST   a from 3 on          AT_LEAST  a up to 5
                                 OTHER     all of a, all of b

They are made once an event, however many lists it then searches. With each goes the one bit that
the signature of a list must have if anything is to be found there (OpIndex, section 4.2). A string
walks a trie once; the nodes at which needles end are looked up as if they were its values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels import inlined, leaf
from index.kernels.filing import point_part
from index.kernels.signature import point_code
from index.kernels.tries import Tries, child_by_byte, fits
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK

OPERATORS = 11
(
    EQUAL,
    FOLDED,
    PREFIX,
    FOLDED_PREFIX,
    SUFFIX,
    FOLDED_SUFFIX,
    AT_MOST,
    AT_LEAST,
    BETWEEN,
    OTHER,
    OPAQUE,
) = range(OPERATORS)
"""Kinds of predicate lists. Up to FOLDED_SUFFIX a lookup finds the entries of one key."""
OPERATOR_BITS = 4
TRIES = 4
"""Kinds of tries: those of PREFIX up to FOLDED_SUFFIX."""
FIRST_MARK, LAST_MARK = -(1 << 15), 1 << 15
"""Before and after all residuals of numbers."""

_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)


class Lookups(NamedTuple):
    """What the event at hand looks up in each list of an operator: [OPERATORS, lookups]."""

    size: NDArray[np.int64]  # [OPERATORS]
    attribute: NDArray[np.int32]
    number: NDArray[np.float64]  # the one key, the least for `<=`, the greatest for `>=`
    mark: NDArray[np.int32]
    bit: NDArray[np.uint64]  # the bit of a signature without which there is nothing to find
    single: NDArray[np.bool_]  # the attribute has one value, and that no other key here


def new_lookups(batch: EventBatch, tries: Tries) -> Lookups:
    """Room for the lookups of the largest event."""
    # A walk visits no more nodes than the string, or the longest needle, has bytes; and a root.
    nodes = np.zeros(batch.value_string.size + 1, np.int64)
    if tries.ends.size:
        is_string = batch.value_string >= 0
        strings = batch.value_string[is_string]
        sizes = np.diff(batch.string_start)[strings]
        if batch.folded_start.size == batch.string_start.size:
            sizes = np.maximum(sizes, np.diff(batch.folded_start)[strings])
        nodes[1:][is_string] = np.minimum(sizes, _longest(tries)) + 1
    value_at = batch.value_start[batch.entry_start]
    width = np.diff(batch.entry_start) + np.diff(value_at) + np.diff(np.cumsum(nodes)[value_at])
    shape = OPERATORS, int(width.max(initial=0))
    types = np.int32, np.float64, np.int32, np.uint64, np.bool_
    columns = (np.empty(shape, part) for part in types)
    return Lookups(np.zeros(OPERATORS, np.int64), *columns)


def _longest(tries: Tries) -> int:
    """At least the number of nodes on the way to any needle."""
    roots = int(np.count_nonzero(tries.root >= 0))
    level, first, stop = 0, 0, roots
    while first < stop:
        first, stop = stop, int(tries.child[stop])
        level += 1
    return level


@inlined
def bit_of(operator: int, attribute: int, number: float, mark: int) -> np.uint64:
    """Equality hashes attribute and operand, any other operator the attribute alone."""
    if operator >= AT_MOST:
        number, mark = 0.0, 0
    # Adding zero makes the bits of both zeros the same.
    part = point_part(attribute << OPERATOR_BITS | operator, number + 0.0, mark)
    return point_code(part)


@leaf
def look_up(
    tries: Tries, needle: NDArray[np.uint8], batch: EventBatch, event: int, lookups: Lookups
) -> None:
    """Fill `lookups` with those of an event, the same for all its pivots."""
    lookups.size[:] = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        start, stop = batch.value_start[entry], batch.value_start[entry + 1]
        is_present = batch.entry_flags[entry] & PRESENT != 0
        single = is_present and stop - start == 1
        _push(lookups, OTHER, attribute, (0.0, 0), single)
        if not is_present:
            continue
        _push(lookups, OPAQUE, attribute, (0.0, 0), single)
        # Of several numbers the least finds every `<=` that any of them satisfies, the greatest
        # every `>=`.
        least, least_mark, greatest, greatest_mark = np.inf, LAST_MARK, -np.inf, FIRST_MARK
        for value in range(start, stop):
            _push_value(lookups, batch, value, attribute, single)
            if batch.value_type[value] == _STRING:
                _walk_tries(tries, needle, batch, value, attribute, lookups)
            elif batch.value_type[value] == _NUMBER:
                number, residual = batch.value_number[value], int(batch.value_residual[value])
                if number < least or (number == least and residual < least_mark):
                    least, least_mark = number, residual
                if number > greatest or (number == greatest and residual > greatest_mark):
                    greatest, greatest_mark = number, residual
        if greatest_mark != FIRST_MARK:
            _push(lookups, AT_MOST, attribute, (least, least_mark), single)
            _push(lookups, AT_LEAST, attribute, (greatest, greatest_mark), single)
            _push(lookups, BETWEEN, attribute, (greatest, greatest_mark), single)


@inlined
def _push_value(
    lookups: Lookups, batch: EventBatch, value: int, attribute: int, single: bool
) -> None:
    """Append the equalities that a value satisfies."""
    value_type, number = batch.value_type[value], np.float64(batch.value_number[value])
    operator, key, mark = EQUAL, number, NO_MARK
    if value_type == _STRING:
        string = batch.value_string[value]
        code, folded = batch.string_code[string], batch.folded_code[string]
        if folded >= 0:
            _push(lookups, FOLDED, attribute, (np.float64(folded), STRING_MARK), single)
        if code < 0:
            return
        key, mark = np.float64(code), STRING_MARK
    elif value_type == _NUMBER:
        mark = int(batch.value_residual[value])
    elif value_type == _BOOLEAN:
        mark = BOOLEAN_MARK
    elif value_type == _NULL:
        key = np.float64(0.0)
    else:
        return
    _push(lookups, operator, attribute, (key, mark), single)


@inlined
def _walk_tries(
    tries: Tries,
    needle: NDArray[np.uint8],
    batch: EventBatch,
    value: int,
    attribute: int,
    lookups: Lookups,
) -> None:
    """Append the needles that a string begins or ends with."""
    if attribute >= tries.root.shape[1]:
        return
    string = batch.value_string[value]
    for kind in range(TRIES):
        root = tries.root[kind, attribute]
        if root >= 0:
            operator = PREFIX + kind
            if operator == PREFIX or operator == SUFFIX:
                text = batch.text
                start, stop = batch.string_start[string], batch.string_start[string + 1]
            else:
                text = batch.folded_text
                start, stop = batch.folded_start[string], batch.folded_start[string + 1]
            at, step = (start, 1) if operator < SUFFIX else (stop - 1, -1)
            _walk(
                tries, needle, text, (at, step, stop - start), (root, operator, attribute), lookups
            )


@leaf
def _walk(
    tries: Tries,
    needle: NDArray[np.uint8],
    text: NDArray[np.uint8],
    way: tuple[int, int, int],
    origin: tuple[int, int, int],
    lookups: Lookups,
) -> None:
    """Append the needles of one trie: from text[way[0]] on, by steps of way[1], way[2] bytes."""
    at, step, left = way
    node, operator, attribute = origin
    while node >= 0 and tries.size[node] <= left and fits(tries, node, needle, text, at, step):
        left -= tries.size[node]
        at += step * tries.size[node]
        if tries.ends[node]:
            _push(lookups, operator, attribute, (np.float64(node), 0), False)
        if left == 0:
            break
        node = child_by_byte(tries, node, text[at])


@inlined
def _push(
    lookups: Lookups, operator: int, attribute: int, key: tuple[float, int], single: bool
) -> None:
    """Append a lookup."""
    at = lookups.size[operator]
    lookups.size[operator] = at + 1
    lookups.attribute[operator, at] = attribute
    lookups.number[operator, at], lookups.mark[operator, at] = key
    lookups.bit[operator, at] = bit_of(operator, attribute, key[0], key[1])
    lookups.single[operator, at] = single
