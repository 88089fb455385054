"""Conjunctions: what the segments of algorithms for plain conjunctions have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.access import words_of_leaf
from index.column_segment import Columns, ColumnSegment
from index.companion import PartialSegment
from index.kernels.probe import Compiled
from index.model import Operator
from index.predicate_phase import plain_conjunctions
from index.vocabulary import Vocabulary

WORDS_MAX = 8
"""Leaves that `words_of_leaves` names."""


PLAIN_OPERATORS = frozenset(Operator) - {Operator.REGEX, Operator.CIDR, Operator.MISSING}
"""Of predicates that a kernel can test, and that do not hold of an absent attribute."""


class ConjunctionSegment(ColumnSegment[Columns], PartialSegment):
    """A column segment of plain conjunctions."""

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Conjunctions of leaves that a kernel can test."""
        return plain_conjunctions(compiled.programs, compiled.predicates, rows)


def words_of_leaves(compiled: Compiled, vocabulary: Vocabulary, leaves: NDArray[np.int32]) -> str:
    """The first leaves in words, for `filing_of`."""
    words = [
        words_of_leaf(compiled.predicates, vocabulary, int(leaf), False)
        for leaf in leaves[:WORDS_MAX]
    ]
    return ", ".join(sorted(words))
