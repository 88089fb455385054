"""PS-Tree: file each subscription under the spaces of one predicate, in a tree that changes.

Paper    Ji and Jacobsen, PVLDB 12(3), 2018, section 4: 4.1 structure, 4.2 algorithms 1 and 2, 4.3
         algorithm 3, 4.4 deletion, 4.6 costs; 3.3 selectivity; 7.5 stabbing queries.
Idea     the predicates of an attribute cut its values into disjoint spaces. A value lies in one of
         them, which a tree of digits finds in as many steps as a value has digits, and the rows of
         that space are all whose predicate it satisfies. A predicate's ends divide spaces when it
         comes; when no other predicate has these ends, the spaces merge again as it goes.
Layout   root   int32[a * KINDS]      attribute and type -> tree; node, fan, pool hold all of them
         node   int32[nodes, 8]       lists l, e, g of the paper's inner node, what is below, ends
         skip   uint64[nodes]         digits that all nodes below have in common
         fan    int32[fans, 48]       16 links, and lists of rows for runs of links
         pool   int32[words]          lists: row << 1 | 1 if the row has to be tested
         row, leaf  int32[n]          rows, ascending, and the predicate each is filed under, -1
                                      of a row that was deleted
Worked   section 4.4: s1 age in [20, 60], s2 age in [30, 80] cut age into five spaces

             below 20    20 up to 30    30 .. 60    above 60 up to 80    above 80
                         s1             s1 s2       s2

         An event of age 50 finds s1 and s2; neither has another predicate, so both match untested.
         Without s2 three spaces are left, as no predicate ends at 30 and 80 any more.
Cost     D digits of a key, c rows of a value's space, e lists a row stands in, e < 10 D: match
         O(D + c), insert and delete O(D + e) and what moves in these lists; 4 to 8 bytes an entry,
         40 a node, 192 a fan. Of 100,000 random ranges each stands in some 20 lists. Best for one
         attribute, or where one predicate is rare; poor where the rarest predicate of a row is
         common, for no other is looked up.
Differs  A row stands in a list once for each wholly covered run of links, not once in each space:
         wide ranges cover a third of all spaces, and the paper's lists of 100,000 random ranges
         would have 6.7e9 entries (it does not say how wide those of its table 3 are). So spaces
         are found as gaps between nodes instead of being leaf nodes; dividing one copies no list
         but those of skipped digits. Skipped digits are not in the paper: its numbers have 9
         levels, ours 20 digits. Strings that `=` compares are a type of their own, by their number
         in the vocabulary. Access predicate, candidates and verification are as in PSTBloom
         (section 5), without its signatures. `!=` and NOT IN divide nothing; they are verified.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from index.access import Shares, leaf_shares, words_of_leaf
from index.algorithms.psthash import PSTHash
from index.columns import PRESENT, EventBatch, ValueType
from index.companion import accompanied
from index.conjunctions import ConjunctionSegment
from index.frozen import writable
from index.growing_segment import GrowingSegment
from index.in_place import InPlace
from index.kernels import inlined, leaf
from index.kernels.prefetch import prefetch
from index.kernels.probe import VERDICT_BITS, Compiled, Hits, prefetch_ahead
from index.kernels.row_lists import list_size
from index.kernels.space_tree import (
    CUTS,
    DIGITS_MAX,
    LISTS_PER_DIGIT,
    ROWS,
    SpaceTrees,
    stab,
)
from index.kernels.space_tree_changes import insert_pieces, remove_pieces
from index.kernels.tree_keys import (
    CODE,
    FALSE_DIGIT,
    FOLDED_CODE,
    FOLDED_TEXT,
    KINDS,
    NULL_DIGIT,
    NUMBER,
    TEXT,
    set_code,
    set_constant,
    set_number,
    set_text,
)
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.model import Operator
from index.ordered_domains import INTERVAL_OPERATORS
from index.predicate_phase import leaves_of_rows
from index.program import Programs
from index.segment import collect_hits
from index.space_trees import (
    check_spaces,
    compacted,
    file_rows,
    filed_rows,
    forget_rows,
    new_trees,
    spaces_covered,
    trimmed,
    with_room,
    with_roots,
)
from index.tree_pieces import TEXT_DIGITS_MAX, held_by_trees, pieces_of
from index.vocabulary import Vocabulary

COUNTS = 4
TICK, CANDIDATES, VERIFIED, HITS = range(COUNTS)
"""Places in `Working.counts`."""
HITS_PER_EVENT = 8
"""Room for hits at first."""

_NULL, _BOOLEAN = int(ValueType.NULL), int(ValueType.BOOLEAN)
_NUMBER, _STRING = int(ValueType.NUMBER), int(ValueType.STRING)

TREE_OPERATORS = INTERVAL_OPERATORS | {Operator.PREFIX, Operator.LIKE, Operator.IS_NULL}
"""Of predicates that cover spaces, one of which a row must have."""


class Working(NamedTuple):
    """Working memory of one call."""

    scratch: Scratch
    key: NDArray[np.uint64]  # of the value at hand
    heads: NDArray[np.int32]  # lists of its space
    candidate: NDArray[np.int32]  # rows to be tested
    stamp: NDArray[np.int32]  # by row: the last attempt at an event that found it
    counts: NDArray[np.int64]  # attempts, candidates, verified, hits


class PSTreeSegment(ConjunctionSegment[SpaceTrees], GrowingSegment):
    """The trees of one segment."""

    columns_type = SpaceTrees

    def __init__(self, columns: SpaceTrees) -> None:
        super().__init__(columns)
        self._verified_count = 0

    @staticmethod
    def _kept(columns: SpaceTrees) -> SpaceTrees:
        """Trees grow, also those of a mapped snapshot."""
        return writable(columns)

    @classmethod
    def takes(cls, compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Plain conjunctions with a predicate that is a set of values."""
        taken = super().takes(compiled, rows)
        place, code = leaves_of_rows(compiled.programs, rows[taken])
        held = held_by_trees(compiled.predicates, code)
        taken[taken] = np.bincount(place[held], minlength=int(taken.sum())) > 0
        return taken

    @classmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """Insert all rows into no trees."""
        segment = cls(new_trees(attribute_count))
        segment.insert(compiled, rows, attribute_count, shares)
        return segment

    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        """Choose access predicates, and let their ends divide spaces."""
        place, code = leaves_of_rows(compiled.programs, rows)
        leaves, number = np.unique(code, return_inverse=True)
        cost = leaf_shares(compiled.predicates, leaves, attribute_count, shares)
        cost[~held_by_trees(compiled.predicates, leaves)] = np.inf
        order = np.lexsort((cost[number], place))
        access = code[order[np.searchsorted(place[order], np.arange(rows.size))]]
        pieces = pieces_of(compiled.predicates, access, _entries(compiled.programs, rows))
        trees = with_roots(self._columns, attribute_count)
        refs = np.empty(2 * LISTS_PER_DIGIT * (TEXT_DIGITS_MAX + 1), np.int32)
        done = insert_pieces(trees, pieces, 0, refs)
        while done < pieces.entry.size:
            trees = with_room(trees)
            done = insert_pieces(trees, pieces, done, refs)
        self._columns = file_rows(trees, rows, access)

    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        """Take rows out, and let spaces merge that no end divides any more."""
        trees = self._columns
        access = forget_rows(trees, rows)
        pieces = pieces_of(compiled.predicates, access, _entries(compiled.programs, rows))
        refs = np.empty(2 * LISTS_PER_DIGIT * (TEXT_DIGITS_MAX + 1), np.int32)
        remove_pieces(trees, pieces, refs)
        self._columns = compacted(trees)

    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Find the spaces of values event after event."""
        trees = self._columns
        row_count, event_count = int(trees.state[ROWS]), batch.entry_start.size - 1
        working = Working(
            new_scratch(attribute_count),
            np.zeros(TEXT_DIGITS_MAX // 16 + 4, np.uint64),
            np.empty(LISTS_PER_DIGIT * (TEXT_DIGITS_MAX + 1), np.int32),
            np.empty(row_count, np.int32),
            np.zeros(int(trees.row[row_count - 1]) + 1 if row_count else 0, np.int32),
            np.zeros(COUNTS, np.int64),
        )
        hits = collect_hits(
            lambda room, event: stab_events(trees, compiled, batch, working, room, event),
            event_count,
            HITS_PER_EVENT * event_count,
        )
        _, candidates, verified, hit_count = working.counts.tolist()
        self._verified_count += verified
        self._found(candidates, hit_count)
        return hits

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names, without room to grow."""
        return trimmed(self._columns)._asdict()

    def stats(self) -> dict[str, int]:
        """Sizes, and what was counted: a candidate is a row of a space that a value lies in."""
        trees = self._columns
        tree_count = int(np.count_nonzero(trees.root))
        return {
            "tree_count": tree_count,
            "space_count": tree_count + int(trees.state[CUTS]),
            "tree_bytes": sum(part.nbytes for part in trees),
            "verified_count": self._verified_count,
            **super().stats(),
        }

    def check(self, rows: NDArray[np.int32]) -> None:
        """Rows change from one space to the next only where as many predicates end as is told."""
        trees = self._columns
        assert np.array_equal(filed_rows(trees), rows), "other rows than were inserted"
        check_spaces(trees)

    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """The access predicate, and how many spaces it covers: all of its trees are counted."""
        trees = self._columns
        at = int(np.searchsorted(trees.row[: int(trees.state[ROWS])], row))
        leaf_of_row = trees.leaf[at : at + 1]
        pieces = pieces_of(compiled.predicates, leaf_of_row, np.zeros(1, np.int64))
        covered, count = spaces_covered(trees, pieces)
        words = words_of_leaf(compiled.predicates, vocabulary, int(leaf_of_row[0]), False)
        return f"under {words}, {covered} of {count} spaces"


class PSTree(InPlace):
    """One predicate a subscription; conjunctions of any predicates, one of them a set of values."""

    name = "pstree"
    paper = "Ji, Jacobsen: PS-Tree-based Efficient Boolean Expression Matching. PVLDB 12(3), 2018"
    summary = "files each subscription under the value spaces of one predicate, in a changing tree"
    operators = TREE_OPERATORS
    companion = PSTHash.name
    segment_type = accompanied(PSTreeSegment, PSTHash.segment_type)


@njit(cache=True, nogil=True)
def _entries(programs: Programs, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """What lists hold of rows: one with a single predicate needs no test in exact spaces."""
    entries = np.empty(rows.size, np.int64)
    for at in range(rows.size):
        row = rows[at]
        alone = programs.start[row + 1] - programs.start[row] == 1
        entries[at] = np.int64(row) << 1 | (0 if alone else 1)
    return entries


@leaf
def stab_events(
    trees: SpaceTrees,
    compiled: Compiled,
    batch: EventBatch,
    working: Working,
    hits: Hits,
    first_event: int,
) -> tuple[int, int]:
    """Match from `first_event` on. Returns (event count, 0), or the event whose hits do not fit
    any more, and how many must.
    """
    counts = working.counts
    attribute_count = trees.root.size // KINDS
    for event in range(first_event, batch.entry_start.size - 1):
        counts[TICK] += 1
        hit_count, tested_count = int(hits.start[event]), 0
        for entry in range(batch.entry_start[event], batch.entry_start[event + 1]):
            attribute = int(batch.entry_attribute[entry])
            if attribute >= attribute_count or batch.entry_flags[entry] & PRESENT == 0:
                continue
            start, stop = batch.value_start[entry], batch.value_start[entry + 1]
            for place in range(start * KINDS, stop * KINDS):
                value, kind = place // KINDS, place % KINDS
                root = int(trees.root[attribute * KINDS + kind])
                if root == 0 or not _set_key(batch, value, kind, trees, working.key):
                    continue
                for at in range(stab(trees, root, working.key, working.heads)):
                    head = int(working.heads[at])
                    if hits.hit.size - hit_count < list_size(trees.pool, head):
                        return event, int(trees.state[ROWS])
                    filled = hit_count, tested_count
                    hit_count, tested_count = _take(
                        trees, compiled, working, hits, (head, stop - start > 1), filled
                    )
        if hits.hit.size - hit_count < tested_count:
            return event, int(trees.state[ROWS])
        counts[CANDIDATES] += hit_count - hits.start[event] + tested_count
        counts[VERIFIED] += tested_count
        if tested_count:
            enter_event(batch, event, working.scratch.entry_of)
            hit_count = _verify(compiled, batch, working, hits, (hit_count, tested_count))
            leave_event(batch, event, working.scratch.entry_of)
        counts[HITS] += hit_count - hits.start[event]
        hits.start[event + 1] = hit_count
    return batch.entry_start.size - 1, 0


@inlined
def _set_key(
    batch: EventBatch, value: int, kind: int, trees: SpaceTrees, key: NDArray[np.uint64]
) -> bool:
    """Write the key of a value in a tree of some kind; False if it can have none there."""
    value_type = batch.value_type[value]
    if value_type == _NUMBER:
        set_number(key, 0, batch.value_number[value], int(batch.value_residual[value]))
        return kind == NUMBER
    if value_type == _STRING:
        string = batch.value_string[value]
        digits = int(trees.state[DIGITS_MAX])
        if kind == CODE or kind == FOLDED_CODE:
            code = batch.string_code[string] if kind == CODE else batch.folded_code[string]
            set_code(key, 0, int(code))
            return bool(code >= 0)
        if kind == TEXT:
            start, stop = batch.string_start[string], batch.string_start[string + 1]
            set_text(key, batch.text, start, stop, digits)
        elif kind == FOLDED_TEXT:
            start, stop = batch.folded_start[string], batch.folded_start[string + 1]
            set_text(key, batch.folded_text, start, stop, digits)
        return kind != NUMBER
    if value_type == _NULL:
        set_constant(key, 0, NULL_DIGIT)
        return kind == CODE
    if value_type == _BOOLEAN:
        set_constant(key, 0, FALSE_DIGIT + int(batch.value_number[value]))
        return kind == CODE
    return False


@leaf
def _take(
    trees: SpaceTrees,
    compiled: Compiled,
    working: Working,
    hits: Hits,
    found: tuple[int, bool],
    filled: tuple[int, int],
) -> tuple[int, int]:
    """Append a list's rows to the hits or to those to be tested; returns how many there are now.

    Only of several values can two lie in spaces of the same row, and so only then it is stamped.
    """
    head, several = found
    hit_count, tested_count = filled
    size = list_size(trees.pool, head)
    for place in range(head + 1, head + 1 + size):
        entry = np.int64(trees.pool[place]) if head > 0 else np.int64(~head)
        row = int(entry >> 1)
        if several:
            if working.stamp[row] == working.counts[TICK]:
                continue
            working.stamp[row] = working.counts[TICK]
        if entry & 1:
            prefetch(compiled.programs.start, row)
            working.candidate[tested_count] = row
            tested_count += 1
        else:
            hits.hit[hit_count] = row << VERDICT_BITS | YES
            hit_count += 1
    return hit_count, tested_count


@leaf
def _verify(
    compiled: Compiled, batch: EventBatch, working: Working, hits: Hits, filled: tuple[int, int]
) -> int:
    """Append the candidates all of whose predicates hold; returns the hits so far."""
    hit_count, tested_count = filled
    programs, predicates = compiled.programs, compiled.predicates
    for place in range(tested_count):
        prefetch_ahead(compiled, working.candidate, place, tested_count)
        row = working.candidate[place]
        at, stop = programs.start[row], programs.start[row + 1]
        while at < stop:
            if leaf_holds(predicates, programs.code[at], batch, working.scratch) != YES:
                break
            at += 1
        if at == stop:
            hits.hit[hit_count] = np.int64(row) << VERDICT_BITS | YES
            hit_count += 1
    return hit_count
