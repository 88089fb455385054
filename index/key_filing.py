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
from index.kernels.keys import fill_table, set_bits
from index.kernels.probe import Compiled
from index.kernels.signature import Signed
from index.program import POLARITY_BITS
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
    return file_keys((keys, key_rows), access.spaces, dimensions, access.residue, signed)


def file_keys(
    listed: tuple[NDArray[np.uint64], NDArray[np.int32]],
    spaces: SpaceColumns,
    dimensions: Dimensions,
    residue: NDArray[np.int32],
    signed: Signed,
) -> KeyColumns:
    """A table of what is `listed`, keys and a number for each: buckets of ascending numbers."""
    keys, numbers = listed
    order = np.argsort(keys)
    keys, numbers = keys[order], numbers[order]
    is_new = np.ones(keys.size, np.bool_)
    is_new[1:] = keys[1:] != keys[:-1]
    distinct = keys[is_new]
    table = np.zeros((_power_of_two(distinct.size * 5 // 4 + 1), 2), np.uint64)
    kept, _ = fill_table(table, keys, numbers)
    key_filter = new_filter(distinct.size)
    set_bits(key_filter, distinct)
    bucket = numbers[:kept].copy()
    return KeyColumns(spaces, dimensions, key_filter, table, bucket, residue, signed)


def unsigned(attribute_count: int) -> Signed:
    """Signatures of nothing: an event has no codes, and nobody asks for them."""
    return Signed(
        np.zeros(0, np.uint64),
        np.zeros(1, np.int64),
        np.zeros(attribute_count << FACET_BITS, np.uint16),
        np.zeros(attribute_count, np.uint8),
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
    filed = predicates, access.costs, access.covers, elements, memory
    count = count_keys(*filed)
    attribute = predicates.record["attribute"]
    paired = elements.second >= 0
    pairs = attribute[elements.first[paired] >> POLARITY_BITS].astype(np.int64)
    pairs = pairs * attribute_count + attribute[elements.second[paired] >> POLARITY_BITS]
    dimensions = Dimensions(
        np.zeros(attribute_count, np.uint8),
        np.zeros(attribute_count, np.uint8),
        new_filter(4 * np.unique(pairs).size),
        new_filter(_part_count(access)),
    )
    listed = np.empty(count, np.uint64), np.empty(count, np.int32)
    list_keys(*filed, dimensions, listed)
    return dimensions, *listed


def _part_count(access: Access) -> int:
    """At most so many distinct spaces are parts of keys."""
    elements, costs = access.elements, access.costs
    leaves = np.unique(np.concatenate((elements.first, elements.second)))
    numbers = np.unique(leaves[leaves >= 0] >> POLARITY_BITS)
    return int(np.minimum(costs.key_count[costs.position[numbers]], SINGLE_KEYS_MAX).sum())


def new_filter(entry_count: int) -> NDArray[np.uint64]:
    """An empty bit filter with room for that many entries."""
    words = _power_of_two(entry_count * FILTER_BITS_PER_KEY // 64)
    return np.zeros(min(max(words, FILTER_WORDS_MIN), FILTER_WORDS_MAX), np.uint64)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 1).bit_length()
