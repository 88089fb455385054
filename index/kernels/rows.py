"""Copying rows from one store to another, and telling rows that kernels cannot decide."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.predicates import PredicateColumns, PredicateKind
from index.program import GATE_WORDS, POLARITY_BITS, Programs

_FIRST_OPAQUE = int(PredicateKind.OPAQUE_TEXT)
_POLARITY_MASK = (1 << POLARITY_BITS) - 1


@njit(cache=True, nogil=True)
def opaque_rows(programs: Programs, predicates: PredicateColumns, first: int) -> NDArray[np.bool_]:
    """Which rows from `first` on have a leaf that only Python can test."""
    row_count = programs.start.size - 1
    opaque = np.zeros(row_count - first, np.bool_)
    for row in range(first, row_count):
        at, stop = programs.start[row], programs.start[row + 1]
        while at < stop:
            if programs.code[at] < 0:
                at += GATE_WORDS
                continue
            if predicates.record[programs.code[at] >> POLARITY_BITS]["kind"] >= _FIRST_OPAQUE:
                opaque[row - first] = True
                break
            at += 1
    return opaque


@njit(cache=True, nogil=True)
def copy_programs(
    programs: Programs, rows: NDArray[np.int32], numbers: NDArray[np.int32], copy: Programs
) -> None:
    """Fill `copy`, which has the right size, with programs of `rows`, predicates renumbered."""
    to = 0
    for place in range(rows.size):
        copy.start[place] = to
        at, stop = programs.start[rows[place]], programs.start[rows[place] + 1]
        while at < stop:
            word = programs.code[at]
            if word < 0:
                for _ in range(GATE_WORDS):
                    copy.code[to] = programs.code[at]
                    to += 1
                    at += 1
                continue
            copy.code[to] = numbers[word >> POLARITY_BITS] << POLARITY_BITS | word & _POLARITY_MASK
            to += 1
            at += 1
    copy.start[rows.size] = to
