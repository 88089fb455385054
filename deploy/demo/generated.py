"""The demo's generated subscriptions: 100,000 of them, seeded, each drawn around a real flight.

Every template asks for something a traveller, an airline's desk or an analyst would ask. The
templates are selective enough for about three notifications a flight over the whole year.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from deploy.demo.written import WRITTEN

Tree = dict[str, Any]
Row = dict[str, Any]

SEED = 2013
BASE_FLIGHTS = 50_000
"""Flights that subscriptions are drawn around; more would only slow the drawing down."""


def _is(attribute: str, value: object) -> Tree:
    return {"attr": attribute, "op": "eq", "value": value}


def _between(attribute: str, low: int, high: int) -> Tree:
    return {"attr": attribute, "op": "between", "value": [low, high]}


def _compare(attribute: str, operator: str, value: int) -> Tree:
    return {"attr": attribute, "op": operator, "value": value}


def _all(*children: Tree) -> Tree:
    return {"and": list(children)}


def _days(row: Row, rng: random.Random, width: int) -> Tree:
    """A window of `width` days around the flight's day, within its month."""
    low = max(1, row["day"] - rng.randrange(width))
    return _between("day", low, min(31, low + width - 1))


def _late_aircraft(row: Row, rng: random.Random) -> Tree:
    """One aircraft, when it leaves late."""
    threshold = rng.choice((60, 90, 120, 180))
    return _all(_is("tailnum", row["tailnum"]), _compare("dep_delay", "gt", threshold))


def _flight_number(row: Row, rng: random.Random) -> Tree:
    """One flight number from one airport, arriving late."""
    return _all(
        _is("carrier", row["carrier"]),
        _is("flight", row["flight"]),
        _is("origin", row["origin"]),
        _compare("arr_delay", "ge", rng.choice((60, 90, 120))),
    )


def _trip(row: Row, rng: random.Random) -> Tree:
    """A route within a few days, at certain hours."""
    return _all(
        _is("origin", row["origin"]),
        _is("dest", row["dest"]),
        _is("month", row["month"]),
        _days(row, rng, 2),
        _between("hour", max(0, row["hour"] - 2), row["hour"] + 2),
    )


def _late_to_cities(row: Row, rng: random.Random) -> Tree:
    """An airline's late arrivals at two or three cities in one week."""
    cities = sorted({row["dest"], *rng.sample(("SFO", "LAX", "BOS", "ORD", "MIA", "ATL"), 2)})
    return _all(
        _is("carrier", row["carrier"]),
        {"attr": "dest", "op": "in", "value": cities},
        _is("month", row["month"]),
        _days(row, rng, 7),
        _compare("arr_delay", "gt", rng.choice((45, 60, 90))),
    )


def _cancelled(row: Row, rng: random.Random) -> Tree:
    """Cancelled flights of an airline to one city: they have no departure time."""
    return _all(
        _is("carrier", row["carrier"]),
        _is("dest", row["dest"]),
        {"attr": "dep_time", "op": "missing"},
        _between("month", row["month"], min(12, row["month"] + 2)),
    )


def _either_airport(row: Row, rng: random.Random) -> Tree:
    """A city from either of two airports, early in the day, in one fortnight."""
    other = rng.choice([x for x in ("EWR", "JFK", "LGA") if x != row["origin"]])
    return _all(
        {"or": [_is("origin", row["origin"]), _is("origin", other)]},
        _is("dest", row["dest"]),
        _is("month", row["month"]),
        _days(row, rng, 2),
        _compare("hour", "lt", row["hour"] + 1),
    )


def _aircraft_elsewhere(row: Row, rng: random.Random) -> Tree:
    """One aircraft on any other route than its usual ones, in one month."""
    usual = sorted({row["dest"], rng.choice(("ATL", "ORD", "BOS"))})
    return _all(
        _is("tailnum", row["tailnum"]),
        {"not": {"attr": "dest", "op": "in", "value": usual}},
        _is("month", row["month"]),
    )


def _long_haul(row: Row, rng: random.Random) -> Tree:
    """Flights of a length and duration by an airline, unless from one airport."""
    distance = row["distance"]
    return _all(
        _is("carrier", row["carrier"]),
        _between("distance", distance - 20, distance + 20),
        _is("month", row["month"]),
        _days(row, rng, 3),
        _compare("air_time", "gt", row["air_time"]),
        {"attr": "origin", "op": "ne", "value": rng.choice(("EWR", "JFK", "LGA"))},
    )


Template = Callable[[Row, random.Random], Tree]
TEMPLATES: tuple[tuple[Template, int, tuple[str, ...]], ...] = (
    (_late_aircraft, 20, ("tailnum",)),
    (_flight_number, 20, ()),
    (_trip, 15, ()),
    (_late_to_cities, 10, ()),
    (_cancelled, 5, ()),
    (_either_airport, 10, ()),
    (_aircraft_elsewhere, 10, ("tailnum",)),
    (_long_haul, 10, ("air_time",)),
)
"""Template, weight, and the attributes the flight it is drawn around must have."""


def generate(table: pa.Table, count: int, seed: int = SEED) -> Iterator[tuple[str, Tree]]:
    """`count` pairs (id, filter in the JSON form); equal arguments give equal subscriptions."""
    rng = random.Random(seed)
    sample = rng.sample(range(table.num_rows), min(table.num_rows, BASE_FLIGHTS))
    rows = table.take(pa.array(sample)).to_pylist()
    weights = [weight for _, weight, _ in TEMPLATES]
    for number in range(count):
        template, _, needed = rng.choices(TEMPLATES, weights)[0]
        row = rng.choice(rows)
        while any(row[name] is None for name in needed):
            row = rng.choice(rows)
        yield f"g{number:06d}", template(row, rng)


def forms(drawn: Iterable[tuple[str, Tree]]) -> Iterator[dict[str, Any]]:
    """The written and these generated subscriptions as REST takes them."""
    for one in WRITTEN:
        yield {"id": one.id, "expr": one.expr, "labels": {"title": one.title}}
    for name, tree in drawn:
        yield {"id": name, "filter": tree}
