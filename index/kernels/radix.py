"""Sorting words by some of their bits: by insertion if few, else by digits, the last digit first.

Each digit is counted, then all words are moved to where the digits before theirs end. Words of
equal bits stay in their order (LSD radix sort: Knuth, volume 3, section 5.2.5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import leaf
from index.kernels.words import bits_below

Words = NDArray[np.uint64] | NDArray[np.uint32]

DIGIT_BITS = 11
"""The places of so many digits, 16 KB, stay in the first cache."""
DIGITS = 1 << DIGIT_BITS

_INSERTED_MAX = 64
"""Counting digits takes longer than to insert so many."""


@leaf
def sort_words(
    words: Words,
    digit: NDArray[np.int64],
    run: tuple[int, int, int],
    low: int,
    high: int,
) -> int:
    """Sort a run of words by their bits low..high - 1; returns the side on which it is then.

    words  uint64 or uint32[2, n]   two sides, of which the run's places are free on the other
    digit  int64[DIGITS + 1]        room to count in
    run    side, start, stop
    """
    side, start, stop = run
    if stop - start <= _INSERTED_MAX:
        _insert_words(words[side], start, stop, low, high)
        return side
    # Digits of about equal size, with no more values than there are words to count.
    most = min(DIGIT_BITS, bits_below(stop - start))
    passes = (high - low + most - 1) // most
    shift = low
    for left in range(passes, 0, -1):
        bits = (high - shift + left - 1) // left
        _sort_by_digit(words[side], words[1 - side], digit, (start, stop), (shift, bits))
        side = 1 - side
        shift += bits
    return side


@leaf
def _sort_by_digit(
    source: Words,
    target: Words,
    digit: NDArray[np.int64],
    run: tuple[int, int],
    bits: tuple[int, int],
) -> None:
    """Move a run of words to another side, sorted by a digit, which is given as shift and size."""
    start, stop = np.uint64(run[0]), np.uint64(run[1])
    down, mask = np.uint64(bits[0]), np.uint64((1 << bits[1]) - 1)
    for each in range((1 << bits[1]) + 1):
        digit[each] = 0
    digit[0] = run[0]
    for at in range(start, stop):
        digit[np.uint64(1) + (source[at] >> down & mask)] += 1
    for each in range(1 << bits[1]):
        digit[each + 1] += digit[each]
    for at in range(start, stop):
        word = source[at]
        which = word >> down & mask
        target[np.uint64(digit[which])] = word
        digit[which] += 1


@leaf
def _insert_words(words: Words, start: int, stop: int, low: int, high: int) -> None:
    mask = ((np.uint64(1) << np.uint64(high - low)) - np.uint64(1)) << np.uint64(low)
    for at in range(start + 1, stop):
        word, place = words[at], at
        while place > start and words[place - 1] & mask > word & mask:
            words[place] = words[place - 1]
            place -= 1
        words[place] = word
