"""Instants: RFC 3339 timestamps as (int64 seconds, nanoseconds), and durations as nanoseconds.

Accepted: `2024-02-29T12:00:00.5Z`, `t` and `z`, offsets, years 0000 to 9999, up to nine fraction
digits, and `:60`, which is the following second. Not accepted: a space for the `T`, a missing
offset. The calendar is the Gregorian one throughout.
"""

from __future__ import annotations

import re

from index.limits import DURATION_NS_MAX
from index.model import Instant

NS_PER_SECOND = 1_000_000_000

UNIT_NS = {
    "w": 604_800 * NS_PER_SECOND,
    "d": 86_400 * NS_PER_SECOND,
    "h": 3_600 * NS_PER_SECOND,
    "m": 60 * NS_PER_SECOND,
    "s": NS_PER_SECOND,
    "ms": 1_000_000,
}
"""Nanoseconds of each unit of a duration, the largest first."""

_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_TO_1970 = 719_468  # from 0000-03-01
_OFFSET_MAX_S = 86_340  # 23:59
_YEAR_0_S = -62_167_219_200  # 0000-01-01T00:00:00Z
_YEAR_10000_S = 253_402_300_800  # 10000-01-01T00:00:00Z


def parse_instant(text: str) -> Instant:
    """The instant a timestamp names; ValueError if it is none.

    >>> parse_instant("1970-01-01T00:00:01.25+00:00")
    Instant(seconds=1, nanoseconds=250000000)
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 timestamp such as 2024-02-29T12:00:00Z")
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    if not 1 <= month <= 12 or not 1 <= day <= _days_in(year, month):
        raise ValueError(f"there is no day {text[:10]}")
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"there is no time {text[11:19]}")
    fraction, sign, offset_hour, offset_minute = found.group(7, 8, 9, 10)
    seconds = _days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
    if sign is not None:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            raise ValueError(f"there is no offset {sign}{offset_hour}:{offset_minute}")
        offset = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds -= offset if sign == "+" else -offset
    return Instant(seconds, int(fraction.ljust(9, "0")) if fraction else 0)


def format_instant(instant: Instant) -> str:
    """The timestamp in UTC with as few fraction digits as keep the value; reads back the same.

    Instants that only an offset brings within the years 0000 to 9999 are written with one.
    """
    seconds, offset = instant.seconds, "Z"
    if seconds < _YEAR_0_S:
        seconds, offset = seconds + _OFFSET_MAX_S, "+23:59"
    elif seconds >= _YEAR_10000_S:
        seconds, offset = seconds - _OFFSET_MAX_S, "-23:59"
    leap = seconds == _YEAR_10000_S  # the last instant there is: only `:60` reaches it
    days, second_of_day = divmod(seconds - leap, 86_400)
    year, month, day = _date_of(days)
    hour, rest = divmod(second_of_day, 3_600)
    minute, second = divmod(rest, 60)
    fraction = f".{instant.nanoseconds:09d}".rstrip("0") if instant.nanoseconds else ""
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second + leap:02d}"
        f"{fraction}{offset}"
    )


def parse_duration(token: str) -> int:
    """The nanoseconds of digits and a unit (ms, s, m, h, d, w); ValueError if none or too long.

    >>> parse_duration("5m")
    300000000000
    """
    found = _DURATION.fullmatch(token)
    if found is None:
        raise ValueError("not a duration such as 500ms, 30s, 5m, 12h, 7d or 2w")
    if len(found[1]) > 20 or (nanoseconds := int(found[1]) * UNIT_NS[found[2]]) > DURATION_NS_MAX:
        raise ValueError("a duration longer than 292 years")
    return nanoseconds


def format_duration(nanoseconds: int) -> str:
    """The duration in the largest unit that divides it; nanoseconds must be whole milliseconds.

    >>> format_duration(300_000_000_000), format_duration(0)
    ('5m', '0s')
    """
    if nanoseconds == 0:
        return "0s"
    for unit, size in UNIT_NS.items():
        count, rest = divmod(nanoseconds, size)
        if rest == 0:
            return f"{count}{unit}"
    raise ValueError(f"{nanoseconds} ns is finer than a millisecond")


def _days_in(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_DAYS[month - 1] + leap


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01, counting years from March so that the leap day comes last."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - _DAYS_TO_1970


def _date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970-01-01: the inverse of `_days_since_1970`."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day
