from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.numbers import (
    INT64_MAX,
    INT64_MIN,
    admit,
    canonical_number,
    number_text,
    parse_number,
    split,
)

INT64 = st.integers(INT64_MIN, INT64_MAX)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("35", 35),
        ("35.0", 35.0),
        ("3.5e1", 35.0),
        ("1E2", 100.0),
        ("9223372036854775807", INT64_MAX),
        ("-9223372036854775808", INT64_MIN),
        ("9223372036854775808", 9223372036854775808.0),
        ("18446744073709551615", 18446744073709551616.0),
        ("9007199254740993", 9007199254740993),
        ("9007199254740993.0", 9007199254740992.0),
        ("0.1000000000000000055", 0.1),
        ("1e-400", 0.0),
        ("1" + "0" * 300, 1e300),
    ],
)
def test_a_token_has_the_value_and_the_kind_of_the_contract(token: str, value: int | float) -> None:
    parsed = parse_number(token)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("token", ["1e400", "-1e400", "1" + "0" * 400, "1" * 5000])
def test_what_no_double_can_hold_overflows(token: str) -> None:
    with pytest.raises(OverflowError):
        parse_number(token)


def test_decoded_numbers_are_admitted_alike() -> None:
    assert admit(2**63 - 1) == 2**63 - 1
    assert isinstance(admit(2**63), float)
    for value in (float("nan"), float("inf"), 10**400):
        with pytest.raises(OverflowError):
            admit(value)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (35, "35"),
        (35.0, "35"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (1e22, "1e+22"),
        (2.0**53, "9007199254740992"),
        (2.0**63, "9.223372036854776e+18"),
        (-(2.0**63), "-9223372036854775808"),
    ],
)
def test_equal_numbers_have_one_spelling(value: int | float, spelling: str) -> None:
    assert number_text(canonical_number(value)) == spelling


@given(INT64 | DOUBLES)
def test_a_spelling_reads_back_as_the_same_number(value: int | float) -> None:
    again = parse_number(number_text(value))
    assert again == value
    assert type(again) is type(value)


@given(INT64 | DOUBLES, INT64 | DOUBLES)
def test_pairs_order_as_the_numbers_do(left: int | float, right: int | float) -> None:
    assert (split(left) < split(right)) is (left < right)
    assert (split(left) == split(right)) is (left == right)


@given(st.integers(0, 9), st.integers(-1100, 1100))
def test_neighbours_of_powers_of_two_split_exactly(shift: int, offset: int) -> None:
    value = max(INT64_MIN, min(INT64_MAX, (1 << (54 + shift)) + offset))
    double, residual = split(value)
    assert int(double) + residual == value
    assert -(2**15) <= residual < 2**15
