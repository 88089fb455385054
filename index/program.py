"""Programs: threshold trees as runs of numbers that a kernel evaluates.

    row  filter                               code
    0    a = 1 AND NOT b > 2                  0,TRUE  1,FALSE                    a plain conjunction
    1    ATLEAST 2 OF (a = 1, b > 2, c = 3)   gate 2, 1, 6  0,TRUE 1,TRUE 2,TRUE
    2    a = 1 AND (b > 2 OR c = 3)           gate 2, 0, 9  0,TRUE  gate 1, 1, 5  1,TRUE 2,TRUE

A leaf is one number, 4 * predicate + polarity. A gate is three, followed by its children:
-need, how many children may fail, and its length in numbers, itself included. A row that begins
with a leaf is a plain conjunction of leaves, the common case, and needs no gate and no stack. An
empty row always matches.

Children are in the order of what testing them costs, because the first that decides a gate ends it:
leaves by kind, then gates by length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from index.growing import GrowingArray
from index.kernels.leaf_order import sort_by_kind
from index.model import And, Element, Filter, Predicate
from index.predicate_table import PredicateTable
from index.threshold import (
    ALWAYS,
    Gate,
    Leaf,
    Polarity,
    ThresholdTree,
    is_positive,
    leaf_of,
    threshold,
)

POLARITY_BITS = 2
GATE_WORDS = 3
GATE_DEPTH_MAX = 128
"""Gates open at one place; a filter of nesting 32 has at most two gates a level."""
PREDICATE_MAX = 2**29
"""Predicates a leaf can name, so that it stays a positive int32."""


CHUNK = 512
"""Filters compiled together: enough to spread the cost of calling a kernel, and few enough for
their leaves to stay in the cache between steps."""

_Leaf = tuple[int, int]
"""Kind of the predicate, and the leaf's code."""


class Programs(NamedTuple):
    """Threshold trees of n rows."""

    start: NDArray[np.int64]  # [n+1] the program of row r is code[start[r]:start[r+1]]
    code: NDArray[np.int32]  # leaves and gates, each before its children


class ProgramTable:
    """Compiles filters; rows are numbered densely from 0, and a row never changes.

    One writer at a time; columns taken earlier stay valid while the table grows.
    """

    def __init__(
        self, predicates: PredicateTable, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self.predicates = predicates
        known = arrays or {}
        self._start = GrowingArray(np.int64, known.get("program_start"))
        self._code = GrowingArray(np.int32, known.get("program_code"))
        if not len(self._start):
            self._start.append(0)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], predicates: PredicateTable
    ) -> ProgramTable:
        """The table that `to_arrays` wrote, over the predicates it was built with."""
        return cls(predicates, arrays)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers that a snapshot can hold; predicates apart."""
        return {"program_start": self._start.view(), "program_code": self._code.view()}

    def __len__(self) -> int:
        return len(self._start) - 1

    def columns(self) -> Programs:
        """What kernels evaluate, for all rows so far; costs no copy."""
        return Programs(self._start.view(), self._code.view())

    def append(self, filter: Filter) -> int:
        """The new row of a filter."""
        return self.append_all((filter,))[0]

    def append_all(self, filters: Iterable[Filter]) -> range:
        """The new rows of many filters, at a fraction of the cost of appending one by one."""
        first = len(self)
        source = iter(filters)
        while chunk := list(islice(source, CHUNK)):
            self._append_chunk(chunk)
        return range(first, len(self))

    def _append_chunk(self, filters: list[Filter]) -> None:
        """Append rows; conjunctions of predicates, which most are, without making trees of them."""
        conjuncts = [_conjuncts(one) for one in filters]
        trees = {at: threshold(filters[at]) for at, one in enumerate(conjuncts) if one is None}
        leaves = {at: _leaves_of(tree) for at, tree in trees.items()}
        rows = [
            [leaf.predicate for leaf in leaves[at]] if one is None else one
            for at, one in enumerate(conjuncts)
        ]
        asked = list(chain.from_iterable(rows))
        size = np.fromiter(map(len, rows), np.int64, len(rows))
        start = np.concatenate(([0], np.cumsum(size)))
        polarity = np.zeros(len(asked), np.int32)
        for at, one in enumerate(asked):
            if not is_positive(one):
                asked[at], polarity[at] = leaf_of(cast(Predicate, one), Polarity.IS_TRUE)
        for at, own in leaves.items():
            polarity[start[at] : start[at + 1]] = [leaf.polarity for leaf in own]
        kind, code = self._leaf_columns(asked, polarity)
        is_tree = np.zeros(len(rows), np.bool_)
        is_tree[list(trees)] = True
        sort_by_kind(start, is_tree, kind, code)
        if not trees:
            self._extend(code, size)
            return
        parts = np.split(code, start[1:-1])
        for at, tree in trees.items():
            own_kind = kind[start[at] : start[at + 1]]
            coded = zip(own_kind.tolist(), parts[at].tolist(), strict=True)
            parts[at] = np.array(_compile(tree, coded), np.int32)
        self._extend(np.concatenate(parts), np.fromiter(map(len, parts), np.int64, len(parts)))

    def _leaf_columns(
        self, asked: Sequence[Predicate | Element], polarity: NDArray[np.int32]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Kind and code of leaves that ask something of positive predicates."""
        number = self.predicates.numbers(asked)
        if number.max(initial=0) >= PREDICATE_MAX:
            raise OverflowError(f"more than {PREDICATE_MAX} distinct predicates in one table")
        kind = self.predicates.columns().record["kind"][number]
        return kind, (number << POLARITY_BITS | polarity).astype(np.int32)

    def _extend(self, flat: NDArray[np.int32], sizes: NDArray[np.int64]) -> None:
        """Append rows of these sizes, given one after the other."""
        ends = np.cumsum(sizes) + len(self._code)
        self._code.extend(flat)
        self._start.extend(ends)


def _conjuncts(filter: Filter) -> Sequence[Predicate] | None:
    """The predicates that all have to hold, where a filter says no more than that."""
    written = filter.children if isinstance(filter, And) else (filter,)
    return cast(Sequence[Predicate], written) if set(map(type, written)) == {Predicate} else None


def _leaves_of(tree: ThresholdTree) -> Sequence[Leaf]:
    """All leaves, those that are a gate's own children before those below its gates."""
    if isinstance(tree, Leaf):
        return (tree,)
    gates = [child for child in tree.children if isinstance(child, Gate)]
    leaves = [child for child in tree.children if isinstance(child, Leaf)]
    for child in gates:
        leaves += _leaves_of(child)
    return leaves


def _compile(tree: ThresholdTree, leaves: Iterator[_Leaf]) -> list[int]:
    """The code of a row; takes the tree's leaves from the iterator."""
    if tree == ALWAYS:
        return []
    if isinstance(tree, Leaf):
        return [next(leaves)[1]]
    children = _compile_children(tree, leaves, 1)
    if tree.is_conjunction and len(children) == len(tree.children):
        return children
    return _gate_code(tree, children)


def _compile_children(tree: Gate, leaves: Iterator[_Leaf], depth: int) -> list[int]:
    if depth > GATE_DEPTH_MAX:
        raise ValueError(
            f"a filter nests more than {GATE_DEPTH_MAX} alternations of AND, OR and ATLEAST; "
            "flatten it"
        )
    gates = [child for child in tree.children if isinstance(child, Gate)]
    own = sorted(islice(leaves, len(tree.children) - len(gates)), key=itemgetter(0))
    code = [leaf for _, leaf in own]
    below = [_gate_code(child, _compile_children(child, leaves, depth + 1)) for child in gates]
    for part in sorted(below, key=len):
        code += part
    return code


def _gate_code(tree: Gate, children: list[int]) -> list[int]:
    misses = len(tree.children) - tree.need
    return [-tree.need, misses, GATE_WORDS + len(children), *children]
