"""Building the records of a segment: where its rows are filed, and what is written there.

choose_filing   lanes of all attributes, then keys of all rows, by what they cost
file_records    rows by key, a record for each filing; blocks of dense buckets, and programs of
what records leave open
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.access import Shares, cover_elements
from index.cache_lines import copied_to_lines
from index.kernels.blocks import (
    BLOCK_MIN,
    BLOCK_ROWS,
    Blocks,
    fill_blocks,
    measure_blocks,
    new_drawing,
)
from index.kernels.cover import SINGLE_KEYS_MAX, Elements, count_leaves
from index.kernels.digests import fill_digests
from index.kernels.key_listing import list_filings, list_predicate_parts, mark_parts
from index.kernels.lanes import ALL_LANES, WIDE, LaneColumns, Lookup, mark_direct
from index.kernels.leaf_tests import mark_negated
from index.kernels.probe import Compiled
from index.kernels.record_filing import (
    OPEN,
    RECORD_WORDS,
    ROW_SHIFT,
    TESTS,
    LeafTests,
    fill_records,
    new_leaf_tests,
    new_tests,
)
from index.kernels.record_memory import RecordColumns
from index.kernels.schema_choice import LeafTable
from index.kernels.schemas import TRIPLE_PARTS_MAX
from index.kernels.word_programs import (
    WordPrograms,
    Writing,
    room_for_programs,
    write_programs,
)
from index.key_filing import file_rows
from index.key_schemas import build_trie, choose_elements
from index.lanes import Expected, build_lanes, expected_shares, leaf_costs, only_used
from index.program import GATE_DEPTH_MAX, POLARITY_BITS
from index.spaces import FACET_BITS

LINES_AT_FIRST = 3
"""Room for so many lines of a record, on average, before they are counted."""


class Filing(NamedTuple):
    """What the rows of a segment are filed under, while it is built."""

    lookup: Lookup
    table: LeafTable
    elements: Elements
    residue: NDArray[np.int32]


def choose_filing(
    compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
) -> Filing:
    """Where each row is filed: conjunctions by cost, other filters under an access cover."""
    programs, predicates = compiled
    leaf_count, _ = count_leaves(programs, rows)
    used = np.flatnonzero(leaf_count)
    negated = np.zeros(leaf_count.size, np.bool_)
    mark_negated(programs, rows, negated)
    lookup, points = build_lanes(predicates, used, leaf_count[used], negated[used], attribute_count)
    lane, part_count = np.zeros(used.size, np.int32), np.zeros(used.size, np.int32)
    parts = np.empty(SINGLE_KEYS_MAX, np.int64)
    list_predicate_parts(compiled, lookup, used, parts, lane, part_count)
    expected = expected_shares(
        compiled, used, leaf_count[used], lookup, points, shares, attribute_count
    )
    table = _leaf_table(lookup, expected, lane, part_count, attribute_count)
    triples = bool(lookup.lanes.part_start[-1] < TRIPLE_PARTS_MAX)
    chosen = choose_elements(compiled, table, rows[_are_conjunctions(compiled, rows)], triples)
    others = np.setdiff1d(rows, chosen.row, assume_unique=True)
    costs = leaf_costs(lookup, expected, part_count)
    covered, residue = cover_elements(programs, predicates, costs, others, 2)
    return Filing(lookup, table, _joined(chosen, covered), residue)


def _are_conjunctions(compiled: Compiled, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which rows are leaves that must all hold, and at least one."""
    start, code = compiled.programs
    first = start[rows]
    found: NDArray[np.bool_] = start[rows + 1] > first
    found[found] = code[first[found]] >= 0
    return found


def _leaf_table(
    lookup: Lookup,
    expected: Expected,
    lane: NDArray[np.int32],
    part_count: NDArray[np.int32],
    attribute_count: int,
) -> LeafTable:
    lane_of = lookup.lanes.lane_of
    dimension = np.zeros(int(lookup.lanes.first[ALL_LANES]), np.int64)
    known = np.flatnonzero(lane_of)
    dimension[lane_of[known]] = known
    key_lane = lookup.texts.key_lane
    textual = np.flatnonzero(key_lane)
    dimension[key_lane[textual]] = attribute_count + textual << FACET_BITS  # behind all others
    presence = np.ones(dimension.size)
    presence[lane_of[known]] = expected.presence[known >> FACET_BITS]
    presence[key_lane[textual]] = expected.presence[textual]
    return LeafTable(lookup.position, expected.predicate, lane, part_count, dimension, presence)


def _joined(one: Elements, other: Elements) -> Elements:
    """The elements of both, by ascending row, with room for three leaves each."""
    leaf = np.full((one.row.size + other.row.size, 3), -1, np.int32)
    leaf[: one.row.size] = one.leaf
    leaf[one.row.size :, :2] = other.leaf
    row = np.concatenate((one.row, other.row))
    order = np.argsort(row, kind="stable")
    coarse = np.concatenate((one.coarse, other.coarse))
    return Elements(row[order], leaf[order], coarse[order])


def file_records(compiled: Compiled, filing: Filing) -> RecordColumns:
    """The records of all elements by key."""
    lookup, table, elements, residue = filing
    lanes = lookup.lanes
    memory = np.zeros((3, SINGLE_KEYS_MAX), np.int64), np.zeros((3, 2), np.int64)
    schemas = np.zeros(3 * elements.row.size, np.int32)
    nothing = np.empty(0, np.uint64), np.empty(0, np.int32), schemas
    total = list_filings(compiled, lookup, elements, table, memory, nothing)
    keys, key_rows = np.empty(total, np.uint64), np.empty(total, np.int32)
    list_filings(compiled, lookup, elements, table, memory, (keys, key_rows, schemas))
    key_filter, slots, bucket_row = file_rows(keys, key_rows)
    part_used = np.zeros((int(lanes.part_start[-1]) >> 6) + 1, np.uint64)
    mark_parts(compiled, lookup, elements, table, memory, part_used, key_filter)
    mark_direct(lanes, part_used)
    memory_of_tests = new_leaf_tests(table.share.size), new_tests()
    sources = compiled, lookup, elements, table, bucket_row, memory_of_tests
    # Room that nothing is written to takes no memory.
    record = np.empty(LINES_AT_FIRST * bucket_row.size * RECORD_WORDS, np.uint64)
    words = fill_records(*sources, record) * RECORD_WORDS
    if words > record.size:
        record = np.empty(words, np.uint64)
        fill_records(*sources, record)
    record = copied_to_lines(record[:words])
    digest = np.empty(bucket_row.size, np.uint64)
    fill_digests(record, int(lanes.first[WIDE]), digest)
    trie = build_trie(schemas.reshape(-1, 3), int(lanes.first[ALL_LANES]))
    open_rows = _open_rows(record, residue)
    is_residue = np.isin(open_rows, residue, assume_unique=True)
    programs = _programs_of(open_rows, is_residue, compiled, lookup, table, memory_of_tests[0])
    lanes = only_used(lanes, record, programs, schemas)
    filed = lanes, trie, part_used, key_filter, slots, record, digest, residue, elements
    met = _expected_to_meet(elements, table)
    blocks = _blocks_of(lanes, record, slots)
    return RecordColumns(*filed, met, lookup.texts, programs, blocks)


def _expected_to_meet(elements: Elements, table: LeafTable) -> NDArray[np.float32]:
    """[elements] the share of events that satisfy all leaves of an element, if they are taken to be
    independent.
    """
    met = np.ones(elements.row.size, np.float32)
    for leaf in elements.leaf.T:
        named = np.flatnonzero(leaf >= 0)
        met[named] *= table.share[table.position[leaf[named] >> POLARITY_BITS]]
    return met


def _blocks_of(lanes: LaneColumns, record: NDArray[np.uint64], slots: NDArray[np.uint64]) -> Blocks:
    """The blocks of dense buckets."""
    bounds = np.stack((slots[:, 1] >> 32, slots[:, 1] & 0xFFFFFFFF), axis=1).astype(np.int64)
    bounds = bounds[bounds[:, 1] - bounds[:, 0] >= BLOCK_MIN]
    bounds = bounds[np.argsort(bounds[:, 0])]
    drawing = new_drawing(int(lanes.first[ALL_LANES]))
    is_dense = np.zeros(len(bounds), np.bool_)
    count, lane_count, words = measure_blocks(lanes, record, bounds, drawing, is_dense)
    blocks = Blocks(
        np.empty(count, np.int64),
        np.empty(count, np.uint64),
        np.zeros(count + 1, np.int32),
        np.empty(lane_count, np.int32),
        np.empty(lane_count, np.int64),
        np.empty(words, np.uint64),
        np.zeros(count * BLOCK_ROWS, np.uint32),
    )
    fill_blocks(lanes, record, bounds[is_dense], drawing, blocks)
    return blocks


def _open_rows(record: NDArray[np.uint64], residue: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows that programs decide, ascending."""
    last = record[TESTS + 1 :: RECORD_WORDS]
    opened = (last[last & OPEN != 0] >> ROW_SHIFT).astype(np.int32)
    return np.union1d(opened, residue).astype(np.int32)


def _programs_of(
    rows: NDArray[np.int32],
    is_residue: NDArray[np.bool_],
    compiled: Compiled,
    lookup: Lookup,
    table: LeafTable,
    leaf_tests: LeafTests,
) -> WordPrograms:
    """The programs of those rows over the words of events."""
    if not rows.size:
        nothing = np.empty(0, np.int32), np.empty(0, np.int64)
        return WordPrograms(np.zeros(1, np.int64), *nothing)
    written = WordPrograms(
        rows[:1].astype(np.int64),
        np.empty(int(rows[-1] - rows[0]) + 2, np.int32),
        np.empty(room_for_programs(compiled, rows), np.int64),
    )
    memory = leaf_tests, Writing(*np.zeros((3, GATE_DEPTH_MAX), np.int64))
    count = write_programs(compiled, lookup, table, rows, is_residue, memory, written)
    return written._replace(code=written.code[:count].copy())
