"""Text predicates of a segment: their needles, and the bits and parts that stand for them.

Idea     whether a prefix, suffix, substring, LIKE pattern or regular expression holds of a string
         depends on nothing else, so it is found out once for each string of a batch, for all of
         them together (`index.kernels.text_runs`). What holds is then a part that keys are made
         of, as a value is, and a bit of a word that leaves are tested on.
Needles  a pattern is looked for by its longest literal piece, begun and ended by bytes of its own
         where the pattern begins or ends there:  'ab%'  BEGIN ab    '%ab'  ab END    'ab'  both
Lanes    a predicate that only ever has to be TRUE has one bit of its lane's word, one that is
         negated somewhere a second one, which says that it is FALSE; see `index.kernels.lanes`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.kernels.needles import BEGIN, END, NeedleTrie, count_nodes, fill_falls, fill_nodes
from index.kernels.text_runs import TextColumns
from index.model import Operator
from index.opaque import opaque_predicate
from index.predicates import (
    ALL,
    ANY_ONE,
    ANY_RUN,
    NOCASE,
    PredicateColumns,
    PredicateKind,
    needles_of,
    pattern_text,
)
from index.runs import begins_run

BITS_OF_LANE, PAIRS_OF_LANE = 63, 31
"""The last bit is that of no string."""
TEXT_LANES_MAX = 1 << 14
"""So many lanes of all attributes; predicates beyond have no bits, and programs decide them."""
EXPRESSION_SHARE = 0.05
_WORDS = {
    PredicateKind.PREFIX: "STARTS WITH",
    PredicateKind.SUFFIX: "ENDS WITH",
    PredicateKind.CONTAINS: "CONTAINS",
    PredicateKind.LIKE: "LIKE",
}
_BEGIN, _END = bytes([BEGIN]), bytes([END])
_WILDCARD = re.compile(b"[%c%c]" % (ANY_RUN, ANY_ONE))


class TextPlan(NamedTuple):
    """The text predicates among those in use, by attribute, negated ones first."""

    place: NDArray[np.int64]  # [t] among the predicates in use
    attribute: NDArray[np.int64]  # [t]
    lane: NDArray[np.int64]  # [t] of its attribute, from 0 on
    true: NDArray[np.uint64]  # [t] the bit that says it is TRUE
    false: NDArray[np.uint64]  # [t] that it is FALSE; 0 if nobody asks
    lane_count: NDArray[np.int64]  # [a]


def are_texts(predicates: PredicateColumns, used: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which predicates are TRUE or FALSE of any one string, and UNKNOWN of all else."""
    record = predicates.record[used]
    kind = record["kind"]
    asked: NDArray[np.bool_] = (kind >= PredicateKind.PREFIX) & (kind <= PredicateKind.LIKE)
    for place in np.flatnonzero(kind == PredicateKind.OPAQUE_TEXT).tolist():
        asked[place] = opaque_predicate(predicates, int(used[place])).operator == Operator.REGEX
    asked &= record["flags"] & ALL == 0
    return asked


def plan_texts(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    negated: NDArray[np.bool_],
    attribute_count: int,
) -> TextPlan:
    """Which predicates of those numbered `used` are looked for in texts, and their bits."""
    place = np.flatnonzero(are_texts(predicates, used))
    attribute = predicates.record["attribute"][used[place]].astype(np.int64)
    order = np.lexsort((~negated[place], attribute))
    place, attribute = place[order], attribute[order]
    is_pair = negated[place]
    rank = np.arange(place.size)
    starts = begins_run(attribute, is_pair)
    rank -= np.maximum.accumulate(np.where(starts, rank, 0))
    lane = np.where(is_pair, rank // PAIRS_OF_LANE, rank // BITS_OF_LANE)
    pairs = np.bincount(attribute[is_pair], minlength=attribute_count)
    lane[~is_pair] += -(-pairs // PAIRS_OF_LANE)[attribute[~is_pair]]
    bit = np.where(is_pair, 2 * (rank % PAIRS_OF_LANE), rank % BITS_OF_LANE).astype(np.uint64)
    true = np.uint64(1) << bit
    lane_count = np.zeros(attribute_count, np.int64)
    np.maximum.at(lane_count, attribute, lane + 1)
    return TextPlan(place, attribute, lane, true, np.where(is_pair, true << 1, 0), lane_count)


def text_columns(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    plan: TextPlan,
    lane_start: NDArray[np.int64],
    key_lane: NDArray[np.int32],
) -> TextColumns:
    """The columns of planned text predicates; lane_start [a + 1] has the lanes of attributes."""
    record, number = predicates.record[used[plan.place]], used[plan.place]
    found = [_needles_of(predicates, one) for one in number.tolist()]
    folds = (record["flags"] & NOCASE != 0).tolist()
    by_case = zip(folds, found, strict=True)
    keys = [(case, needle) for case, (needles, _) in by_case for needle in needles]
    owner = np.repeat(np.arange(number.size), [len(needles) for needles, _ in found])
    distinct = sorted(set(keys))
    place_of = {key: place for place, key in enumerate(distinct)}
    needle = np.array([place_of[key] for key in keys], np.int64)
    order = np.argsort(needle, kind="stable")
    exact_count = sum(not case for case, _ in distinct)
    texts = [text for _, text in distinct]
    is_pattern = np.array([needs_pattern for _, needs_pattern in found], np.bool_)
    lane = lane_start[plan.attribute] + plan.lane
    lane[lane >= lane_start[-1]] = 0
    return TextColumns(
        _trie(texts[:exact_count], 0),
        _trie(texts[exact_count:], exact_count),
        np.searchsorted(needle[order], np.arange(len(texts) + 1)).astype(np.int32),
        owner[order].astype(np.int32),
        np.where(is_pattern, number, -1).astype(np.int32),
        plan.attribute.astype(np.int32),
        np.searchsorted(plan.attribute, np.arange(key_lane.size + 1)).astype(np.int32),
        lane.astype(np.int32),
        np.where(lane > 0, plan.true | plan.false, 0),
        lane_start.astype(np.int32),
        _defaults(plan, lane_start),
        key_lane,
        np.where(record["kind"] == PredicateKind.OPAQUE_TEXT, number, -1).astype(np.int32),
    )


def starts_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the run of each count begins, and where the last one ends."""
    starts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def text_guesses(predicates: PredicateColumns, number: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of strings that each predicate is taken to hold of: the longer, the rarer."""
    record = predicates.record[number]
    first = record["start"].astype(np.int64)
    size = predicates.needle_start[first + 1] - predicates.needle_start[first]
    guesses: NDArray[np.float64] = np.minimum(1.0, record["size"] / (2.0 + size))
    guesses[record["kind"] == PredicateKind.OPAQUE_TEXT] = EXPRESSION_SHARE
    return guesses


def words_of_text(predicates: PredicateColumns, path: str, number: int) -> str | None:
    """A text predicate in words; None for others."""
    if not are_texts(predicates, np.array([number]))[0]:
        return None
    record = predicates.record[number]
    kind = record["kind"]
    if kind == PredicateKind.OPAQUE_TEXT:
        words = f"{path} MATCHES {opaque_predicate(predicates, number).operand!r}"
    else:
        needles = map(repr, map(pattern_text, needles_of(predicates, number)))
        words = f"{path} {_WORDS[kind]} " + " or ".join(needles)
    return words + (" NOCASE" if record["flags"] & NOCASE else "")


def _defaults(plan: TextPlan, lane_start: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The words of lanes in the order of attributes, where nothing holds of the string."""
    default = np.zeros(int(lane_start[-1] - lane_start[0]), np.uint64)
    at = lane_start[plan.attribute] - lane_start[0] + plan.lane
    has_lane = at < default.size
    np.bitwise_or.at(default, at[has_lane], plan.false[has_lane])
    return default


def _needles_of(predicates: PredicateColumns, number: int) -> tuple[list[bytes], bool]:
    """What strings are searched for, and whether they must fit a pattern besides."""
    kind = predicates.record[number]["kind"]
    if kind == PredicateKind.OPAQUE_TEXT:
        return [], False
    texts = needles_of(predicates, number)
    if kind == PredicateKind.PREFIX:
        return [_BEGIN + text for text in texts], False
    if kind == PredicateKind.SUFFIX:
        return [text + _END for text in texts], False
    if kind == PredicateKind.CONTAINS:
        return [text or _BEGIN for text in texts], False
    return _piece_of(texts[0])


def _piece_of(pattern: bytes) -> tuple[list[bytes], bool]:
    """The longest literal piece of a LIKE pattern, and whether it leaves something open."""
    pieces = _WILDCARD.split(pattern)
    if len(pieces) == 1:
        return [_BEGIN + pattern + _END], False
    literals = pieces[1:-1]
    literals += [_BEGIN + pieces[0]] if pieces[0] else []
    literals += [pieces[-1] + _END] if pieces[-1] else []
    literals = [piece for piece in literals if piece]
    leaves_open = len(literals) > 1 or ANY_ONE in pattern
    return [max(literals, key=len, default=_BEGIN)], leaves_open


def _trie(needles: list[bytes], first: int) -> NeedleTrie:
    """The trie of distinct needles in ascending order, numbered from `first` on."""
    start = starts_of(np.array([len(needle) for needle in needles], np.int64))
    text = np.frombuffer(b"".join(needles), np.uint8)
    size = count_nodes(start, text)
    label, child_start = np.zeros(size, np.uint8), np.zeros(size + 1, np.int32)
    fall, needle, next_end, dense_row = (np.zeros(size, np.int32) for _ in range(4))
    dense = np.zeros(0, np.int32)
    trie = NeedleTrie(label, child_start, fall, needle, next_end, dense_row, dense)
    rows = fill_nodes(start, text, trie, np.zeros(size, np.int64), np.zeros(size, np.int64))
    trie = trie._replace(dense=np.zeros(rows * 256, np.int32))
    fill_falls(trie)
    trie.needle[trie.needle >= 0] += first
    return trie
