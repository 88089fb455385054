"""Predicate lists: building, storing and checking what `index.kernels.predicate_lists` searches.

OpIndex, sections 4.2 and 6.2: under a pivot, each operator has a list of its own, and each list is
indexed in the way that suits its operator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from index.access import VALUES_IN_WORDS, words_of_leaf
from index.columns import EventBatch
from index.conjunctions import WORDS_MAX, ConjunctionSegment
from index.kernels.lookups import (
    AT_MOST,
    BETWEEN,
    OPERATOR_BITS,
    PREFIX,
    SUFFIX,
    new_lookups,
)
from index.kernels.predicate_lists import (
    CANDIDATES,
    COUNTS,
    HITS,
    SEARCHED,
    SKIPPED,
    ListColumns,
    Search,
    sign,
)
from index.kernels.probe import Compiled
from index.kernels.verify import new_scratch
from index.list_entries import ListEntries, list_entries, operators_of
from index.model import Operator
from index.predicates import PredicateColumns
from index.program import POLARITY_BITS
from index.vocabulary import Vocabulary

LIST_SEGMENTS_MAX = 32
"""OpIndex, section 7."""
LIST_SEGMENT_ENTRIES = 16
"""A mean list_segment has up to twice as many: 60 % or more of its signature is unset (lemma 8)."""

Columns = TypeVar("Columns", bound=tuple[Any, ...])

LISTED_OPERATORS = frozenset(Operator) - {Operator.MISSING}
"""Of predicates that some list takes."""


class ListSegment(ConjunctionSegment[Columns]):
    """A segment whose columns contain predicate lists; subclasses say where."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._searched_count = 0
        self._skipped_count = 0

    @property
    @abstractmethod
    def _lists(self) -> ListColumns:
        """The predicate lists among the columns."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns, those of inner tuples too, under their own names."""
        return _flattened(self._columns)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The columns that `to_arrays` wrote."""
        return cls(_nested(cls.columns_type, arrays))

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of which any predicate held."""
        lists = self._lists
        return {
            "pivot_count": int(np.count_nonzero(np.diff(lists.lists))),
            "predicate_list_count": lists.operator.size,
            "list_segment_count": lists.signature.size,
            "entry_count": lists.ask.size,
            "trie_node_count": lists.tries.ends.size,
            "searched_list_segment_count": self._searched_count,
            "skipped_list_segment_count": self._skipped_count,
            **super().stats(),
        }

    def _count(self, search: Search) -> None:
        """Add up what a call of `match` has counted."""
        self._searched_count += int(search.counts[SEARCHED])
        self._skipped_count += int(search.counts[SKIPPED])
        self._found(search.counts[CANDIDATES], search.counts[HITS])


def new_search(
    lists: ListColumns, ask_count: int, batch: EventBatch, attribute_count: int
) -> Search:
    """Working memory for the events of a batch."""
    return Search(
        new_scratch(attribute_count),
        new_lookups(batch, lists.tries),
        np.zeros(ask_count, np.int32),
        np.empty(lists.ask.size, np.int32),
        np.zeros(COUNTS, np.int64),
    )


def build_lists(
    predicates: PredicateColumns,
    code: NDArray[np.int32],
    under: tuple[NDArray[np.int64], NDArray[np.int64]],
    attribute_count: int,
) -> ListColumns:
    """The lists of asks for leaves `code`: ask under[1][i] lies under pivot under[0][i]."""
    tries, entries = list_entries(predicates, code, attribute_count)
    pivot, entries = _spread(entries, *under, code.size)
    key = pivot << OPERATOR_BITS | entries.operator
    listed, list_of, sizes = np.unique(key, return_inverse=True, return_counts=True)
    directory = np.concatenate(([0], np.cumsum(_list_segment_counts(sizes)))).astype(np.int64)
    attribute = predicates.record["attribute"][code >> POLARITY_BITS][entries.ask]
    list_segment = _list_segments(directory, list_of, attribute)
    order = np.lexsort((entries.mark, entries.number, attribute, list_segment))
    first = _starts(list_segment[order], int(directory[-1]))
    operator = (listed & ((1 << OPERATOR_BITS) - 1)).astype(np.uint8)
    is_between = entries.operator[order] == BETWEEN
    before = np.concatenate(([0], np.cumsum(is_between)))
    first_entry = first[directory[:-1]]
    lists = ListColumns(
        _starts(listed >> OPERATOR_BITS, attribute_count).astype(np.int32),
        operator,
        directory,
        np.zeros(int(directory[-1]), np.uint64),
        first,
        attribute[order],
        entries.number[order],
        entries.mark[order],
        entries.ask[order].astype(np.int32),
        code[entries.ask[order]],
        before[first_entry] - first_entry,
        entries.high[order][is_between],
        entries.high_mark[order][is_between],
        tries,
    )
    sign(lists, lists.signature)
    return lists


def check_lists(lists: ListColumns, under: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    """Entries are sorted, signatures know them, and each ask is under its pivots and no others."""
    lasts = lists.lists[-1], lists.directory[-1]
    assert lasts == (lists.operator.size, lists.signature.size), "lists overlap or are lost"
    assert lists.first[0] == 0 and lists.first[-1] == lists.ask.size
    signature = np.zeros_like(lists.signature)
    sign(lists, signature)
    assert np.array_equal(signature, lists.signature), "a signature is not of its entries"
    pivot_of = np.repeat(np.arange(lists.lists.size - 1), np.diff(lists.lists))
    list_segment = np.repeat(np.arange(signature.size), np.diff(lists.first))
    number = np.searchsorted(lists.directory, list_segment, "right") - 1
    filed = np.unique(pivot_of[number] << 32 | lists.ask)
    expected = np.unique(under[0] << 32 | under[1])
    assert np.array_equal(filed, expected), (
        "an ask is missing under a pivot, or under a foreign one"
    )
    segments = _list_segments(lists.directory, number, lists.attribute)
    assert np.array_equal(list_segment, segments), "an entry in a foreign list_segment"
    order = np.lexsort((lists.mark, lists.number, lists.attribute, list_segment))
    assert np.array_equal(order, np.arange(order.size)), "entries are not sorted"
    entry = np.flatnonzero(lists.operator[number] == BETWEEN)
    ends = lists.upper[number[entry]] + entry
    assert np.array_equal(ends, np.arange(lists.high.size)), "upper ends are not beside the lower"
    assert np.all(lists.high >= lists.number[entry]), "a range ends before it begins"
    tries = lists.tries
    roots = np.sort(tries.root[tries.root >= 0])
    assert np.array_equal(roots, np.arange(roots.size)), "a trie has no root, or shares it"
    assert np.all(np.diff(tries.child) >= 0) and tries.child[-1] == tries.ends.size
    assert tries.child[0] == roots.size, "children of a trie are lost"
    affixed = (lists.operator[number] >= PREFIX) & (lists.operator[number] < AT_MOST)
    nodes = lists.number[affixed].astype(np.int64)
    assert np.array_equal(np.unique(nodes), np.flatnonzero(tries.ends)), "a needle ends nowhere"


def leaves_of_asks(lists: ListColumns, ask_count: int) -> NDArray[np.int32]:
    """The code of the leaf of each ask."""
    leaf = np.empty(ask_count, np.int32)
    leaf[lists.ask] = lists.leaf
    return leaf


def words_of_asks(
    compiled: Compiled, vocabulary: Vocabulary, leaves: NDArray[np.int32]
) -> list[str]:
    """What the first asks are filed under, in words."""
    predicates = compiled.predicates
    return sorted(
        _words_of_affixes(predicates, vocabulary, leaf)
        or words_of_leaf(predicates, vocabulary, leaf, False)
        for leaf in leaves[:WORDS_MAX].tolist()
    )


def _words_of_affixes(predicates: PredicateColumns, vocabulary: Vocabulary, leaf: int) -> str:
    """The needles that a leaf is filed under in a trie; nothing if it is not."""
    code = np.array([leaf], np.int32)
    operator = int(operators_of(predicates, code)[0])
    if not PREFIX <= operator < AT_MOST:
        return ""
    record = predicates.record[leaf >> POLARITY_BITS]
    first = int(record["start"])
    shown = min(int(record["size"]), VALUES_IN_WORDS)
    bounds = predicates.needle_start[first : first + shown + 1].tolist()
    words = [
        repr(predicates.needle[start:stop].tobytes().decode()) for start, stop in pairwise(bounds)
    ]
    if record["size"] > shown:
        words.append(f"one of {int(record['size']) - shown} more")
    path = ".".join(vocabulary.path(int(record["attribute"])))
    return f"{path} {'begins' if operator < SUFFIX else 'ends'} with {' or '.join(words)}"


def _spread(
    entries: ListEntries, pivot: NDArray[np.int64], ask: NDArray[np.int64], ask_count: int
) -> tuple[NDArray[np.int64], ListEntries]:
    """The entries of each ask once for each of its pivots, and these pivots."""
    order = np.argsort(ask, kind="stable")
    copies = np.bincount(ask, minlength=ask_count)
    first = np.cumsum(copies) - copies
    count = copies[entries.ask]
    entry = np.repeat(np.arange(count.size), count)
    copy = np.arange(entry.size) - np.repeat(np.cumsum(count) - count, count)
    parts: Any = (part[entry] for part in entries)
    spread = ListEntries(*parts)
    return pivot[order[first[spread.ask] + copy]].astype(np.int64), spread


def _list_segment_counts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Into how many list_segments lists of these sizes are cut, powers of two."""
    wanted = np.clip(sizes // LIST_SEGMENT_ENTRIES, 1, LIST_SEGMENTS_MAX)
    counts: NDArray[np.int64] = 1 << np.log2(wanted).astype(np.int64)
    return counts


def _list_segments(
    directory: NDArray[np.int64], list_of: NDArray[np.int64], attribute: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The list_segments of attributes in lists."""
    within: NDArray[np.int64] = attribute & (np.diff(directory)[list_of] - 1)
    return directory[list_of] + within


def _starts(ascending: NDArray[np.int64], stop: int) -> NDArray[np.int64]:
    """Where the runs of 0..stop begin, and where the last one ends."""
    return np.searchsorted(ascending, np.arange(stop + 1)).astype(np.int64)


def _flattened(columns: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a NamedTuple by name, and of those in it."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, part in zip(columns._fields, columns, strict=True):
        arrays |= _flattened(part) if isinstance(part, tuple) else {name: part}
    return arrays


def _nested(columns_type: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The NamedTuple whose arrays `_flattened` took."""
    types = get_type_hints(columns_type)
    return columns_type(
        *(
            _nested(types[name], arrays) if hasattr(types[name], "_fields") else arrays[name]
            for name in columns_type._fields
        )
    )
