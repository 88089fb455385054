"""Tests of UTF-8 texts: order, prefixes, suffixes, substrings and LIKE patterns.

A text is data[start:stop]. Byte order is code point order, and no code point's bytes occur inside
another's, so all but LIKE's `_` may look at bytes alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels.hashing import same_bytes
from index.kernels.inlining import inlined, uncounted
from index.predicates import ANY_ONE, ANY_RUN

_CONTINUATION_MASK = 0xC0
_CONTINUATION = 0x80


@uncounted
def compare(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    other: NDArray[np.uint8],
    other_start: int,
    other_stop: int,
) -> int:
    """-1, 0 or 1 as the text is less than, equal to or greater than the other."""
    size = stop - start
    other_size = other_stop - other_start
    for at in range(min(size, other_size)):
        left, right = text[start + at], other[other_start + at]
        if left != right:
            return -1 if left < right else 1
    if size == other_size:
        return 0
    return -1 if size < other_size else 1


@uncounted
def contains(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    needle: NDArray[np.uint8],
    needle_start: int,
    needle_stop: int,
) -> bool:
    """Does the needle occur in the text? The empty one does."""
    size = needle_stop - needle_start
    if size == 0:
        return True
    first = needle[needle_start]
    for at in range(start, stop - size + 1):
        if text[at] == first and same_bytes(text, at, needle, needle_start, size):
            return True
    return False


@uncounted
def is_like(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    pattern: NDArray[np.uint8],
    pattern_start: int,
    pattern_stop: int,
) -> bool:
    """Does the whole text fit the pattern of literal bytes, ANY_RUN and ANY_ONE?

    What follows the last run must end the text, which is seen first: it rules out most texts. Then
    on a mismatch the last run takes one code point more. Earlier runs never need to: they took the
    least that lets the part after them fit. So time is at most text length times pattern length.
    """
    while pattern_stop > pattern_start and pattern[pattern_stop - 1] != ANY_RUN:
        if stop == start:
            return False
        pattern_stop -= 1
        stop -= 1
        if pattern[pattern_stop] == ANY_ONE:
            while stop > start and text[stop] & _CONTINUATION_MASK == _CONTINUATION:
                stop -= 1
        elif pattern[pattern_stop] != text[stop]:
            return False
    if pattern_stop == pattern_start:
        return stop == start
    at, token = start, pattern_start
    run_at, run_token = start, -1
    while at < stop:
        if token < pattern_stop and pattern[token] == ANY_RUN:
            run_at, run_token = at, token
            token += 1
        elif token < pattern_stop and pattern[token] == ANY_ONE:
            at = _after_code_point(text, at, stop)
            token += 1
        elif token < pattern_stop and pattern[token] == text[at]:
            at += 1
            token += 1
        elif run_token >= 0:
            run_at = _after_code_point(text, run_at, stop)
            at, token = run_at, run_token + 1
        else:
            return False
    while token < pattern_stop and pattern[token] == ANY_RUN:
        token += 1
    return token == pattern_stop


@inlined
def _after_code_point(text: NDArray[np.uint8], at: int, stop: int) -> int:
    at += 1
    while at < stop and text[at] & _CONTINUATION_MASK == _CONTINUATION:
        at += 1
    return at
