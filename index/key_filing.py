"""Filing: the elements of access covers as a table from keys to rows, with the filters before it.

An element says under which leaves a row is to be found; `index.kernels.filing` lists its keys. Here
they are sorted into buckets, so that an event's spaces lead to rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.access import Access
from index.kernels.cover import SINGLE_KEYS_MAX
from index.kernels.event_parts import KeyColumns
from index.kernels.filing import Dimensions, count_keys, list_keys, new_parts
from index.kernels.keys import fill_table, first_lost_key, set_bits
from index.kernels.probe import Compiled
from index.kernels.signature import Signed
from index.kernels.triples import TripleColumns, TripleDimensions, list_triples
from index.program import POLARITY_BITS
from index.runs import begins_run
from index.spaces import FACET_BITS, SpaceColumns

FILTER_BITS_PER_KEY = 16
"""Bits of a filter for each entry: then one absent key in about 16 is looked for in vain."""
FILTER_WORDS_MIN = 64
FILTER_WORDS_MAX = 1 << 21
"""16 MB: larger filters are slower than the misses they save."""


def file_elements(
    compiled: Compiled, access: Access, attribute_count: int, signed: Signed
) -> KeyColumns:
    """The rows of all elements by key; `signed` are their signatures, see `unsigned`."""
    dimensions, keys, key_rows = _list_keys(compiled, access, attribute_count)
    listed = keys, key_rows
    return file_keys(listed, access.spaces, dimensions, access.residue, signed)


def file_keys(
    listed: tuple[NDArray[np.uint64], NDArray[np.int32]],
    spaces: SpaceColumns,
    dimensions: Dimensions,
    residue: NDArray[np.int32],
    signed: Signed,
) -> KeyColumns:
    """A table of what is `listed`, keys and a number for each: buckets of ascending numbers."""
    dimensions.asked[:] = dimensions.single | dimensions.paired | signed.facets
    return KeyColumns(spaces, dimensions, *file_rows(*listed), residue, signed)


def file_triples(
    compiled: Compiled, access: Access, attribute_count: int, keys: KeyColumns
) -> tuple[KeyColumns, TripleColumns]:
    """The rows of all elements, which have three leaves; and `keys`, those of the other elements,
    with filters that let the spaces of both pass.
    """
    memory = new_parts(SINGLE_KEYS_MAX), new_parts(SINGLE_KEYS_MAX), new_parts(SINGLE_KEYS_MAX)
    filed = compiled.predicates, access.costs, access.covers, access.elements
    count = count_keys(*filed, memory[0])
    attributes = np.sort(_attributes(compiled, access.elements.leaf), axis=1)
    dimensions = TripleDimensions(
        np.zeros(attribute_count, np.uint8),
        new_filter(4 * _kind_count(attributes[:, :2], attribute_count)),
        new_filter(2 * _kind_count(attributes, attribute_count)),
        new_filter(count),
        new_filter(_part_count(access)),
    )
    listed = np.empty(count, np.uint64), np.empty(count, np.int32)
    list_triples(filed, memory, dimensions, listed)
    asked = keys.dimensions.asked | dimensions.tripled
    part_filter = _united(keys.dimensions.part_filter, dimensions.part_filter)
    both = keys.dimensions._replace(asked=asked, part_filter=part_filter)
    return keys._replace(dimensions=both), TripleColumns(dimensions, *file_rows(*listed))


def file_rows(
    keys: NDArray[np.uint64], rows: NDArray[np.int32]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32]]:
    """The key filter, the table and the buckets of these pairs."""
    order = np.argsort(keys)
    keys, rows = keys[order], rows[order]
    distinct = keys[begins_run(keys)]
    table = new_table(distinct.size)
    kept, _ = fill_table(table, keys, rows)
    key_filter = new_filter(distinct.size)
    set_bits(key_filter, distinct)
    return key_filter, table, rows[:kept].copy()


def check_buckets(
    table: NDArray[np.uint64], key_filter: NDArray[np.uint64], bucket_row: NDArray[np.int32]
) -> None:
    """Assert that all keys are found, and that their buckets are all rows, ascending in each."""
    used = table[table[:, 0] != 0]
    assert 5 * len(used) < 3 * len(table), "the table is more than three fifths full"
    assert len(np.unique(used[:, 0])) == len(used), "a key has two slots"
    assert first_lost_key(table, key_filter) < 0, "a key cannot be found"
    filed = 0
    for key, bounds in used.tolist():
        start, stop = bounds >> 32, bounds & 0xFFFFFFFF
        assert start < stop, f"key {key} has no rows"
        bucket = bucket_row[start:stop]
        assert np.all(np.diff(bucket) > 0), f"rows of key {key} do not ascend"
        filed += stop - start
    assert filed == bucket_row.size, "buckets overlap or leave gaps"


def _united(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bit filter of what is in either; a filter written twice is one of twice the size."""
    size = max(one.size, other.size)
    union: NDArray[np.uint64] = np.tile(one, size // one.size) | np.tile(other, size // other.size)
    return union


def unsigned(attribute_count: int) -> Signed:
    """Signatures of nothing: an event has no codes, and nobody asks for them."""
    return Signed(
        np.zeros(0, np.uint64),
        np.zeros(1, np.int64),
        np.zeros(attribute_count << FACET_BITS, np.uint16),
        np.zeros(attribute_count, np.uint8),
    )


def triples_to_arrays(triples: TripleColumns) -> dict[str, NDArray[Any]]:
    """All columns under their own names after a prefix, for a snapshot."""
    arrays = {
        **triples.dimensions._asdict(),
        "key_filter": triples.key_filter,
        "table": triples.table,
        "bucket_row": triples.bucket_row,
    }
    return {f"triple_{name}": array for name, array in arrays.items()}


def triples_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> TripleColumns:
    """The columns that `triples_to_arrays` wrote."""
    return TripleColumns(
        TripleDimensions(*(arrays[f"triple_{name}"] for name in TripleDimensions._fields)),
        *(arrays[f"triple_{name}"] for name in TripleColumns._fields[1:]),
    )


def keys_to_arrays(keys: KeyColumns, prefix: str = "") -> dict[str, NDArray[Any]]:
    """All columns under their own names after a prefix, for a snapshot."""
    arrays = {
        **keys.spaces._asdict(),
        **keys.dimensions._asdict(),
        **{f"signed_{name}": part for name, part in keys.signed._asdict().items()},
        "key_filter": keys.key_filter,
        "table": keys.table,
        "bucket_row": keys.bucket_row,
        "residue": keys.residue,
    }
    return {prefix + name: array for name, array in arrays.items()}


def keys_from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> KeyColumns:
    """The columns that `keys_to_arrays` wrote."""
    return KeyColumns(
        SpaceColumns(*(arrays[prefix + name] for name in SpaceColumns._fields)),
        Dimensions(*(arrays[prefix + name] for name in Dimensions._fields)),
        arrays[prefix + "key_filter"],
        arrays[prefix + "table"],
        arrays[prefix + "bucket_row"],
        arrays[prefix + "residue"],
        Signed(*(arrays[f"{prefix}signed_{name}"] for name in Signed._fields)),
    )


def _list_keys(
    compiled: Compiled, access: Access, attribute_count: int
) -> tuple[Dimensions, NDArray[np.uint64], NDArray[np.int32]]:
    """Every key with its row, and the dimensions they are made of."""
    predicates, elements = compiled.predicates, access.elements
    memory = new_parts(SINGLE_KEYS_MAX), new_parts(SINGLE_KEYS_MAX)
    filed = predicates, access.costs, access.covers, elements
    count = count_keys(*filed, memory[0])
    together = elements.leaf[(elements.leaf >= 0).sum(axis=1) > 1, :2]
    dimensions = Dimensions(
        np.zeros(attribute_count, np.uint8),
        np.zeros(attribute_count, np.uint8),
        np.zeros(attribute_count, np.uint8),
        new_filter(4 * _kind_count(_attributes(compiled, together), attribute_count)),
        new_filter(_part_count(access)),
    )
    listed = np.empty(count, np.uint64), np.empty(count, np.int32)
    list_keys(*filed, memory, dimensions, listed)
    return dimensions, *listed


def _attributes(compiled: Compiled, leaves: NDArray[np.int32]) -> NDArray[Any]:
    """The attribute of each leaf."""
    attributes: NDArray[Any] = compiled.predicates.record["attribute"][leaves >> POLARITY_BITS]
    return attributes


def _kind_count(attributes: NDArray[Any], attribute_count: int) -> int:
    """How many distinct rows there are, one an element; about, if they are many."""
    combined = np.zeros(len(attributes), np.int64)
    for column in attributes.T:
        combined = combined * attribute_count + column
    return int(np.unique(combined).size)


def _part_count(access: Access) -> int:
    """At most so many distinct spaces are parts of keys."""
    elements, costs = access.elements, access.costs
    leaves = np.unique(elements.leaf)
    numbers = np.unique(leaves[leaves >= 0] >> POLARITY_BITS)
    return int(np.minimum(costs.key_count[costs.position[numbers]], SINGLE_KEYS_MAX).sum())


def new_filter(entry_count: int) -> NDArray[np.uint64]:
    """An empty bit filter with room for that many entries."""
    words = power_of_two(entry_count * FILTER_BITS_PER_KEY // 64)
    return np.zeros(min(max(words, FILTER_WORDS_MIN), FILTER_WORDS_MAX), np.uint64)


def new_table(key_count: int) -> NDArray[np.uint64]:
    """An empty table for that many keys, which fill three fifths of it (see `index.kernels.keys`).

    Of any number of slots: powers of two would leave tables between two and four fifths full.
    """
    return np.zeros((key_count * 5 // 3 + 2, 2), np.uint64)


def slot_count(entry_count: int) -> int:
    """Slots of a table for that many keys, of which it is at most four fifths full."""
    return power_of_two(entry_count * 5 // 4 + 1)


def power_of_two(least: int) -> int:
    """The first power of two that is not below a number, from 2 on."""
    return 1 << max(least - 1, 1).bit_length()
