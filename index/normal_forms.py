"""Normal forms: which programs are ORs of conjunctions, or ANDs of disjunctions, and their parts.

    program                       parts by AND               parts by OR
    a = 1 AND (b = 2 OR c = 3)    {a = 1} {b = 2, c = 3}     none
    (a = 1 AND b = 2) OR c = 3    none                       {a = 1, b = 2} {c = 3}
    a = 1 AND b = 2               {a = 1} {b = 2}            {a = 1, b = 2}

Nothing is multiplied out: a program that is in neither form stays as it is. A leaf takes part only
if it can be looked up by its attribute, that is, if it cannot hold where the attribute is absent;
and if a kernel can test it, or `index.settling` string by string.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.kernels.cover import UNFILED, filing_of_leaf
from index.predicates import PredicateColumns, PredicateKind
from index.program import GATE_WORDS, POLARITY_BITS, Programs

AND, OR = 1, 2
_NEITHER = 0
_LAST_SETTLED = int(PredicateKind.OPAQUE_EQUAL)


@njit(cache=True, nogil=True)
def in_normal_form(
    programs: Programs, predicates: PredicateColumns, rows: NDArray[np.int32], outer: int
) -> NDArray[np.bool_]:
    """Which of `rows` have parts by `outer`, AND or OR."""
    normal = np.zeros(rows.size, np.bool_)
    for place in range(rows.size):
        start, stop = programs.start[rows[place]], programs.start[rows[place] + 1]
        normal[place] = start < stop and _is_normal(programs, predicates, start, stop, outer)
    return normal


@njit(cache=True, nogil=True)
def _is_normal(
    programs: Programs, predicates: PredicateColumns, start: int, stop: int, outer: int
) -> bool:
    root = _connective(programs, start)
    if root == _NEITHER:
        return False
    # Without the outer connective, the row is a single part, and has no gates but its own. No gate
    # lies in one of its own kind (index.threshold), so one in an inner gate is not of that kind.
    inner = AND + OR - outer if root == outer else _NEITHER
    at = _after_gate(programs, start)
    while at < stop:
        if programs.code[at] >= 0:
            leaf = programs.code[at]
            if predicates.record[leaf >> POLARITY_BITS]["kind"] > _LAST_SETTLED:
                return False
            if filing_of_leaf(predicates, leaf) == UNFILED:
                return False
            at += 1
        else:
            connective = _connective(programs, at)
            if connective == _NEITHER or connective != inner:
                return False
            at += GATE_WORDS
    return True


@njit(cache=True, nogil=True)
def parts_of_rows(
    programs: Programs, rows: NDArray[np.int32], outer: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """(place, part, code) of all leaves of `rows`, which have parts by `outer`.

    Row rows[place] has the leaf; parts are numbered densely from 0, in the order of rows.
    """
    count = 0
    for row in rows:
        count += programs.start[row + 1] - programs.start[row]
    place, part = np.empty(count, np.int32), np.empty(count, np.int32)
    code = np.empty(count, np.int32)
    count, number = 0, -1
    for at_row in range(rows.size):
        at, stop = programs.start[rows[at_row]], programs.start[rows[at_row] + 1]
        is_split = _connective(programs, at) == outer
        at = part_stop = _after_gate(programs, at)
        number += not is_split
        while at < stop:
            if programs.code[at] < 0:
                part_stop = at + programs.code[at + 2]
                at += GATE_WORDS
                number += 1
                continue
            number += is_split and at >= part_stop
            place[count], part[count], code[count] = at_row, number, programs.code[at]
            count += 1
            at += 1
    return place[:count].copy(), part[:count].copy(), code[:count].copy()


@njit(cache=True, nogil=True)
def _connective(programs: Programs, at: int) -> int:
    """AND or OR of the gate at a place, or neither; a row that begins with a leaf is an AND."""
    if programs.code[at] >= 0:
        return AND
    if programs.code[at + 1] == 0:
        return AND
    return OR if programs.code[at] == -1 and programs.code[at + 1] > 0 else _NEITHER


@njit(cache=True, nogil=True)
def _after_gate(programs: Programs, at: int) -> int:
    """The first child of the gate at a place; the place itself, if it has a leaf."""
    return at if programs.code[at] >= 0 else at + GATE_WORDS
