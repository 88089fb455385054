"""Numbers: int64 or double, compared exactly, with one canonical spelling for each value.

A token without `.` or exponent within int64 is an integer; any other is the nearest IEEE double,
so integers beyond int64 may collapse. Python compares int with float exactly, as the contract asks.
"""

from __future__ import annotations

import math

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

Number = int | float


def parse_number(token: str) -> Number:
    """The value of a token in JSON's number grammar; OverflowError beyond the finite doubles.

    >>> parse_number("35"), parse_number("3.5e1"), parse_number("9223372036854775808")
    (35, 35.0, 9.223372036854776e+18)
    """
    # Any int64 has at most 20 characters; longer ones are doubles, however long they are.
    if len(token) <= 20 and "." not in token and "e" not in token and "E" not in token:
        value = int(token)
        if INT64_MIN <= value <= INT64_MAX:
            return value
    double = float(token)
    if math.isinf(double):
        raise OverflowError(f"{token[:40]} exceeds the largest double, about 1.8e308")
    return double


def admit(value: Number) -> Number:
    """A decoded number as the contract holds it; OverflowError if no finite double can hold it."""
    if isinstance(value, int):
        return value if INT64_MIN <= value <= INT64_MAX else float(value)
    if not math.isfinite(value):
        raise OverflowError(f"{value} is no finite number")
    return value


def canonical_number(value: Number) -> Number:
    """The integer, where the value is integral and within int64; else the double itself.

    >>> canonical_number(35.0), canonical_number(-0.0), canonical_number(0.5)
    (35, 0, 0.5)
    """
    if isinstance(value, float) and value.is_integer() and INT64_MIN <= value <= INT64_MAX:
        return int(value)
    return value


def number_text(value: Number) -> str:
    """The spelling that reads back as the same value of the same kind.

    >>> number_text(35), number_text(35.0), number_text(canonical_number(35.0))
    ('35', '35.0', '35')
    """
    return repr(value)


def split(value: Number) -> tuple[float, int]:
    """The nearest double and what an int64 exceeds it by: pairs order as the numbers do.

    >>> split(9007199254740993), split(0.5)
    ((9007199254740992.0, 1), (0.5, 0))
    """
    if isinstance(value, float):
        return value + 0.0, 0  # adding 0.0 turns -0.0 into 0.0, which has the same value
    double = float(value)
    return double, value - int(double)
