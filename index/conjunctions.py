"""Conjunctions: what the segments of algorithms for plain conjunctions have in common.

Such an algorithm keeps everything in one NamedTuple of arrays, one of which may be the columns of a
predicate phase under the name `phase`; matching counts candidates and hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from index.access import words_of_leaf
from index.companion import PartialSegment
from index.frozen import frozen
from index.kernels.probe import Compiled
from index.predicate_phase import phase_from_arrays, phase_to_arrays, plain_conjunctions
from index.vocabulary import Vocabulary

Columns = TypeVar("Columns", bound=tuple[Any, ...])

WORDS_MAX = 8
"""Leaves that `words_of_leaves` names."""


class ConjunctionSegment(PartialSegment, Generic[Columns]):
    """A segment of plain conjunctions; subclasses name the type of their columns."""

    columns_type: ClassVar[Any]

    def __init__(self, columns: Columns) -> None:
        self._columns = frozen(columns)
        self._candidate_count = 0
        self._hit_count = 0

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Conjunctions of leaves that a kernel can test."""
        return plain_conjunctions(compiled.programs, compiled.predicates, rows)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names."""
        arrays: dict[str, Any] = dict(zip(self.columns_type._fields, self._columns, strict=True))
        phase = arrays.pop("phase", None)
        return arrays if phase is None else {**phase_to_arrays(phase), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The columns that `to_arrays` wrote."""
        return cls(
            cls.columns_type(
                *(
                    phase_from_arrays(arrays) if name == "phase" else arrays[name]
                    for name in cls.columns_type._fields
                )
            )
        )

    def stats(self) -> dict[str, int]:
        """What `match` has counted so far."""
        return {"candidate_count": self._candidate_count, "hit_count": self._hit_count}


def words_of_leaves(compiled: Compiled, vocabulary: Vocabulary, leaves: NDArray[np.int32]) -> str:
    """The first leaves in words, for `filing_of`."""
    words = [
        words_of_leaf(compiled.predicates, vocabulary, int(leaf), False)
        for leaf in leaves[:WORDS_MAX]
    ]
    return ", ".join(sorted(words))
