"""Keys of a PS-Tree: values as digits of four bits whose order is that of the values.

The paper divides a value into elements: digits of numbers, characters of strings. Here an element
is four bits, so that a node has one link for each in a single cache line.

    number    20 digits   the double with its sign bit turned (all bits, if negative), and what an
                          int64 exceeds it by, plus 2**15
    code       8 digits   the number of an operand string, plus one
    constant   1 digit    null, false, true
    text                  UTF-8 with each byte raised by one, and a zero byte: no text's key is the
                          beginning of another's. A prefix has no zero byte, and is the beginning
                          of the keys of all texts that it begins

Sixteen digits are a word, the first digit highest. After the last digit come zeros, at least one
word of them, so that a window of sixteen digits may begin at any digit of a key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf

KINDS = 5
NUMBER, CODE, FOLDED_CODE, TEXT, FOLDED_TEXT = range(KINDS)
"""Kinds of trees; that of codes has constants, too, with a first digit that no code has."""
KEY_WORDS = 3
"""Words of a key that is no text."""
NUMBER_DIGITS, CODE_DIGITS, CONSTANT_DIGITS = 20, 8, 1
NULL_DIGIT, FALSE_DIGIT, TRUE_DIGIT = 13, 14, 15
"""Codes are below 2**31, so the first digit of their keys is at most 8."""
WORD_DIGITS = 16
DIGITS = 16
"""Different digits."""

_SIGN = np.uint64(2**63)
_RESIDUAL_BIAS = 1 << 15
_FOUR, _WORD_BITS = np.uint64(4), np.uint64(64)
_ZERO, _ONES = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_LAST_DIGIT = np.uint64(60)
_LOW_DIGIT = np.uint64(15)


@inlined
def set_number(word: NDArray[np.uint64], at: int, number: float, residual: int) -> None:
    """Write the key of the number (double, residual) to word[at : at + KEY_WORDS]."""
    bits = np.float64(number + 0.0).view(np.uint64)  # adding zero makes both zeros the same
    word[at] = bits | _SIGN if bits < _SIGN else ~bits
    word[at + 1] = np.uint64(residual + _RESIDUAL_BIAS) << np.uint64(48)
    word[at + 2] = _ZERO


@inlined
def set_code(word: NDArray[np.uint64], at: int, code: int) -> None:
    """Write the key of an operand string's code."""
    word[at] = np.uint64(np.int64(code) + 1) << np.uint64(32)
    word[at + 1] = _ZERO
    word[at + 2] = _ZERO


@inlined
def set_constant(word: NDArray[np.uint64], at: int, constant: int) -> None:
    """Write the key of null, false or true, given as a digit."""
    word[at] = np.uint64(constant) << _LAST_DIGIT
    word[at + 1] = _ZERO
    word[at + 2] = _ZERO


@leaf
def set_text(
    word: NDArray[np.uint64], text: NDArray[np.uint8], start: int, stop: int, digits: int
) -> None:
    """Write the key of text[start:stop], as far as `digits` digits can tell it from others."""
    size = min(stop - start, (digits + 1) >> 1)
    word[: (size >> 3) + 3] = _ZERO
    for at in range(size):
        shift = np.uint64(56 - ((at & 7) << 3))
        word[at >> 3] |= np.uint64(int(text[start + at]) + 1) << shift


@inlined
def window(word: NDArray[np.uint64], at: int, depth: int) -> np.uint64:
    """Sixteen digits of the key at word[at], from digit `depth` on."""
    place = at + (depth >> 4)
    shift = np.uint64((depth & 15) << 2)
    if shift == _ZERO:
        return np.uint64(word[place])
    return np.uint64((word[place] << shift) | (word[place + 1] >> (_WORD_BITS - shift)))


@inlined
def digit(word: NDArray[np.uint64], at: int, depth: int) -> int:
    """Digit `depth` of the key at word[at]."""
    shift = _LAST_DIGIT - np.uint64((depth & 15) << 2)
    return int(np.int64((word[at + (depth >> 4)] >> shift) & _LOW_DIGIT))


@inlined
def first_digit(digits: np.uint64) -> int:
    """The first of sixteen digits."""
    return int(np.int64(digits >> _LAST_DIGIT))


@inlined
def head_mask(count: int) -> np.uint64:
    """Ones over the first `count` of sixteen digits."""
    if count == 0:
        return _ZERO
    return _ONES << np.uint64((WORD_DIGITS - count) << 2)


@inlined
def shifted(digits: np.uint64, count: int) -> np.uint64:
    """The digits after the first `count`, then zeros."""
    if count == WORD_DIGITS:
        return _ZERO
    return digits << np.uint64(count << 2)


@inlined
def joined(first: np.uint64, count: int, then: np.uint64) -> np.uint64:
    """The first `count` digits of one, followed by those of another."""
    if count == WORD_DIGITS:
        return first
    return first | (then >> np.uint64(count << 2))


@inlined
def common_digits(one: np.uint64, other: np.uint64) -> int:
    """How many of sixteen digits are the same at the beginning."""
    different = one ^ other
    count = 0
    while count < WORD_DIGITS and different >> _LAST_DIGIT == _ZERO:
        different <<= _FOUR
        count += 1
    return count
