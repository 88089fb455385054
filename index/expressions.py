"""Events of expressions: conjunctions of predicates in place of values (BE-Tree paper, section 3).

    event          category = 'book' AND price BETWEEN 20 AND 30
    subscription   price < 25 AND category != 'toy'     meets it: both predicates share a value with
                                                        what the event says of their attribute
    subscription   price < 20 AND category = 'book'     does not: no price is in both

Of an attribute on which an event has several predicates it says what satisfies all of them. An
index rules rows out by intervals of order keys; what it leaves is decided here by sets of values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from index.kernels.betree_keys import KEY_FIRST, KEY_LAST, leaf_interval
from index.kernels.probe import Compiled
from index.model import Filter
from index.predicate_phase import plain_conjunctions
from index.predicate_table import PredicateTable
from index.program import POLARITY_BITS, ProgramTable
from index.value_sets import EVERYTHING, ValueSet, value_set
from index.vocabulary import Vocabulary

Intervals = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]
"""Attributes, ascending, and the keys low..high that an event leaves possible for each."""
KnownSets = dict[int, ValueSet | None]
"""Sets of the leaves of one store, by code, None for those that have none."""


class Expressions:
    """Some events of expressions over a vocabulary, to which their operands are added."""

    def __init__(self, filters: Sequence[Filter], vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        table = ProgramTable(PredicateTable(vocabulary))
        rows = np.array(table.append_all(filters), np.int32)
        self._compiled = Compiled(table.columns(), table.predicates.columns())
        plain = plain_conjunctions(*self._compiled, rows)
        self._sets: list[dict[int, ValueSet]] = []
        for event, is_plain in enumerate(plain.tolist()):
            sets = self._sets_of(event) if is_plain else None
            if sets is None:
                raise ValueError(
                    f"event {event} must be a conjunction of comparisons, BETWEEN, IN, IS NULL and "
                    "EXISTS, without quantifiers and NOCASE"
                )
            self._sets.append(sets)

    def intervals_of(self, event: int) -> Intervals:
        """Where the keys of the event's values lie; of an empty set anything may be said."""
        attributes = sorted(self._sets[event])
        low = dict.fromkeys(attributes, KEY_FIRST)
        high = dict.fromkeys(attributes, KEY_LAST)
        for leaf in _leaves(self._compiled, event):
            attribute = _attribute(self._compiled, leaf)
            first, last = leaf_interval(self._compiled.predicates, leaf)
            low[attribute] = max(low[attribute], first)
            high[attribute] = min(high[attribute], last)
        return (
            np.array(attributes, np.int32),
            np.array([low[attribute] for attribute in attributes], np.int64),
            np.array([high[attribute] for attribute in attributes], np.int64),
        )

    def met(
        self, event: int, compiled: Compiled, rows: NDArray[np.int64], known: KnownSets
    ) -> list[int]:
        """Those of `rows` that meet the event; `known` is kept for the next event."""
        return [row for row in rows.tolist() if self._meets(event, compiled, row, known)]

    def _meets(self, event: int, compiled: Compiled, row: int, known: KnownSets) -> bool:
        leaves = _leaves(compiled, row)
        if not leaves:
            return False
        for leaf in leaves:
            if leaf < 0:
                return False
            said = self._sets[event].get(_attribute(compiled, leaf))
            if said is None:
                return False
            if leaf not in known:
                known[leaf] = value_set(compiled.predicates, self._vocabulary, leaf)
            asked = known[leaf]
            if asked is None or not said & asked:
                return False
        return True

    def _sets_of(self, event: int) -> dict[int, ValueSet] | None:
        """What an event says of each of its attributes, or None if some leaf has no set."""
        sets: dict[int, ValueSet] = {}
        for leaf in _leaves(self._compiled, event):
            found = value_set(self._compiled.predicates, self._vocabulary, leaf)
            if found is None:
                return None
            attribute = _attribute(self._compiled, leaf)
            sets[attribute] = sets.get(attribute, EVERYTHING) & found
        return sets


def _leaves(compiled: Compiled, row: int) -> list[int]:
    """The words of a row's program: of a plain conjunction its leaves."""
    start, stop = compiled.programs.start[row : row + 2].tolist()
    leaves: list[int] = compiled.programs.code[start:stop].tolist()
    return leaves


def _attribute(compiled: Compiled, leaf: int) -> int:
    return int(compiled.predicates.record["attribute"][leaf >> POLARITY_BITS])
