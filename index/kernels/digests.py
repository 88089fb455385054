"""Digests: two tests of a record, folded into one word that is looked at before its cache line.

    bits 0 to 15    mask of one test, its four quarters ORed    16 to 31    the lane
    bits 32 to 47   the same of another test                    48 to 63

Idea     of the rows under a key few match, and most fail the first test that is tried. Digests of
         eight records share a line of memory, and those of a bucket follow each other, so that a
         row which fails by its digest has cost a fraction of a line. What passes has to pass its
         record, too: folded masks let codes pass that differ by a multiple of 16.
Worked   the mask of codes 3 and 20, folded: codes 3 and 4. An event of code 19, whose word folds
         to code 3, passes; one of code 5 does not, nor one without a value: the bit NOTHING is left
         out of both, and a test that it passes has no digest.

A test of a wide lane is for any value there. A record with fewer such tests has a lane that every
event passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.kernels import inlined, leaf
from index.kernels.lanes import ALWAYS_LANE, INVERTED, NOTHING
from index.kernels.record_filing import MORE, RECORD_WORDS, TESTS, lane_of_test

_FOLDED_BITS = 16
_FOLDED = np.uint64((1 << _FOLDED_BITS) - 1)
_VALUES = ~np.uint64(1 << NOTHING)
_LANE, _LANE_SHIFT = np.uint64(0xFFFF), np.uint64(_FOLDED_BITS)
_HALF, _LAST_LANE = np.uint64(32), np.uint64(48)
_ZERO = np.uint64(0)
_ALWAYS = np.uint64(ALWAYS_LANE << _FOLDED_BITS) | _FOLDED


@inlined
def _folded(word: np.uint64) -> np.uint64:
    """The values of a word in its lowest bits; those above them mean nothing."""
    word &= _VALUES
    word |= word >> _HALF
    return np.uint64(word | word >> _LANE_SHIFT)


@inlined
def passes_digest(digest: np.uint64, word: NDArray[np.uint64], words: np.uint64) -> bool:
    """Can an event, whose words begin at `words` and show all its values, pass the record?"""
    one = _folded(word[words + (digest >> _LANE_SHIFT & _LANE)]) & digest & _FOLDED
    other = _folded(word[words + (digest >> _LAST_LANE)]) & digest >> _HALF & _FOLDED
    return bool((one != _ZERO) & (other != _ZERO))


@leaf
def fill_digests(record: NDArray[np.uint64], first_wide: int, digest: NDArray[np.uint64]) -> None:
    """Fill in the digest of each filing: of the first two tests, the likeliest to fail, that have
    one.
    """
    for line in range(digest.size):
        tests = TESTS
        if record[line * RECORD_WORDS + TESTS + 1] & MORE != _ZERO:
            tests -= 1
        found, count = _ALWAYS << _HALF | _ALWAYS, 0
        for test in range(tests):
            half = _digest_of_test(record, line, test, first_wide)
            if half != _ALWAYS and count < 2:
                found = found >> _HALF | half << _HALF
                count += 1
        digest[line] = found


@inlined
def _digest_of_test(record: NDArray[np.uint64], line: int, test: int, first_wide: int) -> np.uint64:
    """Half of a digest."""
    lane, operand = lane_of_test(record, line, test), record[line * RECORD_WORDS + test]
    if lane >= first_wide:
        mask = _ZERO if operand & INVERTED else _FOLDED
    else:
        mask = _ZERO if operand & ~_VALUES else _folded(operand) & _FOLDED
    return _ALWAYS if mask == _ZERO else np.uint64(lane) << _LANE_SHIFT | mask
