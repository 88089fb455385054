"""Profile lists: what the two trees of geometry have in common, lists of rows that are counted.

Paper    Tatbul 2001, section 4.1.4, after de Berg et al., Computational Geometry, chapter 10.
Layout   points    end points of each tree
         rows      place -> row and how many attributes it asks; attribute, kind -> tree
         member    int32[...]   lists of places of rows
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.column_segment import Columns
from index.columns import EventBatch
from index.kernels.ordered_domains import DOMAIN_KINDS, Points, asked_of
from index.kernels.probe import Compiled, Hits
from index.kernels.profile_lists import (
    ListedRows,
    ListMemory,
    new_list_memory,
)
from index.ordered_domains import (
    DomainSegment,
    DomainTrees,
    check_points,
    kinds_by_attribute,
    ordered_rows,
    placed,
    plant,
    some_of,
)
from index.segment import collect_hits
from index.vocabulary import Vocabulary


class ListTrees(DomainSegment[Columns]):
    """The trees of one segment; its columns have `points` and `rows`."""

    @classmethod
    @abstractmethod
    def grow(cls, trees: DomainTrees, rows: ListedRows) -> Columns:
        """The trees over these domains."""

    @abstractmethod
    def listed(self) -> tuple[Points, ListedRows]:
        """The end points, and what is known of rows."""

    @abstractmethod
    def search(
        self, batch: EventBatch, memory: ListMemory, hits: Hits, first_event: int
    ) -> tuple[int, int]:
        """Match from an event on, see `index.segment.collect_hits`."""

    @abstractmethod
    def lists_of(self, tree: int, kind: int, place: int, vocabulary: Vocabulary) -> list[str]:
        """Where a tree lists a row, in words."""

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Number the rows, those of one attribute first, and grow a tree for each attribute."""
        order, rank, asks, intervals = ordered_rows(compiled, rows, attribute_count, shares)
        needed = np.bincount(asks.place, minlength=rows.size)[order]
        alone_first = np.argsort(needed > 1, kind="stable")
        order, needed = order[alone_first], needed[alone_first]
        trees = plant(placed(asks, order), intervals, attribute_count, max(rows.size, 1))
        attribute, kind = np.divmod(trees.key, DOMAIN_KINDS)
        tree = np.full(attribute_count * DOMAIN_KINDS, -1, np.int32)
        tree[rank[attribute] * DOMAIN_KINDS + kind] = np.arange(trees.key.size)
        listed = ListedRows(
            np.array([np.count_nonzero(needed == 1)], np.int32),
            needed.astype(np.uint16),
            rows[order].astype(np.int32),
            rank.astype(np.int32),
            kinds_by_attribute(trees.key, attribute_count),
            tree,
        )
        return cls(cls.grow(trees, listed))

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Search event after event."""
        rows = self.listed()[1]
        memory = new_list_memory(asked_of(batch, rows.rank, rows.kinds), rows.row.size)
        hits = collect_hits(
            lambda room, event: self.search(batch, memory, room, event),
            batch.entry_start.size - 1,
            rows.row.size,
        )
        self._count(memory.counts)
        return hits

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row that was found at all."""
        points, rows = self.listed()
        return {
            "tree_count": points.start.size - 1,
            "point_count": points.number.size,
            "alone_row_count": int(rows.alone[0]),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is there once, those of one attribute first, and end points ascend."""
        points, listed = self.listed()
        assert np.array_equal(np.sort(listed.row), rows), "other rows than it was built for"
        assert np.array_equal(listed.needed == 1, np.arange(rows.size) < listed.alone[0]), (
            "a row of one attribute is not among the first, or another is"
        )
        used = listed.tree[listed.tree >= 0]
        assert np.array_equal(np.sort(used), np.arange(points.start.size - 1)), "a tree is lost"
        check_points(points)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The lists of each attribute's trees that have the row."""
        rows = self.listed()[1]
        place = int(np.flatnonzero(rows.row == row)[0])
        words = []
        for attribute, rank in enumerate(rows.rank.tolist()):
            path = ".".join(vocabulary.path(attribute))
            for kind in range(DOMAIN_KINDS):
                tree = int(rows.tree[rank * DOMAIN_KINDS + kind])
                if tree >= 0:
                    lists = self.lists_of(tree, kind, place, vocabulary)
                    words += [f"{path} {one}" for one in lists]
        return f"counted up to {rows.needed[place]}, listed at {some_of(words)}"
