"""Profile vectors: what Tatbul's three indexes have in common, sets of rows in trees of keys.

Paper    Tatbul 2001, section 4.1: bit vectors of profiles, one tree an attribute, AND over
         attributes. Where the domain of an attribute is cut is the difference between the three.
Layout   rows are numbered by `index.ordered_domains.ordered_rows` and cut into blocks of
         BLOCK_ROWS places; each block has its own trees, and all its vectors are as long as it
         points    end points of each tree
         searches  keys, leaves, and pieces of domains, see index.kernels.profile_vectors
         sets      piece -> rows, as a list of up to LIST_ROWS_MAX places or as a vector
         named     attribute -> blocks that name it, by which rows, and the trees there
         row       int32[n]   place -> row
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.columns import EventBatch
from index.kernels.cluster_trees import Placed, Runs, Split, cut_leaves, fill_sets
from index.kernels.ordered_domains import DOMAIN_KINDS, asked_of
from index.kernels.probe import Compiled, Hits
from index.kernels.profile_vectors import (
    BLOCK_ROWS,
    BLOCK_WORDS,
    Named,
    Searches,
    VectorColumns,
    join_blocks,
    new_vector_memory,
)
from index.ordered_domains import (
    Asks,
    DomainSegment,
    DomainTrees,
    check_points,
    elementary_in_words,
    kinds_by_attribute,
    ordered_rows,
    placed,
    plant,
    some_of,
)
from index.segment import collect_hits, hits_by_event
from index.vocabulary import Vocabulary

LIST_ROWS_MAX = 64
"""A set of more rows is a vector, of 512 bytes: up to here lists are no slower (measured)."""


class VectorTrees(DomainSegment[VectorColumns]):
    """The trees of one segment; subclasses say how they cut a domain."""

    columns_type = VectorColumns

    @classmethod
    @abstractmethod
    def cut(cls, runs: Runs) -> tuple[Split, int]:
        """The keys and leaves of each domain, and from how many intervals on a leaf is cut into
        elementary intervals.
        """

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Order the rows, cut the domains of each block, and list who is found in each piece."""
        order, rank, asks, intervals = ordered_rows(compiled, rows, attribute_count, shares)
        asks = placed(asks, order)
        trees = plant(asks, intervals, attribute_count, BLOCK_ROWS)
        runs = _running_counts(trees)
        split, interval_min = cls.cut(runs)
        leaf_start, first, last = cut_leaves(runs, split, interval_min)
        searches = Searches(split.root, split.key, split.child, leaf_start, first, last)
        tree_of = np.repeat(np.arange(trees.key.size), np.diff(trees.start))
        by_high = np.lexsort((trees.high, tree_of))
        sets = fill_sets(
            Placed(trees.start, trees.place, trees.low, trees.high, by_high),
            leaf_start[split.leaf].astype(np.int64),
            (first, last),
            LIST_ROWS_MAX,
        )
        named = _named(asks, rank, trees.key, rows.size)
        return cls(VectorColumns(trees.points, searches, sets, named, rows[order].astype(np.int32)))

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Let one block after the other meet all events."""
        columns = self._columns
        asked = asked_of(batch, columns.named.rank, columns.named.kinds)
        memory = new_vector_memory(asked, attribute_count)
        event_count = batch.entry_start.size - 1
        block_count = -(-columns.row.size // BLOCK_ROWS)
        hits = collect_hits(
            lambda room, turn: join_blocks(columns, compiled, batch, memory, room, turn),
            block_count * event_count,
            BLOCK_ROWS,
        )
        self._count(memory.counts)
        return hits_by_event(hits, event_count)

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row left when all attributes are joined."""
        searches, sets = self._columns.searches, self._columns.sets
        wide = searches.first < searches.last
        return {
            "block_count": -(-self._columns.row.size // BLOCK_ROWS),
            "tree_count": searches.root.size,
            "key_count": searches.key.size,
            "cluster_count": int(np.count_nonzero(wide)),
            "elementary_interval_count": int(np.count_nonzero(~wide)),
            "vector_count": int(np.count_nonzero(sets.size < 0)),
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Every row is found by each attribute that it names, and trees lead to all pieces."""
        points, searches, sets, named, row = self._columns
        assert np.array_equal(np.sort(row), rows), "other rows than it was built for"
        assert named.names[0] == 0 and named.names[-1] == named.name.size
        check_points(points)
        leaves = searches.leaf_start
        assert leaves[0] == 0 and leaves[-1] == searches.first.size == sets.size.size
        for start, stop in pairwise(leaves.tolist()):
            alike = np.array_equal(searches.first[start:stop], searches.last[start:stop])
            assert stop - start < 2 or alike, "a leaf has more than its cluster"
        reached = np.sort(np.concatenate((searches.root, searches.child)))
        wanted = np.arange(-leaves.size + 1, searches.key.size)
        assert np.array_equal(reached, wanted), "a node or a leaf is not reached, or twice"
        for tree, size in enumerate(np.diff(points.start).tolist()):
            pieces = self._pieces(tree)
            bounds = np.append(searches.first[pieces], 2 * size + 1)
            assert np.all(searches.last[pieces] >= bounds[:-1]), "a piece ends before it begins"
            assert np.all(searches.last[pieces] < bounds[1:]), "pieces overlap"
        assert named.pivot[0] == 0 and named.pivot[-1] == row.size
        for place in range(row.size):
            names = named.name[named.names[place] : named.names[place + 1]]
            assert names.size and np.all(np.diff(names) > 0), "a row names an attribute twice"
            pivot = np.searchsorted(named.pivot, place, "right") - 1
            assert pivot == named.rank[names].min(), "a row is not under its rarest attribute"
        self._check_mentions()

    def _check_mentions(self) -> None:
        """A mention has the rows that name its attribute, and its trees find no others."""
        named = self._columns.named
        place_of = np.repeat(np.arange(self._columns.row.size), np.diff(named.names))
        mentions = 0
        for at, mention in enumerate(named.mention.tolist()):
            block, rank = divmod(at, named.kinds.size)
            attribute = int(np.flatnonzero(named.rank == rank)[0])
            places = place_of[named.name == attribute] - block * BLOCK_ROWS
            places = places[(places >= 0) & (places < BLOCK_ROWS)]
            assert (mention >= 0) == (places.size > 0), "a mention of no row, or none of some"
            if mention >= 0:
                assert mention == mentions, "mentions are not in the order of blocks and ranks"
                mentions += 1
                words = named.vector[mention * BLOCK_WORDS : (mention + 1) * BLOCK_WORDS]
                assert np.array_equal(_bits(words), places), "a mention has other rows"
                found = [self._set(piece) for piece in self._pieces_of_mention(mention)]
                assert all(one.size for one in found), "a piece of no row"
                assert np.isin(np.concatenate([*found, places[:0]]), places).all(), (
                    "a tree has a row that does not name its attribute"
                )
        assert mentions * BLOCK_WORDS == named.vector.size, "a mention of nobody"

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The pieces of each attribute's domain that find the row, those side by side together."""
        columns = self._columns
        named = columns.named
        place = int(np.flatnonzero(columns.row == row)[0])
        words = []
        for attribute in named.name[named.names[place] : named.names[place + 1]].tolist():
            number = place // BLOCK_ROWS * named.kinds.size + named.rank[attribute]
            mention = int(named.mention[number])
            path = ".".join(vocabulary.path(attribute))
            for kind in range(DOMAIN_KINDS):
                tree = int(named.tree[mention * DOMAIN_KINDS + kind])
                for low, high, count in self._runs(tree, place % BLOCK_ROWS) if tree >= 0 else []:
                    run = elementary_in_words(columns.points, vocabulary, tree, kind, (low, high))
                    words.append(f"{count} of {path} {run}")
        return "found in pieces, " + some_of(words)

    def _runs(self, tree: int, local: int) -> list[tuple[int, int, int]]:
        """(first, last, number of pieces) of the runs of pieces that find a place of a block."""
        searches = self._columns.searches
        runs: list[tuple[int, int, int]] = []
        for piece in self._pieces(tree):
            if local in self._set(piece):
                first, last = int(searches.first[piece]), int(searches.last[piece])
                if runs and runs[-1][1] + 1 == first:
                    runs[-1] = runs[-1][0], last, runs[-1][2] + 1
                else:
                    runs.append((first, last, 1))
        return runs

    def _pieces_of_mention(self, mention: int) -> list[int]:
        trees = self._columns.named.tree[mention * DOMAIN_KINDS : (mention + 1) * DOMAIN_KINDS]
        return [piece for tree in trees.tolist() if tree >= 0 for piece in self._pieces(tree)]

    def _pieces(self, tree: int) -> list[int]:
        """The pieces of a tree, from left to right."""
        searches = self._columns.searches
        pieces: list[int] = []
        todo = [int(searches.root[tree])]
        while todo:
            node = todo.pop()
            if node >= 0:
                todo += searches.child[2 * node : 2 * node + 2][::-1].tolist()
            else:
                pieces += range(searches.leaf_start[~node], searches.leaf_start[~node + 1])
        return pieces

    def _set(self, piece: int) -> NDArray[np.int64]:
        """The places in their block of a piece's rows."""
        sets = self._columns.sets
        size, at = int(sets.size[piece]), int(sets.at[piece])
        if size < 0:
            return _bits(sets.vector[at : at + BLOCK_WORDS])
        return sets.member[at : at + size].astype(np.int64)


def _running_counts(trees: DomainTrees) -> Runs:
    """How many intervals have begun and ended at each elementary interval of each tree."""
    sizes = 2 * np.diff(trees.points.start.astype(np.int64)) + 1
    base = np.concatenate(([0], np.cumsum(sizes)))
    first = np.repeat(base[:-1], np.diff(trees.start))
    begun, ended = (
        np.concatenate(([0], np.cumsum(np.bincount(first + end, minlength=int(base[-1])))))
        for end in (trees.low, trees.high)
    )
    return Runs(trees.points.start, base, begun, ended)


def _named(asks: Asks, rank: NDArray[np.int64], key: NDArray[np.int64], row_count: int) -> Named:
    """Who names what; `key` are the keys of all trees."""
    attribute_count = rank.size
    ranks = rank[asks.attribute]
    number = asks.place // BLOCK_ROWS * attribute_count + ranks
    numbers, mention = np.unique(number, return_inverse=True)
    mention_of = np.full(-(-row_count // BLOCK_ROWS) * attribute_count, -1, np.int32)
    mention_of[numbers] = np.arange(numbers.size)
    vector = np.zeros(numbers.size * BLOCK_WORDS, np.uint64)
    within = asks.place % BLOCK_ROWS
    bits = np.left_shift(np.uint64(1), (within % 64).astype(np.uint64))
    np.bitwise_or.at(vector, mention * BLOCK_WORDS + within // 64, bits)
    tree = np.full(numbers.size * DOMAIN_KINDS, -1, np.int32)
    asked, kind = np.divmod(key, DOMAIN_KINDS)
    block, attribute = np.divmod(asked, max(attribute_count, 1))
    at = mention_of[block * attribute_count + rank[attribute]]
    tree[at * DOMAIN_KINDS + kind] = np.arange(key.size)
    names = np.searchsorted(asks.place, np.arange(row_count + 1))
    pivot = np.minimum.reduceat(ranks, names[:-1]) if row_count else np.zeros(0, np.int64)
    return Named(
        rank.astype(np.int32),
        kinds_by_attribute(key, attribute_count),
        np.searchsorted(pivot, np.arange(attribute_count + 1)).astype(np.int32),
        mention_of,
        tree,
        vector,
        names.astype(np.int64),
        asks.attribute,
    )


def _bits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The places of the bits that are set."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.int64)
