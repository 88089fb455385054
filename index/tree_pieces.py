"""Pieces: the disjoint sets of values in which a leaf is entered in PS-Trees, with their keys.

    a = 5                     a block: the number 5
    a IN (5, 'x')             two blocks, in the trees of numbers and of codes of strings
    a BETWEEN 2 AND 4         a range, closed at both ends
    a STARTS WITH ('x', 'y')  two blocks: all texts of which one is the beginning
    a >= 'x' AND ..           a range of texts, open at its upper end

Texts have long keys, and a tree is as deep as its keys are long. So a needle is cut after
TEXT_BYTES_MAX bytes, and the set rounded outwards; then its row has to be tested.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels.space_tree import Pieces
from index.kernels.tree_keys import (
    CODE,
    CODE_DIGITS,
    CONSTANT_DIGITS,
    FALSE_DIGIT,
    FOLDED_CODE,
    FOLDED_TEXT,
    KEY_WORDS,
    KINDS,
    NULL_DIGIT,
    NUMBER,
    NUMBER_DIGITS,
    TEXT,
    WORD_DIGITS,
    set_code,
    set_constant,
    set_number,
)
from index.predicates import (
    ALL,
    ANY_ONE,
    BOOLEAN_MARK,
    NO_MARK,
    NOCASE,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS
from index.runs import places_of_runs
from index.spaces import text_bounds
from index.threshold import Polarity

TEXT_BYTES_MAX = 128
TEXT_DIGITS_MAX = 2 * (TEXT_BYTES_MAX + 1)

_EXACT, _ROUNDED = 0, 1
_RAISED = bytes(min(byte + 1, 0xFF) for byte in range(256))
_POLARITY_MASK = (1 << POLARITY_BITS) - 1
_IS_TRUE = int(Polarity.IS_TRUE)
_IS_NULL, _PREFIX = int(PredicateKind.IS_NULL), int(PredicateKind.PREFIX)
"""The first and the last kind of sets of values; between are EQUAL, IN, RANGE and TEXT_RANGE."""
_LIKE, _TEXT_RANGE = int(PredicateKind.LIKE), int(PredicateKind.TEXT_RANGE)
_WITHOUT = -1
"""Digits of an end that is not there."""


class _Texts(NamedTuple):
    """Lists that grow while textual leaves are read."""

    owner: list[int]
    low: list[bytes | None]
    high: list[bytes | None]
    closed: list[int]
    rounded: list[int]


@njit(cache=True, nogil=True)
def held_by_trees(predicates: PredicateColumns, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which leaves are TRUE only of an attribute with a value in some set of values."""
    held = np.zeros(leaves.size, np.bool_)
    for place in range(leaves.size):
        record = predicates.record[leaves[place] >> POLARITY_BITS]
        kind = record["kind"]
        if leaves[place] & _POLARITY_MASK != _IS_TRUE or record["flags"] & ALL:
            continue
        if kind == _LIKE:
            start = predicates.needle_start[record["start"]]
            empty = start == predicates.needle_start[record["start"] + 1]
            held[place] = empty or predicates.needle[start] < ANY_ONE  # no wildcard at first
        else:
            held[place] = _IS_NULL <= kind <= _PREFIX
    return held


def pieces_of(
    predicates: PredicateColumns, leaves: NDArray[np.int32], entries: NDArray[np.int64]
) -> Pieces:
    """The pieces of `leaves`, which trees can hold, with an entry each; entries ascend."""
    made = [make(predicates, leaves) for make in (_points, _ranges, _texts)]
    parts = [(part, rounded) for part, rounded in made if part.entry.size] or made[:1]
    owner = np.concatenate([part.entry for part, _ in parts])
    rounded = np.concatenate([rounded for _, rounded in parts])
    order = np.argsort(owner, kind="stable")
    shifts = np.cumsum([0] + [part.word.size for part, _ in parts])
    shifts = np.repeat(shifts[:-1], [part.entry.size for part, _ in parts])
    low, high = (
        np.concatenate([part[field] for part, _ in parts]) + shifts
        for field in (Pieces._fields.index("low"), Pieces._fields.index("high"))
    )
    return Pieces(
        (entries[owner] | rounded)[order],
        np.concatenate([part.tree for part, _ in parts])[order],
        low[order],
        np.concatenate([part.low_digits for part, _ in parts])[order],
        high[order],
        np.concatenate([part.high_digits for part, _ in parts])[order],
        np.concatenate([part.closed for part, _ in parts])[order],
        np.concatenate([part.word for part, _ in parts]),
    )


def _points(
    predicates: PredicateColumns, leaves: NDArray[np.int32]
) -> tuple[Pieces, NDArray[np.int64]]:
    """A block for each value of `=`, IN and IS NULL; `entry` is the position of the leaf."""
    record = predicates.record[leaves >> POLARITY_BITS]
    kind = record["kind"]
    single = np.flatnonzero((kind == PredicateKind.EQUAL) | (kind == PredicateKind.IS_NULL))
    sets = np.flatnonzero(kind == PredicateKind.IN)
    size = record["size"][sets].astype(np.int64)
    member = places_of_runs(record["start"][sets], size)
    owner = np.concatenate((single, np.repeat(sets, size)))
    number = np.concatenate((record["low"][single], predicates.member_number[member]))
    mark = np.concatenate((record["low_residual"][single], predicates.member_mark[member]))
    mark[: single.size][kind[single] == PredicateKind.IS_NULL] = NO_MARK
    word = np.zeros(owner.size * KEY_WORDS, np.uint64)
    digits = _set_keys(number, mark, word)
    folded = (record["flags"][owner] & NOCASE != 0) & (mark == STRING_MARK)
    tree_kind = np.where(digits == NUMBER_DIGITS, NUMBER, np.where(folded, FOLDED_CODE, CODE))
    at = np.arange(owner.size, dtype=np.int64) * KEY_WORDS
    tree = record["attribute"][owner].astype(np.int64) * KINDS + tree_kind
    ones = np.ones(owner.size, np.int64)
    return Pieces(owner, tree, at, digits, at, digits, ones, word), np.zeros(owner.size, np.int64)


@njit(cache=True, nogil=True)
def _set_keys(
    number: NDArray[np.float64], mark: NDArray[np.int16], word: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Write KEY_WORDS words for each key as predicates have it; returns their digits."""
    digits = np.empty(number.size, np.int64)
    for place in range(number.size):
        at = place * KEY_WORDS
        if mark[place] == STRING_MARK:
            set_code(word, at, int(number[place]))
            digits[place] = CODE_DIGITS
        elif mark[place] == BOOLEAN_MARK:
            set_constant(word, at, FALSE_DIGIT + int(number[place]))
            digits[place] = CONSTANT_DIGITS
        elif mark[place] == NO_MARK:
            set_constant(word, at, NULL_DIGIT)
            digits[place] = CONSTANT_DIGITS
        else:
            set_number(word, at, number[place], int(mark[place]))
            digits[place] = NUMBER_DIGITS
    return digits


def _ranges(
    predicates: PredicateColumns, leaves: NDArray[np.int32]
) -> tuple[Pieces, NDArray[np.int64]]:
    """Ranges of numbers, but those that nothing is in."""
    record = predicates.record[leaves >> POLARITY_BITS]
    low, low_residual, high, high_residual = (
        record[field] for field in ("low", "low_residual", "high", "high_residual")
    )
    possible = (low < high) | ((low == high) & (low_residual <= high_residual))
    owner = np.flatnonzero((record["kind"] == PredicateKind.RANGE) & possible)
    number = np.concatenate((low[owner], high[owner]))
    residual = np.concatenate((low_residual[owner], high_residual[owner]))
    word = np.zeros(number.size * KEY_WORDS, np.uint64)
    digits = _set_keys(number, residual, word)
    digits[np.isinf(number)] = _WITHOUT
    at = np.arange(number.size, dtype=np.int64) * KEY_WORDS
    lower, upper = at[: owner.size], at[owner.size :]
    is_point = (number[: owner.size] == number[owner.size :]) & (
        residual[: owner.size] == residual[owner.size :]
    )
    upper = np.where(is_point, lower, upper)
    tree = record["attribute"][owner].astype(np.int64) * KINDS + NUMBER
    ends = lower, digits[: owner.size], upper, digits[owner.size :]
    ones = np.ones(owner.size, np.int64)
    return Pieces(owner, tree, *ends, ones, word), np.zeros(owner.size, np.int64)


def _texts(
    predicates: PredicateColumns, leaves: NDArray[np.int32]
) -> tuple[Pieces, NDArray[np.int64]]:
    """Ranges of texts, prefixes, and the literal beginnings of LIKE patterns."""
    record = predicates.record[leaves >> POLARITY_BITS]
    texts = _Texts([], [], [], [], [])
    kind = record["kind"]
    textual = (kind == _LIKE) | (kind == _PREFIX) | (kind == _TEXT_RANGE)
    for owner in np.flatnonzero(textual).tolist():
        bounds = text_bounds(predicates, int(leaves[owner] >> POLARITY_BITS))
        if kind[owner] == _TEXT_RANGE:
            _add_range(texts, owner, *bounds[0])
        else:
            needles = [low for low, _ in bounds]
            _add_blocks(texts, owner, needles, kind[owner] == _LIKE)
    owners = np.array(texts.owner, np.int64)
    low, low_digits, words = _text_ends(texts.low, 0)
    high, high_digits, more = _text_ends(texts.high, sum(word.size for word in words))
    is_block = np.fromiter(map(_is_same, texts.low, texts.high), np.bool_, owners.size)
    folded = record["flags"][owners] & NOCASE != 0
    tree = record["attribute"][owners].astype(np.int64) * KINDS
    tree += np.where(folded, FOLDED_TEXT, TEXT)
    pieces = Pieces(
        owners,
        tree,
        low,
        low_digits,
        np.where(is_block, low, high),
        high_digits,
        np.array(texts.closed, np.int64),
        np.concatenate([np.zeros(0, np.uint64), *words, *more]),
    )
    return pieces, np.array(texts.rounded, np.int64)


def _is_same(low: bytes | None, high: bytes | None) -> bool:
    return low is not None and low == high


def _text_ends(
    keys: list[bytes | None], at: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[NDArray[np.uint64]]]:
    """Where the words of keys will stand from `at` on, their digits, and the words."""
    words = [_words(key or b"") for key in keys]
    ends = np.cumsum([at] + [word.size for word in words])
    digits = [_WITHOUT if key is None else 2 * len(key) for key in keys]
    return ends[:-1].astype(np.int64), np.array(digits, np.int64), words


def _words(key: bytes) -> NDArray[np.uint64]:
    """The words of a key, and one of zeros."""
    size = 2 * len(key) // WORD_DIGITS + 2
    return np.frombuffer(key.ljust(8 * size, b"\0"), ">u8").astype(np.uint64)


def _add_blocks(texts: _Texts, owner: int, needles: list[bytes], rounded: bool) -> None:
    """Append the blocks of texts with one of these beginnings, ascending; none within another."""
    last: bytes | None = None
    for needle in needles:
        key = needle[:TEXT_BYTES_MAX].translate(_RAISED)
        if last is None or not key.startswith(last):
            cut = rounded or len(needle) > TEXT_BYTES_MAX
            _add(texts, owner, (key, key), 1, cut)
            last = key


def _add_range(texts: _Texts, owner: int, low: bytes, high: bytes) -> None:
    """Append the texts from low up to, not including, high."""
    lower, upper = low[:TEXT_BYTES_MAX], high[:TEXT_BYTES_MAX]
    if low >= high:
        return
    rounded = len(low) > TEXT_BYTES_MAX or len(high) > TEXT_BYTES_MAX
    if rounded and lower == upper:
        key = lower.translate(_RAISED)
        _add(texts, owner, (key, key), 1, True)
        return
    low_key = lower.translate(_RAISED) + b"\0" if low else None
    if high == TEXT_END:
        high_key, closed = None, 0
    elif len(high) > TEXT_BYTES_MAX:
        high_key, closed = upper.translate(_RAISED), 1
    elif high.endswith(b"\0"):
        high_key, closed = upper[:-1].translate(_RAISED) + b"\0", 1  # up to the text before it
    else:
        high_key, closed = upper.translate(_RAISED) + b"\0", 0
    if low_key is None and high_key is None:
        low_key = high_key = b""
    _add(texts, owner, (low_key, high_key), closed, rounded)


def _add(
    texts: _Texts, owner: int, ends: tuple[bytes | None, bytes | None], closed: int, rounded: bool
) -> None:
    texts.owner.append(owner)
    texts.low.append(ends[0])
    texts.high.append(ends[1])
    texts.closed.append(closed)
    texts.rounded.append(_ROUNDED if rounded else _EXACT)
