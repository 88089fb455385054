"""The lanes of a segment: how finely each attribute's values are divided, and what is expected.

See `index.kernels.lanes` for what a lane is. Those of up to 63 codes come first, then hashed and
wider ones, each kind by how many leaves ask for it; a record names lanes by 16 bits, so beyond
65,536 no tests are made, and keys alone are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.access import VALUES_UNSEEN, Shares, known_or, range_guesses
from index.cache_lines import copied_to_lines
from index.kernels.cover import LeafCosts
from index.kernels.lanes import (
    ALL_LANES,
    CELL_BITS,
    CELL_PARTS,
    CUTS,
    DIRECT_FIRST,
    DIRECT_START,
    HASHED,
    HASHED_LANE,
    HASHED_LANES,
    HEAD,
    LANES,
    LINE_WORDS,
    NARROW_CODES_MAX,
    POINT_PARTS,
    TEXT_LANES,
    TEXTS,
    WHOLE,
    LaneColumns,
    Lookup,
    fill_direct,
    insert_points,
)
from index.kernels.probe import Compiled
from index.kernels.record_filing import mark_lanes
from index.kernels.word_programs import WordPrograms, mark_tested
from index.key_filing import new_table
from index.points import names_points, operands_of
from index.predicates import ALL, NO_MARK, PredicateColumns, PredicateKind
from index.program import POLARITY_BITS
from index.runs import begins_run
from index.spaces import FACET_BITS, WHOLE_MAX, Division, Facet, divide_finely
from index.texts import TEXT_LANES_MAX, TextPlan, plan_texts, starts_of, text_columns, text_guesses

TESTED_LANES_MAX = 1 << 16
DIRECT_MIN, DIRECT_RATIO = 32, 3
"""The codes of integers are listed if there are at most so many, and so many for each end."""
EVENT_ATTRIBUTES = 24
"""Without statistics an event is taken to have so many of the attributes that predicates name."""


class Points(NamedTuple):
    """The distinct points of all dimensions, by ascending dimension, and the predicates of each."""

    dimension: NDArray[np.int64]
    number: NDArray[np.float64]
    mark: NDArray[np.int16]
    code: NDArray[np.int64]  # from 1 on in each dimension
    leaf_count: NDArray[np.int64]  # leaves that name the point
    first: NDArray[np.int64]  # the first point of each dimension that has any
    of_dimension: NDArray[np.int64]  # number of the dimension among those
    owner: NDArray[np.int64]  # place of a predicate among those in use
    place: NDArray[np.int64]  # a point of it


def build_lanes(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    leaf_count: NDArray[np.int64],
    negated: NDArray[np.bool_],
    attribute_count: int,
) -> tuple[Lookup, Points]:
    """The lanes of the predicates numbered `used`, each of which so many leaves name.

    Those are `negated` that some leaf asks to be anything but TRUE.
    """
    division = divide_finely(predicates, used, attribute_count, NARROW_CODES_MAX)
    points = _points(predicates, used, leaf_count)
    plan = plan_texts(predicates, used, negated, attribute_count)
    codes, leaves = _dimensions(predicates, used, leaf_count, division, points, attribute_count)
    is_asked = _asked(predicates, used, codes, plan)
    numbers, first, part_start = _numbered(codes, leaves, is_asked, plan)
    lane_of, key_lane = numbers[: attribute_count << FACET_BITS], numbers[codes.size :]
    lanes = LaneColumns(
        lane_of,
        first,
        part_start,
        division.spaces,
        _coarser(division.number_kept, division.spaces.number_cut_start),
        _coarser(division.string_kept, division.spaces.string_cut_start),
        new_table(points.number.size),
        *_lines(division, points, lane_of, key_lane, part_start),
    )
    insert_points(lanes.point, lane_of[points.dimension], points.number, points.mark, points.code)
    fill_direct(lanes)
    position = np.zeros(int(used[-1]) + 1 if used.size else 0, np.int32)
    position[used] = np.arange(used.size)
    text = np.full(used.size, -1, np.int32)
    text[plan.place] = np.arange(plan.place.size)
    lane_start = np.minimum(first[TEXT_LANES] + starts_of(plan.lane_count), first[HASHED_LANES])
    texts = text_columns(predicates, used, plan, lane_start, key_lane)
    return Lookup(lanes, position, division.covers, text, texts), points


def _numbered(
    codes: NDArray[np.int64],
    leaves: NDArray[np.int64],
    is_asked: NDArray[np.bool_],
    plan: TextPlan,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The lane of each dimension and, behind, of each attribute's texts; `first` and `part_start`.

    Lanes of texts are for tests, and have no parts; these are on a lane of the attribute's own.
    """
    text_count = np.bincount(plan.attribute, minlength=plan.lane_count.size)
    codes = np.concatenate((codes, text_count))
    leaves = np.concatenate((leaves, text_count))
    is_asked = np.concatenate((is_asked, np.zeros(text_count.size, np.bool_)))
    text_lanes = min(int(plan.lane_count.sum()), TEXT_LANES_MAX)
    dimension, first = _ordered(codes, leaves, is_asked, TESTED_LANES_MAX - text_lanes)
    lane = np.arange(1, dimension.size + 1)
    lane[first[0] - 1 :] += text_lanes
    numbers = np.zeros(codes.size, np.int32)
    numbers[dimension] = lane
    lane_count = dimension.size + 1 + text_lanes
    codes_of_lane = np.zeros(lane_count, np.int64)
    codes_of_lane[lane] = codes[dimension]
    part_start = np.zeros(lane_count + 1, np.int64)
    part_start[1:] = 1 + np.cumsum(codes_of_lane)
    return numbers, np.array([*(first + text_lanes).tolist(), lane_count, first[0]]), part_start


def _lines(
    division: Division,
    points: Points,
    lane_of: NDArray[np.int32],
    key_lane: NDArray[np.int32],
    part_start: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The lines of all attributes, and room for the codes of integers.

    Integers are listed where those that predicates name lie close together.
    """
    attribute_count = lane_of.size >> FACET_BITS
    spaces = division.spaces
    is_number = np.abs(points.mark.astype(np.int64)) < NO_MARK
    of_points = points.dimension[is_number] >> FACET_BITS
    of_cuts = np.repeat(np.arange(attribute_count), np.diff(spaces.number_cut_start))
    attribute = np.concatenate((of_points, of_cuts))
    number = np.concatenate((points.number[is_number], spaces.number_cut_double))
    count = np.bincount(attribute, minlength=attribute_count)
    low, high = np.full(attribute_count, np.inf), np.full(attribute_count, -np.inf)
    np.minimum.at(low, attribute, number)
    np.maximum.at(high, attribute, number)
    span = np.where(count > 0, np.ceil(high) - np.floor(low) + 2, 0)
    is_dense = (span <= DIRECT_MIN + DIRECT_RATIO * count) & (span < 1 << CELL_BITS)
    is_dense &= np.abs(low) < WHOLE_MAX
    size = np.where(is_dense, span, 0).astype(np.int64)
    line = np.zeros((attribute_count, LINE_WORDS), np.int64)
    line[:, HEAD] = size << 8 | (key_lane > 0).astype(np.int64) << TEXTS
    line[:, DIRECT_FIRST] = np.where(size > 0, np.floor(low), 0.0)
    line[:, DIRECT_START] = np.cumsum(size) - size
    by_facet = lane_of.reshape(attribute_count, 1 << FACET_BITS).astype(np.int64)
    point, cell = by_facet[:, Facet.POINT], by_facet[:, Facet.NUMBER_CELL]
    line[:, LANES] = point | cell << 32
    line[:, POINT_PARTS], line[:, CELL_PARTS] = part_start[point], part_start[cell]
    line[:, HASHED_LANE] = by_facet[:, HASHED]
    cut_start = spaces.number_cut_start.astype(np.int64)
    line[:, CUTS] = cut_start[:-1] | np.diff(cut_start) << 32
    line[division.whole, CUTS] |= WHOLE
    _ask(line, by_facet > 0)
    return line.ravel(), np.zeros(int(size.sum()), np.uint64)


def only_used(
    lanes: LaneColumns,
    record: NDArray[np.uint64],
    programs: WordPrograms,
    schemas: NDArray[np.int32],
) -> LaneColumns:
    """The same lanes, of which events show no more than some test or some key asks for."""
    used = np.zeros(int(lanes.first[ALL_LANES]), np.bool_)
    mark_lanes(record, used)
    mark_tested(programs, used)
    used[schemas] = True
    asked = (used[lanes.lane_of] & (lanes.lane_of > 0)).reshape(-1, 1 << FACET_BITS)
    line = copied_to_lines(lanes.line).reshape(-1, LINE_WORDS)
    line[~asked[:, HASHED], HASHED_LANE] = 0
    asked[:, Facet.POINT] |= asked[:, HASHED]
    asked[:, Facet.FOLDED] |= asked[:, HASHED + 1]
    _ask(line, asked)
    return lanes._replace(line=line.ravel())


def _ask(line: NDArray[np.int64], asked: NDArray[np.bool_]) -> None:
    """Let events show the facets of each attribute that are asked for, [a, facets]."""
    line[:, HEAD] &= ~np.int64((1 << len(Facet)) - 1)
    for facet in Facet:
        line[:, HEAD] |= asked[:, facet].astype(np.int64) << facet


def _coarser(kept: NDArray[np.bool_], cut_start: NDArray[np.int32]) -> NDArray[np.int32]:
    """The coarser cell of each cell: as many cuts as are kept lie before it."""
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))
    attribute = np.repeat(np.arange(cut_start.size - 1), np.diff(cut_start) + 1)
    cut = np.arange(attribute.size) - attribute
    coarser: NDArray[np.int32] = (before[cut] - before[cut_start[attribute]]).astype(np.int32)
    return coarser


def _points(
    predicates: PredicateColumns, used: NDArray[np.int64], leaf_count: NDArray[np.int64]
) -> Points:
    """The distinct operands of =, IN and IS NULL, and who names them."""
    leaves = (used << POLARITY_BITS).astype(np.int32)
    named = np.flatnonzero(names_points(predicates, leaves))
    owner, dimension, number, mark = operands_of(predicates, leaves, named)
    order = np.lexsort((mark, number, dimension))
    is_new = begins_run(dimension[order], number[order], mark[order])
    distinct = order[is_new]
    place = np.empty(order.size, np.int64)
    place[order] = np.cumsum(is_new) - 1
    count = np.bincount(place, leaf_count[owner], distinct.size).astype(np.int64)
    _, first, which = np.unique(dimension[distinct], return_index=True, return_inverse=True)
    code = np.arange(distinct.size) - first[which] + 1
    parts = dimension[distinct], number[distinct], mark[distinct], code, count
    return Points(*parts, first, which, owner, place)


def _dimensions(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    leaf_count: NDArray[np.int64],
    division: Division,
    points: Points,
    attribute_count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes of every dimension, 0 where it needs no lane, and the leaves that ask for it."""
    codes = np.zeros(attribute_count << FACET_BITS, np.int64)
    leaves = np.zeros(attribute_count << FACET_BITS, np.int64)
    record = predicates.record[used]
    base = record["attribute"].astype(np.int64) << FACET_BITS
    of_attribute = np.bincount(record["attribute"], leaf_count, attribute_count).astype(np.int64)
    # Presence and existence are what is left of any leaf that nothing else can be said of.
    for facet in (Facet.PRESENT, Facet.EXISTS):
        at = (np.arange(attribute_count) << FACET_BITS) | facet
        leaves[at] = of_attribute
        codes[at] = of_attribute > 0
    np.add.at(codes, points.dimension, 1)
    np.add.at(leaves, points.dimension, points.leaf_count)
    codes[points.dimension[points.first]] += 1  # for all other values
    for facet, cut_start in (
        (Facet.NUMBER_CELL, division.spaces.number_cut_start),
        (Facet.STRING_CELL, division.spaces.string_cut_start),
    ):
        runs = np.repeat(np.arange(used.size), np.diff(division.covers.run_start))
        asking = np.unique(runs[division.covers.facet == facet])
        np.add.at(leaves, base[asking] | facet, leaf_count[asking])
        at = np.unique(base[asking] | facet)
        codes[at] = np.diff(cut_start)[at >> FACET_BITS] + 1
    wide = np.flatnonzero(codes > NARROW_CODES_MAX)
    for facet, beside in ((Facet.POINT, HASHED), (Facet.FOLDED, HASHED + 1)):
        mine = wide[wide & ((1 << FACET_BITS) - 1) == facet]
        codes[mine - facet + beside] = 1
        leaves[mine - facet + beside] = leaves[mine]
    return codes, leaves


def _asked(
    predicates: PredicateColumns,
    used: NDArray[np.int64],
    codes: NDArray[np.int64],
    plan: TextPlan,
) -> NDArray[np.bool_]:
    """The dimensions that leaves are tested on; keys alone are made of the others.

    Presence and existence are, where a predicate asks for them or nothing else is known of it.
    """
    is_asked = codes > 0
    facet = np.arange(codes.size) & ((1 << FACET_BITS) - 1)
    is_asked &= (facet != Facet.PRESENT) & (facet != Facet.EXISTS)
    record = predicates.record[used]
    kind, base = record["kind"], record["attribute"].astype(np.int64) << FACET_BITS
    is_told = (kind >= PredicateKind.IS_NULL) & (kind <= PredicateKind.TEXT_RANGE)
    is_told[plan.place] = True
    is_told &= record["flags"] & ALL == 0
    of_existence = kind <= PredicateKind.MISSING
    is_asked[base[of_existence] | Facet.EXISTS] = True
    is_asked[base[~of_existence & ~is_told] | Facet.PRESENT] = True
    return is_asked


def _ordered(
    codes: NDArray[np.int64],
    leaves: NDArray[np.int64],
    is_asked: NDArray[np.bool_],
    tested_max: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dimensions in the order of their lanes, and the first hashed, wide and untested lane."""
    dimension = np.flatnonzero(codes)
    by_leaves = dimension[np.argsort(-leaves[dimension], kind="stable")]
    is_tested = is_asked[by_leaves]
    is_tested &= np.cumsum(is_tested) < tested_max
    is_hashed = by_leaves & ((1 << FACET_BITS) - 1) >= HASHED
    is_wide = codes[by_leaves] > NARROW_CODES_MAX
    kind = np.where(is_tested, np.where(is_wide, 2, np.where(is_hashed, 1, 0)), 3)
    order = np.argsort(kind, kind="stable")
    return by_leaves[order], 1 + np.searchsorted(kind[order], (1, 2, 3))


class Expected(NamedTuple):
    """The shares of events that are expected to satisfy predicates, and to have attributes."""

    predicate: NDArray[np.float64]  # [u]
    presence: NDArray[np.float64]  # [a]


def expected_shares(
    compiled: Compiled,
    used: NDArray[np.int64],
    leaf_count: NDArray[np.int64],
    lookup: Lookup,
    points: Points,
    shares: Shares,
    attribute_count: int,
) -> Expected:
    """What statistics know, and guesses where they know nothing.

    A guess takes events to be about what subscriptions ask for: an attribute that is named often is
    there often, and a value that is compared with often comes often.
    """
    record = compiled.predicates.record[used]
    attribute = record["attribute"].astype(np.int64)
    named = np.bincount(attribute, leaf_count, attribute_count)
    presence = np.minimum(1.0, EVENT_ATTRIBUTES * named / max(1.0, float(named.sum())))
    presence[named == 0] = 1.0
    known = shares.of_attribute[:attribute_count]
    presence[: known.size] = np.where(np.isnan(known), presence[: known.size], known)
    within = np.full(used.size, np.nan)
    if points.owner.size:
        weight = points.leaf_count + 1.0
        weight /= (VALUES_UNSEEN + np.add.reduceat(weight, points.first))[points.of_dimension]
        within = np.bincount(points.owner, weight[points.place], used.size)
        within[np.bincount(points.owner, minlength=used.size) == 0] = np.nan
    covers = lookup.covers
    runs = np.repeat(np.arange(used.size), np.diff(covers.run_start))
    cells = np.bincount(runs, covers.last - covers.first + 1, used.size).astype(np.int64)
    is_range = np.diff(covers.run_start) > 0
    ranges = range_guesses(compiled.predicates, used, lookup.lanes.spaces, cells)
    within[is_range] = ranges[is_range]
    is_text = lookup.text >= 0
    within[is_text] = text_guesses(compiled.predicates, used[is_text])
    guess = np.where(np.isnan(within), 1.0, within) * presence[attribute]
    guess[record["kind"] == PredicateKind.MISSING] = 1.0
    return Expected(known_or(guess, used, shares), presence)


def leaf_costs(lookup: Lookup, expected: Expected, part_count: NDArray[np.int32]) -> LeafCosts:
    """The same as what access covers of any tree are chosen by."""
    counts = part_count.astype(np.int64)
    is_text = lookup.text >= 0
    return LeafCosts(lookup.position, expected.predicate, counts, expected.presence, is_text)
