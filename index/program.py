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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.growing import GrowingArray
from index.model import Filter
from index.predicate_table import PredicateTable
from index.threshold import ALWAYS, Gate, Leaf, ThresholdTree, threshold

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

    def append_tree(self, tree: ThresholdTree) -> int:
        """The new row of a threshold tree, for callers that need the tree themselves, too."""
        (code,) = self._compiled([tree])
        self._extend(np.array(code, np.int32), np.array([len(code)]))
        return len(self) - 1

    def append_all(self, filters: Iterable[Filter]) -> range:
        """The new rows of many filters, at a fraction of the cost of appending one by one."""
        first = len(self)
        source = iter(filters)
        while chunk := list(islice(source, CHUNK)):
            codes = self._compiled([threshold(one) for one in chunk])
            sizes = np.fromiter(map(len, codes), np.int64, len(codes))
            self._extend(np.fromiter(chain.from_iterable(codes), np.int32), sizes)
        return range(first, len(self))

    def _extend(self, flat: NDArray[np.int32], sizes: NDArray[np.int64]) -> None:
        """Append rows of these sizes, given one after the other."""
        ends = np.cumsum(sizes) + len(self._code)
        self._code.extend(flat)
        self._start.extend(ends)

    def _compiled(self, trees: list[ThresholdTree]) -> list[list[int]]:
        """The code of each tree."""
        leaves = [leaf for tree in trees for leaf in _leaves_of(tree)]
        numbers = self.predicates.numbers([leaf.predicate for leaf in leaves])
        if max(numbers, default=0) >= PREDICATE_MAX:
            raise OverflowError(f"more than {PREDICATE_MAX} distinct predicates in one table")
        kinds = self.predicates.columns().record["kind"][numbers].tolist()
        codes = [
            number << POLARITY_BITS | leaf.polarity
            for leaf, number in zip(leaves, numbers, strict=True)
        ]
        coded = zip(kinds, codes, strict=True)
        return [_compile(tree, coded) for tree in trees]


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
