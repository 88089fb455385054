"""The demo's 40 subscriptions as a person would write them, each with its twin in pyarrow terms.

The twin is written by hand beside the text, not derived from it: it is the independent count.
"""

from __future__ import annotations

from typing import NamedTuple

from pyarrow.compute import Expression, ends_with, field, match_like, match_substring, starts_with


class Written(NamedTuple):
    """A subscription of the demo: what it is for, its text, and the same rows by Arrow."""

    id: str
    title: str
    expr: str
    twin: Expression


carrier, flight, tail = field("carrier"), field("flight"), field("tailnum")
origin, dest, distance = field("origin"), field("dest"), field("distance")
dep_delay, arr_delay = field("dep_delay"), field("arr_delay")
dep_time, arr_time, air_time = field("dep_time"), field("arr_time"), field("air_time")
month, day, hour, minute = field("month"), field("day"), field("hour"), field("minute")
sched_dep, sched_arr, stamp = field("sched_dep_time"), field("sched_arr_time"), field("time_hour")

_ROWS: tuple[tuple[str, str, Expression], ...] = (
    (
        "United's late departures to the Bay and Los Angeles",
        "carrier = 'UA' AND dep_delay > 60 AND dest IN ('SFO','LAX')",
        (carrier == "UA") & (dep_delay > 60) & dest.isin(["SFO", "LAX"]),
    ),
    ("five hours late or worse", "dep_delay >= 300", dep_delay >= 300),
    ("arrivals over six hours late", "arr_delay > 360", arr_delay > 360),
    (
        "cancelled at LaGuardia in February",
        "MISSING dep_time AND origin = 'LGA' AND month = 2",
        dep_time.is_null() & (origin == "LGA") & (month == 2),
    ),
    (
        "left, but never arrived",
        "EXISTS dep_time AND MISSING arr_time",
        dep_time.is_valid() & arr_time.is_null(),
    ),
    ("no tail number on record", "MISSING tailnum", tail.is_null()),
    ("to Honolulu", "dest = 'HNL'", dest == "HNL"),
    (
        "Hawaiian, unless on time",
        "carrier = 'HA' AND arr_delay NOT BETWEEN -15 AND 15",
        (carrier == "HA") & ~((arr_delay >= -15) & (arr_delay <= 15)),
    ),
    ("one aircraft", "tailnum = 'N14228'", tail == "N14228"),
    (
        "a small fleet",
        "tailnum IN ('N725MQ','N722MQ','N723MQ','N711MQ')",
        tail.isin(["N725MQ", "N722MQ", "N723MQ", "N711MQ"]),
    ),
    ("tail numbers of one series", "tailnum LIKE 'N80_JB'", match_like(tail, "N80_JB")),
    (
        "tail numbers that start N6 and end AA",
        "tailnum STARTS WITH 'N61' AND tailnum ENDS WITH 'AA'",
        starts_with(tail, "N61") & ends_with(tail, "AA"),
    ),
    ("a number in the tail", "tailnum CONTAINS '777'", match_substring(tail, "777")),
    (
        "Christmas, late, to Florida",
        "month = 12 AND day BETWEEN 22 AND 26 AND dest IN ('MIA','FLL','MCO','TPA')"
        " AND arr_delay > 45",
        (month == 12)
        & (day >= 22)
        & (day <= 26)
        & dest.isin(["MIA", "FLL", "MCO", "TPA"])
        & (arr_delay > 45),
    ),
    (
        "made up an hour in the air",
        "dep_delay > 75 AND arr_delay < 15",
        (dep_delay > 75) & (arr_delay < 15),
    ),
    ("night departures", "hour >= 23 OR hour < 5", (hour >= 23) | (hour < 5)),
    (
        "early birds from Kennedy that left early",
        "origin = 'JFK' AND hour <= 6 AND dep_delay < -10",
        (origin == "JFK") & (hour <= 6) & (dep_delay < -10),
    ),
    ("over ten hours in the air", "air_time > 600", air_time > 600),
    ("short hops", "distance < 100 AND NOT carrier = 'US'", (distance < 100) & ~(carrier == "US")),
    (
        "the shuttle to Boston, late",
        "dest = 'BOS' AND carrier IN ('DL','US') AND dep_delay > 90",
        (dest == "BOS") & carrier.isin(["DL", "US"]) & (dep_delay > 90),
    ),
    (
        "the shuttle to Washington, cancelled",
        "dest = 'DCA' AND carrier != 'MQ' AND MISSING dep_time",
        (dest == "DCA") & (carrier != "MQ") & dep_time.is_null(),
    ),
    ("a flight number", "carrier = 'B6' AND flight = 725", (carrier == "B6") & (flight == 725)),
    (
        "low flight numbers of American to the west",
        "carrier = 'AA' AND flight < 10 AND dest IN ('LAX','SFO') AND dep_delay > 30",
        (carrier == "AA") & (flight < 10) & dest.isin(["LAX", "SFO"]) & (dep_delay > 30),
    ),
    (
        "the June storms",
        "month = 6 AND day BETWEEN 24 AND 28 AND dep_delay > 120",
        (month == 6) & (day >= 24) & (day <= 28) & (dep_delay > 120),
    ),
    (
        "the day after Thanksgiving, anything odd",
        "month = 11 AND day = 29 AND (arr_delay > 60 OR MISSING arr_delay)",
        (month == 11) & (day == 29) & ((arr_delay > 60) | arr_delay.is_null()),
    ),
    (
        "two of three troubles",
        "ATLEAST 2 OF (dep_delay > 180, arr_delay > 200, air_time > 400)",
        ((dep_delay > 180) & (arr_delay > 200))
        | ((dep_delay > 180) & (air_time > 400))
        | ((arr_delay > 200) & (air_time > 400)),
    ),
    (
        "Denver in either direction of the schedule",
        "dest = 'DEN' AND (sched_dep_time < 600 OR sched_dep_time > 2100)",
        (dest == "DEN") & ((sched_dep < 600) | (sched_dep > 2100)),
    ),
    (
        "weekly meeting in Chicago, Mondays in October",
        "dest = 'ORD' AND month = 10 AND day IN (7,14,21,28) AND hour BETWEEN 6 AND 8",
        (dest == "ORD") & (month == 10) & day.isin([7, 14, 21, 28]) & (hour >= 6) & (hour <= 8),
    ),
    (
        "not the big carriers, very late",
        "carrier NOT IN ('UA','B6','EV','DL','AA','MQ','US') AND dep_delay > 120",
        ~carrier.isin(["UA", "B6", "EV", "DL", "AA", "MQ", "US"]) & (dep_delay > 120),
    ),
    (
        "exactly on time, on the hour",
        "dep_delay = 0 AND arr_delay = 0 AND minute = 0",
        (dep_delay == 0) & (arr_delay == 0) & (minute == 0),
    ),
    (
        "arrival known to be missing, delay not late",
        "NOT dep_delay > 0 AND MISSING arr_delay",
        ~(dep_delay > 0) & arr_delay.is_null(),
    ),
    (
        "Alaska by name",
        "carrier = 'as' NOCASE AND arr_delay > 30",
        (carrier == "AS") & (arr_delay > 30),
    ),
    (
        "a five o'clock hour of a summer day",
        "time_hour = '2013-07-04T21:00:00Z'",
        stamp == "2013-07-04T21:00:00Z",
    ),
    (
        "one week of winter, by the clock, late and far",
        "time_hour >= '2013-02-04' AND time_hour < '2013-02-11' AND distance > 2000"
        " AND arr_delay > 60",
        (stamp >= "2013-02-04") & (stamp < "2013-02-11") & (distance > 2000) & (arr_delay > 60),
    ),
    (
        "Newark to Saint Louis after six, unless Southwest",
        "origin = 'EWR' AND dest = 'STL' AND hour > 18 AND NOT carrier = 'WN'",
        (origin == "EWR") & (dest == "STL") & (hour > 18) & ~(carrier == "WN"),
    ),
    (
        "islands of the Caribbean, long delays",
        "dest IN ('SJU','STT','BQN','PSE') AND dep_delay BETWEEN 100 AND 200",
        dest.isin(["SJU", "STT", "BQN", "PSE"]) & (dep_delay >= 100) & (dep_delay <= 200),
    ),
    (
        "red-eyes that land before six",
        "sched_arr_time < 600 AND sched_dep_time > 2000 AND arr_delay > 45 AND distance > 1000",
        (sched_arr < 600) & (sched_dep > 2000) & (arr_delay > 45) & (distance > 1000),
    ),
    (
        "a rare city",
        "dest IN ('LEX','LGA','ANC','SBN','HDN','MTJ')",
        dest.isin(["LEX", "LGA", "ANC", "SBN", "HDN", "MTJ"]),
    ),
    (
        "regional jets with trouble, all at once",
        "carrier = 'EV' AND origin = 'EWR' AND month IN (6,7) AND dep_delay > 150",
        (carrier == "EV") & (origin == "EWR") & month.isin([6, 7]) & (dep_delay > 150),
    ),
    (
        "delayed by little, yet far behind",
        "dep_delay <= 5 AND arr_delay >= 90",
        (dep_delay <= 5) & (arr_delay >= 90),
    ),
)

WRITTEN = tuple(
    Written(f"w{number:02d}", title, expr, twin)
    for number, (title, expr, twin) in enumerate(_ROWS, 1)
)
