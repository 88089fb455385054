"""Strings and white space of JSON, byte by byte where they must and eight at a time where they can.

Positions are indexes into the batch's bytes; `stop` is where the payload ends. A negative result
means that the bytes are not what JSON allows here; `index.decode` says which rule they break.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.words import load_word, trailing_zeros

QUOTE, BACKSLASH = 0x22, 0x5C
BAD = -1

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_NONE = np.uint64(0)


@inlined
def skip_space(data: NDArray[np.uint8], position: int, stop: int) -> int:
    """The first position that holds no white space, or `stop`."""
    while position < stop:
        byte = data[position]
        if byte > 0x20 or (byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09):
            break
        position += 1
    return position


@inlined
def special_bytes(word: np.uint64) -> np.uint64:
    """The high bit of the first byte that is a quote, a backslash, a control or beyond ASCII.

    Bits above the lowest set one may be wrong, because the subtractions borrow.
    """
    quote = word ^ _QUOTES
    backslash = word ^ _BACKSLASHES
    found = (quote - _ONES) & ~quote
    found |= (backslash - _ONES) & ~backslash
    found |= (word - _SPACES) & ~word
    return (found | word) & _HIGHS


@leaf
def string_end(data: NDArray[np.uint8], position: int, stop: int) -> int:
    """From behind an opening quote: twice the position of the closing one, plus 1 if escapes occur.

    UTF-8 and control characters are checked; what follows a backslash is not, see `unescape`.
    """
    escaped = 0
    while True:
        while position + 8 <= stop:
            special = special_bytes(load_word(data, position))
            if special != _NONE:
                position += trailing_zeros(special) >> 3
                break
            position += 8
        if position >= stop:
            return BAD
        byte = data[position]
        if byte == QUOTE:
            return 2 * position + escaped
        if byte == BACKSLASH:
            escaped = 1
            position += 2
        elif byte < 0x20:
            return BAD
        elif byte < 0x80:
            position += 1
        else:
            size = sequence_size(data, position, stop)
            if size == 0:
                return BAD
            position += size


@leaf
def sequence_size(data: NDArray[np.uint8], position: int, stop: int) -> int:
    """Bytes of the valid UTF-8 sequence of two to four bytes that begins here, or 0."""
    first = data[position]
    if first < 0xC2 or first > 0xF4:
        return 0
    size = 2 + int(first >= 0xE0) + int(first >= 0xF0)
    if position + size > stop:
        return 0
    second = data[position + 1]
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0  # shorter sequences say the same
    elif first == 0xED:
        high = 0x9F  # surrogates
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F  # beyond the last code point
    if second < low or second > high:
        return 0
    for at in range(position + 2, position + size):
        if data[at] & 0xC0 != 0x80:
            return 0
    return size


@leaf
def text_between_quotes(
    data: NDArray[np.uint8], start: int, stop: int, room: int
) -> tuple[int, int, int]:
    """From behind an opening quote: (start and stop of the text, position behind the quote or BAD).

    A text with escapes is written without them to data[room:], and found there.
    """
    end = string_end(data, start, stop)
    if end < 0:
        return 0, 0, BAD
    if end & 1 == 0:
        return start, end >> 1, (end >> 1) + 1
    size = unescape(data, start, end >> 1, room)
    if size < 0:
        return 0, 0, BAD
    return room, size, (end >> 1) + 1


@leaf
def unescape(data: NDArray[np.uint8], start: int, stop: int, room: int) -> int:
    """Write the string data[start:stop] without escapes to data[room:]; where it ends, or BAD."""
    position, size = start, room
    while position < stop:
        byte = int(data[position])
        if byte != BACKSLASH:
            data[size] = byte
            position, size = position + 1, size + 1
            continue
        letter = int(data[position + 1])
        position += 2
        if letter != 0x75:
            plain = _escaped_letter(letter)
            if plain < 0:
                return BAD
            data[size] = plain
            size += 1
            continue
        code = _hex_code(data, position, stop)
        position += 4
        if code < 0 or 0xDC00 <= code <= 0xDFFF:
            return BAD
        if code >= 0xD800:
            if position + 6 > stop or data[position] != BACKSLASH or data[position + 1] != 0x75:
                return BAD
            low = _hex_code(data, position + 2, stop)
            position += 6
            if low < 0xDC00 or low > 0xDFFF:
                return BAD
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        size = put_code_point(data, size, code)
    return size


@leaf
def put_code_point(target: NDArray[np.uint8], size: int, code: int) -> int:
    """Write a code point in UTF-8 at target[size:]; the size after it."""
    if code < 0x80:
        target[size] = code
        return size + 1
    if code < 0x800:
        target[size] = 0xC0 | code >> 6
        target[size + 1] = 0x80 | code & 0x3F
        return size + 2
    if code < 0x10000:
        target[size] = 0xE0 | code >> 12
        target[size + 1] = 0x80 | code >> 6 & 0x3F
        target[size + 2] = 0x80 | code & 0x3F
        return size + 3
    target[size] = 0xF0 | code >> 18
    target[size + 1] = 0x80 | code >> 12 & 0x3F
    target[size + 2] = 0x80 | code >> 6 & 0x3F
    target[size + 3] = 0x80 | code & 0x3F
    return size + 4


@leaf
def _escaped_letter(letter: int) -> int:
    """The byte that a backslash and this letter stand for, or BAD."""
    if letter == QUOTE or letter == BACKSLASH or letter == 0x2F:
        return letter
    if letter == 0x6E:
        return 0x0A
    if letter == 0x74:
        return 0x09
    if letter == 0x72:
        return 0x0D
    if letter == 0x62:
        return 0x08
    if letter == 0x66:
        return 0x0C
    return BAD


@leaf
def _hex_code(data: NDArray[np.uint8], position: int, stop: int) -> int:
    """The code unit of four hexadecimal digits, or BAD."""
    if position + 4 > stop:
        return BAD
    code = 0
    for at in range(position, position + 4):
        byte = int(data[at])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte & 0xDF <= 0x46:
            digit = (byte & 0xDF) - 0x37
        else:
            return BAD
        code = code << 4 | digit
    return code


@leaf
def is_literal(data: NDArray[np.uint8], position: int) -> bool:
    """Whether `true`, `false` or `null` is here; the caller has checked that it would fit."""
    first, second = data[position], data[position + 1]
    third, fourth = data[position + 2], data[position + 3]
    if first == 0x74:
        return bool(second == 0x72 and third == 0x75 and fourth == 0x65)
    if first == 0x6E:
        return bool(second == 0x75 and third == 0x6C and fourth == 0x6C)
    if first == 0x66:
        fifth = data[position + 4]
        return bool(second == 0x61 and third == 0x6C and fourth == 0x73 and fifth == 0x65)
    return False
