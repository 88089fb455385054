"""Access covers of rows: what each predicate costs as an access predicate, and what is chosen.

A row is filed under its access predicates, and becomes a candidate when an event meets them. So
the best are those that few events satisfy (PS-Tree paper, section 3.3). With statistics of past
events that share is known; without, it is guessed from the operator, as the paper ranks them, and
from the other subscriptions: an attribute that `=` compares with many values has many values.

    kind                              share of events, guessed
    =, IN of k values                 k / (values of the attribute named anywhere + 8)
    range with both ends, prefix      0.10 + 0.40 * the part of the attribute's cells it covers
    range with one end                0.25 + 0.45 * that part
    anything else                     1

`index.kernels.cover` makes the choice, for any tree of AND, OR and ATLEAST.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.kernels.cover import (
    BY_CELLS,
    BY_EXISTENCE,
    BY_PRESENCE,
    SINGLE_KEYS_MAX,
    Elements,
    LeafCosts,
    count_leaves,
    cover_rows,
    filing_of_leaf,
    new_tree,
)
from index.model import Operator, Predicate
from index.predicates import (
    BOOLEAN_MARK,
    STRING_MARK,
    TEXT_END,
    PredicateColumns,
    PredicateKind,
)
from index.program import POLARITY_BITS, Programs
from index.raising import raised
from index.runs import begins_run, places_of_runs
from index.spaces import Covers, SpaceColumns, divide, text_bounds
from index.texts import words_of_text
from index.threshold import Polarity
from index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from index.row_store import CachedPredicates
    from index.statistics import EventStatistics

VALUES_IN_WORDS = 8
"""More values of a list are counted instead of named."""
VALUES_UNSEEN = 8
"""Values every attribute is taken to have beyond those that subscriptions name."""
CLOSED_RANGE = 0.10, 0.40
OPEN_RANGE = 0.25, 0.45


@dataclass(frozen=True, slots=True)
class Shares:
    """What statistics know: the share of events, NaN or missing at the end where they do not."""

    of_predicate: NDArray[np.float64]
    of_attribute: NDArray[np.float64]

    @classmethod
    def unknown(cls) -> Shares:
        """No statistics."""
        return cls(np.zeros(0), np.zeros(0))


class KnownShares:
    """Shares by number, from statistics that know predicates by what they say."""

    def __init__(self, statistics: EventStatistics | None) -> None:
        self._statistics = statistics
        self._known: dict[Predicate, float] = {}

    def of(self, predicates: CachedPredicates, vocabulary: Vocabulary) -> Shares:
        """The shares of a table's predicates, and of all attributes of the vocabulary.

        Predicates of rows that were joined, or mapped from a file, are known by their records only.
        """
        if self._statistics is None:
            return Shares.unknown()
        columns = predicates.columns()
        of_predicate = np.full(len(predicates), np.nan)
        is_written = np.zeros(len(predicates), np.bool_)
        for (predicate, _), number in predicates.number_of.items():
            is_written[number] = True
            if isinstance(predicate, Predicate):
                of_predicate[number] = self._share(self._statistics, predicate)
        for number in np.flatnonzero(~is_written).tolist():
            asked = raised(columns, vocabulary, number)
            if asked is not None:
                of_predicate[number] = self._share(self._statistics, asked)
        of_attribute = np.zeros(vocabulary.attribute_count)
        for attribute in range(vocabulary.attribute_count):
            exists = Predicate(vocabulary.path(attribute), Operator.EXISTS)
            of_attribute[attribute] = self._share(self._statistics, exists)
        return Shares(of_predicate, of_attribute)

    def _share(self, statistics: EventStatistics, predicate: Predicate) -> float:
        share = self._known.get(predicate)
        if share is None:
            fraction = statistics.fraction(predicate)
            share = self._known[predicate] = math.nan if fraction is None else fraction
        return share


@dataclass(frozen=True, slots=True)
class Access:
    """The access covers of rows, and all that is needed to turn them into keys."""

    spaces: SpaceColumns
    covers: Covers
    costs: LeafCosts
    elements: Elements
    residue: NDArray[np.int32]  # rows without cover: every event must be tried


def choose_access(
    programs: Programs,
    predicates: PredicateColumns,
    rows: NDArray[np.int32],
    attribute_count: int,
    shares: Shares,
    *,
    access_predicates: int = 2,
) -> Access:
    """Choose where to file each of `rows`; O(code) and a sort of the ends of ranges.

    access_predicates   N, up to so many leaves of a conjunction are filed under together
    """
    leaf_counts, _ = count_leaves(programs, rows)
    used = np.flatnonzero(leaf_counts)
    spaces, covers = divide(predicates, used, attribute_count)
    costs = leaf_costs(predicates, used, spaces, covers, attribute_count, shares)
    chosen = cover_elements(programs, predicates, costs, rows, access_predicates)
    return Access(spaces, covers, costs, *chosen)


def cover_elements(
    programs: Programs,
    predicates: PredicateColumns,
    costs: LeafCosts,
    rows: NDArray[np.int32],
    access_predicates: int,
) -> tuple[Elements, NDArray[np.int32]]:
    """The elements of the access covers of `rows`, and the rows without cover."""
    lengths = programs.start[rows + 1] - programs.start[rows]
    word_count = int(lengths.sum())
    elements = Elements(
        np.empty(word_count, np.int32),
        np.empty((word_count, access_predicates), np.int32),
        np.empty(word_count, np.bool_),
    )
    tree = new_tree(int(lengths.max(initial=0)), access_predicates)
    count, residue = cover_rows(programs, predicates, costs, rows, elements, tree)
    return some_elements(elements, slice(count)), residue


def some_elements(elements: Elements, chosen: slice | NDArray[np.bool_]) -> Elements:
    """Some of the elements, in the same order."""
    return Elements(elements.row[chosen], elements.leaf[chosen], elements.coarse[chosen])


def leaf_costs(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    spaces: SpaceColumns,
    covers: Covers,
    attribute_count: int,
    shares: Shares,
) -> LeafCosts:
    """Cost and number of spaces of the predicates numbered `used`."""
    position = np.empty(int(used[-1]) + 1 if used.size else 0, np.int32)
    position[used] = np.arange(used.size)
    cost, key_count = _point_guesses(predicates, used, attribute_count)
    run_count = np.diff(covers.run_start)
    owner = np.repeat(np.arange(used.size), run_count)
    cell_count = np.bincount(owner, covers.last - covers.first + 1, used.size).astype(np.int64)
    is_range = run_count > 0
    key_count[is_range] = cell_count[is_range]
    cost[is_range] = range_guesses(predicates, used, spaces, cell_count)[is_range]
    presence = np.ones(attribute_count)
    presence[: shares.of_attribute.size] = np.nan_to_num(shares.of_attribute, nan=1.0)
    is_text = np.zeros(used.size, np.bool_)
    return LeafCosts(position, known_or(cost, used, shares), key_count, presence, is_text)


def leaf_shares(
    predicates: PredicateColumns,
    leaves: NDArray[np.int32],
    attribute_count: int,
    shares: Shares,
) -> NDArray[np.float64]:
    """The share of events in which each leaf is expected to hold.

    Without statistics, points are guessed as for access covers, and ranges by their ends alone:
    their cells would need a division of all attributes.
    """
    used, place = np.unique(leaves >> POLARITY_BITS, return_inverse=True)
    used = used.astype(np.int64)
    share, _ = _point_guesses(predicates, used, attribute_count)
    record = predicates.record[used]
    kind = record["kind"]
    is_open = np.isinf(record["low"]) | np.isinf(record["high"])
    share[kind == PredicateKind.RANGE] = CLOSED_RANGE[0]
    share[(kind == PredicateKind.RANGE) & is_open] = OPEN_RANGE[0]
    share[(kind > PredicateKind.RANGE) & (kind <= PredicateKind.LIKE)] = CLOSED_RANGE[0]
    share = known_or(share, used, shares)[place]
    is_false = leaves & ((1 << POLARITY_BITS) - 1) == Polarity.IS_FALSE
    return np.where(is_false, 1 - share, share)


def _point_guesses(
    predicates: PredicateColumns, used: NDArray[np.int64], attribute_count: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Guessed shares of =, IN and IS NULL, and their points; 1 and 1 for other predicates."""
    record = predicates.record[used]
    kind, attribute = record["kind"], record["attribute"]
    key_count = np.ones(used.size, np.int64)
    is_set = kind == PredicateKind.IN
    key_count[is_set] = record["size"][is_set]
    is_point = is_set | (kind == PredicateKind.EQUAL) | (kind == PredicateKind.IS_NULL)
    value_counts = _value_counts(predicates, used, attribute_count)
    guesses = key_count / (value_counts[attribute] + VALUES_UNSEEN)
    return np.where(is_point, np.minimum(guesses, 1.0), 1.0), key_count


def known_shares(leaves: NDArray[np.int32], shares: Shares) -> NDArray[np.float64]:
    """What statistics know of the predicates of leaves, NaN where that is nothing."""
    return _known(leaves.astype(np.int64) >> POLARITY_BITS, shares)


def _known(used: NDArray[np.int64], shares: Shares) -> NDArray[np.float64]:
    known = np.full(used.size, np.nan)
    within = used < shares.of_predicate.size
    known[within] = shares.of_predicate[used[within]]
    return known


def known_or(
    guesses: NDArray[np.float64], used: NDArray[np.int64], shares: Shares
) -> NDArray[np.float64]:
    """The shares that statistics know, and guesses for the others of the predicates `used`."""
    known = _known(used, shares)
    return np.where(np.isnan(known), guesses, known)


def _value_counts(
    predicates: PredicateColumns, used: NDArray[np.int64], attribute_count: int
) -> NDArray[np.int64]:
    """Distinct values that `=` and IN name, per attribute."""
    record = predicates.record[used]
    equal = record[record["kind"] == PredicateKind.EQUAL]
    sets = record[record["kind"] == PredicateKind.IN]
    size = sets["size"].astype(np.int64)
    member = places_of_runs(sets["start"], size)
    attribute = np.concatenate((equal["attribute"], np.repeat(sets["attribute"], size)))
    number = np.concatenate((equal["low"], predicates.member_number[member]))
    mark = np.concatenate((equal["low_residual"], predicates.member_mark[member]))
    order = np.lexsort((mark, number, attribute))
    is_new = begins_run(attribute[order], number[order], mark[order])
    return np.bincount(attribute[order[is_new]], minlength=attribute_count)


def range_guesses(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    spaces: SpaceColumns,
    cell_count: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Guessed shares of ranges that cover so many cells; any number for other predicates."""
    record = predicates.record[used]
    attribute = record["attribute"]
    is_number = record["kind"] == PredicateKind.RANGE
    cuts = np.where(
        is_number,
        np.diff(spaces.number_cut_start)[attribute],
        np.diff(spaces.string_cut_start)[attribute],
    )
    is_open = is_number & (np.isinf(record["low"]) | np.isinf(record["high"]))
    textual = np.flatnonzero(record["kind"] == PredicateKind.TEXT_RANGE)
    is_open[textual] = _open_text_ranges(predicates, record["start"][textual].astype(np.int64))
    base = np.where(is_open, OPEN_RANGE[0], CLOSED_RANGE[0])
    slope = np.where(is_open, OPEN_RANGE[1], CLOSED_RANGE[1])
    guesses: NDArray[np.float64] = np.minimum(base + slope * cell_count / (cuts + 1), 1.0)
    return guesses


def _open_text_ranges(
    predicates: PredicateColumns, first_needle: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which ranges of strings begin at the empty string or end after all strings."""
    start, middle, stop = (predicates.needle_start[first_needle + at] for at in range(3))
    is_open: NDArray[np.bool_] = start == middle
    short = np.flatnonzero(stop - middle == len(TEXT_END))
    is_open[short] |= predicates.needle[middle[short]] == TEXT_END[0]
    return is_open


def words_of_filing(
    predicates: PredicateColumns,
    vocabulary: Vocabulary,
    elements: Elements,
    row: int,
    by_texts: bool = False,
) -> str:
    """What a row is filed under, in words; `by_texts` where text predicates are parts of keys."""
    start, stop = np.searchsorted(elements.row, [row, row + 1]).tolist()
    if start == stop:
        return "under no key: it is tried on every event"
    words = []
    for at in range(start, stop):
        texts = [
            words_of_leaf(predicates, vocabulary, leaf, bool(elements.coarse[at]), by_texts)
            for leaf in elements.leaf[at].tolist()
            if leaf >= 0
        ]
        words.append(" with ".join(sorted(texts)))
    return "under " + ", or ".join(words)


def words_of_leaf(
    predicates: PredicateColumns,
    vocabulary: Vocabulary,
    leaf: int,
    coarse: bool,
    by_texts: bool = False,
) -> str:
    """The spaces that a leaf is filed under, in words."""
    number = leaf >> POLARITY_BITS
    record = predicates.record[number]
    path = ".".join(vocabulary.path(int(record["attribute"])))
    filing = filing_of_leaf(predicates, leaf)
    if filing == BY_EXISTENCE:
        return f"{path} exists"
    is_set = record["kind"] == PredicateKind.IN
    if by_texts and not coarse and filing > BY_EXISTENCE:
        text = words_of_text(predicates, path, number)
        if text is not None and leaf & ((1 << POLARITY_BITS) - 1) == Polarity.IS_TRUE:
            return text
    if filing == BY_PRESENCE or coarse or (is_set and record["size"] > SINGLE_KEYS_MAX):
        return f"{path} present"
    if filing == BY_CELLS:
        ranges = [f"from {low} up to {high}" for low, high in _bounds_in_words(predicates, number)]
        return f"{path} " + " or ".join(ranges)
    if record["kind"] == PredicateKind.IS_NULL:
        return f"{path} = null"
    if is_set:
        start, stop = int(record["start"]), int(record["start"]) + int(record["size"])
        numbers = predicates.member_number[start:stop].tolist()
        marks = predicates.member_mark[start:stop].tolist()
    else:
        numbers, marks = [float(record["low"])], [int(record["low_residual"])]
    words = [key_in_words(vocabulary, *key) for key in zip(numbers, marks, strict=True)]
    if len(words) > VALUES_IN_WORDS:
        words[VALUES_IN_WORDS:] = [f"one of {len(words) - VALUES_IN_WORDS} more"]
    return f"{path} = " + " or ".join(words)


def key_in_words(vocabulary: Vocabulary, number: float, mark: int) -> str:
    """What equality compares, as it is written in a filter."""
    if mark == STRING_MARK:
        return repr(vocabulary.text(int(number)).decode())
    if mark == BOOLEAN_MARK:
        return "true" if number else "false"
    return _number_in_words(number, mark)


def _number_in_words(double: float, residual: int) -> str:
    if math.isinf(double):
        return "any"
    return str(int(double) + residual) if double.is_integer() else str(double)


def _bounds_in_words(predicates: PredicateColumns, number: int) -> list[tuple[str, str]]:
    record = predicates.record[number]
    if record["kind"] != PredicateKind.RANGE:
        bounds = text_bounds(predicates, number)
        return [
            (repr(low.decode()), repr(high.removesuffix(TEXT_END).decode()) + " and all it begins")
            if high != TEXT_END and high.endswith(TEXT_END)
            else (repr(low.decode()), "any" if high == TEXT_END else repr(high.decode()))
            for low, high in bounds
        ]
    low = _number_in_words(float(record["low"]), int(record["low_residual"]))
    high = _number_in_words(float(record["high"]), int(record["high_residual"]))
    return [(low, high)]
