"""Lookups: what an event looks for in sorted lists of predicates, one kind of operator a list.

    event a = [3, 5], b = 'X'    EQUAL     a 3, a 5, b 'X'      FOLDED    b 'x'
                                 AT_MOST   a from 3 on          AT_LEAST  a up to 5
                                 OTHER     all of a, all of b

They are made once an event, however many lists it then searches. With each goes the one bit that
the signature of a list must have if anything is to be found there (OpIndex, section 4.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.columns import PRESENT, EventBatch, ValueType
from index.kernels import inlined
from index.kernels.filing import point_part
from index.kernels.signature import point_code
from index.predicates import BOOLEAN_MARK, NO_MARK, STRING_MARK

OPERATORS = 5
EQUAL, FOLDED, AT_MOST, AT_LEAST, OTHER = range(OPERATORS)
"""Kinds of predicate lists."""
OPERATOR_BITS = 3
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


def new_lookups(batch: EventBatch) -> Lookups:
    """Room for the lookups of the largest event."""
    value_at = batch.value_start[batch.entry_start]
    width = int((np.diff(batch.entry_start) + np.diff(value_at)).max(initial=0))
    types = np.int32, np.float64, np.int32, np.uint64
    columns = (np.empty((OPERATORS, width), part) for part in types)
    return Lookups(np.zeros(OPERATORS, np.int64), *columns)


@inlined
def bit_of(operator: int, attribute: int, number: float, mark: int) -> np.uint64:
    """Equality hashes attribute and operand, any other operator the attribute alone."""
    if operator > FOLDED:
        number, mark = 0.0, 0
    # Adding zero makes the bits of both zeros the same.
    part = point_part(attribute << OPERATOR_BITS | operator, number + 0.0, mark)
    return point_code(part)


@inlined
def look_up(batch: EventBatch, event: int, lookups: Lookups) -> None:
    """Fill `lookups` with those of an event, the same for all its pivots."""
    lookups.size[:] = 0
    for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
        attribute = int(batch.entry_attribute[entry])
        _push(lookups, OTHER, attribute, 0.0, 0)
        if batch.entry_flags[entry] & PRESENT == 0:
            continue
        # Of several numbers the least finds every `<=` that any of them satisfies, the greatest
        # every `>=`.
        least, least_mark, greatest, greatest_mark = np.inf, LAST_MARK, -np.inf, FIRST_MARK
        for value in range(batch.value_start[entry], batch.value_start[entry + 1]):
            _push_value(lookups, batch, value, attribute)
            if batch.value_type[value] == _NUMBER:
                number, residual = batch.value_number[value], int(batch.value_residual[value])
                if number < least or (number == least and residual < least_mark):
                    least, least_mark = number, residual
                if number > greatest or (number == greatest and residual > greatest_mark):
                    greatest, greatest_mark = number, residual
        if greatest_mark != FIRST_MARK:
            _push(lookups, AT_MOST, attribute, least, least_mark)
            _push(lookups, AT_LEAST, attribute, greatest, greatest_mark)


@inlined
def _push_value(lookups: Lookups, batch: EventBatch, value: int, attribute: int) -> None:
    """Append the equalities that a value satisfies."""
    value_type, number = batch.value_type[value], np.float64(batch.value_number[value])
    if value_type == _STRING:
        string = batch.value_string[value]
        code, folded = batch.string_code[string], batch.folded_code[string]
        if code >= 0:
            _push(lookups, EQUAL, attribute, np.float64(code), STRING_MARK)
        if folded >= 0:
            _push(lookups, FOLDED, attribute, np.float64(folded), STRING_MARK)
    elif value_type == _NUMBER:
        _push(lookups, EQUAL, attribute, number, int(batch.value_residual[value]))
    elif value_type == _BOOLEAN:
        _push(lookups, EQUAL, attribute, number, BOOLEAN_MARK)
    elif value_type == _NULL:
        _push(lookups, EQUAL, attribute, 0.0, NO_MARK)


@inlined
def _push(lookups: Lookups, operator: int, attribute: int, number: float, mark: int) -> None:
    """Append a lookup."""
    at = lookups.size[operator]
    lookups.size[operator] = at + 1
    lookups.attribute[operator, at] = attribute
    lookups.number[operator, at], lookups.mark[operator, at] = number, mark
    lookups.bit[operator, at] = bit_of(operator, attribute, number, mark)
