"""The event batch: what kernels see of a micro-batch, as one NamedTuple of flat arrays.

Events are decoded once, whatever the number of segments or algorithms that then match them. Only
attributes that some predicate names take part; a batch has one row per (event, attribute), and
each row has a run of values, because an array makes an attribute multi-valued.

    event 0                      event 1
    entry_start   0              3              5
    entry         carrier  delay dest   carrier tags            ascending attribute number
    value_start   0        1     2      3       4      6        'tags' is ["x", 7]
    value         'UA'     61    'SFO'  'AA'    'x'    7
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PRESENT = 1
"""Entry flag: the event has the attribute itself. Without it only attributes below it exist."""
ARRAY = 2
"""Entry flag: the values came out of an array (also an empty one, or a path through an array)."""


class ValueType(IntEnum):
    """Type of one value; `index.model` names the same types in operands."""

    NULL = 0
    BOOLEAN = 1
    NUMBER = 2
    STRING = 3
    OBJECT = 4


class EventBatch(NamedTuple):
    """Columns of n events, m entries, v values and s distinct strings.

    A number is the pair (value_number, value_residual): the nearest double, and what an int64
    exceeds it by (0 for a double). Pairs compare lexicographically exactly as the numbers do,
    because rounding to the nearest double is monotone.
    """

    entry_start: NDArray[np.int32]  # [n+1] entries of event e are entry_start[e]:entry_start[e+1]
    entry_attribute: NDArray[np.int32]  # [m] attribute number, ascending within an event
    entry_flags: NDArray[np.uint8]  # [m] PRESENT | ARRAY
    value_start: NDArray[np.int32]  # [m+1] values of entry i are value_start[i]:value_start[i+1]
    value_type: NDArray[np.uint8]  # [v] ValueType
    value_number: NDArray[np.float64]  # [v] number; 0 or 1 for a boolean; 0 otherwise
    value_residual: NDArray[np.int16]  # [v] int64 minus its nearest double; 0 otherwise
    value_string: NDArray[np.int32]  # [v] number of the distinct string; -1 if not a string
    string_start: NDArray[np.int64]  # [s+1] string j is text[string_start[j]:string_start[j+1]]
    text: NDArray[np.uint8]
    string_code: NDArray[np.int32]  # [s] code of the operand string that equals it, -1 if none does
    folded_start: NDArray[np.int64]  # [s+1] the same strings after simple case folding
    folded_text: NDArray[np.uint8]
    folded_code: NDArray[
        np.int32
    ]  # [s] code of the operand string that equals the folded one, or -1


class Matches(NamedTuple):
    """Result of matching n events: rows of event e are row[start[e]:start[e+1]], ascending."""

    start: NDArray[np.int64]  # [n+1]
    row: NDArray[np.int32]  # [k] row of the subscription inside the index
