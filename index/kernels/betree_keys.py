"""Order keys: the values of all types on one discrete line, so that a BE-Tree can halve it.

BE-Tree needs a finite domain whose order says which values a predicate covers. The doubles are one:
their bits, with those of negative numbers turned over, ascend as the numbers do. All other values
lie beyond infinity, among the bit patterns that are no numbers.

    -inf ... -1.0 ... 0.0 ... 1.0 ... +inf | operand strings by code, all other strings | booleans
    | null, objects

A key is an int64. Integers that share a double share a key; whatever an interval of keys cannot
tell apart, the filter itself decides. A short key is the int32 of the same order, in which numbers
are rounded as float32: what is covered stays covered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch, ValueType
from index.kernels import inlined, leaf
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NO_MARK,
    STRING_MARK,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS
from index.threshold import Polarity

KEY_FIRST, KEY_LAST = -(2**63), 2**63 - 1
"""The whole domain."""
INFINITY_KEY = 0x7FF0000000000000
STRING_FIRST = 0x7FF8000000000000
STRING_LAST = STRING_FIRST + 2**32
"""The key of strings that no operand equals."""
BOOLEAN_FIRST = 0x7FFE000000000000
NULL_KEY = 0x7FFF000000000000
OTHER_KEY = NULL_KEY + 1
"""Objects, and the lack of any value of an attribute that is there."""

SHORT_ABSENT = 2**31 - 1
"""Beyond all short keys; its negative lies before all."""
_SHORT_INFINITY = 0x7F800000
_SHORT_STRINGS = 1 << 22
_SHORT_BOOLEAN, _SHORT_NULL = 0x7FD00000, 0x7FE00000

RESIDUAL_FREE = 2.0**53
"""Below it every integer is a double, and no number has a residual."""

_POINT_SHARE, _RANGE_SHARE, _OPEN_SHARE, _WHOLE_SHARE = 0.02, 0.25, 0.5, 0.9
"""Guesses of the share of events in which a leaf holds."""

_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE = int(Polarity.IS_TRUE)
_EQUAL, _IN = int(PredicateKind.EQUAL), int(PredicateKind.IN)
_IS_NULL, _RANGE = int(PredicateKind.IS_NULL), int(PredicateKind.RANGE)
_FIRST_TEXT, _LAST_TEXT = int(PredicateKind.TEXT_RANGE), int(PredicateKind.LIKE)
_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)


@inlined
def number_key(double: float) -> int:
    """The key of a number; adding zero makes the bits of both zeros the same."""
    bits = np.float64(double + 0.0).view(np.int64)
    return int(bits ^ ((bits >> 63) & KEY_LAST))


@leaf
def number_of_key(key: int) -> float:
    """The number of a key up to that of infinity."""
    bits = np.int64(key ^ ((key >> 63) & KEY_LAST))
    return float(np.int64(bits).view(np.float64))


@inlined
def point_key(number: float, mark: int) -> int:
    """The key of what equality compares, see `index.predicates`."""
    if mark == STRING_MARK:
        return STRING_FIRST + int(number)
    if mark == BOOLEAN_MARK:
        return BOOLEAN_FIRST + int(number)
    if mark == NO_MARK:
        return NULL_KEY
    return number_key(number)


@leaf
def short_key(key: int) -> int:
    """The int32 of a key: equal keys have equal ones, and the order stays."""
    if key == KEY_FIRST:
        return -SHORT_ABSENT + 1
    if key <= INFINITY_KEY:
        bits = int(np.float32(number_of_key(key)).view(np.int32))
        return bits ^ ((bits >> 31) & SHORT_ABSENT)
    if key < BOOLEAN_FIRST:
        return _SHORT_INFINITY + 1 + min(max(key - STRING_FIRST, 0), _SHORT_STRINGS)
    if key < NULL_KEY:
        return _SHORT_BOOLEAN + key - BOOLEAN_FIRST
    return _SHORT_NULL + 1 if key > NULL_KEY else _SHORT_NULL


@leaf
def leaf_interval(predicates: PredicateColumns, leaf: int) -> tuple[int, int]:
    """The keys that a leaf covers (the paper's table 1): no other value can satisfy it alone.

    What any value may satisfy, or what no single value decides, covers the whole domain.
    """
    record = predicates.record[leaf >> POLARITY_BITS]
    kind = record["kind"]
    if leaf & _POLARITY_MASK != _IS_TRUE or record["flags"] & ALL:
        return KEY_FIRST, KEY_LAST
    if kind == _EQUAL:
        key = point_key(record["low"], record["low_residual"])
        return key, key
    if kind == _IS_NULL:
        return NULL_KEY, NULL_KEY
    if kind == _RANGE:
        low, high = number_key(record["low"]), number_key(record["high"])
        # Beside doubles without residuals there is nothing: `< 32` covers no key of 32.
        if record["low_residual"] > 0 and abs(record["low"]) < RESIDUAL_FREE:
            low += 1
        if record["high_residual"] < 0 and abs(record["high"]) < RESIDUAL_FREE:
            high -= 1
        return low, max(low, high)
    if kind == _IN:
        low, high = KEY_LAST, KEY_FIRST
        start = int(record["start"])
        for at in range(start, start + int(record["size"])):
            key = point_key(predicates.member_number[at], predicates.member_mark[at])
            low, high = min(low, key), max(high, key)
        return low, high
    if _FIRST_TEXT <= kind <= _LAST_TEXT:
        return STRING_FIRST, STRING_LAST
    return KEY_FIRST, KEY_LAST


@leaf
def leaf_share(predicates: PredicateColumns, known: NDArray[np.float64], leaf: int) -> float:
    """The share of events in which a leaf holds: known from statistics, or guessed by its kind."""
    number = leaf >> POLARITY_BITS
    record = predicates.record[number]
    if leaf & _POLARITY_MASK != _IS_TRUE or record["flags"] & ALL:
        return _WHOLE_SHARE
    if number < known.size and known[number] == known[number]:
        return float(known[number])
    kind = record["kind"]
    if kind == _EQUAL or kind == _IS_NULL:
        return _POINT_SHARE
    if kind == _IN:
        return float(min(_POINT_SHARE * record["size"], _WHOLE_SHARE))
    if kind == _RANGE:
        is_open = np.isinf(record["low"]) or np.isinf(record["high"])
        return _OPEN_SHARE if is_open else _RANGE_SHARE
    return _OPEN_SHARE if _FIRST_TEXT <= kind <= _LAST_TEXT else _WHOLE_SHARE


@inlined
def value_keys(batch: EventBatch, value: int) -> tuple[int, int]:
    """The two keys of a value: a string has one more for those who ignore case."""
    value_type = batch.value_type[value]
    if value_type == _NUMBER:
        key = number_key(batch.value_number[value])
        return key, key
    if value_type == _STRING:
        string = batch.value_string[value]
        code, folded = int(batch.string_code[string]), int(batch.folded_code[string])
        plain = STRING_FIRST + code if code >= 0 else STRING_LAST
        return plain, STRING_FIRST + folded if folded >= 0 else plain
    if value_type == _BOOLEAN:
        key = BOOLEAN_FIRST + int(batch.value_number[value])
        return key, key
    if value_type == _NULL:
        return NULL_KEY, NULL_KEY
    return OTHER_KEY, OTHER_KEY


@leaf
def middle_of(low: int, high: int) -> int:
    """The last key of the lower half; the sum of both may exceed an int64."""
    return (low & high) + ((low ^ high) >> 1)


@leaf
def cell_around(low: int, high: int) -> tuple[int, int]:
    """The smallest interval that halving the domain yields and that encloses low..high."""
    apart = low ^ high
    if apart < 0:
        return KEY_FIRST, KEY_LAST
    for shift in (1, 2, 4, 8, 16, 32):
        apart |= apart >> shift
    return low & ~apart, low | apart
