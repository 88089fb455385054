"""Predicate columns: every distinct predicate as one 32-byte record that kernels test.

A record holds a positive predicate as `index.threshold` leaves it. Two tricks keep it small and its
test short:

- An ordered comparison of numbers is a closed range of pairs (double, residual), because the
  residual is an integer: x < (d, r) is x <= (d, r - 1), and 'no bound' is an infinity.
- Equality compares keys. A key is a pair, too: a number's is itself, a string's is its operand code
  with STRING_MARK for a residual, a boolean's is 0 or 1 with BOOLEAN_MARK. So types never mix, and
  a set of mixed types is one sorted run of keys.

    predicate              kind     attribute  low (residual)  high (residual)   size  start
    speed < 35             RANGE    3          -inf (0)        35 (-1)
    carrier = 'UA'         EQUAL    0          17 (STRING)
    dest IN ('SFO', 7)     IN       2                                            2     0
    name CONTAINS 'x','y'  CONTAINS 4                                            2     0

    member  (7, 0) (18, STRING)          needle_start 0 1 2    needle "xy"

Texts are UTF-8, in code point order byte by byte; those of NOCASE predicates are folded already.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PredicateKind(IntEnum):
    """How a kernel tests a record; the cheaper a test, the lower its number.

    What a kernel cannot test is OPAQUE, as far as it is opaque: an absent attribute makes a regular
    expression UNKNOWN without any look at it.
    """

    EXISTS = 0
    MISSING = 1
    IS_NULL = 2
    EQUAL = 3  # key low
    IN = 4  # keys member[start : start + size], ascending
    RANGE = 5  # numbers low..high, both included
    TEXT_RANGE = 6  # strings from needle `start` up to, not including, needle `start + 1`
    PREFIX = 7  # any of needles start : start + size
    SUFFIX = 8
    CONTAINS = 9
    LIKE = 10  # needle `start` is a pattern of tokens
    OPAQUE_TEXT = 11  # undecided on a string, UNKNOWN on any other value
    OPAQUE_EQUAL = 12  # undecided on a string, FALSE on any other value
    OPAQUE_VALUE = 13  # undecided on any value
    OPAQUE_ENTRY = 14  # undecided wherever the event has the attribute or anything below it


ALL = 1
"""Flag: every value must satisfy the predicate; otherwise some value."""
NOCASE = 2
"""Flag: strings are compared folded."""

STRING_MARK = 32767
BOOLEAN_MARK = 32766
NO_MARK = 32765
"""Mark of null and objects, which equal nothing."""

ANY_RUN = 0xFF
"""Token of a LIKE pattern: any run of code points. Neither byte occurs in UTF-8."""
ANY_ONE = 0xFE
"""Token of a LIKE pattern: exactly one code point."""
_WRITTEN = bytes.maketrans(bytes([ANY_RUN, ANY_ONE]), b"%_")
TEXT_END = b"\xff"
"""Greater than any UTF-8 text: the upper bound of a range that has none."""

RECORD = np.dtype(
    [
        ("kind", np.uint8),
        ("flags", np.uint8),
        ("low_residual", np.int16),
        ("high_residual", np.int16),
        ("size", np.uint16),
        ("attribute", np.int32),
        ("start", np.int32),
        ("low", np.float64),
        ("high", np.float64),
    ]
)
assert RECORD.itemsize == 32

SIZE_MAX = 2**16 - 1
"""Most members or needles of one predicate: `size` is a uint16."""


class PredicateColumns(NamedTuple):
    """p distinct predicates, m set members, k needles."""

    record: NDArray[np.void]  # [p] of RECORD
    member_number: NDArray[np.float64]  # [m] first half of a key
    member_mark: NDArray[np.int16]  # [m] second half
    needle_start: NDArray[np.int64]  # [k+1] needle j is needle[needle_start[j]:needle_start[j+1]]
    needle: NDArray[np.uint8]


def put_behind(record: NDArray[np.void], member_count: int, needle_count: int) -> NDArray[np.void]:
    """A copy of records whose operands come behind so many members and needles of others."""
    moved = record.copy()
    moved["start"] += np.where(record["kind"] == PredicateKind.IN, member_count, needle_count)
    return moved


def needles_of(predicates: PredicateColumns, number: int) -> list[bytes]:
    """The needles of a predicate, in their order."""
    record = predicates.record[number]
    start, size = int(record["start"]), int(record["size"])
    bounds = predicates.needle_start[start : start + size + 1].tolist()
    return [predicates.needle[low:high].tobytes() for low, high in pairwise(bounds)]


def pattern_text(tokens: bytes) -> str:
    """The tokens of a LIKE pattern as they are written, apart from escapes."""
    return tokens.translate(_WRITTEN).decode()
