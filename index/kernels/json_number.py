"""Numbers of JSON: a token to the nearest double and what an int64 exceeds it by.

The value of a token is mantissa * 10^exponent. It is exact at once if the mantissa is at most 2^53
and the power is at most 10^22: both are doubles, and one IEEE operation rounds once (Clinger 1990).
Other tokens are LATE: the caller has Python's correctly rounded `float` read them. A token that may
overflow is BAD here; `index.decode` settles whether it does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf

EXACT, LATE, BAD = 0, 1, -1

_POWERS = np.array([float(10**power) for power in range(23)])
_MANTISSA_MAX = np.uint64(1 << 53)
_INT64_LIMIT = np.uint64(1 << 63)
_DIGITS_MAX = 19  # as many as always fit an unsigned word
_MAGNITUDE_MAX = 308  # decimal digits before the point that surely do not overflow a double
_EXPONENT_MAX = 1_000_000  # a longer exponent is left to the plain decoder
_TEN = np.uint64(10)


@leaf
def scan_number(data: NDArray[np.uint8], start: int, stop: int) -> tuple[int, int, float, int]:
    """(position behind the token, EXACT | LATE | BAD, double, residual)."""
    position = start
    negative = data[position] == 0x2D
    if negative:
        position += 1
    whole_start = position
    position, mantissa, digits = scan_digits(data, position, stop, np.uint64(0), 0)
    whole = position - whole_start
    if whole == 0 or (whole > 1 and data[whole_start] == 0x30):
        return position, BAD, 0.0, 0
    integral = True
    exponent = 0
    if position < stop and data[position] == 0x2E:
        integral = False
        point = position + 1
        position, mantissa, digits = scan_digits(data, point, stop, mantissa, digits)
        exponent = point - position
        if exponent == 0:
            return position, BAD, 0.0, 0
    if position < stop and data[position] | 0x20 == 0x65:
        integral = False
        position, power = scan_exponent(data, position + 1, stop)
        if position < 0:
            return position, BAD, 0.0, 0
        exponent += power
    if integral and digits <= _DIGITS_MAX:
        status, double, residual = split_integer(mantissa, negative)
        if status == EXACT:
            return position, status, double, residual
    status, double = double_of(mantissa, digits, exponent)
    return position, status, -double if negative and double != 0.0 else double, 0


@leaf
def scan_digits(
    data: NDArray[np.uint8], position: int, stop: int, mantissa: np.uint64, digits: int
) -> tuple[int, np.uint64, int]:
    """Read digits on: (position behind them, mantissa, significant digits so far).

    The mantissa stands still once there are more digits than it can hold.
    """
    while position < stop:
        digit = int(data[position]) - 0x30
        if digit < 0 or digit > 9:
            break
        if digits > 0 or digit > 0:
            digits += 1
        if digits <= _DIGITS_MAX:
            mantissa = mantissa * _TEN + np.uint64(digit)
        position += 1
    return position, mantissa, digits


@leaf
def scan_exponent(data: NDArray[np.uint8], position: int, stop: int) -> tuple[int, int]:
    """From behind the `e`: (position behind the exponent or BAD, the exponent)."""
    negative = False
    if position < stop and (data[position] == 0x2B or data[position] == 0x2D):
        negative = data[position] == 0x2D
        position += 1
    first = position
    power = 0
    while position < stop:
        digit = int(data[position]) - 0x30
        if digit < 0 or digit > 9:
            break
        if power < _EXPONENT_MAX:
            power = power * 10 + digit
        position += 1
    if position == first or power >= _EXPONENT_MAX:
        return BAD, 0
    return position, -power if negative else power


@leaf
def split_integer(magnitude: np.uint64, negative: bool) -> tuple[int, float, int]:
    """(EXACT, nearest double, residual) of an int64; LATE beyond its range."""
    if magnitude >= _INT64_LIMIT:
        if negative and magnitude == _INT64_LIMIT:
            return EXACT, -9223372036854775808.0, 0
        return LATE, 0.0, 0
    value = int(-np.int64(magnitude) if negative else np.int64(magnitude))
    double = float(value)
    if magnitude <= _MANTISSA_MAX:
        return EXACT, double, 0
    if double >= 9223372036854775808.0:
        return EXACT, double, value - 9223372036854775807 - 1
    return EXACT, double, value - int(double)


@leaf
def double_of(mantissa: np.uint64, digits: int, exponent: int) -> tuple[int, float]:
    """(EXACT, the double nearest to mantissa * 10^exponent), or (LATE | BAD, 0)."""
    if digits == 0:
        return EXACT, 0.0
    if digits <= _DIGITS_MAX and mantissa <= _MANTISSA_MAX and -22 <= exponent <= 22:
        if exponent < 0:
            return EXACT, float(mantissa) / _POWERS[-exponent]
        return EXACT, float(mantissa) * _POWERS[exponent]
    if digits + exponent > _MAGNITUDE_MAX:
        return BAD, 0.0
    return LATE, 0.0
