"""Regular expressions of a segment, all tried at once on each string that has not been seen before.

RE2 walks one automaton for a set of expressions, in time linear in the string and in bounded
memory. A set that runs out of that memory finds nothing and says nothing, so each set has one more
expression, which fits any string: where that is not found either, its expressions are tried one by
one, and that is slow but right.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import re2
from numpy.typing import NDArray

from index.columns import EventBatch
from index.kernels.text_runs import TextColumns
from index.limits import REGEX_PROGRAM_BYTES_MAX
from index.model import Predicate
from index.opaque import opaque_predicate
from index.patterns import compile_regex, regex_options
from index.predicates import PredicateColumns

SET_EXPRESSIONS_MAX = 128
SET_BYTES_MAX = 16 * REGEX_PROGRAM_BYTES_MAX
"""Memory of the automaton of one set; it is filled only as strings need it."""
REMEMBERED_MAX = 1 << 14
"""Strings whose expressions are remembered; the oldest is forgotten first."""
REMEMBERED_BYTES_MAX = 1 << 10
"""Longer strings seldom come twice."""
_ANY = "(?s:)"


@dataclass(frozen=True, slots=True)
class _Expressions:
    """Expressions that are tried together; `text` are their numbers as text predicates."""

    text: NDArray[np.int32]
    alone: list[Predicate]  # the same, to be compiled only if they have to be tried one by one
    together: re2.Set | None

    def holding_in(self, string: str) -> list[int]:
        """Numbers of those that fit somewhere in a string."""
        if self.together is not None:
            found = self.together.Match(string)
            if found:
                return [int(self.text[at]) for at in found if at < self.text.size]
        programs = (compile_regex(str(one.operand), one.nocase) for one in self.alone)
        fits = (program.search(string) is not None for program in programs)
        return [int(one) for one, holds in zip(self.text, fits, strict=True) if holds]


class RegexSets:
    """The expressions among the text predicates of a segment; any number of threads may ask."""

    def __init__(self, texts: TextColumns, predicates: PredicateColumns) -> None:
        every = np.flatnonzero(texts.expression >= 0)
        self._attribute = np.unique(texts.attribute[every])
        numbers = texts.expression[every].tolist()
        folds = np.array([opaque_predicate(predicates, one).nocase for one in numbers], np.bool_)
        self._sets = [
            _expressions(texts, predicates, which[start : start + SET_EXPRESSIONS_MAX])
            for which in (every[folds], every[~folds])
            for start in range(0, which.size, SET_EXPRESSIONS_MAX)
        ]
        self._remembered: OrderedDict[bytes, NDArray[np.int32]] = OrderedDict()

    def holding(self, batch: EventBatch) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """What fits each string of a batch: starts [strings + 1], and text predicates."""
        counts = np.zeros(batch.string_code.size + 1, np.int64)
        parts = []
        for string in self._asked(batch).tolist() if self._sets else ():
            start, stop = batch.string_start[string : string + 2].tolist()
            found = self._of(batch.text[start:stop].tobytes())
            counts[string + 1] = found.size
            parts.append(found)
        joined = np.concatenate(parts) if parts else np.empty(0, np.int32)
        return np.cumsum(counts), joined

    def _asked(self, batch: EventBatch) -> NDArray[np.int32]:
        """The strings of attributes that expressions ask about, ascending."""
        asked = np.isin(batch.entry_attribute, self._attribute)
        values = np.repeat(asked, np.diff(batch.value_start))
        strings = np.unique(batch.value_string[: values.size][values])
        return strings[strings >= 0]

    def _of(self, text: bytes) -> NDArray[np.int32]:
        known = self._remembered.get(text)
        if known is None:
            string = text.decode()
            found = [one for each in self._sets for one in each.holding_in(string)]
            known = np.array(found, np.int32)
            if len(text) <= REMEMBERED_BYTES_MAX:
                self._remembered[text] = known
                if len(self._remembered) > REMEMBERED_MAX:
                    self._remembered.popitem(last=False)
        return known


def _expressions(
    texts: TextColumns, predicates: PredicateColumns, which: NDArray[np.int64]
) -> _Expressions:
    """Expressions of one case to be tried together, unless they are too large for that."""
    expressions = [opaque_predicate(predicates, number) for number in texts.expression[which]]
    together = re2.Set.SearchSet(regex_options(expressions[0].nocase, SET_BYTES_MAX))
    for expression in expressions:
        together.Add(str(expression.operand))
    together.Add(_ANY)
    try:
        together.Compile()
    except re2.error:
        together = None
    return _Expressions(which.astype(np.int32), expressions, together)
