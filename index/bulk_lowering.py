"""Bulk lowering: the columns of many predicates at once.

Most of what subscriptions say is equality with numbers and strings, and order of numbers. These
predicates become columns without an object for each; `index.lowering` says what they mean, and does
all others one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, compress
from typing import cast

import numpy as np
from numpy.typing import NDArray

from index.growing import read_only
from index.lowering import bounds_of, lower_each
from index.model import Element, Operator, Predicate, Scalar
from index.numbers import Number, split
from index.predicates import (
    RECORD,
    SIZE_MAX,
    STRING_MARK,
    PredicateColumns,
    PredicateKind,
    put_behind,
)
from index.runs import begins_run
from index.vocabulary import Vocabulary

_EQUALITIES = {Operator.EQ, Operator.IN}
_RANGES = {Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.BETWEEN}
_OF_NUMBERS = {int, float}
_OF_EQUALITY = {int, float, str}
_EXACT = 2.0**53
"""All integers of smaller magnitude are doubles."""

Keys = tuple[NDArray[np.float64], NDArray[np.int16]]
"""Keys of operands, in two columns, as `index.predicates` has them."""


def lower_all(
    predicates: Sequence[Predicate | Element], vocabulary: Vocabulary
) -> PredicateColumns:
    """Columns of positive predicates, in their order; of each the same as by itself."""
    record = np.zeros(len(predicates), RECORD)
    record["attribute"] = vocabulary.attributes([one.path for one in predicates])
    plain = [
        one.operator
        if isinstance(one, Predicate) and not one.nocase and one.quantifier is None
        else None
        for one in predicates
    ]
    is_left = np.ones(len(predicates), np.bool_)
    equal = [at for at, operator in enumerate(plain) if operator in _EQUALITIES]
    number, mark = _fill_equalities(record, is_left, _those(predicates, equal), equal, vocabulary)
    ranges = [at for at, operator in enumerate(plain) if operator in _RANGES]
    _fill_ranges(record, is_left, _those(predicates, ranges), ranges)
    left = np.flatnonzero(is_left)
    rest = lower_each([predicates[at] for at in left.tolist()], vocabulary)
    record[left] = put_behind(rest.record, number.size, 0)
    return PredicateColumns(
        read_only(record),
        read_only(np.concatenate((number, rest.member_number))),
        read_only(np.concatenate((mark, rest.member_mark))),
        rest.needle_start,
        rest.needle,
    )


def _those(predicates: Sequence[Predicate | Element], rows: list[int]) -> list[Predicate]:
    return [cast(Predicate, predicates[row]) for row in rows]


def _fill_equalities(
    record: NDArray[np.void],
    is_left: NDArray[np.bool_],
    predicates: list[Predicate],
    rows: list[int],
    vocabulary: Vocabulary,
) -> Keys:
    """Fill the records of = and IN, and return the members of their sets."""
    values: list[tuple[Scalar, ...]] = [
        one.operand if isinstance(one.operand, tuple) else (cast(Scalar, one.operand),)
        for one in predicates
    ]
    flat = list(chain.from_iterable(values))
    if not set(map(type, flat)) <= _OF_EQUALITY or max(map(len, values), default=0) > SIZE_MAX:
        fits = [set(map(type, some)) <= _OF_EQUALITY and len(some) <= SIZE_MAX for some in values]
        rows, values = list(compress(rows, fits)), list(compress(values, fits))
        flat = list(chain.from_iterable(values))
    size = np.fromiter(map(len, values), np.int64, len(values))
    (number, mark), size = _ascending(_keys(cast(list[Number | str], flat), vocabulary), size)
    at = np.array(rows, np.int64)
    is_one = size == 1
    one, many = at[is_one], at[~is_one]
    first = np.cumsum(size)[is_one] - 1
    record["kind"][one] = PredicateKind.EQUAL
    record["low"][one], record["low_residual"][one] = number[first], mark[first]
    record["kind"][many] = PredicateKind.IN
    record["size"][many] = size[~is_one]
    record["start"][many] = np.cumsum(size[~is_one]) - size[~is_one]
    is_left[at] = False
    in_set = np.repeat(~is_one, size)
    return number[in_set], mark[in_set]


def _ascending(keys: Keys, size: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    """The keys of each run of so many in ascending order, each once, and how many are left."""
    number, mark = keys
    run = np.repeat(np.arange(size.size), size)
    order = np.lexsort((mark, number, run))
    number, mark = number[order], mark[order]
    is_new = begins_run(run, number, mark)
    return (number[is_new], mark[is_new]), np.bincount(run[is_new], minlength=size.size)


def _fill_ranges(
    record: NDArray[np.void],
    is_left: NDArray[np.bool_],
    predicates: list[Predicate],
    rows: list[int],
) -> None:
    """Fill the records of ordered comparisons of numbers."""
    bounds = [
        (-math.inf if low is None else low, math.inf if high is None else high)
        for low, high in map(bounds_of, predicates)
    ]
    if not set(map(type, chain.from_iterable(bounds))) <= _OF_NUMBERS:
        fits = [set(map(type, pair)) <= _OF_NUMBERS for pair in bounds]
        rows, bounds = list(compress(rows, fits)), list(compress(bounds, fits))
        predicates = list(compress(predicates, fits))
    if not rows:
        return
    lows, highs = zip(*cast(list[tuple[Number, Number]], bounds), strict=True)
    at = np.array(rows, np.int64)
    operators = [one.operator for one in predicates]
    record["kind"][at] = PredicateKind.RANGE
    for side, values, step, strict in (
        ("low", lows, 1, Operator.GT),
        ("high", highs, -1, Operator.LT),
    ):
        number, residual = _keys_of_numbers(values)
        is_strict = np.array([operator is strict for operator in operators])
        record[side][at], record[f"{side}_residual"][at] = number, residual + step * is_strict
    is_left[at] = False


def _keys(values: Sequence[Number | str], vocabulary: Vocabulary) -> Keys:
    """The keys of numbers and strings."""
    is_text = np.fromiter((type(value) is str for value in values), np.bool_, len(values))
    if not is_text.any():
        return _keys_of_numbers(cast(Sequence[Number], values))
    number, mark = np.empty(len(values)), np.full(len(values), STRING_MARK, np.int16)
    texts = [value.encode() for value in values if isinstance(value, str)]
    number[is_text] = vocabulary.strings(texts)
    numbers = [value for value in values if not isinstance(value, str)]
    number[~is_text], mark[~is_text] = _keys_of_numbers(numbers)
    return number, mark


def _keys_of_numbers(values: Sequence[Number]) -> Keys:
    """As `split` has them."""
    number = np.array(values, np.float64) + 0.0  # which turns -0.0 into 0.0
    residual = np.zeros(number.size, np.int16)
    large = np.flatnonzero((np.abs(number) >= _EXACT) & np.isfinite(number))
    for at in large.tolist():
        number[at], residual[at] = split(values[at])
    return number, residual
