"""Leaf filing: access covers of one leaf an element as PSTBloom's leaf nodes.

`index.kernels.leaf_nodes` says which rows stand at which spaces, and which ask for them; here the
rows are sorted into runs, and room is made for the filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.access import Access
from index.kernels.bloom import filter_words
from index.kernels.cover import SINGLE_KEYS_MAX
from index.kernels.event_parts import EventSpaces
from index.kernels.filing import Dimensions, count_keys, new_parts
from index.kernels.keys import set_bits
from index.kernels.leaf_nodes import (
    FILTER,
    NODE_FIELDS,
    PART,
    RUNS,
    SIGNED,
    Asked,
    LeafColumns,
    Numbering,
    count_asked,
    enter_asked,
    fill_nodes,
    list_asked,
    list_filings,
)
from index.kernels.probe import Compiled
from index.kernels.signature import Signed
from index.key_filing import new_filter, slot_count, unsigned
from index.runs import begins_run
from index.spaces import FACET_BITS, Facet, SpaceColumns

_HALF = np.uint64(32)
_FACET_MASK = (1 << FACET_BITS) - 1


def file_leaves(
    compiled: Compiled, access: Access, rows: NDArray[np.int32], attribute_count: int
) -> LeafColumns:
    """The leaf nodes of `rows`, whose access covers have one leaf an element."""
    filed = access.costs, access.covers, access.elements
    predicates, parts = compiled.predicates, new_parts(SINGLE_KEYS_MAX)
    asked, dimension_of = _asked(compiled, access, rows, attribute_count)
    numbering = _new_numbering(access)
    count = count_keys(predicates, *filed, parts)
    listed = np.empty(count, np.int64), np.empty(count, np.int32)
    facets = np.zeros(attribute_count, np.uint8)
    list_filings(predicates, filed, numbering, listed, facets, parts)
    count_asked(predicates, filed, asked, numbering, parts)
    used = int(numbering.used[0])
    slot, asked_count = numbering.slot[:used], numbering.asked_count[:used]
    facet = dimension_of[slot] & _FACET_MASK
    is_whole = (slot > 0) & ((facet == Facet.PRESENT) | (facet == Facet.EXISTS))
    # Whoever asks for the only space of a dimension is in its filter, so one word says enough.
    sizes = np.where(is_whole, 1, filter_words(asked_count))
    start = np.zeros(used + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    words = np.zeros(int(start[-1]), np.uint64)
    enter_asked(predicates, filed, (rows, asked), numbering, (start, words), parts)
    first_run, run_start, run_slot, run_row = _runs(listed, asked, rows, used)
    nodes = np.empty((used, NODE_FIELDS), np.uint64)
    nodes[:, PART] = numbering.part[:used]
    nodes[:, RUNS] = _halves(first_run[:-1], first_run[1:])
    nodes[:, FILTER] = _halves(start[:-1], sizes)
    nodes[:, SIGNED] = _halves(slot, asked_count)
    table = np.zeros((slot_count(used), NODE_FIELDS), np.uint64)
    fill_nodes(table, nodes)
    first_row, last_row = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
    place = np.searchsorted(rows, np.arange(first_row, last_row + 2))
    return LeafColumns(
        _divisions(access, numbering, dimension_of, facets),
        table,
        run_start,
        run_slot,
        run_row,
        words,
        np.array([first_row], np.int32),
        asked.start[place].astype(np.int32),
        asked.slot[: asked.start[-1]].copy(),
        dimension_of,
        access.residue,
    )


def leaves_to_arrays(columns: LeafColumns) -> dict[str, NDArray[Any]]:
    """All columns under their own names, for a snapshot."""
    arrays: dict[str, Any] = columns._asdict()
    divisions: EventSpaces = arrays.pop("divisions")
    return {
        **arrays,
        **divisions.spaces._asdict(),
        **divisions.dimensions._asdict(),
        **{f"signed_{name}": part for name, part in divisions.signed._asdict().items()},
    }


def leaves_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> LeafColumns:
    """The columns that `leaves_to_arrays` wrote."""
    divisions = EventSpaces(
        SpaceColumns(*(arrays[name] for name in SpaceColumns._fields)),
        Dimensions(*(arrays[name] for name in Dimensions._fields)),
        Signed(*(arrays[f"signed_{name}"] for name in Signed._fields)),
    )
    return LeafColumns(divisions, *(arrays[name] for name in LeafColumns._fields[1:]))


def _asked(
    compiled: Compiled, access: Access, rows: NDArray[np.int32], attribute_count: int
) -> tuple[Asked, NDArray[np.int32]]:
    """What rows ask for, and the dimension of each slot, 0 of slot 0."""
    start = compiled.programs.start
    room = int((start[rows + 1] - start[rows]).sum())
    asked = Asked(
        np.zeros(rows.size + 1, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
    )
    slot_of = np.zeros(attribute_count << FACET_BITS, np.int32)
    filed = access.costs, access.covers, access.elements
    both = compiled.programs, compiled.predicates
    slots = list_asked(both, filed, rows, asked, slot_of, new_parts(SINGLE_KEYS_MAX))
    dimension_of = np.zeros(slots + 1, np.int32)
    dimensions = np.flatnonzero(slot_of)
    dimension_of[slot_of[dimensions]] = dimensions
    return asked, dimension_of


def _new_numbering(access: Access) -> Numbering:
    """Room for the spaces of all leaves: cells between cuts, points, and presences."""
    key_count = np.minimum(access.costs.key_count, SINGLE_KEYS_MAX)
    is_point = np.diff(access.covers.run_start) == 0
    cuts = access.spaces.number_cut_start[-1] + access.spaces.string_cut_start[-1]
    room = int(key_count[is_point].sum()) + int(cuts) + 2 * key_count.size
    return Numbering(
        np.zeros((slot_count(room), 2), np.uint64),
        np.empty(room, np.uint64),
        np.zeros(room, np.int32),
        np.zeros(room, np.int64),
        np.zeros(1, np.int64),
    )


def _halves(high: NDArray[Any], low: NDArray[Any]) -> NDArray[np.uint64]:
    """Two numbers of 32 bits as one."""
    both: NDArray[np.uint64] = high.astype(np.uint64) << _HALF | low.astype(np.uint64)
    return both


def _runs(
    listed: tuple[NDArray[np.int64], NDArray[np.int32]],
    asked: Asked,
    rows: NDArray[np.int32],
    node_count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The first run of each node, and start, slot and rows of runs: see LeafColumns."""
    number, row = listed
    first_slot = np.zeros(rows.size, np.int64)
    asks = asked.start[1:] > asked.start[:-1]
    first_slot[asks] = asked.slot[asked.start[:-1][asks]]
    width = int(first_slot.max(initial=0)) + 1
    key = number * width + first_slot[np.searchsorted(rows, row)]
    order = np.argsort(key, kind="stable")  # rows are listed in their order
    key, row = key[order], row[order]
    is_new = begins_run(key)
    is_kept = is_new.copy()
    is_kept[1:] |= row[1:] != row[:-1]  # an OR may file a row under one space twice
    key, row, is_new = key[is_kept], row[is_kept], is_new[is_kept]
    start = np.flatnonzero(is_new)
    run_node, run_slot = np.divmod(key[start], width)
    first_run = np.searchsorted(run_node, np.arange(node_count + 1))
    return first_run, np.append(start, key.size).astype(np.int32), run_slot.astype(np.int32), row


def _divisions(
    access: Access,
    numbering: Numbering,
    dimension_of: NDArray[np.int32],
    facets: NDArray[np.uint8],
) -> EventSpaces:
    """What an event's values are looked up in: the dimensions of slots, and those of `facets`."""
    asked = facets.copy()
    np.bitwise_or.at(
        asked,
        dimension_of[1:] >> FACET_BITS,
        (1 << (dimension_of[1:] & _FACET_MASK)).astype(np.uint8),
    )
    parts = numbering.part[: numbering.used[0]]
    part_filter = new_filter(parts.size)
    set_bits(part_filter, parts)
    none = np.zeros(0, np.uint8)
    dimensions = Dimensions(none, none, asked, np.zeros(0, np.uint64), part_filter)
    return EventSpaces(access.spaces, dimensions, unsigned(facets.size))
