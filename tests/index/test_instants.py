from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.instants import format_duration, format_instant, parse_duration, parse_instant
from index.limits import DURATION_NS_MAX
from index.model import Instant

YEAR_0_S = -62_167_219_200
YEAR_10000_S = 253_402_300_800
OFFSET_MAX_S = 86_340
INSTANTS = st.builds(
    Instant,
    st.integers(YEAR_0_S - OFFSET_MAX_S, YEAR_10000_S + OFFSET_MAX_S),
    st.sampled_from([0, 1, 120_000_000, 999_999_999]),
)


@pytest.mark.parametrize(
    ("text", "seconds", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01t00:00:00z", 0, 0),
        ("1970-01-01T00:00:00-00:00", 0, 0),
        ("1970-01-01T01:00:00+01:00", 0, 0),
        ("1969-12-31T23:59:59.5Z", -1, 500_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800, 0),
        ("2016-12-31T23:59:60.25Z", 1_483_228_800, 250_000_000),
        ("2024-02-29T12:00:00.123456789Z", 1_709_208_000, 123_456_789),
        ("0000-02-29T00:00:00Z", YEAR_0_S + 59 * 86_400, 0),
        ("0000-01-01T00:00:00+23:59", YEAR_0_S - OFFSET_MAX_S, 0),
        ("9999-12-31T23:59:60-23:59", YEAR_10000_S + OFFSET_MAX_S, 0),
    ],
)
def test_a_timestamp_names_an_instant(text: str, seconds: int, nanoseconds: int) -> None:
    assert parse_instant(text) == Instant(seconds, nanoseconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-02-29",
        "2024-02-29 12:00:00Z",
        "2024-02-29T12:00:00",
        "2024-02-29T12:00Z",
        "2023-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2024-00-01T12:00:00Z",
        "2024-13-01T12:00:00Z",
        "2024-04-31T12:00:00Z",
        "2024-01-00T12:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T12:60:00Z",
        "2024-01-01T12:00:61Z",
        "2024-01-01T12:00:00.Z",
        "2024-01-01T12:00:00.1234567890Z",
        "2024-01-01T12:00:00+24:00",
        "2024-01-01T12:00:00+01:60",
        "2024-01-01T12:00:00+0100",
        "24-01-01T12:00:00Z",
        "10000-01-01T12:00:00Z",
        "２024-01-01T12:00:00Z",
        " 2024-01-01T12:00:00Z",
        "2024-01-01T12:00:00Z\n",
    ],
)
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


@given(INSTANTS)
def test_what_is_written_reads_back(instant: Instant) -> None:
    assert parse_instant(format_instant(instant)) == instant


@given(st.datetimes(), st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
def test_the_calendar_is_pythons(moment: datetime, offset: timedelta) -> None:
    minutes = int(offset.total_seconds()) // 60
    sign, (hour, minute) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    instant = parse_instant(f"{moment.isoformat()}{sign}{hour:02d}:{minute:02d}")
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert instant.seconds == since.days * 86_400 + since.seconds - minutes * 60
    assert instant.nanoseconds == moment.microsecond * 1_000


@pytest.mark.parametrize(
    ("token", "nanoseconds"),
    [
        ("0s", 0),
        ("500ms", 500_000_000),
        ("5m", 300_000_000_000),
        ("90s", 90_000_000_000),
        ("12h", 43_200_000_000_000),
        ("7d", 604_800_000_000_000),
        ("2w", 1_209_600_000_000_000),
    ],
)
def test_a_duration_is_digits_and_a_unit(token: str, nanoseconds: int) -> None:
    assert parse_duration(token) == nanoseconds
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize("token", ["", "5", "m", "-5m", "5 m", "5M", "1.5h", "5us", "5m3s", "٥m"])
def test_other_tokens_are_no_durations(token: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(token)


def test_the_longest_duration_fits_int64_nanoseconds() -> None:
    longest_ms = DURATION_NS_MAX // 1_000_000
    assert parse_duration(f"{longest_ms}ms") <= DURATION_NS_MAX
    for token in (f"{longest_ms + 1}ms", "9" * 100 + "w"):
        with pytest.raises(ValueError):
            parse_duration(token)


def test_a_duration_finer_than_a_millisecond_has_no_spelling() -> None:
    with pytest.raises(ValueError):
        format_duration(1)
