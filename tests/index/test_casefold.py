from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.casefold import FOLD_FROM, FOLD_TO, UNICODE_VERSION, fold, fold_utf8

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from([chr(code) for code in FOLD_FROM.tolist()])
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ABC xyz 019", "abc xyz 019"),
        ("Ä", "ä"),
        ("µ", "μ"),  # MICRO SIGN to GREEK SMALL LETTER MU
        ("Σς", "σσ"),
        ("Ⱥ", "ⱥ"),  # two bytes to three
        ("\u212a", "k"),  # KELVIN SIGN
        ("\u212b", "å"),  # ANGSTROM SIGN
        ("ſ", "s"),
        ("ß", "ß"),  # folds to ss only in full folding
        ("\u1e9e", "ß"),  # status S
        ("\u0130", "\u0130"),  # statuses F and T only
        ("I", "i"),
        ("ı", "ı"),
        ("\u0390", "\u0390"),  # status F only
        ("\u1fd3", "\u0390"),  # status S since Unicode 15.1
        ("\u1fe3", "\u03b0"),
        ("\ufb05", "\ufb06"),
        ("\ufb01", "\ufb01"),  # status F only
        ("\u1f88", "\u1f80"),  # status S
        ("\u1fbc", "\u1fb3"),
        ("\u1ffc", "\u1ff3"),
        ("\u1c80", "в"),
        ("\u1c89", "\u1c8a"),  # new in Unicode 16.0
        ("\ua7dc", "\u019b"),
        ("\u13f8", "\u13f0"),  # Cherokee folds to capitals
        ("\uab70", "\u13a0"),
        ("\U00010400", "\U00010428"),
        ("\U00010d50", "\U00010d70"),
        ("\U0001e900", "\U0001e922"),
        ("😀", "😀"),
    ],
)
def test_known_entries(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_the_table_is_the_one_of_unicode_16() -> None:
    """CaseFolding-16.0.0.txt has 1,453 entries of status C and 31 of status S."""
    assert UNICODE_VERSION == "16.0.0"
    assert len(FOLD_FROM) == len(FOLD_TO) == 1_453 + 31


def test_the_arrays_are_sorted_and_read_only() -> None:
    assert FOLD_FROM.dtype == FOLD_TO.dtype == np.int32
    assert bool(np.all(np.diff(FOLD_FROM) > 0))
    assert not FOLD_FROM.flags.writeable
    assert not FOLD_TO.flags.writeable


def test_no_folded_code_point_folds_further() -> None:
    assert not set(FOLD_TO.tolist()) & set(FOLD_FROM.tolist())


def test_python_agrees_where_it_knows_the_characters() -> None:
    """Full folding of one character to one is status C."""
    if tuple(map(int, unicodedata.unidata_version.split("."))) > (16, 0, 0):
        pytest.skip("this Python knows characters that the table does not")
    for code, folded in zip(FOLD_FROM.tolist(), FOLD_TO.tolist(), strict=True):
        full = chr(code).casefold()
        if unicodedata.category(chr(code)) != "Cn" and len(full) == 1:
            assert full in (chr(folded), chr(code))
    with_cases = set(range(0x20000))
    for code in with_cases - set(range(0xD800, 0xE000)) - set(FOLD_FROM.tolist()):
        full = chr(code).casefold()
        assert len(full) > 1 or full == chr(code), hex(code)


@given(TEXTS)
def test_folding_keeps_the_number_of_code_points_and_is_idempotent(text: str) -> None:
    folded = fold(text)
    assert len(folded) == len(text)
    assert fold(folded) == folded


@given(TEXTS)
def test_bytes_fold_as_text_does(text: str) -> None:
    assert fold_utf8(text.encode()) == fold(text).encode()
