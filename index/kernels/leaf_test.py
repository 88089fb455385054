"""The truth of one predicate record on one event of a batch.

Truth is TRUE, FALSE or UNKNOWN, and OPAQUE where only Python can tell and has not told yet. OPAQUE
stands for any of the three, and Kleene's connectives extend to it: OR is TRUE if some value is
TRUE, else OPAQUE if some is, else UNKNOWN if some is, else FALSE; AND likewise with TRUE and FALSE
exchanged.

`entry_of` leads from an attribute to the event's entry, or to -1. It is filled on entering an event
and cleared on leaving it, so both cost the event's size and never the number of attributes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels.hashing import same_bytes
from index.kernels.inlining import inlined
from index.kernels.scratch import OPAQUE, Scratch, settled_truth
from index.kernels.text_match import compare, contains, is_like
from index.predicates import (
    ALL,
    BOOLEAN_MARK,
    NO_MARK,
    NOCASE,
    STRING_MARK,
    PredicateColumns,
    PredicateKind,
)

FALSE = 0
TRUE = 1
UNKNOWN = 2

# Plain integers, because numba compiles them faster than members of an enumeration.
_BOOLEAN, _NULL = int(ValueType.BOOLEAN), int(ValueType.NULL)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)
_EXISTS, _MISSING = int(PredicateKind.EXISTS), int(PredicateKind.MISSING)
_IS_NULL = int(PredicateKind.IS_NULL)
_EQUAL, _IN = int(PredicateKind.EQUAL), int(PredicateKind.IN)
_RANGE, _TEXT_RANGE = int(PredicateKind.RANGE), int(PredicateKind.TEXT_RANGE)
_PREFIX, _SUFFIX = int(PredicateKind.PREFIX), int(PredicateKind.SUFFIX)
_CONTAINS = int(PredicateKind.CONTAINS)
_OPAQUE_TEXT, _OPAQUE_EQUAL = int(PredicateKind.OPAQUE_TEXT), int(PredicateKind.OPAQUE_EQUAL)
_OPAQUE_VALUE, _OPAQUE_ENTRY = int(PredicateKind.OPAQUE_VALUE), int(PredicateKind.OPAQUE_ENTRY)

_LINEAR_MAX = 8
"""Sets up to this size are searched from end to end: one cache line, no branch mispredicted."""


@inlined
def enter_event(batch: EventBatch, event: int, entry_of: NDArray[np.int32]) -> None:
    """Fill `entry_of`, all -1 on entry, with the entries of an event.

    Attributes newer than `entry_of` is long are passed over: no predicate at hand names them.
    """
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = batch.entry_attribute[entry]
        if attribute < entry_of.size:
            entry_of[attribute] = entry


@inlined
def leave_event(batch: EventBatch, event: int, entry_of: NDArray[np.int32]) -> None:
    """Make `entry_of` all -1 again."""
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = batch.entry_attribute[entry]
        if attribute < entry_of.size:
            entry_of[attribute] = -1


@inlined
def leaf_truth(
    predicates: PredicateColumns, number: int, batch: EventBatch, scratch: Scratch
) -> int:
    """TRUE, FALSE, UNKNOWN or OPAQUE of predicate `number` on the event entered last."""
    record = predicates.record[number]
    kind = record["kind"]
    entry = scratch.entry_of[record["attribute"]]
    if kind == _EXISTS:
        return TRUE if entry >= 0 else FALSE
    if kind == _MISSING:
        return FALSE if entry >= 0 else TRUE
    if entry < 0:
        return UNKNOWN
    if kind == _OPAQUE_ENTRY:
        return OPAQUE
    if batch.entry_flags[entry] & PRESENT == 0:
        return UNKNOWN
    value = batch.value_start[entry]
    stop = batch.value_start[entry + 1]
    decisive, result = TRUE, FALSE
    if record["flags"] & ALL:
        decisive, result = FALSE, TRUE
    for at in range(value, stop):
        truth = value_truth(predicates, number, batch, at, scratch.settled)
        if truth == decisive:
            return decisive
        if truth == OPAQUE or (truth == UNKNOWN and result != OPAQUE):
            result = truth
    return result


@inlined
def value_truth(
    predicates: PredicateColumns,
    number: int,
    batch: EventBatch,
    value: int,
    settled: NDArray[np.uint64],
) -> int:
    """A record on one value of a present attribute."""
    record = predicates.record[number]
    kind = record["kind"]
    value_type = batch.value_type[value]
    if kind == _EQUAL:
        key, mark = _key_of(batch, value, record["flags"])
        return TRUE if key == record["low"] and mark == record["low_residual"] else FALSE
    if kind == _RANGE:
        if value_type != _NUMBER:
            return UNKNOWN
        return TRUE if _in_range(predicates, number, batch, value) else FALSE
    if kind == _IN:
        key, mark = _key_of(batch, value, record["flags"])
        start = record["start"]
        return TRUE if _is_member(predicates, start, start + record["size"], key, mark) else FALSE
    if kind == _IS_NULL:
        return TRUE if value_type == _NULL else FALSE
    if kind == _OPAQUE_VALUE:
        return OPAQUE
    if value_type != _STRING:
        return FALSE if kind == _OPAQUE_EQUAL else UNKNOWN
    string = batch.value_string[value]
    if kind == _OPAQUE_TEXT or kind == _OPAQUE_EQUAL:
        return int(settled_truth(settled, number, string))
    return TRUE if _text_holds(predicates, number, batch, string) else FALSE


@inlined
def _key_of(batch: EventBatch, value: int, flags: int) -> tuple[np.float64, np.int64]:
    """What equality compares: see `index.predicates`. A string no operand equals has key -1."""
    value_type = batch.value_type[value]
    if value_type == _NUMBER:
        return np.float64(batch.value_number[value]), np.int64(batch.value_residual[value])
    if value_type == _STRING:
        string = batch.value_string[value]
        code = batch.folded_code[string] if flags & NOCASE else batch.string_code[string]
        return np.float64(code), np.int64(STRING_MARK)
    if value_type == _BOOLEAN:
        return np.float64(batch.value_number[value]), np.int64(BOOLEAN_MARK)
    return np.float64(0.0), np.int64(NO_MARK)


@inlined
def _in_range(predicates: PredicateColumns, number: int, batch: EventBatch, value: int) -> bool:
    record = predicates.record[number]
    key = batch.value_number[value]
    if record["low"] < key < record["high"]:
        return True
    residual = batch.value_residual[value]
    above = key > record["low"] or (key == record["low"] and residual >= record["low_residual"])
    below = key < record["high"] or (key == record["high"] and residual <= record["high_residual"])
    return bool(above and below)


@inlined
def _is_member(
    predicates: PredicateColumns, start: int, stop: int, key: np.float64, mark: np.int64
) -> bool:
    """Is the key one of the ascending members start..stop?"""
    while stop - start > _LINEAR_MAX:
        middle = (start + stop) // 2
        at = predicates.member_number[middle]
        if at > key or (at == key and predicates.member_mark[middle] > mark):
            stop = middle
        else:
            start = middle
    for member in range(start, stop):
        if predicates.member_number[member] == key and predicates.member_mark[member] == mark:
            return True
    return False


@inlined
def _text_holds(predicates: PredicateColumns, number: int, batch: EventBatch, string: int) -> bool:
    """Any of the record's needles on a string, folded or as it is."""
    record = predicates.record[number]
    if record["flags"] & NOCASE:
        text = batch.folded_text
        start, stop = batch.folded_start[string], batch.folded_start[string + 1]
    else:
        text = batch.text
        start, stop = batch.string_start[string], batch.string_start[string + 1]
    first = record["start"]
    if record["kind"] == _TEXT_RANGE:
        return (
            _compare_needle(predicates, first, text, start, stop) >= 0
            and _compare_needle(predicates, first + 1, text, start, stop) < 0
        )
    for needle in range(first, first + record["size"]):
        if _needle_holds(predicates, record["kind"], needle, text, start, stop):
            return True
    return False


@inlined
def _needle_holds(
    predicates: PredicateColumns,
    kind: int,
    number: int,
    text: NDArray[np.uint8],
    start: int,
    stop: int,
) -> bool:
    needle = predicates.needle
    needle_start, needle_stop = predicates.needle_start[number], predicates.needle_start[number + 1]
    size = needle_stop - needle_start
    if kind == _CONTAINS:
        return contains(text, start, stop, needle, needle_start, needle_stop)
    if kind == _SUFFIX:
        return size <= stop - start and same_bytes(text, stop - size, needle, needle_start, size)
    if kind == _PREFIX:
        return size <= stop - start and same_bytes(text, start, needle, needle_start, size)
    return is_like(text, start, stop, needle, needle_start, needle_stop)


@inlined
def _compare_needle(
    predicates: PredicateColumns, number: int, text: NDArray[np.uint8], start: int, stop: int
) -> int:
    needle_start, needle_stop = predicates.needle_start[number], predicates.needle_start[number + 1]
    return compare(text, start, stop, predicates.needle, needle_start, needle_stop)
