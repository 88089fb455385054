from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.byte_columns import (
    DIGEST_BYTES,
    column_of,
    cut_runs,
    digests,
    joined,
    listed,
    sizes_of,
    to_arrow,
)

texts = st.binary(max_size=300) | st.sampled_from([b"x" * size for size in (127, 128, 129, 256)])


@given(st.lists(texts))
def test_digests_are_those_of_hashlib(values: list[bytes]) -> None:
    expected = [blake2b(one, digest_size=DIGEST_BYTES).hexdigest().encode() for one in values]
    assert to_arrow(digests(column_of(values))).to_pylist() == expected


@given(st.lists(texts, min_size=1), st.lists(texts, min_size=1), st.data())
def test_strings_are_joined_row_by_row(
    first: list[bytes], second: list[bytes], data: st.DataObject
) -> None:
    pairs = st.tuples(st.integers(0, len(first) - 1), st.integers(0, len(second) - 1))
    drawn = data.draw(st.lists(pairs))
    rows = np.array(drawn, np.int32).reshape(-1, 2)
    ends = column_of(second), rows[:, 1].copy()
    both = joined((column_of(first), rows[:, 0].copy()), ends)
    assert to_arrow(both).to_pylist() == [first[one] + second[other] for one, other in drawn]
    assert sizes_of(ends).tolist() == [len(second[other]) for _, other in drawn]


def cut(sizes: list[list[int]], room: int) -> list[tuple[int, int, list[int]]]:
    """Run, number and sizes of each list, as `cut_runs` should have them."""
    lists: list[tuple[int, int, list[int]]] = []
    for run, of_run in enumerate(sizes):
        number = 0
        for at, size in enumerate(of_run):
            if at == 0 or sum(lists[-1][2]) + len(lists[-1][2]) + size + 1 > room:
                lists.append((run, number, []))
                number += 1
            lists[-1][2].append(size)
    return lists


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1), st.integers(0, 30)
)
def test_runs_are_cut_where_the_next_string_has_no_room(sizes: list[list[int]], room: int) -> None:
    flat = [size for of_run in sizes for size in of_run]
    first = np.cumsum([0, *map(len, sizes[:-1])])
    run, start, number = cut_runs(first, np.array(flat), np.full(len(sizes), room))
    told = [flat[begin:end] for begin, end in pairwise(start)]
    assert list(zip(run.tolist(), number.tolist(), told, strict=True)) == cut(sizes, room)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=5)), min_size=1))
def test_lists_have_their_heads_and_commas_between(lists: list[tuple[bytes, list[bytes]]]) -> None:
    items = [one for _, of_list in lists for one in of_list]
    heads = column_of([head for head, _ in lists]), np.arange(len(lists), dtype=np.int32)
    first = np.cumsum([0, *(len(of_list) for _, of_list in lists)])
    whole = listed(heads, (column_of(items), np.arange(len(items), dtype=np.int32)), first)
    assert to_arrow(whole).to_pylist() == [head + b",".join(one) + b"]}" for head, one in lists]
