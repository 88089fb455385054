from __future__ import annotations

from hashlib import blake2b

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.byte_columns import DIGEST_BYTES, column_of, digests, joined, sizes_of, to_arrow

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
